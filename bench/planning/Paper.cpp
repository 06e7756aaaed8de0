//===- Paper.cpp - Figures of the SuperOffload paper, simulated -----------===//
//
// usage: bench/paper [--json FILE] [--machine=NAME|FILE]. What is compared with
// what, and how the paper was read: docs/benchmarks/paper.md.
//
//===----------------------------------------------------------------------===//

#include "PaperSystems.h"
#include "Presets.h"
#include "forebay/Planning/Layout.h"
#include "forebay/Planning/Simulator.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <set>

using namespace forebay;
using namespace forebay::bench;
using namespace forebay::planning;

namespace {

/// One pair of usable shares for all sizes. The planner's own (machine files)
/// leave a framework less.
constexpr double kUsableHbm = 0.80, kUsableHost = 0.95;
/// "Achievable peak" of the paper's section 4.2, not printed there: what its
/// Fig. 6 shows.
constexpr double kFigure6Peak = 716.8e12;

struct Row {
  std::string name, unit;
  double ours, reference;
  double low, high; ///< wanted of the ratio
  /// Its bar is on a set of rows, which says how many may miss.
  bool inSet = false;
  std::string note;
  double ratio() const { return ours / reference; }
  bool within(double band) const { return std::abs(ratio() - 1) <= band; }
  bool hit() const { return ratio() >= low && ratio() <= high; }
};

/// Why a row misses, as far as we can tell.
const std::map<std::string, std::string> kReasons = {
    {"Fig. 10 zero-offload 15B",
     "weights and gradients alone fill 64 of 96 GB, so the paper's run may be "
     "in micro-batches: of two they would give 1.13, but our schedule fits "
     "without"},
    {"Fig. 10 zero-offload 2B",
     "fixed costs of a framework are not modelled; the paper's own baselines "
     "at 5B (129, 116) differ by 11%"},
    {"Fig. 10 superoffload 3B",
     "same width as 2B, but the paper drops by 12%: no mechanism found"},
};

struct Model {
  const char *name;
  uint64_t layers, hidden;
};

GptShape shapeOf(const Model &model, uint64_t batch, uint64_t sequence) {
  GptShape shape;
  shape.layers = model.layers;
  shape.hidden = model.hidden;
  shape.batch = batch;
  shape.sequence = sequence;
  shape.fusedAttention = false;
  return shape;
}

[[noreturn]] void fail(const std::string &what) {
  std::fprintf(stderr, "error: bench/paper: %s\n", what.c_str());
  std::exit(1);
}

/// A shape as a problem, and what its placements cost.
class Subject {
public:
  explicit Subject(const GptShape &shape)
      : shape(shape), problem(makeGpt(shape)) {
    std::string error;
    trained = trainedParameters(problem, error);
    if (!error.empty())
      fail(error);
  }

  Schedule schedule(const Machine &machine, const Placement &placement) const {
    std::string error;
    Schedule result =
        buildSchedule(problem, trained, machine, placement, error);
    if (!error.empty())
      fail(error);
    return result;
  }

  /// Tflop/s by Megatron's count, without recomputation; 0 if HBM is too small.
  double teraflops(const Machine &machine, const Techniques &techniques,
                   uint32_t tail) const {
    Machine used = practised(machine, techniques);
    Schedule plan =
        schedule(used, offloaded(problem, trained, used, techniques, tail));
    const MachineSpace &hbm = used.spaces[used.computeSpace];
    if (estimate(plan, used).spaces[used.computeSpace].liveBytes >
        kUsableHbm * hbm.total)
      return 0;
    SimResult result = simulate(modelOf(plan, used, 1));
    if (!result.stuck.empty())
      fail(result.stuck);
    return shape.stepFlops() / result.stepSeconds / 1e12;
  }

  const GptShape shape;
  const Problem problem;
  std::vector<TrainedParameter> trained;
};

class Paper {
public:
  explicit Paper(Machine machine) : machine(std::move(machine)) {}

  std::vector<Row> run() {
    fit();
    ablation();
    throughput();
    sizes();
    optimizer();
    flow();
    link();
    return std::move(rows);
  }

private:
  Row &add(std::string name, double ours, double reference, std::string unit,
           double low, double high) {
    rows.push_back({std::move(name), std::move(unit), ours, reference, low,
                    high, false, ""});
    return rows.back();
  }
  Row &band(std::string name, double ours, double reference, std::string unit,
            double width) {
    return add(std::move(name), ours, reference, std::move(unit), 1 - width,
               1 + width);
  }

