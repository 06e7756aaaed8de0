//===- Policies.h - What placement policies share ---------------*- C++ -*-===//

#ifndef FOREBAY_LIB_PLANNING_POLICIES_H
#define FOREBAY_LIB_PLANNING_POLICIES_H

#include "forebay/Planning/Policy.h"

namespace forebay::planning {

/// Every argument beside the compute queue: where a policy begins.
std::vector<ArgumentPlacement> inComputeSpace(const Problem &problem, const Machine &machine);

/// Masters, moments and accumulators of the trained parameters go to the host; forward and backward read them from `source`.
void stateOnHost(Placement &placement, const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine,
                 WeightSource source);

/// Buckets of at most `limit` bytes whose gradients go to the host, where the update runs; with its decisions.
void offloadBuckets(Placement &placement, const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine,
                    uint64_t limit);

std::unique_ptr<PlacementPolicy> makeWeightFlow();


} // namespace forebay::planning

#endif
