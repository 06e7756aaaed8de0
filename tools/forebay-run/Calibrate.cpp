//===- Calibrate.cpp - Measures this computer -----------------------------===//
//
// Everything is measured as it runs in training: on the host backend, with the workers that the machine's queues get there, by the kernels of the runtime.
// Streams are larger than the caches. docs/machines.md says what each number means.
//
//===----------------------------------------------------------------------===//

#include "Calibrate.h"
#include "FileUses.h"
#include "Files.h"
#include "HostDevice.h"
#include "Measure.h"
#include "StreamKernels.h"
#include "forebay/kernels.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <sched.h>
#include <unistd.h>

using namespace forebay;
using namespace forebay::kernels;
using namespace forebay::rt;

namespace {

constexpr unsigned kClasses = unsigned(OpClass::Cast) + 1;

struct Point {
  double x, y;
};

struct EngineRates {
  double launch = 0, oneThread = 0, bandwidth = 0;
  double classBandwidth[kClasses] = {};
  double matmul = 0, attention = 0; ///< flops/s in f32
  std::vector<Point> share;         ///< of `matmul`, by the smallest dimension
};

struct LinkRates {
  double launch = 0;
  std::vector<Point> curve;
};

/// Of the last level; 0 if the system does not say. (sysconf is wrong about it on virtual machines.)
int64_t cacheBytes() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cache/index3/size"); // "32768K"
  int64_t size = 0;
  char unit = 0;
  if (!(file >> size >> unit))
    return 0;
  return size << (unit == 'K' ? 10 : unit == 'M' ? 20 : 0);
}

class Calibration {
public:
  explicit Calibration(const CalibrateOptions &options) : options(options), emulation(options.machine == "superchip-emu") {
    if (emulation) {
      queues = {{"gpu", true}, {"cpu", true}, {"h2d", false}, {"d2h", false}};
      spaces = {{"hbm", 0, 0}, {"host", 0, 0}};
    } else {
      queues = {{"cpu", true}};
      spaces = {{"host", 0, 0}};
    }
    cpu_set_t allowed;
    threads = options.threads;
    if (threads == 0)
      threads = sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? unsigned(CPU_COUNT(&allowed)) : 1;
    bool sharing;
    workers = host::divideThreads(queues, threads, sharing);
    repetitions = options.quick ? 3 : 11;
    // A stream has 64 MiB, more where the caches are large (three are larger than they), less where memory is short.
    int64_t memory = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    int64_t large = std::clamp<int64_t>(cacheBytes() / 3, 16 << 20, 64 << 20);
    elements = std::max<int64_t>(std::min<int64_t>(options.quick ? 1 << 20 : large, memory / 256) / 65536, 1) * 65536;
    engines.resize(queues.size());
    links.resize(queues.size());
  }

  bool run(std::string &error) {
    begin = std::chrono::steady_clock::now();
    std::vector<std::pair<std::string, std::function<bool()>>> stages;
    for (uint32_t q = 0; q < queues.size(); ++q) {
      const std::string &name = queues[q].name;
      if (!queues[q].compute) {
        stages.push_back({"copies of " + name, [=] { return measureCopies(q); }});
        continue;
      }
      stages.push_back({"launches and streams of " + name, [=] { return measureStreams(q); }});
      stages.push_back({"optimizer, casts and sums of " + name, [=] { return measureClasses(q); }});
      stages.push_back({"attention of " + name, [=] { return measureAttention(q); }});
      stages.push_back({"matrix products of " + name, [=] { return measureProducts(q); }});
    }
    stages.push_back({"memory with all threads", [=] { return measureMemory(); }});
    for (size_t i = 0; i < stages.size(); ++i) {
      std::fprintf(stderr, "calibrating %s with %u thread%s: %zu of %zu, %s (%.1f s)\n", options.machine.c_str(), threads, threads == 1 ? "" : "s", i + 1,
                   stages.size(), stages[i].first.c_str(), elapsed());
      if (!stages[i].second()) {
        error = problem;
        return false;
      }
    }
    return true;
  }

  double elapsed() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }
  std::string text() const;

