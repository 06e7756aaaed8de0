//===- Auto.cpp - Policy auto beside the others and the bound -------------===//
//
// What is compared, how to read it and the options: docs/benchmarks/auto.md.
//
//===----------------------------------------------------------------------===//

#include "Gpt.h"
#include "Presets.h"
#include "forebay/Planning/Bound.h"
#include "forebay/Planning/Layout.h"
#include "forebay/Planning/Simulator.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Regex.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <mutex>
#include <sstream>
#include <thread>

using namespace forebay;
using namespace forebay::bench;
using namespace forebay::planning;

namespace {

struct Size {
  const char *name;
  uint64_t layers, hidden;
};
/// Table 4 of the SuperOffload paper.
const Size kSizes[] = {{"2B", 40, 2048},  {"5B", 44, 3072},  {"10B", 50, 4096},
                       {"15B", 78, 4096}, {"20B", 25, 8192}, {"25B", 30, 8192}};

struct Row {
  std::string name, unit, wanted;
  double ours = 0, reference = 0;
  bool ok = true;
  double ratio() const { return reference != 0 ? ours / reference : 0; }
};

struct Point {
  Size size;
  uint64_t batch, sequence;
  std::string name() const {
    return std::string(size.name) + " batch " + std::to_string(batch) +
           " seq " + std::to_string(sequence);
  }
};

const char *const kPeer = "superoffload in place";

/// Of the seconds of two plans the smaller; 0 stands for one that does not fit.
double faster(double a, double b) {
  return a == 0 ? b : b == 0 ? a : std::min(a, b);
}

/// One point on one machine.
struct Result {
  Bound bound;
  /// Seconds of the command table of what fits, by policy; 0 of what does not.
  /// kPeer is the paper's, without memory for shadows.
  std::map<std::string, double> seconds;
  /// Of what is fastest of superoffload and kPeer.
  bool recomputes = false;
  /// The faster of superoffload with shadows and undo in place; 0: neither fits.
  double peer() const {
    double best = 0;
    for (const char *name : {"superoffload", kPeer})
      if (auto it = seconds.find(name); it != seconds.end())
        best = faster(best, it->second);
    return best;
  }
};

/// A simulated step: seconds of the command table, with its waits for bytes; 0
/// if the plan has no addresses within the memories.
struct Step {
  double seconds = 0;
  bool recomputes = false;
};

Step simulated(const Problem &problem,
               const std::vector<TrainedParameter> &trained,
               const Machine &machine, const PlacementPolicy &policy) {
  Placement placement = policy.place(problem, trained, machine);
  std::string error;
  Schedule schedule =
      buildSchedule(problem, trained, machine, placement, error);
  if (!error.empty() || !estimate(schedule, machine).fits(machine))
    return {};
  Layout layout = layOut(schedule, machine);
  if (!layout.fits(machine))
    return {};
  SimModel model = modelOf(schedule, layout, machine, problem.accumulate);
  return {simulate(model).stepSeconds, !placement.recomputes.empty()};
}

GptShape shapeOf(const Point &point) {
  GptShape shape;
  shape.layers = point.size.layers;
  shape.hidden = point.size.hidden;
  shape.batch = point.batch;
  shape.sequence = point.sequence;
  return shape;
}

/// Steps that were simulated before, in a file with a line for each: a run that
/// was stopped goes on, and a run can be made in parts.
class Results {
public:
  /// False if the file cannot be written.
  bool open(const std::string &path) {
    std::ifstream in(path);
    for (std::string line; std::getline(in, line);) {
      size_t tab = line.rfind('\t');
      std::istringstream text(tab == std::string::npos ? ""
                                                       : line.substr(tab + 1));
      Step step;
      if (text >> step.seconds >> step.recomputes)
        known[line.substr(0, tab)] = step;
    }
    out.open(path, std::ios::app);
    return out.good();
  }

  template <typename Make> Step get(const std::string &key, Make make) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (auto it = known.find(key); it != known.end())
        return it->second;
    }
    Step step = make();
    std::lock_guard<std::mutex> lock(mutex);
    if (out.is_open()) {
      out.precision(17);
      out << key << '\t' << step.seconds << ' ' << step.recomputes << std::endl;
    }
    return known[key] = step;
  }

