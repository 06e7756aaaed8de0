//===- LargestFirst.cpp - A placement policy as a plug-in -----------------===//
//
// Policy "largest-first": the state of the largest parameters stays beside the compute engine, as far as there is room, and is updated there; that of the others lives
// on the host, where it is updated after the verdict. Few large parameters are few commands, so little is left to schedule.
//
//===----------------------------------------------------------------------===//

#include "forebay/Planning/Layout.h"

#include "mlir/Tools/Plugins/PassPlugin.h"

#include <algorithm>

using namespace forebay;
using namespace forebay::planning;

namespace {

class LargestFirst : public PlacementPolicy {
public:
  const char *name() const override { return "largest-first"; }

  bool supports(const Machine &machine, std::string &why) const override {
    why = "a machine with two memory spaces";
    return machine.offloads();
  }

  Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const override {
    std::vector<uint32_t> bySize(trained.size());
    for (uint32_t i = 0; i < bySize.size(); ++i)
      bySize[i] = i;
    std::stable_sort(bySize.begin(), bySize.end(), [&](uint32_t a, uint32_t b) { return trained[a].elements > trained[b].elements; });

    // With nothing kept the plan is the leanest of this policy. What fits is known to the planner only once everything has its address: a parameter stays if the plan
    // with it still fits.
    std::vector<bool> kept(trained.size());
    Placement placement = make(problem, trained, machine, kept);
    std::vector<Decision> decisions;
    for (uint32_t i : bySize) {
      kept[i] = true;
      Placement more = make(problem, trained, machine, kept);
      bool fits = this->fits(problem, trained, machine, more);
      if (fits)
        placement = std::move(more);
      kept[i] = fits;
      const TrainedParameter &p = trained[i];
      auto state = static_cast<int64_t>(4 * p.elements * (1 + p.states.size()));
      decisions.push_back({problem.values[problem.arguments[p.argument].value].label, fits ? "Kept" : "Offloaded", fits,
                           fits ? "the largest that still fits" : "no room in " + machine.spaces[machine.computeSpace].name,
                           {{"elements", static_cast<int64_t>(p.elements)}, {"state_bytes", state}}});
    }
    placement.decisions = std::move(decisions);
    return placement;
  }

private:
  static bool fits(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement) {
    std::string error;
    Schedule schedule = buildSchedule(problem, trained, machine, placement, error);
    return error.empty() && layOut(schedule, machine).fits(machine);
  }

  static Placement make(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const std::vector<bool> &kept) {
    Placement placement;
    placement.arguments.assign(problem.arguments.size(), ArgumentPlacement{machine.computeSpace});
    std::vector<TrainedParameter> offloaded;
    std::vector<uint32_t> numbers; // of those in `trained`
    for (uint32_t i = 0; i < trained.size(); ++i) {
      const TrainedParameter &p = trained[i];
      if (kept[i]) {
        Bucket own{{{i, 0, p.elements}}, 4 * p.elements, p.completeAt, p.firstUse};
        placement.buckets.push_back(own);
        placement.bucketPlacements.push_back({machine.computeSpace, machine.computeQueue});
        continue;
      }
      // Forward and backward read a copy, which is renewed after the update. Without a reader there is nothing to copy for.
      bool read = p.firstUse < problem.ops.size();
      placement.arguments[p.argument] = {machine.hostSpace, read ? WeightSource::Copy : WeightSource::Home};
      for (uint32_t state : p.states)
        placement.arguments[state].home = machine.hostSpace;
      if (p.accumulator >= 0)
        placement.arguments[p.accumulator].home = machine.hostSpace;
      offloaded.push_back(p);
      numbers.push_back(i);
    }
    // What moves is bundled.
    for (Bucket &bucket : formBuckets(problem, offloaded)) {
      for (Piece &piece : bucket.pieces)
        piece.parameter = numbers[piece.parameter];
      placement.buckets.push_back(std::move(bucket));
      placement.bucketPlacements.push_back({machine.hostSpace, machine.hostQueue});
    }
    return placement;
  }
};

} // namespace

extern "C" LLVM_ATTRIBUTE_WEAK mlir::PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "LargestFirst", "1.0",
          [] { registerPolicy("largest-first", [] { return std::make_unique<LargestFirst>(); }); }};
}