private:
  Measure start() { return Measure(queues, spaces, threads); }
  /// The space that a queue computes in.
  uint32_t spaceOf(uint32_t queue) const { return emulation && queues[queue].name != "gpu" ? 1 : 0; }

  bool measureStreams(uint32_t q);
  bool measureClasses(uint32_t q);
  bool measureAttention(uint32_t q);
  bool measureProducts(uint32_t q);
  bool measureCopies(uint32_t q);
  bool measureMemory();
  uint32_t triad(Measure &measure, uint32_t q, int64_t perTile);

  std::string engineText(uint32_t q) const;

  const CalibrateOptions &options;
  const bool emulation;
  std::vector<Queue> queues;
  std::vector<Space> spaces;
  unsigned threads, repetitions;
  std::vector<unsigned> workers;
  int64_t elements; ///< of a stream, f32
  std::vector<EngineRates> engines; ///< by queue, those that compute
  std::vector<LinkRates> links;     ///< by queue, those that copy
  double memoryBandwidth = 0;
  std::chrono::steady_clock::time_point begin;
  std::string problem;
};

//===----------------------------------------------------------------------===//
// Engines
//===----------------------------------------------------------------------===//

uint32_t Calibration::triad(Measure &measure, uint32_t q, int64_t perTile) {
  uint32_t space = spaceOf(q);
  FlatParams p{elements, 1, perTile};
  uint64_t bytes = uint64_t(elements) * 4;
  std::vector<Range> operands = {measure.filled(space, bytes), measure.filled(space, bytes), measure.range(space, bytes)};
  return measure.dispatch(q, streamKernels().triad, &p, sizeof p, flatLaunch(p), std::move(operands));
}

bool Calibration::measureStreams(uint32_t q) {
  EngineRates &rates = engines[q];
  {
    constexpr int kCount = 10000; // so that starting a step does not count
    Measure measure = start();
    FlatParams p{4 * int64_t(workers[q]), 1, 1};
    Range operand = measure.range(spaceOf(q), 64);
    for (int i = 0; i < kCount; ++i)
      measure.dispatch(q, streamKernels().nothing, &p, sizeof p, flatLaunch(p), {operand});
    if (!measure.run(repetitions, problem))
      return false;
    rates.launch = measure.wall() / kCount;
  }
  Measure measure = start();
  uint32_t all = triad(measure, q, kElementsPerTile), one = triad(measure, q, elements);
  if (!measure.run(repetitions, problem))
    return false;
  rates.bandwidth = 12.0 * double(elements) / measure.seconds(all);
  rates.oneThread = 12.0 * double(elements) / measure.seconds(one);
  return true;
}

bool Calibration::measureClasses(uint32_t q) {
  const int64_t n = elements, cols = 768, rows = n / 2 / cols, block = rows * cols;
  const uint32_t space = spaceOf(q);
  Measure measure = start();
  auto floats = [&](int64_t count) { return measure.filled(space, uint64_t(count) * 4); };
  Range a = floats(n), b = floats(n), c = floats(n), d = floats(n), small = floats(8 * std::max(rows, cols));
  struct Group {
    OpClass cls;
    uint32_t first;
    double bytes; ///< read and written by the operands
  };
  std::vector<Group> groups;
  uint32_t count = 0;
  auto begin = [&](OpClass cls) { groups.push_back({cls, count, 0}); };
  auto done = [&](uint32_t command, double bytes) { count = command + 1, groups.back().bytes += bytes; };

  FlatParams flat{n, 1, kElementsPerTile};
  begin(OpClass::Elementwise);
  done(measure.dispatch(q, "accumulate", flat, flatLaunch(flat), {a, b, a}), 12.0 * double(n));

  begin(OpClass::Optimizer);
  done(measure.dispatch(q, streamKernels().adamw, &flat, sizeof flat, flatLaunch(flat), {a, b, c, d}), 28.0 * double(n));

  begin(OpClass::Cast);
  done(measure.dispatch(q, streamKernels().toBf16, &flat, sizeof flat, flatLaunch(flat), {d, b}), 6.0 * double(n));
  done(measure.dispatch(q, streamKernels().fromBf16, &flat, sizeof flat, flatLaunch(flat), {b, c}), 6.0 * double(n));

  // Each of a training step's sums once, weighed by its bytes.
  begin(OpClass::Reduction);
  NormParams norm{rows, cols, defaultRowsPerTile(rows, cols), 1, 1, 0, toBits(1e-5)};
  done(measure.dispatch(q, "layer_norm", norm, normLaunch(norm), {d, small, small, b, small, small}), 8.0 * double(block));
  NormParams grad = norm;
  grad.rowsPerTile = defaultGradRowsPerTile(rows, cols);
  Range mean = floats(rows), rstd = floats(rows), dweight = floats(cols), dbias = floats(cols);
  done(measure.dispatch(q, "layer_norm_grad", grad, normGradLaunch(grad, 2), {d, b, mean, rstd, small, c, dweight, dbias}), 12.0 * double(block));
  RowsParams softmax{rows, cols, defaultRowsPerTile(rows, cols)};
  done(measure.dispatch(q, "softmax", softmax, softmaxLaunch(softmax), {d, b}), 8.0 * double(block));
  done(measure.dispatch(q, "softmax_grad", softmax, softmaxLaunch(softmax), {d, b, c}), 12.0 * double(block));
  CrossEntropyParams loss{std::max<int64_t>(n / 32768, 1), 32768, 8, -100, 0, defaultRowsPerTile(n / 32768, 32768)};
  Range labels = measure.filled(space, uint64_t(loss.rows) * 8, loss.cols), lse = floats(loss.rows), mean1 = floats(1);
  done(measure.dispatch(q, "cross_entropy", loss, crossEntropyLaunch(loss), {d, labels, mean1, lse}), 4.0 * double(n));
  done(measure.dispatch(q, "cross_entropy_grad", loss, crossEntropyGradLaunch(loss), {small, d, labels, lse, c}), 8.0 * double(n));

  begin(OpClass::Gather);
  const int64_t vocab = n / cols, tokens = vocab / 4;
  EmbeddingParams lookup{vocab, cols, tokens, 8, 4, defaultRowsPerTile(tokens, cols)};
  Range ids = measure.filled(space, uint64_t(tokens) * 8, vocab);
  done(measure.dispatch(q, "embedding", lookup, embeddingLaunch(lookup), {d, ids, b}), 8.0 * double(tokens * cols));
  EmbeddingParams scatter = lookup;
  scatter.rowsPerTile = embeddingGradRowsPerTile(vocab, cols);
  done(measure.dispatch(q, "embedding_grad", scatter, embeddingGradLaunch(scatter), {b, ids, c}), 4.0 * double((tokens + vocab) * cols));

  if (!measure.run(repetitions, problem))
    return false;
  for (size_t i = 0; i < groups.size(); ++i) {
    uint32_t last = i + 1 < groups.size() ? groups[i + 1].first : count;
    engines[q].classBandwidth[unsigned(groups[i].cls)] = groups[i].bytes / measure.seconds(groups[i].first, last);
  }
  return true;
}