private:
  std::map<std::string, Step> known;
  std::ofstream out;
  std::mutex mutex;
};

Result measure(const Point &point, const Machine &machine, Results &results) {
  Problem problem = makeGpt(shapeOf(point));
  std::string error, why;
  std::vector<TrainedParameter> trained = trainedParameters(problem, error);
  Result result;
  result.bound = lowerBound(problem, trained, machine);
  std::string at = machine.name + "\t" + point.name() + "\t";
  auto add = [&](const std::string &name, const PlacementPolicy &policy) {
    Step step = results.get(
        at + name, [&] { return simulated(problem, trained, machine, policy); });
    result.seconds[name] = step.seconds;
    if (step.seconds > 0 && step.seconds == result.peer())
      result.recomputes = step.recomputes;
  };
  for (const std::string &name : policyNames())
    if (auto policy = findPolicy(name); policy->supports(machine, why))
      add(name, *policy);
  add(kPeer, *makeSuperOffload(true));
  add("auto", *makeAuto());
  return result;
}

/// Calls work(i) for i < n on `threads` threads, with progress, and show(i) in
/// the order of i as soon as all before are done.
template <typename Work, typename Show>
void inParallel(size_t n, unsigned threads, const char *what, Work work,
                Show show) {
  std::atomic<size_t> next{0};
  std::mutex mutex;
  std::vector<bool> done(n);
  size_t count = 0, shown = 0;
  std::vector<std::thread> pool;
  for (unsigned t = 0; t < threads; ++t)
    pool.emplace_back([&] {
      for (size_t i; (i = next++) < n;) {
        work(i);
        std::lock_guard<std::mutex> lock(mutex);
        done[i] = true;
        std::fprintf(stderr, "\r%s: %zu of %zu", what, ++count, n);
        for (; shown < n && done[shown]; ++shown)
          show(shown);
        std::fflush(stdout);
      }
    });
  for (std::thread &thread : pool)
    thread.join();
  std::fprintf(stderr, "\n");
}

struct Mean {
  double sum = 0;
  size_t count = 0;
  void add(double x) {
    sum += std::log(x);
    ++count;
  }
  double value() const { return count ? std::exp(sum / count) : 0; }
};

struct Options {
  bool quick = false;
  unsigned threads = 1;
  llvm::Regex points{llvm::StringRef(".")}; ///< names of the points that are wanted
  Results results;
};

class AutoBench {
public:
  explicit AutoBench(Options &options) : o(options), quick(options.quick) {}

