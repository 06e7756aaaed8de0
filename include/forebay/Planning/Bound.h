//===- Bound.h - What no plan can beat --------------------------*- C++ -*-===//
///
/// \file
/// A lower bound of the step's time on a machine: a linear program over fractions of parameters and activations, with all options of the planner, memory limits and no
/// phases or queues. Formulation: docs/algorithms/bound.md. Solved by Clp (COIN-OR). No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_BOUND_H
#define FOREBAY_PLANNING_BOUND_H

#include "forebay/Planning/Activations.h"

namespace forebay::planning {

struct Bound {
  bool feasible = false;  ///< false: no plan fits, whatever it does
  double seconds = 0;     ///< of a step
  std::string binding;    ///< resource that its solution uses longest: "gpu", "cpu", "h2d", "d2h", "host memory bandwidth"
  std::vector<double> busy; ///< seconds by resource: compute engine, host, link up, link down, host memory
  // The solution, for planners to begin with. Fractions of all trained parameters:
  double onDevice = 0;
  double onHost = 0, onHostWaiting = 0, onHostSpeculative = 0; ///< updated on the host; waiting: gradients stay beside the compute engine until the verdict
  double streamed = 0, streamedSpeculative = 0;
  double flows = 0; ///< weights that come and go, in the compute type
  double flowsCast = 0, flowsCastStreamed = 0; ///< the same, cast on their way from the masters: of updates on the host, of streamed ones
  std::vector<double> keep, offload, recompute; ///< by activation group
};

/// `trained` as of `problem`. Machines without rates have no bound: seconds 0, not feasible.
Bound lowerBound(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine);

/// Options that a planner may be told to leave out, to see what each is worth.
struct PlanOptions {
  bool deferred = true;     ///< updates on the host after the verdict, under the next forward
  bool speculative = true;  ///< before it
  bool streamed = true;     ///< state that comes to the compute engine and goes back
  bool onDevice = true;     ///< state that stays there
  bool flows = true;        ///< weights that come and go
  bool masters = true;      ///< ... also cast on their way from the masters
  bool offload = true;      ///< activations that wait on the host
  bool selective = true;    ///< recomputation of single operations; without it all but what crosses between layers, or nothing
  bool narrowMoves = true;  ///< gradients and weights move in the compute type, cast on the host
};

/// The same program with limits for forward and backward apart and shadows paid for: closer to what a schedule can do, no bound.
Bound relaxedPlan(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const PlanOptions &options = {});

/// Policy "auto" with some options left out, for benchmarks. `compare`: takes over what another policy does better.
std::unique_ptr<PlacementPolicy> makeAuto(const PlanOptions &options = {}, bool compare = true);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_BOUND_H
