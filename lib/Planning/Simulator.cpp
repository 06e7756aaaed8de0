//===- Simulator.cpp - A step on a virtual clock --------------------------===//

#include "forebay/Planning/Simulator.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <limits>
#include <tuple>

using namespace forebay;
using namespace forebay::planning;

namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
/// Two steps count as equal within this share; so many steps are run at most.
constexpr double kSteady = 1e-4;
constexpr uint32_t kMostSteps = 12;
/// Queues may be that many steps ahead of the slowest.
constexpr uint32_t kAhead = 2;
/// Micro-steps that are simulated at most; what one more takes is the difference to one less.
constexpr uint32_t kMicroSteps = 16;

class Simulation {
public:
  Simulation(const SimModel &model) : model(model), n(model.tasks.size()), own(model.queues), at(model.queues) {
    for (uint32_t i = 0; i < n; ++i)
      own[model.tasks[i].queue].push_back(i);
  }

  SimResult run(bool spans) {
    SimResult result;
    result.busy.assign(model.queues, 0);
    result.moved.assign(model.channels.size(), 0);
    if (n == 0)
      return result;
    double before = kNever;
    for (uint32_t step = 0;; ++step) {
      if (!runUntil(step)) {
        result.stuck = describeStuck();
        return result;
      }
      double seconds = step == 0 ? 0 : stepTime(step);
      bool steady = step >= 2 && std::abs(seconds - before) <= kSteady * seconds;
      if (steady || step + 1 == kMostSteps) {
        // A run that alternates has no single time: the mean of two steps.
        result.stepSeconds = steady ? seconds : (seconds + before) / 2;
        result.warmup = step;
        finish(step, spans, result);
        return result;
      }
      before = seconds;
    }
  }

private:
  struct Queue {
    uint64_t iteration = 0; ///< of micro-steps
    size_t next = 0;        ///< position in its own list
    bool running = false;
    double latencyEnds = 0; ///< until then it only waits
    double remaining = 0;   ///< share of the work that is left
    double rate = 0;        ///< share of the work in a second
  };

  uint64_t micro() const { return std::max(model.accumulate, 1u); }

  bool runs(Predicate predicate, uint64_t iteration) const {
    uint64_t m = iteration % micro();
    switch (predicate) {
    case Predicate::Always:
      return true;
    case Predicate::FirstMicro:
      return m == 0;
    case Predicate::LaterMicro:
      return m != 0;
    case Predicate::LastMicro:
    case Predicate::Apply:
      return m + 1 == micro();
    case Predicate::Speculate:
      return m + 1 == micro() && model.outcome != SpeculationOutcome::Off;
    case Predicate::Redo:
      return m + 1 == micro() && model.outcome != SpeculationOutcome::Committed;
    case Predicate::Restore:
      return false;
    }
    return true;
  }

  /// Runs until every queue has ended its tasks of `step`.
  bool runUntil(uint32_t step) {
    const uint64_t last = (step + 1) * micro(), room = (step + 1 + kAhead) * micro();
    started.resize(n * room, 0);
    ended.resize(n * room, kNever);
    for (;;) {
      bool done = true;
      for (uint32_t q = 0; q < model.queues; ++q)
        done &= at[q].iteration >= last || own[q].empty();
      if (done)
        return true;
      startAll(room);
      if (!advance())
        return false;
    }
  }

  bool ready(const SimTask &task, uint64_t iteration) const {
    for (uint32_t other : task.after)
      if (ended[iteration * n + other] > now)
        return false;
    if (iteration > 0)
      for (uint32_t other : task.afterPrevious)
        if (ended[(iteration - 1) * n + other] > now)
          return false;
    return true;
  }