bool Calibration::measureAttention(uint32_t q) {
  const int64_t heads = 8, dim = 64, seq = options.quick ? 256 : 1024, count = heads * seq * dim;
  AttentionParams p{};
  p.batch = 1, p.heads = p.kvHeads = heads, p.queries = p.keys = seq, p.dim = p.valueDim = dim;
  p.scale = toBits(0.125);
  setAttentionTile(p);
  p.q = p.k = p.v = p.o = p.dO = p.dq = p.dk = p.dv = View{0, {0, 0, seq * heads * dim, dim, heads * dim, 1}};
  Measure measure = start();
  const uint32_t space = spaceOf(q);
  auto floats = [&](int64_t n) { return measure.filled(space, uint64_t(n) * 4); };
  Range query = floats(count), key = floats(count), value = floats(count), out = floats(count), lse = floats(heads * seq);
  measure.dispatch(q, "attention", p, attentionLaunch(p), {query, key, value, out, lse});
  measure.dispatch(q, "attention_grad", p, attentionGradLaunch(p),
                   {floats(count), query, key, value, out, lse, floats(count), floats(count), floats(count)});
  if (!measure.run(repetitions, problem))
    return false;
  double product = 2.0 * double(heads * seq * seq * dim), products = 2 + (p.split ? 7 : 5);
  engines[q].attention = products * product / measure.seconds(0, 2);
  return true;
}

bool Calibration::measureProducts(uint32_t q) {
  const int64_t large = options.quick ? 256 : 1024;
  const uint32_t space = spaceOf(q);
  std::vector<Point> rates;
  for (int64_t width = 4; width <= large; width *= 2) {
    Measure measure = start();
    Range a = measure.filled(space, uint64_t(large * large) * 4), b = measure.filled(space, uint64_t(large * large) * 4),
          c = measure.range(space, uint64_t(large * large) * 4);
    double flops = 0;
    // Thin between the operands, then in the result.
    for (auto [n, k] : {std::pair(large, width), std::pair(width, large)}) {
      GemmParams p{};
      p.m = large, p.n = n, p.k = k, p.lda = k, p.ldb = n, p.ldc = n;
      for (int64_t &size : p.batch)
        size = 1;
      setGemmTile(p);
      measure.dispatch(q, "gemm", p, gemmLaunch(p), {a, b, c});
      flops += 2.0 * double(large) * double(n) * double(k);
    }
    if (!measure.run(repetitions, problem))
      return false;
    rates.push_back({double(width), flops / measure.seconds(0, 2)});
  }
  EngineRates &engine = engines[q];
  for (const Point &rate : rates)
    engine.matmul = std::max(engine.matmul, rate.y);
  for (const Point &rate : rates)
    engine.share.push_back({rate.x, rate.y / engine.matmul});
  return true;
}

