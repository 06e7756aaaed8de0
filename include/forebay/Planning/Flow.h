//===- Flow.h - Values that come ahead of use and go after ------*- C++ -*-===//
///
/// \file
/// Units in which weights are fetched, how far ahead, and which activations can wait elsewhere. Rules: docs/algorithms/placement.md. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_FLOW_H
#define FOREBAY_PLANNING_FLOW_H

#include "forebay/Planning/Policy.h"

namespace forebay::planning {

struct FlowWindow {
  uint64_t unitBytes = 0; ///< limit of a unit; what one operation needs is never divided
  uint32_t distance = 0;  ///< a unit is issued when the one so many before it is needed; 0: when it is needed itself
};

/// One fetch for each unit: the values marked in `flows` that Compute operations read, in the order in which they are needed. What runs again reads, too.
std::vector<Fetch> flowValues(const Problem &problem, const std::vector<bool> &flows, FlowWindow window, const std::vector<Recompute> &recomputes = {});

/// An activation that nobody reads between forward and backward.
struct IdleValue {
  uint32_t value = 0;
  uint32_t after = 0;       ///< last operation that reads or writes it before `first`
  uint32_t first = 0, last = 0; ///< operations of backward that read it
  uint64_t bytes = 0;
};

/// Those with at least one operation in between, by bytes times operations in between, largest first.
std::vector<IdleValue> idleActivations(const Problem &problem);

/// The operation in front of which something is fetched that `operation` needs, in the rhythm of `units`.
uint32_t issueBefore(const std::vector<Fetch> &units, uint32_t operation, uint32_t distance);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_FLOW_H
