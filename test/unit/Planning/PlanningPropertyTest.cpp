//===- PlanningPropertyTest.cpp - What holds for every plan ---------------===//
//
// Random steps, planned by every policy: faster machines are not slower, capacities hold, the steady state is that of a long run by a plain simulator, nothing
// is moved without need, plans are the same every time.
//
//===----------------------------------------------------------------------===//

#include "RandomProblem.h"
#include "TimedMachine.h"
#include "forebay/Planning/Simulator.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <map>
#include <sstream>

using namespace forebay;
using namespace forebay::planning;
using namespace forebay::planning::test;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

Problem randomProblem(std::mt19937 &rng, unsigned trial, unsigned accumulate) {
  Shape shape;
  shape.layers = 2 + trial % 6;
  shape.accumulate = accumulate;
  Problem problem = makeProblem(rng, shape);
  addWork(rng, problem);
  return problem;
}

Schedule plan(const Problem &problem, const Machine &machine, const std::string &policy) {
  std::string error;
  auto trained = trainedParameters(problem, error);
  EXPECT_EQ(error, "");
  Schedule schedule = buildSchedule(problem, trained, machine, findPolicy(policy)->place(problem, trained, machine), error);
  EXPECT_EQ(error, "");
  return schedule;
}

double seconds(const Schedule &schedule, const Machine &machine, uint32_t accumulate) {
  SimResult result = simulate(modelOf(schedule, machine, accumulate));
  EXPECT_EQ(result.stuck, "");
  return result.stepSeconds;
}

void scale(Curve &curve, double factor) {
  for (Curve::Point &point : curve.points)
    point.y *= factor;
}

struct Change {
  const char *name;
  std::function<void(Machine &, double)> apply;
};

const std::vector<Change> kFaster = {
    {"memory of the compute engine", [](Machine &m, double f) { m.spaces[0].bandwidth *= f; }},
    {"memory of the host", [](Machine &m, double f) { m.spaces[1].bandwidth *= f; }},
    {"link up", [](Machine &m, double f) { scale(m.queues[m.toCompute].link, f); }},
    {"link down", [](Machine &m, double f) { scale(m.queues[m.toHost].link, f); }},
    {"products", [](Machine &m, double f) { m.queues[0].rates[0].flops *= f; }},
    {"traffic of the compute engine", [](Machine &m, double f) { m.queues[0].bandwidth *= f; }},
    {"cores of the host",
     [](Machine &m, double f) {
       MachineQueue &cpu = m.queues[1];
       cpu.cores *= 2;
       cpu.bandwidth *= f;
       for (double &b : cpu.classBandwidth)
         b *= f;
       cpu.rates[0].flops *= f;
     }},
};

//===----------------------------------------------------------------------===//
// A fixed plan
//===----------------------------------------------------------------------===//

TEST(PlanProperties, FasterMachinesAreNotSlower) {
  std::mt19937 rng(21);
  unsigned gains = 0;
  for (unsigned trial = 0; trial < 60; ++trial) {
    Problem problem = randomProblem(rng, trial, 1 + trial % 3);
    Machine machine = timedSuperchip();
    for (const char *policy : {"resident", "zero-offload", "weight-flow", "superoffload", "auto"}) {
      if (policy == std::string("auto") && trial % 6)
        continue; // takes its time
      Schedule schedule = plan(problem, machine, policy);
      double before = seconds(schedule, machine, problem.accumulate);
      for (const Change &change : kFaster)
        for (double factor : {1.1, 3.0}) {
          Machine faster = machine;
          change.apply(faster, factor);
          double after = seconds(schedule, faster, problem.accumulate);
          EXPECT_LE(after, before * 1.01) << trial << ", " << policy << ": " << change.name << " times " << factor;
          gains += after < before * 0.99;
        }
      Machine slower = machine;
      for (MachineQueue &queue : slower.queues)
        queue.launch *= 4;
      EXPECT_GE(seconds(schedule, slower, problem.accumulate), before * 0.99) << trial << ", " << policy;
    }
  }
  EXPECT_GT(gains, 500u); // the changes do matter
}

//===----------------------------------------------------------------------===//
// The simulator
//===----------------------------------------------------------------------===//

/// The rules of docs/algorithms/simulation.md in the plainest way: all steps written out, one state for each instance of a task, one event after the other.
class PlainRun {
public:
  PlainRun(const SimModel &model, unsigned steps) : model(model), n(model.tasks.size()), micro(std::max(model.accumulate, 1u)), count(n * micro * steps) {
    wait.resize(count);
    work.resize(count);
    ended.assign(count, kNever);
    for (size_t i = 0; i < count; ++i) {
      wait[i] = task(i).latency;
      work[i] = task(i).seconds;
    }
  }

