//===- Activations.h - What backward needs of forward -----------*- C++ -*-===//
///
/// \file
/// Activations that wait between forward and backward, in groups that are decided together, and what each of three ways costs: keeping them, sending them
/// to the host and back, computing them again. Method: docs/algorithms/placement.md. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_ACTIVATIONS_H
#define FOREBAY_PLANNING_ACTIVATIONS_H

#include "forebay/Planning/Flow.h"

namespace forebay::planning {

enum class ActivationWay : uint8_t { Keep, Offload, Recompute };

/// The idle activations that one operation of forward makes.
struct ActivationGroup {
  uint32_t op = 0;
  std::vector<IdleValue> values;
  uint64_t bytes = 0;   ///< each value rounded to 64
  uint32_t after = 0;   ///< last operation that touches one of them before backward
  uint32_t first = 0;   ///< first operation of backward that reads one
  double seconds = 0;   ///< of the operation and of those that only it needs and whose results are gone by then
};

/// In the order of `op`.
std::vector<ActivationGroup> activationGroups(const Problem &problem, const Machine &machine);

/// Numbers of groups that are alike in bytes and seconds (to the nanosecond), ascending by these, each list ascending.
std::vector<std::vector<uint32_t>> activationClasses(const std::vector<ActivationGroup> &groups);

/// Layers, as far as a graph has them: segments of forward between operations where little crosses. For each group the number of its segment, ascending with `op`.
std::vector<uint32_t> activationSegments(const Problem &problem, const std::vector<ActivationGroup> &groups);

/// Fills in `recomputes`, `offloads` and the fetches that bring them back, each at the latest start that still meets its deadline if compute never waits, and `lead` times its
/// own duration earlier.
/// `wholeLayers`: of a segment that is computed again all operations are, also those whose results nobody asks for, as systems do that checkpoint layers.
/// `flows`: values of weights that come and go (empty: none), in units of `weights`.
void placeActivations(Placement &placement, const Problem &problem, const std::vector<ActivationGroup> &groups, const std::vector<ActivationWay> &ways,
                      const Machine &machine, double lead, bool wholeLayers, const std::vector<bool> &flows = {}, FlowWindow weights = {});

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_ACTIVATIONS_H