  void grid(const Machine &machine, bool bars) {
    std::vector<Point> points;
    for (const Size &size : kSizes)
      for (uint64_t batch : {1, 4, 16})
        for (uint64_t sequence : {1024, 4096, 16384, 32768})
          if (!quick || ((size.layers == 30 || size.layers == 44) &&
                         batch == 1 && sequence == 4096))
            add(points, {size, batch, sequence});
    if (points.empty())
      return;
    std::vector<Result> results(points.size());
    std::printf("\n%s\n%-26s %9s %9s %9s %9s %9s %9s %9s  %7s %7s %s\n",
                machine.name.c_str(), "seconds", "resident", "zero-offl",
                "weight-fl", "superoffl", "in place", "auto", "bound", "auto/b.",
                "gain", "binding");
    inParallel(
        points.size(), o.threads, machine.name.c_str(),
        [&](size_t i) { results[i] = measure(points[i], machine, o.results); },
        [&](size_t i) { show(points[i], results[i]); });
    Mean gain, toBound;
    double worstBound = 0, worstGain = 1e9, slowest = 0;
    std::string worstAt, gainAt, slowestAt;
    size_t more = 0, never = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      const Result &r = results[i];
      double best = r.seconds.at("auto"), peer = r.peer();
      for (auto &[name, seconds] : r.seconds) {
        if (name == "auto" || name == kPeer || seconds == 0)
          continue; // in place is not exact, and need not fit otherwise
        if (best == 0) {
          slowest = 99;
          slowestAt = points[i].name() + ": auto fits not, but " + name;
        } else if (best / seconds > slowest) {
          slowest = best / seconds;
          slowestAt = points[i].name() + " against " + name;
        }
      }
      if (best == 0) {
        ++never;
        continue;
      }
      toBound.add(best / r.bound.seconds);
      if (best / r.bound.seconds > worstBound) {
        worstBound = best / r.bound.seconds;
        worstAt = points[i].name();
      }
      if (peer == 0) {
        ++more;
        continue;
      }
      gain.add(peer / best);
      if (r.recomputes && peer / best < worstGain) {
        worstGain = peer / best;
        gainAt = points[i].name();
      }
    }
    std::string on = " on " + machine.name;
    auto bar = [&](std::string name, double ours, double wanted, bool atLeast) {
      char text[32];
      std::snprintf(text, sizeof text, "%s %.4g", atLeast ? ">=" : "<=", wanted);
      bool good = atLeast ? ours >= wanted : ours <= wanted;
      rows.push_back({name + on, "ratio", bars ? text : "reported", ours, 1,
                      !bars || good});
    };
    bar("slowest against any policy that fits (" + slowestAt + ")", slowest,
        1.001, false);
    bar("gain over superoffload, geometric mean of " +
            std::to_string(gain.count) + " points",
        gain.value(), 1.22, true);
    if (worstGain < 1e9)
      bar("least gain where it recomputes (" + gainAt + ")", worstGain, 1.2,
          true);
    bar("time over the bound, geometric mean of " +
            std::to_string(toBound.count) + " points",
        toBound.value(), 1.05, false);
    bar("time over the bound, largest (" + worstAt + ")", worstBound, 1.15,
        false);
    std::printf("fits where superoffload does not: %zu points; auto does not fit: "
                "%zu points\n",
                more, never);
    std::fflush(stdout);
  }

  /// Layers of width 8192 that fit, batch 1, and what takes the bytes.
  void largest(const Machine &machine) {
    for (uint64_t sequence : {1024, 4096}) {
      if (quick && sequence == 1024)
        continue;
      uint64_t best = 0;
      Schedule schedule;
      for (uint64_t layers : quick ? std::vector<uint64_t>{40}
                                   : std::vector<uint64_t>{36, 40, 41, 42, 43, 44, 45, 46, 47, 48}) {
        Schedule made;
        if (!fits(layers, sequence, machine, made))
          break;
        best = layers;
        schedule = std::move(made);
      }
      GptShape shape;
      shape.layers = best;
      shape.hidden = 8192;
      double billions = best ? shape.parameters() / 1e9 : 0;
      rows.push_back({"largest AdamW model on " + machine.name + ", seq " +
                          std::to_string(sequence),
                      "B param", ">= 32", billions, 32, billions >= 32});
      std::printf("\n%s, width 8192, batch 1, seq %llu: %llu layers, %.1fB "
                  "parameters; bytes a parameter at the peaks:\n",
                  machine.name.c_str(), (unsigned long long)sequence,
                  (unsigned long long)best, billions);
      if (!best)
        continue;
      Layout layout = estimate(schedule, machine);
      for (size_t s = 0; s < machine.spaces.size(); ++s) {
        std::printf("  %-5s %7.2f of %7.2f GB:", machine.spaces[s].name.c_str(),
                    layout.spaces[s].liveBytes / 1e9,
                    machine.spaces[s].capacity / 1e9);
        for (auto &[role, bytes] : layout.spaces[s].roles)
          std::printf(" %s %.2f", name(role), bytes / (billions * 1e9));
        std::printf("\n");
      }
    }
  }

  /// What each option is worth: auto with options added one after another.
  void options(const Machine &machine) {
    std::vector<Point> points;
    for (const Size &size : kSizes)
      for (auto [batch, sequence] : {std::pair<uint64_t, uint64_t>{1, 1024},
                                     {1, 4096}, {4, 4096}, {16, 4096}})
        if (!quick || (size.layers == 40 && batch == 1 && sequence == 1024))
          add(points, {size, batch, sequence});
    if (points.empty())
      return;
    PlanOptions none;
    none.deferred = none.streamed = none.flows = none.masters = none.offload =
        none.selective = none.narrowMoves = false;
    std::vector<std::pair<std::string, PlanOptions>> steps{
        {"speculation, state on the device, whole layers", none}};
    auto add = [&](const char *what, bool PlanOptions::*option) {
      PlanOptions next = steps.back().second;
      next.*option = true;
      steps.push_back({what, next});
    };
    add("+ deferred updates", &PlanOptions::deferred);
    add("+ moves in bf16, cast in the update", &PlanOptions::narrowMoves);
    add("+ streamed state", &PlanOptions::streamed);
    add("+ activation offload", &PlanOptions::offload);
    add("+ recomputation of single operations", &PlanOptions::selective);
    add("+ weights that flow", &PlanOptions::flows);
    add("+ weights cast on their way from the masters", &PlanOptions::masters);
    std::vector<std::vector<double>> seconds(
        points.size(), std::vector<double>(steps.size() + 1));
    inParallel(
        points.size(), o.threads, "options",
        [&](size_t i) {
          Problem problem = makeGpt(shapeOf(points[i]));
          std::string error, at = machine.name + "\t" + points[i].name() + "\t";
          auto trained = trainedParameters(problem, error);
          auto of = [&](const std::string &name, const PlacementPolicy &policy) {
            return o.results
                .get(at + name,
                     [&] { return simulated(problem, trained, machine, policy); })
                .seconds;
          };
          for (size_t k = 0; k < steps.size(); ++k)
            seconds[i][k] = of("auto: " + steps[k].first,
                               *makeAuto(steps[k].second, false));
          seconds[i].back() = faster(of("superoffload", *makeSuperOffload()),
                                     of(kPeer, *makeSuperOffload(true)));
        },
        [](size_t) {});
    std::printf("\nwhat each option is worth on %s: superoffload's time over "
                "that of auto with the options so far, geometric mean\n%-50s "
                "%9s %9s %9s\n",
                machine.name.c_str(), "", "<= 4k", "> 4k", "all");
    for (size_t k = 0; k < steps.size(); ++k) {
      Mean few, many, all;
      for (size_t i = 0; i < points.size(); ++i) {
        double s = seconds[i][k], paper = seconds[i].back();
        if (s <= 0 || paper <= 0)
          continue;
        all.add(paper / s);
        (points[i].batch * points[i].sequence <= 4096 ? few : many)
            .add(paper / s);
      }
      std::printf("%-50s %9.3f %9.3f %9.3f  (%zu of %zu points fit)\n",
                  steps[k].first.c_str(), few.value(), many.value(),
                  all.value(), all.count, points.size());
    }
  }

  int finish(const std::string &json) {
    std::printf("\n%-86s %9s  %-9s %s\n", "name", "ours", "wanted", "ok");
    bool ok = true;
    for (const Row &row : rows) {
      std::printf("%-86s %9.4g  %-9s %s\n", row.name.c_str(), row.ours,
                  row.wanted.c_str(), row.ok ? "yes" : "NO");
      ok &= row.ok;
    }
    if (!json.empty() && !write(json)) {
      std::fprintf(stderr, "error: bench/auto: %s: cannot be written\n",
                   json.c_str());
      return 1;
    }
    return ok ? 0 : 1;
  }