  //===--------------------------------------------------------------------===//
  // Table 2
  //===--------------------------------------------------------------------===//

  static constexpr Techniques kAblation[] = {{false, false, false, false},
                                             {true, false, false, false},
                                             {true, true, false, false},
                                             {true, true, true, false},
                                             {true, true, true, true}};
  static constexpr double kAblationPaper[] = {116.20, 128.23, 144.49, 209.36,
                                              238.92};

  struct Best {
    double teraflops = 0;
    uint32_t tail = 0, asked = 0;
  };

  /// SuperOffload with the best n that HBM has room for, at or above that of
  /// equations 4 and 5.
  static Best best(const Subject &subject, const Machine &machine) {
    Best best;
    best.asked = smallestTail(subject.shape, machine);
    uint32_t worse = 0;
    for (uint32_t tail : tails(subject.problem, subject.trained, 64)) {
      if (tail < best.asked)
        continue;
      double found = subject.teraflops(machine, kAblation[4], tail);
      worse = found > best.teraflops ? 0 : worse + 1;
      if (worse == 0) {
        best.teraflops = found;
        best.tail = tail;
      }
      if (worse == 2)
        break;
    }
    return best;
  }

  static double worstOfAblation(const Subject &subject, const Machine &machine,
                                std::vector<double> *found = nullptr) {
    double worst = 0;
    for (int i = 0; i < 5; ++i) {
      double ours = i == 4 ? best(subject, machine).teraflops
                           : subject.teraflops(machine, kAblation[i], 0);
      worst = std::max(worst, std::abs(ours / kAblationPaper[i] - 1));
      if (found)
        found->push_back(ours);
    }
    return worst;
  }

  static Machine withRate(Machine machine, double flops) {
    for (MachineQueue &queue : machine.queues)
      for (ComputeRate &rate : queue.rates)
        if (queue.compute && rate.cls == OpClass::Matmul &&
            rate.type == DType::BF16)
          rate.flops = flops;
    return machine;
  }

  double rate() const {
    for (const ComputeRate &rate : machine.queues[machine.computeQueue].rates)
      if (rate.cls == OpClass::Matmul && rate.type == DType::BF16)
        return rate.flops;
    return 0;
  }

  /// Where the machine file's rate stands beside the one that serves the five
  /// rows best. Golden section: the worst row has one minimum.
  void fit() {
    Subject subject(shapeOf(kModels[2], 8, 1024));
    const double golden = (std::sqrt(5) - 1) / 2;
    double low = 300e12, high = 500e12;
    auto worst = [&](double flops) {
      return worstOfAblation(subject, withRate(machine, flops));
    };
    double a = high - golden * (high - low), b = low + golden * (high - low),
           atA = worst(a), atB = worst(b);
    while (high - low > 2e12) {
      if (atA < atB) {
        high = b;
        b = a;
        atB = atA;
        a = high - golden * (high - low);
        atA = worst(a);
      } else {
        low = a;
        a = b;
        atA = atB;
        b = low + golden * (high - low);
        atB = worst(b);
      }
    }
    double fitted = (low + high) / 2;
    std::printf(
        "fitted constants, to the five rows of Table 2 and nothing else:\n");
    std::printf("  R, matrix products in bf16: %.0f Tflop/s in machine %s; the "
                "rows fit best at %.0f (worst row %.1f%% off)\n\n",
                rate() / 1e12, machine.name.c_str(), fitted / 1e12,
                100 * worst(fitted));
    band("R of the machine file, beside the best fit", rate() / 1e12,
         fitted / 1e12, "Tflop/s", 0.02);
  }

  void ablation() {
    Subject subject(shapeOf(kModels[2], 8, 1024));
    std::vector<double> found;
    double worst = worstOfAblation(subject, machine, &found);
    const char *names[] = {"baseline", "+ GraceAdam", "+ casting", "+ STV",
                           "+ repartitioning"};
    for (int i = 0; i < 5; ++i)
      band(std::string("Table 2 ") + names[i], found[i], kAblationPaper[i],
           "Tflop/s", 0.07);
    add("Table 2, all rows: largest error", 100 * worst, 7, "%", 0, 1);
  }

  //===--------------------------------------------------------------------===//
  // Fig. 10
  //===--------------------------------------------------------------------===//