  /// Mean time of a step in the second half.
  double run() {
    double now = 0;
    size_t left = count;
    while (left > 0) {
      bool changed = true;
      std::vector<size_t> active;
      while (changed) { // what takes no time may let others begin
        changed = false;
        active.clear();
        std::vector<bool> busy(model.queues);
        for (size_t i = firstLeft; i < count; ++i) {
          if (ended[i] <= now || busy[task(i).queue])
            continue;
          busy[task(i).queue] = true; // the first that is left is the only one that may run
          bool skipped = !runs(i);
          if (skipped ? awaitsVerdict(i) && !ready(i, now) : !ready(i, now))
            continue;
          if (skipped || (wait[i] <= 0 && work[i] <= 0)) {
            ended[i] = now;
            --left;
            changed = true;
            continue;
          }
          active.push_back(i);
          if (std::all_of(busy.begin(), busy.end(), [](bool b) { return b; }))
            break;
        }
        while (firstLeft < count && ended[firstLeft] <= now)
          ++firstLeft;
      }
      if (left == 0)
        break;
      if (active.empty()) {
        ADD_FAILURE() << "stuck";
        return 0;
      }
      std::vector<double> speed = speeds(active);
      double passes = kNever;
      for (size_t k = 0; k < active.size(); ++k)
        passes = std::min(passes, wait[active[k]] > 0 ? wait[active[k]] : work[active[k]] / speed[k]);
      for (size_t k = 0; k < active.size(); ++k) {
        double &rest = wait[active[k]] > 0 ? wait[active[k]] : work[active[k]];
        double done = wait[active[k]] > 0 ? passes : passes * speed[k];
        rest = rest - done <= 1e-15 ? 0 : rest - done;
      }
      now += passes;
    }
    size_t steps = count / (n * micro);
    auto endOf = [&](uint32_t queue, size_t step) {
      double last = 0;
      for (size_t i = step * n * micro; i < (step + 1) * n * micro; ++i)
        if (task(i).queue == queue)
          last = std::max(last, ended[i]);
      return last;
    };
    double most = 0;
    for (uint32_t q = 0; q < model.queues; ++q)
      most = std::max(most, (endOf(q, steps - 1) - endOf(q, steps / 2 - 1)) / (steps - steps / 2));
    return most;
  }

private:
  const SimTask &task(size_t i) const { return model.tasks[i % n]; }
  bool runs(size_t i) const {
    size_t m = i / n % micro;
    switch (task(i).predicate) {
    case Predicate::Always:
      return true;
    case Predicate::FirstMicro:
      return m == 0;
    case Predicate::LaterMicro:
      return m > 0;
    case Predicate::Redo:
    case Predicate::Restore:
      return false;
    default:
      return m == micro - 1;
    }
  }
  bool awaitsVerdict(size_t i) const { return afterVerdict(task(i).predicate) && i / n % micro == micro - 1; }
  bool ready(size_t i, double now) const {
    for (uint32_t other : task(i).after)
      if (ended[i - i % n + other] > now)
        return false;
    for (uint32_t other : task(i).afterPrevious)
      if (i >= n && ended[i - i % n - n + other] > now)
        return false;
    return true;
  }

  double use(size_t i, uint32_t channel) const {
    double sum = 0;
    for (const SimUse &u : task(i).uses)
      sum += u.channel == channel ? u.amount : 0;
    return sum;
  }

