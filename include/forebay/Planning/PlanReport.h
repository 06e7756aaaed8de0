//===- PlanReport.h - What a plan needs, for people and scripts -*- C++ -*-===//
///
/// \file
/// Computed from the program alone, so that `forebay-compile --plan-only`, `forebay-run --describe` and the simulator say the same. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_PLANREPORT_H
#define FOREBAY_PLANNING_PLANREPORT_H

#include "forebay/program.h"

#include <map>

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

struct PlanReport {
  std::string policy, machine;
  bool fits = true;
  std::vector<SpaceReport> spaces;
  uint64_t parameters = 0;          ///< elements of all parameters, a tied one once
  uint64_t trainedParameters = 0;   ///< those that are updated
  double flopsPerToken = 0;
  uint64_t scratchBytes = 0;        ///< for each compute worker
  uint64_t workspaceBytes = 0;      ///< of libraries
  uint64_t copied[2] = {0, 0};      ///< bytes that one micro-step copies up (to the first space), down (from it)
  FlowReport flow;
  size_t commands = 0, waits = 0;
};

PlanReport makeReport(const Program &program);

/// A table, one column for each memory space.
std::string toText(const PlanReport &report);

/// The object that `--json` writes (design 9). The fields that need a model of time (step_s, bound_s, binding, tflops, mfu, tokens_per_s) are null.
std::string toJson(const PlanReport &report);

/// The smallest budget with which this plan fits, as it is written on the command line: "hbm=12MiB,host=3072".
std::string smallestBudget(const PlanReport &report);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_PLANREPORT_H