  void startAll(uint64_t last) {
    // A skipped task may make another queue ready at the same time.
    for (bool changed = true; changed;) {
      changed = false;
      for (uint32_t q = 0; q < model.queues; ++q) {
        Queue &queue = at[q];
        while (!queue.running && !own[q].empty() && queue.iteration < last) {
          uint32_t i = own[q][queue.next];
          const SimTask &task = model.tasks[i];
          uint64_t moment = queue.iteration * n + i;
          if (!runs(task.predicate, queue.iteration)) {
            // What hangs on the verdict waits for it, to know that it is skipped.
            if ((afterVerdict(task.predicate) || task.predicate == Predicate::Speculate) && (queue.iteration + 1) % micro() == 0 && !ready(task, queue.iteration))
              break;
            started[moment] = ended[moment] = now;
            next(q);
            changed = true;
            continue;
          }
          if (!ready(task, queue.iteration))
            break;
          started[moment] = now;
          queue.running = true;
          queue.latencyEnds = now + task.latency;
          queue.remaining = task.seconds > 0 ? 1 : 0;
          changed = true;
        }
      }
    }
  }

  void next(uint32_t q) {
    if (++at[q].next == own[q].size()) {
      at[q].next = 0;
      ++at[q].iteration;
    }
  }

  const SimTask &current(uint32_t q) const { return model.tasks[own[q][at[q].next]]; }

  /// Each working task its share of every channel: the most oversubscribed channel first, within it max-min fairly.
  void share() {
    for (uint32_t q = 0; q < model.queues; ++q) {
      Queue &queue = at[q];
      queue.rate = queue.running && queue.latencyEnds <= now && queue.remaining > 0 ? 1 / current(q).seconds : 0;
    }
    for (size_t round = 0; round < model.channels.size(); ++round) {
      int worst = -1;
      double most = 1 + 1e-9;
      for (size_t c = 0; c < model.channels.size(); ++c) {
        if (model.channels[c].rate <= 0)
          continue;
        double wanted = 0;
        for (uint32_t q = 0; q < model.queues; ++q)
          wanted += at[q].rate > 0 ? at[q].rate * amount(q, c) : 0;
        if (wanted > most * model.channels[c].rate) {
          most = wanted / model.channels[c].rate;
          worst = c;
        }
      }
      if (worst < 0)
        return;
      divide(worst);
    }
  }

  double amount(uint32_t q, uint32_t channel) const {
    double sum = 0;
    for (const SimUse &use : current(q).uses)
      if (use.channel == channel)
        sum += use.amount;
    return sum;
  }

  void divide(uint32_t channel) {
    // Those that want less than an equal part get what they want; the rest share what is left.
    std::vector<std::pair<double, uint32_t>> wants;
    for (uint32_t q = 0; q < model.queues; ++q)
      if (at[q].rate > 0 && amount(q, channel) > 0)
        wants.push_back({at[q].rate * amount(q, channel), q});
    std::sort(wants.begin(), wants.end());
    double free = model.channels[channel].rate;
    for (size_t i = 0; i < wants.size(); ++i) {
      double part = free / (wants.size() - i), gets = std::min(wants[i].first, part);
      at[wants[i].second].rate = gets / amount(wants[i].second, channel);
      free -= gets;
    }
  }

  /// To the next end of a latency or a task. False if nothing runs.
  bool advance() {
    share();
    double until = kNever;
    for (const Queue &queue : at) {
      if (!queue.running)
        continue;
      if (queue.latencyEnds > now)
        until = std::min(until, queue.latencyEnds);
      else
        until = std::min(until, queue.remaining > 0 ? now + queue.remaining / queue.rate : now);
    }
    if (until == kNever)
      return false;
    double passed = until - now;
    for (uint32_t q = 0; q < model.queues; ++q) {
      Queue &queue = at[q];
      if (!queue.running || queue.latencyEnds > now)
        continue;
      // What ends at `until` ends exactly: what rounding leaves would be another event.
      bool ends = queue.remaining <= 0 || now + queue.remaining / queue.rate <= until;
      queue.remaining = ends ? 0 : queue.remaining - passed * queue.rate;
    }
    now = until;
    for (uint32_t q = 0; q < model.queues; ++q) {
      Queue &queue = at[q];
      if (!queue.running || queue.latencyEnds > now || queue.remaining > 0)
        continue;
      ended[queue.iteration * n + own[q][queue.next]] = now;
      queue.running = false;
      next(q);
    }
    return true;
  }