private:
  void add(std::vector<Point> &points, const Point &point) const {
    if (o.points.match(point.name()))
      points.push_back(point);
  }

  static void show(const Point &point, const Result &r) {
    std::string line;
    for (const char *name : {"resident", "zero-offload", "weight-flow",
                             "superoffload", kPeer, "auto"}) {
      char cell[16] = "         -";
      auto it = r.seconds.find(name);
      if (it != r.seconds.end() && it->second > 0)
        std::snprintf(cell, sizeof cell, " %9.4f", it->second);
      line += cell;
    }
    double best = r.seconds.at("auto"), peer = r.peer();
    std::printf("%-26s%s %9.4f  %7.3f %7.3f %s%s\n", point.name().c_str(),
                line.c_str(), r.bound.seconds,
                best > 0 ? best / r.bound.seconds : 0,
                best > 0 && peer > 0 ? peer / best : 0, r.bound.binding.c_str(),
                peer > 0 && r.recomputes ? ", superoffload recomputes" : "");
  }

  static bool fits(uint64_t layers, uint64_t sequence, const Machine &machine,
                   Schedule &schedule) {
    GptShape shape;
    shape.layers = layers;
    shape.hidden = 8192;
    shape.sequence = sequence;
    Problem problem = makeGpt(shape);
    std::string error;
    auto trained = trainedParameters(problem, error);
    Placement placement = makeAuto({}, false)->place(problem, trained, machine);
    schedule = buildSchedule(problem, trained, machine, placement, error);
    return error.empty() && layOut(schedule, machine).fits(machine);
  }

  bool write(const std::string &path) const {
    FILE *file = std::fopen(path.c_str(), "w");
    if (!file)
      return false;
    std::fprintf(file, "[");
    for (size_t i = 0; i < rows.size(); ++i)
      std::fprintf(file,
                   "%s\n {\"name\": \"%s\", \"ours\": %.6g, \"reference\": "
                   "%.6g, \"ratio\": %.4f, \"unit\": \"%s\", \"wanted\": "
                   "\"%s\", \"ok\": %s}",
                   i ? "," : "", rows[i].name.c_str(), rows[i].ours,
                   rows[i].reference, rows[i].ratio(), rows[i].unit.c_str(),
                   rows[i].wanted.c_str(), rows[i].ok ? "true" : "false");
    std::fprintf(file, "\n]\n");
    return std::fclose(file) == 0;
  }

  Options &o;
  const bool quick;
  std::vector<Row> rows;
};

} // namespace