//===----------------------------------------------------------------------===//
// Copies, memory
//===----------------------------------------------------------------------===//

bool Calibration::measureCopies(uint32_t q) {
  const uint32_t from = queues[q].name == "h2d" ? 1 : 0, to = 1 - from;
  const uint64_t region = uint64_t(elements) * 16, least = 4096, most = options.quick ? region / 4 : region;
  {
    constexpr int kCount = 10000; // so that starting a step does not count
    Measure measure = start();
    Range source = measure.range(from, 64), target = measure.range(to, 64);
    for (int i = 0; i < kCount; ++i)
      measure.copy(q, source, target);
    if (!measure.run(repetitions, problem))
      return false;
    links[q].launch = measure.wall() / kCount;
  }
  Measure measure = start();
  Range source = measure.filled(from, region), target = measure.range(to, region);
  std::vector<std::pair<uint64_t, uint32_t>> sizes; ///< and first command
  uint32_t last = 0;
  for (uint64_t size = least; size <= most; size *= 4) {
    // Spread over all of the region, so that small ones are no more in the caches than large ones.
    uint64_t count = std::min<uint64_t>(region / size, 1024), stride = region / count;
    sizes.push_back({size, last});
    for (uint64_t i = 0; i < count; ++i) {
      Range read = source, write = target;
      read.offset += i * stride, write.offset += i * stride;
      read.bytes = write.bytes = size;
      last = measure.copy(q, read, write) + 1;
    }
  }
  if (!measure.run(repetitions, problem))
    return false;
  for (size_t i = 0; i < sizes.size(); ++i) {
    uint32_t begin = sizes[i].second, end = i + 1 < sizes.size() ? sizes[i + 1].second : last;
    links[q].curve.push_back({double(sizes[i].first), double((end - begin) * sizes[i].first) / measure.seconds(begin, end)});
  }
  return true;
}

bool Calibration::measureMemory() {
  // In place, so that every byte that moves is counted: a stream to another place also reads what it overwrites.
  FlatParams p{elements, 1, kElementsPerTile};
  uint64_t bytes = uint64_t(elements) * 4;
  Measure measure = start();
  measure.together();
  double moved = 0;
  for (uint32_t q = 0; q < queues.size(); ++q)
    if (queues[q].compute) {
      std::vector<Range> operands;
      for (int i = 0; i < 4; ++i)
        operands.push_back(measure.filled(spaceOf(q), bytes));
      measure.dispatch(q, streamKernels().adamw, &p, sizeof p, flatLaunch(p), operands);
      moved += 28.0 * double(elements);
    }
  if (!measure.run(repetitions, problem))
    return false;
  memoryBandwidth = moved / measure.wall();
  // One engine alone may be faster than two that meet in the caches; a memory is never slower than its users.
  for (const EngineRates &engine : engines) {
    memoryBandwidth = std::max(memoryBandwidth, engine.bandwidth);
    for (double bandwidth : engine.classBandwidth)
      memoryBandwidth = std::max(memoryBandwidth, bandwidth);
  }
  return true;
}

//===----------------------------------------------------------------------===//
// The file
//===----------------------------------------------------------------------===//

/// Three digits, and the point that MLIR wants in a real number.
std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2e", value);
  return text;
}

std::string curveText(const std::vector<Point> &points) {
  std::string text;
  for (const Point &point : points)
    text += (text.empty() ? "[" : ", [") + std::to_string(uint64_t(point.x)) + ", " + number(point.y) + "]";
  return "[" + text + "]";
}

std::string cpuName() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.rfind("model name", 0) == 0 && line.find(": ") != std::string::npos)
      return printable(line.substr(line.find(": ") + 2));
  return "a CPU without a name";
}

std::string Calibration::engineText(uint32_t q) const {
  const EngineRates &engine = engines[q];
  std::string classes;
  for (unsigned cls = 0; cls < kClasses; ++cls)
    if (engine.classBandwidth[cls] > 0)
      classes += std::string(classes.empty() ? "" : ", ") + "\"" + name(OpClass(cls)) + "\" = " + number(engine.classBandwidth[cls]);
  return "    \"" + queues[q].name + "\" = #dlti.target_device_spec<\"kind\" = \"engine\", \"computes_in\" = \"" + spaces[spaceOf(q)].name + "\", \"launch\" = " +
         number(engine.launch) + ", \"cores\" = " + std::to_string(workers[q]) + ", \"bandwidth\" = " + number(engine.bandwidth) +
         ",\n      \"class_bandwidth\" = #dlti.map<" + classes + ">,\n      \"rates\" = #dlti.map<\n        \"matmul\" = #dlti.map<\"f32\" = #dlti.map<\"flops\" = " +
         number(engine.matmul) + ",\n          \"share\" = " + curveText(engine.share) + ">>,\n        \"attention\" = #dlti.map<\"f32\" = " +
         number(engine.attention) + ">>>";
}