  /// From the end of the step before to the end of `step`, on the queue where that takes longest.
  double stepTime(uint32_t step) const {
    double most = 0;
    for (uint32_t q = 0; q < model.queues; ++q)
      if (!own[q].empty()) {
        uint64_t last = (step + 1) * micro() - 1;
        most = std::max(most, ended[last * n + own[q].back()] - ended[(last - micro()) * n + own[q].back()]);
      }
    return most;
  }

  void finish(uint32_t step, bool spans, SimResult &result) const {
    double begin = kNever;
    for (uint64_t m = step * micro(); m < (step + 1) * micro(); ++m)
      for (uint32_t i = 0; i < n; ++i) {
        const SimTask &task = model.tasks[i];
        uint64_t moment = m * n + i;
        begin = std::min(begin, started[moment]);
        if (!runs(task.predicate, m))
          continue;
        result.busy[task.queue] += ended[moment] - started[moment];
        for (const SimUse &use : task.uses)
          result.moved[use.channel] += use.amount;
      }
    if (!spans)
      return;
    for (uint64_t m = step * micro(); m < (step + 1) * micro(); ++m)
      for (uint32_t i = 0; i < n; ++i)
        result.spans.push_back({started[m * n + i] - begin, ended[m * n + i] - begin, i, static_cast<uint32_t>(m % micro())});
    std::sort(result.spans.begin(), result.spans.end(), [](const SimSpan &a, const SimSpan &b) {
      return std::make_tuple(a.start, a.micro, a.task) < std::make_tuple(b.start, b.micro, b.task);
    });
  }

  std::string describeStuck() const {
    std::string text = "tasks wait for each other:";
    for (uint32_t q = 0; q < model.queues; ++q)
      if (!own[q].empty())
        text += " queue " + std::to_string(q) + " at task " + std::to_string(own[q][at[q].next]) + " of micro-step " + std::to_string(at[q].iteration) + ";";
    return text;
  }

  const SimModel &model;
  const size_t n;
  std::vector<std::vector<uint32_t>> own; ///< by queue: its tasks
  std::vector<Queue> at;
  std::vector<double> started, ended; ///< by micro-step and task
  double now = 0;
};

} // namespace

double planning::rejectLimit(SimModel model) {
  auto seconds = [&](SpeculationOutcome outcome) {
    model.outcome = outcome;
    return simulate(model).stepSeconds;
  };
  double committed = seconds(SpeculationOutcome::Committed), redone = seconds(SpeculationOutcome::Redone), off = seconds(SpeculationOutcome::Off);
  if (off <= committed)
    return kNeverSpeculate;
  return redone > committed ? std::min((off - committed) / (redone - committed), 1.0) : 1;
}

SimResult planning::simulate(const SimModel &model, bool spans) {
  if (model.accumulate <= kMicroSteps) {
    SimResult result = Simulation(model).run(spans);
    result.micros = std::max(model.accumulate, 1u);
    result.shownSeconds = result.stepSeconds;
    return result;
  }
  SimModel less = model;
  less.accumulate = kMicroSteps - 1;
  SimResult before = Simulation(less).run(false);
  less.accumulate = kMicroSteps;
  SimResult result = Simulation(less).run(spans);
  result.micros = kMicroSteps;
  result.shownSeconds = result.stepSeconds;
  const double more = model.accumulate - kMicroSteps;
  auto extend = [&](double &value, double previous) { value += more * (value - previous); };
  extend(result.stepSeconds, before.stepSeconds);
  for (size_t q = 0; q < result.busy.size() && q < before.busy.size(); ++q)
    extend(result.busy[q], before.busy[q]);
  for (size_t c = 0; c < result.moved.size() && c < before.moved.size(); ++c)
    extend(result.moved[c], before.moved[c]);
  return result;
}
