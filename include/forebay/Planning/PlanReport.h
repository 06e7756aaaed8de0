//===- PlanReport.h - What a plan needs, for people and scripts -*- C++ -*-===//
///
/// \file
/// Computed from the program alone, so that `forebay-compile --plan-only` and `forebay-sim` say the same. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_PLANREPORT_H
#define FOREBAY_PLANNING_PLANREPORT_H

#include "forebay/Planning/Policy.h"
#include "forebay/Planning/Simulator.h"

#include <map>
#include <optional>

namespace forebay::planning {

struct SpaceReport {
  std::string name;
  uint64_t peak = 0;      ///< bytes of the arena
  uint64_t capacity = 0;
  uint64_t live = 0;      ///< largest sum of live bytes, each buffer rounded to 64
  uint32_t peakCommand = 0;
  std::map<Role, uint64_t> roles; ///< live bytes at the peak
  std::map<Role, uint64_t> rolesPeak; ///< largest live bytes of each role over the step; their sum may be more than the peak
  double fragmentation() const { return live ? static_cast<double>(peak) / live : 1.0; }
};

/// What comes into the first space for a while and goes again, in one micro-step.
struct FlowReport {
  size_t fetches = 0, awaited = 0; ///< copies of weights; those that no dispatch of their first reader's queue hides
  uint64_t bytes = 0, awaitedBytes = 0;
  uint64_t activationBytes = 0;    ///< brought back after they waited elsewhere
};

/// A step in the steady state, on the virtual clock (docs/algorithms/simulation.md).
struct TimeReport {
  double stepSeconds = 0;
  double tokensPerSecond = 0; ///< 0: the program has no tokens
  unsigned passes = 3;        ///< forward and backward count as three forwards; 1: there is no backward
  /// `passes` x forward flops per token x tokens per second: as the graph says, attention over the full square, no recomputation.
  double flops = 0;
  /// Flops of the products and attentions that forward and backward run in a step, recomputed ones and causal attention as they run, per second.
  double executedFlops = 0;
  double peakFlops = 0;       ///< of the compute engine's data sheet in the program's precision; 0: not known
  struct Queue {
    std::string name;
    double busy = 0;          ///< seconds in a step
  };
  std::vector<Queue> queues;  ///< those that have commands
  std::string engine;         ///< the queue of forward and backward
  /// For how long `engine` stands still while another queue, or itself, does what it waits for.
  struct Idle {
    std::string queue, phase;
    double seconds = 0;
  };
  std::vector<Idle> idle;     ///< longest first
  struct Channel {
    std::string name;
    double moved = 0, rate = 0; ///< units (bytes; of an engine, seconds) in a step; units/s
  };
  std::vector<Channel> channels; ///< those that have a rate and are used

  double share(const Queue &queue) const { return stepSeconds > 0 ? queue.busy / stepSeconds : 0; }
  double share(const Channel &channel) const { return stepSeconds > 0 ? channel.moved / (channel.rate * stepSeconds) : 0; }
  /// Model flops utilisation; nothing where the peak is not known.
  std::optional<double> mfu() const { return utilisation(flops); }
  std::optional<double> executedMfu() const { return utilisation(executedFlops); }

private:
  std::optional<double> utilisation(double of) const { return peakFlops > 0 && of > 0 ? std::optional<double>(of / peakFlops) : std::nullopt; }
};

/// The same commands on a machine that is better in one respect, or the plan that the policy makes for a machine with more memory.
struct Sensitivity {
  std::string what;       ///< "gpu rates +10%"
  double stepSeconds = 0; ///< on that machine
};

struct PlanReport {
  std::string policy, machine;
  std::string note;                 ///< how the policy chose the plan, where there is something to say
  bool fits = true;
  std::vector<SpaceReport> spaces;
  uint64_t parameters = 0;          ///< elements of all parameters, a tied one once
  uint64_t trainedParameters = 0;   ///< those that are updated
  double flopsPerToken = 0;
  uint64_t scratchBytes = 0;        ///< for each compute worker
  uint64_t workspaceBytes = 0;      ///< of libraries
  uint64_t copied[2] = {0, 0};      ///< bytes that one micro-step copies up (to the first space), down (from it)
  FlowReport flow;
  std::string speculation; ///< describeSpeculation of the program
  size_t commands = 0, waits = 0;

  std::optional<TimeReport> time;
  std::string noTime;                       ///< why there is none
  std::optional<double> boundSeconds;       ///< filled by the caller, who has the problem: no plan of it is faster
  std::string binding;                      ///< the resource that the bound fills; with boundSeconds
  std::vector<OptionWorth> worth;           ///< the step without each option that the plan uses
  std::vector<Sensitivity> sensitivities;   ///< filled by the caller; largest gain first
  std::string sensitivityNote;              ///< what has not been tried, and why; filled by the caller
};

/// The machine that `program` was planned for, with its rates. Nothing, and `why`, if the program does not say.
std::optional<Machine> machineOf(const Program &program, std::string &why);

/// With times if the program says what its machine's rates are.
PlanReport makeReport(const Program &program);
/// With times on `machine`.
PlanReport makeReport(const Program &program, const Machine &machine);

/// The step of `program` with `machine`'s rates 10% higher, one after another: compute rates, links per direction, bandwidth of each memory, the host's
/// optimizer rate. Shortest step first; nothing if the program cannot be simulated there.
std::vector<Sensitivity> findSensitivities(const Program &program, const Machine &machine);

/// Tables for people: memory by space and role, then time.
std::string toText(const PlanReport &report);

/// The object that `--json` writes (design 9). What is not known is null.
std::string toJson(const PlanReport &report);

/// `text` as a JSON string, with its quotes.
std::string jsonText(const std::string &text);

/// "1.23 s", "4.56 ms", "7.89 us".
std::string readableSeconds(double seconds);

/// The smallest budget with which this plan fits, as it is written on the command line: "hbm=12MiB,host=3072".
std::string smallestBudget(const PlanReport &report);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_PLANREPORT_H
