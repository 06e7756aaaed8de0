//===- Harness.h - Runs a kernel in every way that must not matter --------===//

#ifndef FOREBAY_TEST_UNIT_KERNELS_HARNESS_H
#define FOREBAY_TEST_UNIT_KERNELS_HARNESS_H

#include "forebay/builtin_kernels.h"
#include "forebay/kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace forebay::kernels {

using Bytes = std::vector<unsigned char>;

template <typename T> Bytes bytesOf(const std::vector<T> &values) {
  Bytes bytes(values.size() * sizeof(T));
  if (!bytes.empty())
    std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}
template <typename T = float> std::vector<T> valuesOf(const Bytes &bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty())
    std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

inline constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
inline constexpr float kInf = std::numeric_limits<float>::infinity();

/// An aligned buffer with a guard of 64 bytes on either side; `shift` moves it off its 64-byte alignment.
class Buffer {
public:
  Buffer(size_t size, unsigned char poison, size_t shift = 0) : size(size) {
    size_t total = (size + shift + 64 + 63 + 128) / 64 * 64;
    base.reset(static_cast<unsigned char *>(std::aligned_alloc(64, total)));
    std::memset(base.get(), 0xA5, total);
    start = base.get() + 64 + shift;
    end = base.get() + total;
    std::memset(start, poison, size);
  }
  unsigned char *data() { return start; }
  bool intact() const {
    auto guard = [](unsigned char c) { return c == 0xA5; };
    return std::all_of(base.get(), start, guard) && std::all_of(start + size, end, guard);
  }
  size_t size;

private:
  struct Free {
    void operator()(void *p) const { std::free(p); }
  };
  std::unique_ptr<unsigned char, Free> base;
  unsigned char *start, *end;
};

struct Case {
  std::string name;
  std::vector<int64_t> params;
  Launch launch;
  std::vector<Bytes> inputs;
  std::vector<size_t> outputBytes;
  /// Initial content of an output where the kernel writes only a part (strided views).
  std::vector<Bytes> outputInit;
  /// Output i shares the buffer of input inPlace[i] (-1: none).
  std::vector<int> inPlace;
};

template <typename P> std::vector<int64_t> paramsOf(const P &p) {
  std::vector<int64_t> values(sizeof(P) / sizeof(int64_t));
  std::memcpy(values.data(), &p, sizeof p);
  return values;
}

/// Kernels of a build that the tests add: without optimization, by another compiler (VariantTables.cpp). They must give the same bits.
std::vector<const char *> otherBuilds();
const KernelEntry *lookupOtherBuild(std::string_view name, std::string_view build);

/// Instruction sets of this CPU and other builds.
inline std::vector<const char *> variants() {
  std::vector<const char *> names = runnableInstructionSets(), others = otherBuilds();
  names.insert(names.end(), others.begin(), others.end());
  return names;
}

enum class Order { Forward, Reverse, Shuffled, Threads };