  /// Seconds of work in a second. Fails where a channel gives more than it has.
  std::vector<double> speeds(const std::vector<size_t> &active) const {
    std::vector<double> speed;
    for (size_t i : active)
      speed.push_back(wait[i] > 0 ? 0 : 1);
    auto taken = [&](size_t k, uint32_t c) { return speed[k] * use(active[k], c) / std::max(task(active[k]).seconds, 1e-300); };
    for (size_t round = 0; round < model.channels.size(); ++round) {
      uint32_t worst = 0;
      double most = 0;
      for (uint32_t c = 0; c < model.channels.size(); ++c) {
        double sum = 0;
        for (size_t k = 0; k < active.size(); ++k)
          sum += taken(k, c);
        if (model.channels[c].rate > 0 && sum / model.channels[c].rate > most) {
          most = sum / model.channels[c].rate;
          worst = c;
        }
      }
      if (most <= 1 + 1e-9)
        break;
      // Max-min: the water level at which the channel is just full.
      double low = 0, high = model.channels[worst].rate;
      for (int bit = 0; bit < 200; ++bit) {
        double level = (low + high) / 2, sum = 0;
        for (size_t k = 0; k < active.size(); ++k)
          sum += std::min(taken(k, worst), level);
        (sum > model.channels[worst].rate ? high : low) = level;
      }
      for (size_t k = 0; k < active.size(); ++k)
        if (taken(k, worst) > low)
          speed[k] *= low / taken(k, worst);
    }
    for (uint32_t c = 0; c < model.channels.size(); ++c) {
      double sum = 0;
      for (size_t k = 0; k < active.size(); ++k)
        sum += taken(k, c);
      if (model.channels[c].rate > 0)
        EXPECT_LE(sum, model.channels[c].rate * (1 + 1e-6));
    }
    return speed;
  }

  const SimModel &model;
  size_t n, micro, count, firstLeft = 0;
  std::vector<double> wait, work, ended;
};

TEST(PlanProperties, SteadyStateIsThatOfALongRun) {
  std::mt19937 rng(22);
  Machine machine = timedSuperchip();
  for (unsigned trial = 0; trial < 18; ++trial) {
    Problem problem = randomProblem(rng, trial, 1 + trial % 3);
    for (const char *policy : {"resident", "zero-offload", "weight-flow", "superoffload"}) {
      SimModel model = modelOf(plan(problem, machine, policy), machine, problem.accumulate);
      EXPECT_NEAR(simulate(model).stepSeconds / PlainRun(model, 30).run(), 1, 0.005) << trial << ", " << policy;
    }
  }
}

/// Of what tasks move that run wholly within a window, a channel gives at most what it can in that time; windows from each start to each end.
TEST(PlanProperties, CapacitiesHold) {
  std::mt19937 rng(23);
  Machine machine = timedSuperchip();
  double fullest = 0;
  for (unsigned trial = 0; trial < 20; ++trial) {
    Problem problem = randomProblem(rng, trial, 1 + trial % 3);
    for (const char *policy : {"resident", "zero-offload", "weight-flow", "superoffload"}) {
      SimModel model = modelOf(plan(problem, machine, policy), machine, problem.accumulate);
      SimResult result = simulate(model, true);
      std::vector<SimSpan> spans;
      for (const SimSpan &span : result.spans)
        if (span.end > span.start) {
          spans.push_back(span);
          const SimTask &task = model.tasks[span.task];
          EXPECT_GE(span.end - span.start, (task.latency + task.seconds) * (1 - 1e-9));
        }
      for (uint32_t c = 0; c < model.channels.size(); ++c) {
        if (model.channels[c].rate <= 0)
          continue;
        for (const SimSpan &from : spans) {
          // In the order of ends, so that one pass does all windows that begin here.
          std::vector<std::pair<double, double>> inside;
          for (const SimSpan &span : spans)
            if (span.start >= from.start)
              for (const SimUse &use : model.tasks[span.task].uses)
                if (use.channel == c)
                  inside.push_back({span.end, use.amount});
          std::sort(inside.begin(), inside.end());
          double sum = 0;
          for (auto [end, amount] : inside) {
            sum += amount;
            double share = sum / (model.channels[c].rate * (end - from.start));
            fullest = std::max(fullest, share);
            ASSERT_LE(share, 1 + 1e-6) << trial << ", " << policy << ", " << model.channels[c].name;
          }
        }
      }
    }
  }
  EXPECT_GT(fullest, 0.95); // some channel is nearly full at some time (launches leave gaps)
}

//===----------------------------------------------------------------------===//
// What is moved
//===----------------------------------------------------------------------===//

/// Follows the content of every 4 bytes through four steps, of which the last says whether what the third brought was read. A copy between spaces must bring what is read before it is overwritten, and nothing that is in
/// its space already in a buffer that is still needed.
class Moves {
public:
  Moves(const Schedule &schedule, const Machine &machine) : schedule(schedule), lives(estimate(schedule, machine)) {
    for (const Buffer &buffer : schedule.buffers) {
      content.emplace_back(buffer.bytes / 4);
      unread.emplace_back(buffer.bytes / 4, -1);
      for (uint64_t &cell : content.back())
        cell = ++last;
    }
    where.resize(machine.spaces.size());
  }