  static constexpr Model kModels[] = {
      {"2B", 40, 2048},  {"3B", 60, 2048},  {"5B", 44, 3072}, {"10B", 50, 4096},
      {"15B", 78, 4096}, {"20B", 25, 8192}, {"25B", 30, 8192}};
  static constexpr double kSuperOffload[] = {203, 179, 239, 254, 256, 287, 299},
                          kZeroOffload[] = {124, 107, 129, 118, 103, 0, 0};

  void throughput() {
    size_t from = rows.size();
    std::vector<const char *> models;
    for (int i = 0; i < 7; ++i) {
      Subject subject(shapeOf(kModels[i], 8, 1024));
      Best found = best(subject, machine);
      Row &row = band(std::string("Fig. 10 superoffload ") + kModels[i].name,
                      found.teraflops, kSuperOffload[i], "Tflop/s",
                      i < 2 ? 0.15 : 0.10);
      row.inSet = i < 2;
      row.note = std::to_string(found.tail) + " tail buckets (equations 4-5: " +
                 std::to_string(found.asked) + ")";
    }
    for (int i = 0; i < 5; ++i) {
      Subject subject(shapeOf(kModels[i], 8, 1024));
      band(std::string("Fig. 10 zero-offload ") + kModels[i].name,
           subject.teraflops(machine, kAblation[0], 0), kZeroOffload[i],
           "Tflop/s", 0.15)
          .inSet = true;
    }
    int all = 0, large = 0;
    double sum = 0;
    for (size_t r = from; r < from + 12; ++r) {
      all += rows[r].within(0.15);
      bool isLarge =
          r - from >= 2 && r - from != 7 &&
          r - from != 8; // of either system the first two are 2B and 3B
      large += isLarge && rows[r].within(0.15);
      sum += isLarge ? std::abs(rows[r].ratio() - 1) / 8 : 0;
    }
    add("Fig. 10 from 5B: rows of 8 within 15%", large, 7, "rows", 1, 8. / 7);
    add("Fig. 10 from 5B: mean error", 100 * sum, 7, "%", 0, 1);
    add("Fig. 10, all: rows of 12 within 15%", all, 10, "rows", 1, 1.2);
  }

  //===--------------------------------------------------------------------===//
  // Fig. 13
  //===--------------------------------------------------------------------===//

  enum class System { ZeroOffload, WeightFlow, SuperOffload };

  /// Live bytes at the peak, in HBM and on the host.
  std::vector<double> peaks(const Model &model, System system) const {
    Subject subject(shapeOf(model, 1, 2048));
    Placement placement;
    if (system == System::WeightFlow) {
      placement = flowing(subject.problem, subject.trained, machine);
    } else {
      // Undone in place, as in the paper, speculation takes no room.
      placement = offloaded(subject.problem, subject.trained, machine,
                            {true, system == System::SuperOffload, false,
                             system == System::SuperOffload});
      for (BucketPlacement &bucket : placement.bucketPlacements)
        bucket.gradientWaits = system == System::ZeroOffload;
    }
    Layout layout = estimate(subject.schedule(machine, placement), machine);
    return {static_cast<double>(layout.spaces[machine.computeSpace].liveBytes),
            static_cast<double>(layout.spaces[machine.hostSpace].liveBytes)};
  }