/// One run. Outputs, scratch and workspace start poisoned (with a NaN pattern), so that reading them shows.
inline std::vector<Bytes> runOnce(const Case &c, const char *isa, Order order, size_t shift = 0) {
  const KernelEntry *kernel = lookupBuiltin(c.name, isa);
  if (!kernel)
    kernel = lookupOtherBuild(c.name, isa);
  if (!kernel) {
    ADD_FAILURE() << "no kernel " << c.name << " for " << isa;
    return {};
  }
  std::vector<Buffer> inputs, outputs;
  for (const Bytes &bytes : c.inputs) {
    inputs.emplace_back(bytes.size(), 0, shift);
    if (!bytes.empty())
      std::memcpy(inputs.back().data(), bytes.data(), bytes.size());
  }
  std::vector<void *> operands;
  for (Buffer &buffer : inputs)
    operands.push_back(buffer.data());
  for (size_t i = 0; i < c.outputBytes.size(); ++i) {
    outputs.emplace_back(c.outputBytes[i], 0xff, shift);
    if (i < c.outputInit.size() && !c.outputInit[i].empty())
      std::memcpy(outputs[i].data(), c.outputInit[i].data(), c.outputInit[i].size());
  }
  auto target = [&](size_t i) -> Buffer & {
    return i < c.inPlace.size() && c.inPlace[i] >= 0 ? inputs[c.inPlace[i]] : outputs[i];
  };
  for (size_t i = 0; i < outputs.size(); ++i)
    operands.push_back(target(i).data());
  Buffer workspace(c.launch.workspaceBytes, 0xff);
  if (c.launch.workspaceBytes)
    operands.push_back(workspace.data());

  std::mt19937 random(99);
  for (int phase = 0; phase < c.launch.phases; ++phase) {
    std::vector<int64_t> tiles(c.launch.tiles[phase]);
    for (size_t i = 0; i < tiles.size(); ++i)
      tiles[i] = int64_t(i);
    if (order == Order::Reverse)
      std::reverse(tiles.begin(), tiles.end());
    if (order == Order::Shuffled || order == Order::Threads)
      std::shuffle(tiles.begin(), tiles.end(), random);
    std::atomic<size_t> next{0};
    auto work = [&] {
      warmUpBlas();
      Buffer scratch(c.launch.scratchBytes, 0xff);
      for (size_t i; (i = next++) < tiles.size();) {
        std::memset(scratch.data(), 0xff, scratch.size);
        kernel->function(operands.data(), c.params.data(), phase, tiles[i], scratch.data());
      }
      EXPECT_TRUE(scratch.intact()) << c.name << ": wrote beside its scratch";
    };
    if (order != Order::Threads) {
      work();
      continue;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < 3; ++i)
      threads.emplace_back(work);
    for (std::thread &thread : threads)
      thread.join();
  }
  for (Buffer &buffer : inputs)
    EXPECT_TRUE(buffer.intact()) << c.name << ": wrote beside an input";
  for (Buffer &buffer : outputs)
    EXPECT_TRUE(buffer.intact()) << c.name << ": wrote beside an output";
  EXPECT_TRUE(workspace.intact()) << c.name << ": wrote beside its workspace";
  for (size_t i = 0; i < inputs.size(); ++i)
    if (std::find(c.inPlace.begin(), c.inPlace.end(), int(i)) == c.inPlace.end() && !c.inputs[i].empty()) {
      EXPECT_EQ(std::memcmp(inputs[i].data(), c.inputs[i].data(), inputs[i].size), 0) << c.name << ": changed input " << i;
    }
  std::vector<Bytes> results;
  for (size_t i = 0; i < outputs.size(); ++i)
    results.emplace_back(target(i).data(), target(i).data() + c.outputBytes[i]);
  return results;
}

/// Equal, the sign and payload of NaN excepted (for f32 outputs).
inline bool sameBits(const Bytes &a, const Bytes &b) {
  if (a == b)
    return true;
  if (a.size() != b.size() || a.size() % 4)
    return false;
  std::vector<float> x = valuesOf(a), y = valuesOf(b);
  for (size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &y[i], 4) != 0 && !(std::isnan(x[i]) && std::isnan(y[i])))
      return false;
  return true;
}

/// Runs in every order with the instruction set of this CPU, and once with its lesser ones and the other builds; all must agree.
/// Returns the outputs.
inline std::vector<Bytes> run(const Case &c) {
  std::vector<Bytes> expected;
  for (const char *isa : variants()) {
    bool allOrders = std::string_view(isa) == instructionSet();
    for (Order order : {Order::Forward, Order::Reverse, Order::Shuffled, Order::Threads}) {
      if (!allOrders && order != Order::Forward)
        continue;
      std::vector<Bytes> results = runOnce(c, isa, order);
      if (expected.empty())
        expected = results;
      if (results.size() != expected.size())
        return expected;
      for (size_t i = 0; i < results.size(); ++i)
        EXPECT_TRUE(sameBits(results[i], expected[i])) << c.name << " output " << i << " with " << isa << ", order " << int(order);
    }
  }
  return expected;
}

class Random {
public:
  explicit Random(unsigned seed) : engine(seed) {}
  std::vector<float> normal(int64_t n, float scale = 1.0f) {
    std::normal_distribution<float> distribution(0.0f, scale);
    std::vector<float> values(n);
    for (float &v : values)
      v = distribution(engine);
    return values;
  }
  int64_t below(int64_t n) { return int64_t(engine() % uint64_t(n)); }
  int64_t between(int64_t lo, int64_t hi) { return lo + below(hi - lo + 1); }
  template <typename T> T pick(std::initializer_list<T> values) { return values.begin()[below(int64_t(values.size()))]; }
  std::mt19937_64 engine;
};

/// Element by element: |a - b| <= tolerance * (1 + |b|) * scale; NaN matches NaN, inf matches inf.
inline void expectNear(const std::vector<float> &actual, const std::vector<double> &expected, double tolerance,
                       const std::string &what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  int shown = 0;
  for (size_t i = 0; i < actual.size() && shown < 5; ++i) {
    double a = actual[i], b = expected[i];
    bool same = std::isnan(b) ? std::isnan(a) : std::isinf(b) ? a == b : std::abs(a - b) <= tolerance * (1 + std::abs(b));
    if (!same) {
      ADD_FAILURE() << what << " [" << i << "]: " << a << ", expected " << b;
      ++shown;
    }
  }
}

} // namespace forebay::kernels
#endif
