//===- Simulator.h - A step on a virtual clock ------------------*- C++ -*-===//
///
/// \file
/// Queues run their tasks in order; tasks that run at the same time share channels (memories, engines) max-min fairly. The step is a cycle: it is
/// repeated until its time no longer changes. Method and limits: docs/algorithms/simulation.md. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_SIMULATOR_H
#define FOREBAY_PLANNING_SIMULATOR_H

#include "forebay/Planning/Machine.h"

#include <string>
#include <vector>

namespace forebay::planning {

struct Layout;
struct Schedule;

struct SimUse {
  uint32_t channel;
  double amount; ///< units of the channel (bytes, seconds of an engine) that the whole task takes
};

struct SimTask {
  uint32_t queue = 0;
  double latency = 0; ///< seconds before the work, on the queue alone
  double seconds = 0; ///< of the work, when nothing shares a channel
  std::vector<SimUse> uses;
  Predicate predicate = Predicate::Always;
  std::vector<uint32_t> after;         ///< tasks of the same micro-step that end before it starts
  std::vector<uint32_t> afterPrevious; ///< tasks of the previous micro-step
};

struct SimChannel {
  std::string name;
  double rate = 0; ///< units/s; 0: not limited
};

/// What becomes of the steps of a run that has updates before the verdict: always the same.
enum class SpeculationOutcome : uint8_t {
  Committed, ///< the verdict says what was assumed
  Redone,    ///< it does not: updates run again after it
  Off,       ///< nothing runs before it
};

/// A micro-step; a step repeats it `accumulate` times.
struct SimModel {
  std::vector<SimChannel> channels;
  std::vector<SimTask> tasks; ///< in program order; a queue runs its own in this order
  uint32_t queues = 0, accumulate = 1;
  SpeculationOutcome outcome = SpeculationOutcome::Committed;
};

struct SimSpan {
  double start = 0, end = 0; ///< seconds from the start of the step shown; a task that its predicate skips has start == end
  uint32_t task = 0, micro = 0;
};

struct SimResult {
  double stepSeconds = 0;    ///< of a step in the steady state
  /// Of very many micro-steps the middle ones are alike: so many are simulated and shown, in a step of so many seconds; `stepSeconds`, `busy` and `moved` are for all.
  uint32_t micros = 0;
  double shownSeconds = 0;
  uint32_t warmup = 0;       ///< steps until it was steady
  std::vector<SimSpan> spans; ///< of one steady step, by start; tasks may end in the next
  std::vector<double> busy;  ///< by queue: seconds in a step
  std::vector<double> moved; ///< by channel: units in a step
  std::string stuck;         ///< not empty: tasks wait for each other for ever, and which
};

/// `spans`: also says when each task ran.
SimResult simulate(const SimModel &model, bool spans = false);

/// From a schedule without addresses: what a plan costs while it is searched. Tasks are its operations.
SimModel modelOf(const Schedule &schedule, const Machine &machine, uint32_t accumulate);

/// From a command table with its waits (see deriveWaits), before there is a program. `copyPace`: Program::copyPace.
SimModel modelOf(std::vector<Command> commands, uint32_t events, const Machine &machine, uint32_t accumulate, double copyPace);

/// The same for what `schedule` becomes at the places of `layout`.
SimModel modelOf(const Schedule &schedule, const Layout &layout, const Machine &machine, uint32_t accumulate);

/// From the command table as it will run, with its waits: tasks are the commands of `program.step`, queues those of the program. `canSimulate` must hold.
SimModel modelOf(const Program &program, const Machine &machine);

/// Share of rejected steps above which updates before the verdict take longer than without: of steps of `model` that are committed (c), redone (r), and done without
/// (o), x = (o - c) / (r - c), at most 1; 1 if a redone step costs nothing more, kNeverSpeculate if a committed one gains nothing.
double rejectLimit(SimModel model);

/// The machine has every memory and queue of the program (by name), and rates. Else `why` says what is missing, in one line.
bool canSimulate(const Program &program, const Machine &machine, std::string &why);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_SIMULATOR_H