std::string Calibration::text() const {
  char date[64];
  std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::strftime(date, sizeof date, "%Y-%m-%d %H:%M UTC", &utc);
  std::string split;
  for (uint32_t q = 0; q < queues.size(); ++q)
    if (queues[q].compute)
      split += (split.empty() ? "" : ", ") + queues[q].name + " " + std::to_string(workers[q]);
  char line[256];
  std::string text = "// Measured by forebay-run " FOREBAY_VERSION " --calibrate --machine=" + options.machine + (options.quick ? " --quick" : "") + " on " + date + ".\n";
  text += "// CPU: " + cpuName() + ", workers: " + split + "; kernels for " + instructionSet() + ", BLAS kernel " + blasKernel() + ".\n//\n";
  std::snprintf(line, sizeof line, "// Medians of up to %u runs on the backend that trains; streams of %.0f MiB, products up to %d. What the numbers mean: docs/machines.md.\n", repetitions,
                double(elements) / (1 << 18), options.quick ? 256 : 1024);
  text += line;
  if (options.quick)
    text += "// --quick: the sizes are small enough for caches, and the runs few, so the numbers are rough.\n";
  for (uint32_t q = 0; q < queues.size(); ++q)
    if (queues[q].compute) {
      std::snprintf(line, sizeof line, "// %s: one thread streams %.1f GB/s, its %u worker%s %.1f GB/s (triad).\n", queues[q].name.c_str(), engines[q].oneThread * 1e-9, workers[q],
                    workers[q] == 1 ? "" : "s", engines[q].bandwidth * 1e-9);
      text += line;
    }
  text += "// launch: empty dispatches, or copies of 64 bytes, one behind the other. class_bandwidth: accumulate; AdamW; casts to and from bf16; layer_norm, softmax,\n"
          "// cross_entropy and their gradients together; embedding and its gradient. attention: forward and gradient, without a mask.\n";
  if (emulation)
    text += "// Both memories are the same RAM: the bandwidth of each is what all workers reach together.\n";
  text += "module @\"" + options.machine + "\" attributes {\n  dlti.target_system_spec = #dlti.target_system_spec<\n";
  for (const Space &space : spaces) {
    std::string capacity = !emulation ? "\"physical\"" : space.name == "hbm" ? "2147483648" : "8589934592";
    text += "    \"" + space.name + "\" = #dlti.target_device_spec<\"kind\" = \"memory\", \"capacity\" = " + capacity + ", \"bandwidth\" = " + number(memoryBandwidth) + ">,\n";
  }
  for (uint32_t q = 0; q < queues.size(); ++q) {
    if (queues[q].compute) {
      text += engineText(q);
    } else {
      bool up = queues[q].name == "h2d";
      text += "    \"" + queues[q].name + "\" = #dlti.target_device_spec<\"kind\" = \"engine\", \"copies_from\" = \"" + (up ? "host" : "hbm") + "\", \"copies_to\" = \"" +
              (up ? "hbm" : "host") + "\", \"launch\" = " + number(links[q].launch) + ", \"cores\" = 1,\n      \"link\" = " + curveText(links[q].curve) + ">";
    }
    text += q + 1 < queues.size() ? ",\n" : ">\n";
  }
  return text + "} {}\n";
}

} // namespace

int forebay::rt::calibrate(const CalibrateOptions &options, Problems &problems) {
  FileUses uses(problems);
  uses.standardStreams();
  uses.output("-o", options.output, FileUses::Replaced);
  if (problems.any())
    return 1;
  Calibration calibration(options);
  std::string error;
  if (!calibration.run(error)) {
    problems.error("--calibrate", error, "it needs about 600 MiB of memory; --quick needs a sixteenth");
    return 1;
  }
  std::string text = calibration.text();
  AtomicFile file;
  if (!file.open(options.output, error) || !file.write(text.data(), text.size(), error) || !file.commit(error)) {
    problems.error("-o=" + options.output, error, "name another file");
    return 1;
  }
  std::fprintf(stderr, "calibrated %s in %.1f s: forebay-compile --machine=%s\n", options.machine.c_str(), calibration.elapsed(), printable(options.output).c_str());
  return 0;
}