  void run() {
    for (step = 0; step < 4; ++step) {
      for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
        if (!schedule.buffers[b].persistent)
          for (uint64_t &cell : content[b])
            cell = ++last;
      for (uint32_t i = 0; i < schedule.ops.size(); ++i) {
        const ScheduledOp &op = schedule.ops[i];
        if (op.predicate == Predicate::Redo || op.predicate == Predicate::Restore)
          continue;
        if (op.kind == CommandKind::Copy)
          copy(i);
        else
          other(op);
      }
      // Speculation was right: what is next becomes what is.
      for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
        if (schedule.buffers[b].role == Role::Shadow) {
          content[b].swap(content[schedule.buffers[b].copyOf]);
          unread[b].swap(unread[schedule.buffers[b].copyOf]);
        }
      // What does not live on must have been read.
      for (uint32_t b = 0; b < schedule.buffers.size(); ++b)
        if (!schedule.buffers[b].persistent)
          for (int32_t &from : unread[b])
            lost(from);
    }
  }

  std::map<int32_t, uint64_t> unused, twice; ///< by operation: bytes
  uint64_t moved = 0;

private:
  void lost(int32_t &from) {
    if (from >= 0)
      unused[from] += 4;
    from = -1;
  }

  void other(const ScheduledOp &op) {
    for (const BufferRange &range : op.operands)
      for (uint64_t c = range.offset / 4; range.access != Access::Write && c < (range.offset + range.bytes) / 4; ++c)
        unread[range.buffer][c] = -1;
    for (const BufferRange &range : op.operands)
      for (uint64_t c = range.offset / 4; range.access != Access::Read && c < (range.offset + range.bytes) / 4; ++c) {
        lost(unread[range.buffer][c]);
        content[range.buffer][c] = ++last;
      }
  }

  void copy(uint32_t i) {
    const ScheduledOp &op = schedule.ops[i];
    for (size_t k = 0; k + 1 < op.operands.size(); k += 2) {
      const BufferRange &from = op.operands[k], &to = op.operands[k + 1];
      uint32_t space = schedule.buffers[to.buffer].space;
      bool between = schedule.buffers[from.buffer].space != space;
      for (uint64_t c = 0; c < from.bytes / 4; ++c) {
        uint64_t what = content[from.buffer][from.offset / 4 + c];
        unread[from.buffer][from.offset / 4 + c] = -1;
        uint64_t &cell = content[to.buffer][to.offset / 4 + c];
        lost(unread[to.buffer][to.offset / 4 + c]);
        if (between && step > 0) { // the first step brings what was there from the start
          moved += 4;
          unread[to.buffer][to.offset / 4 + c] = i;
          auto known = where[space].find(what);
          if (known != where[space].end()) {
            auto [buffer, at] = known->second;
            bool needed = schedule.buffers[buffer].persistent || (lives.buffers[buffer].first <= i && lives.buffers[buffer].last > i);
            if (needed && content[buffer][at] == what)
              twice[i] += 4;
          }
        }
        if (between)
          where[space][what] = {to.buffer, to.offset / 4 + c};
        cell = what;
      }
    }
  }

  const Schedule &schedule;
  Layout lives;
  unsigned step = 0;
  uint64_t last = 0;
  std::vector<std::vector<uint64_t>> content;
  std::vector<std::vector<int32_t>> unread; ///< by buffer and cell: copy that brought it, as long as nobody has read it
  std::vector<std::map<uint64_t, std::pair<uint32_t, uint64_t>>> where; ///< by space: where a content was brought last
};

TEST(PlanProperties, NothingIsMovedWithoutNeed) {
  std::mt19937 rng(24);
  for (unsigned trial = 0; trial < 40; ++trial) {
    Problem problem = randomProblem(rng, trial, 1);
    for (const char *policy : {"zero-offload", "weight-flow", "superoffload", "auto"}) {
      Machine machine = timedSuperchip();
      if (policy != std::string("zero-offload")) // little enough that something has to move
        machine.spaces[0].capacity = estimate(plan(problem, timedSuperchip(), "resident"), machine).spaces[0].arenaBytes * 3 / 5;
      Schedule schedule = plan(problem, machine, policy);
      Moves moves(schedule, machine);
      moves.run();
      EXPECT_GT(moves.moved, 0u) << trial << ", " << policy;
      for (auto [op, bytes] : moves.unused)
        ADD_FAILURE() << trial << ", " << policy << ": " << schedule.ops[op].label << " moves " << bytes << " bytes that nobody reads";
      for (auto [op, bytes] : moves.twice)
        ADD_FAILURE() << trial << ", " << policy << ": " << schedule.ops[op].label << " moves " << bytes << " bytes that are there";
    }
  }
}