  void sizes() {
    const struct {
      const char *name;
      System system;
      double paper;
    } systems[] = {{"zero-offload", System::ZeroOffload, 15},
                   {"weight-flow", System::WeightFlow, 25},
                   {"superoffload", System::SuperOffload, 25}};
    // Table 4, and the 30B that it leaves out, from the artifact.
    const std::pair<double, Model> ladder[] = {
        {1, {"1B", 20, 2048}},   {2, {"2B", 40, 2048}},
        {3, {"3B", 60, 2048}},   {4, {"4B", 64, 2304}},
        {5, {"5B", 44, 3072}},   {6, {"6B", 53, 3072}},
        {8, {"8B", 72, 3072}},   {10, {"10B", 50, 4096}},
        {11, {"11B", 55, 4096}}, {12, {"12B", 60, 4096}},
        {13, {"13B", 65, 4096}}, {15, {"15B", 78, 4096}},
        {20, {"20B", 25, 8192}}, {25, {"25B", 30, 8192}},
        {30, {"30B", 36, 8192}}, {50, {"50B", 60, 8192}}};
    const double capacity[] = {
        kUsableHbm * machine.spaces[machine.computeSpace].total,
        kUsableHost * machine.spaces[machine.hostSpace].total};
    for (auto &entry : systems) {
      double largest = 0;
      for (auto &[size, model] : ladder) {
        std::vector<double> need = peaks(model, entry.system);
        if (need[0] > capacity[0] || need[1] > capacity[1])
          break;
        largest = size;
      }
      // Peaks grow by so much a layer: where the first reaches its capacity.
      const Model low{"", 20, 8192}, high{"", 30, 8192};
      std::vector<double> at = peaks(low, entry.system),
                          then = peaks(high, entry.system);
      double layers = 1e9;
      int binding = 0;
      for (int s = 0; s < 2; ++s)
        if (double most = low.layers + (capacity[s] - at[s]) /
                                           (then[s] - at[s]) *
                                           (high.layers - low.layers);
            then[s] > at[s] && most < layers) {
          layers = most;
          binding = s;
        }
      double parameters =
          (12 * layers * 8192 * 8192 + shapeOf(low, 1, 1).vocabulary * 8192.) /
          1e9;
      char note[128];
      std::snprintf(
          note, sizeof note, "%.1fB without steps; %s ends it", parameters,
          machine.spaces[binding ? machine.hostSpace : machine.computeSpace]
              .name.c_str());
      add(std::string("Fig. 13 largest of ") + entry.name, largest, entry.paper,
          "B param", 1, 1)
          .note = note;
    }
  }

  //===--------------------------------------------------------------------===//
  // Table 3, Fig. 6, Fig. 7
  //===--------------------------------------------------------------------===//

  void optimizer() {
    for (bool grace : {true, false}) {
      Machine used = practised(machine, {grace, true, true, true});
      for (const OptimizerTime &time : optimizerTimes()) {
        double ours =
            dispatchSeconds(used, used.hostQueue,
                            {OpClass::Optimizer, DType::F32, 0,
                             static_cast<uint64_t>(28 * time.parameters), 0});
        char name[64];
        std::snprintf(name, sizeof name, "Table 3 %s %.0fB",
                      grace ? "GraceAdam" : "CPU-Adam", time.parameters / 1e9);
        band(name, 1e3 * ours, 1e3 * (grace ? time.graceAdam : time.cpuAdam),
             "ms", 0.06);
      }
    }
  }

  /// Forward's products over them and the move of the weights that they read,
  /// nothing at the same time.
  static double efficiency(const Subject &subject, const Machine &machine) {
    std::set<uint32_t> weights;
    double compute = 0, bytes = 0;
    for (const TrainedParameter &p : subject.trained) {
      weights.insert(p.weight);
      bytes += subject.problem.values[p.weight].bytes;
    }
    for (const ProblemOp &op : subject.problem.ops)
      if (op.kind == OpKind::Compute && op.phase == Phase::Forward)
        for (uint32_t operand : op.operands)
          compute +=
              weights.count(operand)
                  ? dispatchSeconds(machine, machine.computeQueue, op.cost)
                  : 0;
    return compute / (compute + copySeconds(machine, machine.toCompute,
                                            static_cast<uint64_t>(bytes)));
  }

  void flow() {
    const double bandwidths[] = {10, 20, 40, 80, 160, 320, 400, 640, 1280};
    const std::pair<uint64_t, std::vector<double>> figure[] = {
        {1, {1.4, 2.8, 5.4, 10.3, 18.6, 31.4, 36.4, 47.8, 64.7}},
        {2, {2.8, 5.4, 10.3, 18.6, 31.4, 47.8, 53.3, 64.7, 78.5}},
        {4, {5.4, 10.3, 18.6, 31.4, 47.8, 64.7, 69.6, 78.5, 88.0}}};
    Machine ideal = withRate(machine, kFigure6Peak);
    ideal.queues[ideal.computeQueue].launch =
        ideal.queues[ideal.computeQueue].bandwidth =
            ideal.queues[ideal.toCompute].launch = 0;
    uint64_t enough = 0;
    for (auto &[batch, published] : figure) {
      Subject subject(shapeOf(kModels[2], batch, 1024));
      auto at = [&](double gigabytes) {
        ideal.queues[ideal.toCompute].link.points = {{1, gigabytes * 1e9}};
        return 100 * efficiency(subject, ideal);
      };
      for (size_t i = 0; i < published.size(); ++i) {
        char name[64];
        std::snprintf(name, sizeof name, "Fig. 6 batch %d, %.0f GB/s",
                      static_cast<int>(batch), bandwidths[i]);
        band(name, at(bandwidths[i]), published[i], "%", 0.05);
      }
      if (!enough && at(450) >= 60)
        enough = batch;
    }
    add("Fig. 6 smallest batch with 60% at 450 GB/s", enough, 4, "samples", 1,
        1);
  }

