//===- Lookup.cpp - Choosing the instruction set; OpenBLAS set-up ---------===//

#include "forebay/kernels.h"

#include <cblas.h>

#include <cstring>
#include <mutex>

// OpenBLAS's own allocator of packing buffers, which it keeps in slots shared by all threads; exported, but in no header.
extern "C" {
__attribute__((weak)) void *blas_memory_alloc(int position);
__attribute__((weak)) void blas_memory_free(void *buffer);
}

namespace forebay::kernels {

#define FB_DECLARE_TABLE(ISA)                                                                                          \
  namespace ISA {                                                                                                      \
  extern const KernelEntry table[];                                                                                    \
  }
FOREBAY_ISAS(FB_DECLARE_TABLE)

namespace {

struct InstructionSet {
  const char *name;
  const KernelEntry *table;
  bool (*runs)();
};

#if defined(__x86_64__)
bool runs_x86_64() { return true; }
bool runs_x86_64_v3() {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("f16c") && __builtin_cpu_supports("lzcnt") &&
         __builtin_cpu_supports("movbe");
}
bool runs_x86_64_v4() {
  return runs_x86_64_v3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
const char *nameOf(const char *identifier) {
  if (!strcmp(identifier, "x86_64"))
    return "x86-64";
  return !strcmp(identifier, "x86_64_v3") ? "x86-64-v3" : "x86-64-v4";
}
#else
bool runs_aarch64() { return true; }
bool runs_generic() { return true; }
const char *nameOf(const char *identifier) { return identifier; }
#endif

// From the most basic to the most demanding.
const InstructionSet kSets[] = {
#define FB_SET(ISA) {nameOf(#ISA), ISA::table, runs_##ISA},
    FOREBAY_ISAS(FB_SET)};

const InstructionSet &chosen() {
  static const InstructionSet &best = []() -> const InstructionSet & {
    const InstructionSet *last = &kSets[0];
    for (const InstructionSet &set : kSets)
      if (set.runs())
        last = &set;
    return *last;
  }();
  return best;
}

const KernelEntry *find(const InstructionSet &set, std::string_view name) {
  for (const KernelEntry *entry = set.table; entry->name; ++entry)
    if (name == entry->name)
      return entry;
  return nullptr;
}

} // namespace

const KernelEntry *lookupBuiltin(std::string_view name) { return find(chosen(), name); }

const KernelEntry *lookupBuiltin(std::string_view name, std::string_view instructionSet) {
  for (const InstructionSet &set : kSets)
    if (instructionSet == set.name && set.runs())
      return find(set, name);
  return nullptr;
}

const char *instructionSet() { return chosen().name; }

std::vector<const char *> runnableInstructionSets() {
  std::vector<const char *> names;
  for (const InstructionSet &set : kSets)
    if (set.runs())
      names.push_back(set.name);
  return names;
}

void BadIndexSink::report(int64_t index, int64_t size) {
  int none = 0;
  if (!state.compare_exchange_strong(none, 1))
    return;
  kept = {index, size};
  state = 2;
}

bool BadIndexSink::take(BadIndex &found) {
  if (state.load() != 2)
    return false;
  found = kept;
  state = 0;
  return true;
}

// A thread runs the kernels of one session: those of another in this process have their own.
static thread_local BadIndexSink *badIndices = nullptr;

void setBadIndexSink(BadIndexSink *sink) { badIndices = sink; }

void reportBadIndex(int64_t index, int64_t size) {
  if (badIndices)
    badIndices->report(index, size);
}

const char *blasKernel() { return openblas_get_corename(); }

void warmUpBlas() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
  // A product takes a free buffer, and maps a new one only if all are taken: products of several workers at once need as many. The
  // n-th worker holds n of them for a moment, so that they exist however the warm-ups interleave.
  static std::mutex mutex; // only one holds many: the slots are limited
  static int workers = 0;
  constexpr int kMost = 64;
  if (std::lock_guard<std::mutex> lock(mutex); blas_memory_alloc && blas_memory_free && workers < kMost) {
    int held = ++workers;
    void *buffers[kMost];
    for (int i = 0; i < held; ++i)
      buffers[i] = blas_memory_alloc(0);
    for (int i = 0; i < held; ++i)
      blas_memory_free(buffers[i]);
  }
  float a[64 * 4] = {}, b[64 * 4] = {}, c[64 * 64];
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, 64, 64, 4, 1.0f, a, 4, b, 64, 0.0f, c, 64);
}

} // namespace forebay::kernels