/// The test above sees what it looks for: a copy that is there twice.
TEST(PlanProperties, NeedlessMovesAreSeen) {
  std::mt19937 rng(24);
  Machine machine = timedSuperchip();
  for (unsigned trial = 0; trial < 5; ++trial) {
    Schedule schedule = plan(randomProblem(rng, trial, 1), machine, "weight-flow");
    for (size_t i = 0; i < schedule.ops.size(); ++i) {
      const ScheduledOp op = schedule.ops[i];
      if (op.kind != CommandKind::Copy || schedule.buffers[op.operands[0].buffer].space == schedule.buffers[op.operands[1].buffer].space)
        continue;
      Schedule twice(schedule);
      twice.ops.insert(twice.ops.begin() + i, op);
      Moves moves(twice, machine);
      moves.run();
      EXPECT_FALSE(moves.unused.empty()) << op.label;
    }
  }
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

std::string textOf(const Schedule &schedule, const Machine &machine) {
  std::ostringstream text;
  Layout layout = layOut(schedule, machine);
  for (size_t b = 0; b < schedule.buffers.size(); ++b)
    text << schedule.buffers[b].label << ' ' << schedule.buffers[b].space << ' ' << schedule.buffers[b].bytes << ' ' << layout.buffers[b].offset << '\n';
  for (const ScheduledOp &op : schedule.ops) {
    text << op.label << ' ' << static_cast<int>(op.kind) << ' ' << static_cast<int>(op.predicate) << ' ' << op.queue;
    for (const BufferRange &range : op.operands)
      text << ' ' << range.buffer << '+' << range.offset << ':' << range.bytes;
    text << '\n';
  }
  return text.str();
}

TEST(PlanProperties, TwoRunsGiveTheSamePlan) {
  std::mt19937 rng(25);
  for (unsigned trial = 0; trial < 12; ++trial) {
    Problem problem = randomProblem(rng, trial, 1 + trial % 2);
    for (const std::string &policy : policyNames()) {
      Machine machine = timedSuperchip();
      machine.spaces[0].capacity = estimate(plan(problem, machine, "resident"), machine).spaces[0].arenaBytes * 3 / 4;
      EXPECT_EQ(textOf(plan(problem, machine, policy), machine), textOf(plan(problem, machine, policy), machine)) << trial << ", " << policy;
    }
  }
}

/// `auto` plans anew for the better machine: its search must not lose what the machine gains.
/// Of the command table with its waits, by which auto chooses.
static double tableSeconds(const Schedule &schedule, const Machine &machine, uint32_t accumulate) {
  return simulate(modelOf(schedule, layOut(schedule, machine), machine, accumulate)).stepSeconds;
}

TEST(PlanProperties, AutoUsesBetterMachines) {
  std::mt19937 rng(26);
  std::vector<double> ratios;
  for (unsigned trial = 0; trial < 8; ++trial) {
    Problem problem = randomProblem(rng, trial, 1 + trial % 2);
    Machine machine = timedSuperchip();
    machine.spaces[0].capacity = estimate(plan(problem, machine, "resident"), machine).spaces[0].arenaBytes * (2 + trial % 3) / 4;
    machine.spaces[1].capacity = layOut(plan(problem, machine, "auto"), machine).spaces[1].arenaBytes * 103 / 100; // so that it counts, too
    Schedule before = plan(problem, machine, "auto");
    if (!layOut(before, machine).fits(machine))
      continue;
    double time = tableSeconds(before, machine, problem.accumulate);
    std::vector<Change> changes(kFaster);
    changes.push_back({"bytes of the compute engine", [](Machine &m, double f) { m.spaces[0].capacity *= f; }});
    changes.push_back({"bytes of the host", [](Machine &m, double f) { m.spaces[1].capacity *= f; }});
    for (const Change &change : changes) {
      Machine better = machine;
      change.apply(better, 1.2);
      double ratio = tableSeconds(plan(problem, better, "auto"), better, problem.accumulate) / time;
      EXPECT_LE(ratio, 1.15) << trial << ": " << change.name;
      ratios.push_back(ratio);
    }
  }
  ASSERT_GT(ratios.size(), 50u);
  unsigned worse = std::count_if(ratios.begin(), ratios.end(), [](double r) { return r > 1.05; });
  EXPECT_LE(worse * 20, ratios.size());
}

} // namespace