int main(int argc, char **argv) {
  std::string json, only;
  std::vector<std::string> names{"gh200-96", "gh200-144"};
  Options options;
  options.threads = std::max(1u, std::thread::hardware_concurrency());
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto value = [&](const char *name) {
      std::string prefix = std::string(name) + "=";
      return arg.rfind(prefix, 0) == 0 ? arg.substr(prefix.size()) : "";
    };
    if (arg == "--json" && i + 1 < argc)
      json = argv[++i];
    else if (std::string file = value("--json"); !file.empty())
      json = file;
    else if (std::string name = value("--machine"); !name.empty())
      names = {name};
    else if (std::string part = value("--part");
             part == "grid" || part == "largest" || part == "options")
      only = part;
    else if (std::string count = value("--threads"); !count.empty())
      options.threads = std::max(1, std::atoi(count.c_str()));
    else if (std::string text = value("--points");
             !text.empty() && llvm::Regex(llvm::StringRef(text)).isValid())
      options.points = llvm::Regex(llvm::StringRef(text));
    else if (std::string file = value("--results"); !file.empty()) {
      if (!options.results.open(file)) {
        std::fprintf(stderr, "error: bench/auto: %s: cannot be written\n",
                     file.c_str());
        return 1;
      }
    } else if (arg == "--quick")
      options.quick = true;
    else {
      std::printf("usage: bench/auto [--json FILE] [--machine=NAME|FILE] "
                  "[--part=grid|largest|options] [--points=REGEX] "
                  "[--results=FILE] [--quick] [--threads=N]\n");
      return arg == "--help" ? 0 : 1;
    }
  }
  AutoBench bench(options);
  for (const std::string &name : names) {
    std::optional<Machine> machine = loadPreset(name);
    if (!machine)
      return 1;
    if (!machine->timed() || !machine->offloads()) {
      std::fprintf(stderr,
                   "error: bench/auto: machine '%s' has no rates or no second "
                   "memory; try gh200-96\n",
                   name.c_str());
      return 1;
    }
    if (only.empty() || only == "grid")
      bench.grid(*machine, name == "gh200-96");
    if (name != "gh200-96")
      continue;
    if (only.empty() || only == "largest")
      bench.largest(*machine);
    if (only.empty() || only == "options")
      bench.options(*machine);
  }
  return bench.finish(json);
}