  void link() {
    const double megabytes[] = {0.25, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256};
    const double up[] = {60, 75, 98, 130, 178, 245, 320, 375, 400, 403, 406},
                 down[] = {58, 73, 95, 126, 175, 240, 315, 370, 385, 386, 388};
    for (bool toCompute : {true, false})
      for (int i = 0; i < 11; ++i) {
        double bytes = megabytes[i] * 1e6;
        char name[64];
        std::snprintf(name, sizeof name, "Fig. 7 %s %g MB",
                      toCompute ? "to the GPU" : "to the host", megabytes[i]);
        band(name,
             bytes /
                 copySeconds(machine,
                             toCompute ? machine.toCompute : machine.toHost,
                             static_cast<uint64_t>(bytes)) /
                 1e9,
             (toCompute ? up : down)[i], "GB/s", 0.03);
      }
  }

  const Machine machine;
  std::vector<Row> rows;
};

void print(std::vector<Row> &rows) {
  std::printf(
      "usable memory for Fig. 13, one pair for all systems: %.2f of HBM, %.2f "
      "of the host's. Fig. 6's peak: %.1f Tflop/s, as that figure shows.\n\n",
      kUsableHbm, kUsableHost, kFigure6Peak / 1e12);
  std::printf("%-46s %9s %9s %-7s %6s  %-10s %s\n", "name", "paper", "ours",
              "unit", "ratio", "wanted", "ok");
  for (Row &row : rows) {
    char wanted[32];
    std::snprintf(wanted, sizeof wanted, "%.2f-%.2f", row.low, row.high);
    std::string verdict = row.hit()   ? "yes"
                          : row.inSet ? "missed, its set may miss some"
                                      : "NO";
    if (auto reason = kReasons.find(row.name);
        !row.hit() && reason != kReasons.end())
      row.note = (row.note.empty() ? "" : row.note + "; ") + reason->second;
    std::printf("%-46s %9.4g %9.4g %-7s %6.3f  %-10s %s%s%s\n",
                row.name.c_str(), row.reference, row.ours, row.unit.c_str(),
                row.ratio(), wanted, verdict.c_str(),
                row.note.empty() ? "" : ": ", row.note.c_str());
  }
}

bool writeJson(const std::string &path, const std::vector<Row> &rows) {
  FILE *file = std::fopen(path.c_str(), "w");
  if (!file)
    return false;
  std::fprintf(file, "[");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row &row = rows[i];
    std::fprintf(file,
                 "%s\n {\"name\": \"%s\", \"ours\": %.6g, \"reference\": %.6g, "
                 "\"ratio\": %.4f, \"unit\": \"%s\", \"wanted\": \"%g-%g\", "
                 "\"ok\": %s, \"missed\": %s, "
                 "\"note\": \"%s\"}",
                 i ? "," : "", row.name.c_str(), row.ours, row.reference,
                 row.ratio(), row.unit.c_str(), row.low, row.high,
                 row.hit() || row.inSet ? "true" : "false",
                 row.hit() ? "false" : "true", row.note.c_str());
  }
  std::fprintf(file, "\n]\n");
  return std::fclose(file) == 0;
}

} // namespace

int main(int argc, char **argv) {
  std::string json, name = "gh200-96";
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg == "--json" && i + 1 < argc) {
      json = argv[++i];
    } else if (arg.rfind("--json=", 0) == 0) {
      json = arg.substr(7);
    } else if (arg.rfind("--machine=", 0) == 0) {
      name = arg.substr(10);
    } else {
      std::printf("usage: bench/paper [--json FILE] [--machine=NAME|FILE]\n");
      return arg == "--help" ? 0 : 1;
    }
  }
  std::optional<Machine> machine = loadPreset(name);
  if (!machine)
    return 1;
  if (!machine->timed() || !machine->offloads())
    fail("machine '" + machine->name +
         "' has no rates or no second memory; gh200-96 is the paper's");
  std::vector<Row> rows = Paper(*machine).run();
  print(rows);
  if (!json.empty() && !writeJson(json, rows))
    fail(json + ": cannot be written");
  bool ok = true;
  for (const Row &row : rows)
    ok &= row.hit() || row.inSet;
  return ok ? 0 : 1;
}
