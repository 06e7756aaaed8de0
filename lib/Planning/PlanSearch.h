//===- PlanSearch.h - What policies that search share -----------*- C++ -*-===//

#ifndef FOREBAY_LIB_PLANNING_PLANSEARCH_H
#define FOREBAY_LIB_PLANNING_PLANSEARCH_H

#include "Policies.h"
#include "forebay/Planning/Activations.h"
#include "forebay/Planning/Layout.h"
#include "forebay/Planning/Simulator.h"

namespace forebay::planning {

/// What a placement costs: simulated steady step, live bytes by space.
struct PlanCost {
  bool valid = false;
  double seconds = 0;
  std::vector<uint64_t> live;

  /// Bytes over the budgets, which are `share` of the capacities; 0: it fits.
  uint64_t excess(const Machine &machine, double share) const;
};

/// What is over `share` of the capacities is not simulated: `seconds` is 0 then. 0: everything is.
PlanCost evaluate(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement, double share = 0);

/// What will run: the command table that a placement becomes, with its addresses and waits.
struct TableCost {
  bool fits = false;  ///< with addresses
  double seconds = 0; ///< steady step; 0 on machines without rates
};
TableCost evaluateTable(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement);

/// A table that takes longer than its schedule by more than this waits for bytes.
inline constexpr double kTableAgrees = 1.015;

/// Where and when a bucket is updated.
enum class UpdateWay : uint8_t {
  Device,           ///< state beside the compute engine
  Host,             ///< on the host, after the verdict
  HostWaiting,      ///< the same, and the gradient stays beside the compute engine until then
  HostSpeculative,  ///< on the host, during backward, into shadows
  Streamed,         ///< state comes up after the verdict and goes back
  StreamedSpeculative,
};
inline bool onHost(UpdateWay way) { return way == UpdateWay::Host || way == UpdateWay::HostWaiting || way == UpdateWay::HostSpeculative; }
inline bool isStreamed(UpdateWay way) { return way == UpdateWay::Streamed || way == UpdateWay::StreamedSpeculative; }
inline bool isSpeculative(UpdateWay way) { return way == UpdateWay::HostSpeculative || way == UpdateWay::StreamedSpeculative; }

/// A plan as one choice for each thing that is decided.
struct PlanChoices {
  std::vector<UpdateWay> buckets;
  std::vector<ActivationWay> groups;
  std::vector<bool> flows; ///< by argument: its weight comes and goes
  std::vector<bool> masters; ///< by argument: if its weight flows and is cast, the master comes and is cast beside the engine
  std::vector<bool> inPlace; ///< by argument: it is read across the link
  FlowWindow window;
  bool castOnDevice = false, undoInPlace = false;
  double copyPace = 0;
  uint32_t uploadLag = 4, streamSlots = 3;
  double lead = 1;         ///< see placeActivations
  bool wholeLayers = false; ///< see placeActivations

  bool operator==(const PlanChoices &) const;
};

/// Buckets and activation groups of a problem, and placements made of choices about them.
class PlanSpace {
public:
  PlanSpace(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, uint64_t bucketLimit);

  Placement realize(PlanChoices choices) const;
  PlanCost cost(const PlanChoices &choices, double share = 0) const { return evaluate(problem, trained, machine, realize(choices), share); }
  /// Choices under which nothing moves.
  PlanChoices resident() const;

  const Problem &problem;
  const std::vector<TrainedParameter> &trained;
  const Machine &machine;
  std::vector<Bucket> buckets;            ///< in the order in which they are complete
  std::vector<ActivationGroup> groups;
  std::vector<uint32_t> segments;         ///< of the groups
  std::vector<bool> crosses;              ///< by group: one of its values is read beyond the segment that makes it
  std::vector<std::vector<uint32_t>> bucketsOf; ///< by trained parameter
  std::vector<bool> gathered;             ///< by argument: forward and backward only read rows of it
  std::vector<bool> frozenWeight;         ///< by argument: read by forward and backward, not trained, not an input
  std::vector<uint32_t> weightOf;         ///< by argument: value that forward and backward read
};

/// Bytes of the buckets that policy auto forms at most.
uint64_t autoBucketLimit(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine);

} // namespace forebay::planning

#endif
