//===- WeightFlow.cpp - Policy weight-flow --------------------------------===//
//
// As zero-offload, but nothing of a weight stays in the compute space: it comes ahead of use, for forward and again for backward. The widest window
// of units in flight that fits is taken; where even a narrow one does not fit beside the activations, these leave, too.
//
//===----------------------------------------------------------------------===//

#include "Policies.h"
#include "forebay/Planning/Flow.h"
#include "forebay/Planning/Layout.h"

#include <algorithm>
#include <cassert>

using namespace forebay;
using namespace forebay::planning;

namespace {

constexpr uint64_t kSmallestUnit = 4096;
constexpr uint32_t kDeepest = 2; ///< units ahead
constexpr uint64_t kUnits = 16;  ///< of a model smaller than so many buckets: with a few units there is nothing to run under a copy

class Search {
public:
  Search(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine)
      : problem(problem), trained(trained), machine(machine), flows(problem.values.size()), idle(idleActivations(problem)),
        capacity(machine.spaces[machine.computeSpace].capacity) {
    base.arguments = inComputeSpace(problem, machine);
    for (size_t i = 0; i < problem.arguments.size(); ++i) {
      Role role = problem.values[problem.arguments[i].value].role;
      if (role == Role::Parameter || role == Role::Buffer)
        base.arguments[i] = {machine.hostSpace, WeightSource::Flow};
    }
    stateOnHost(base, problem, trained, machine, WeightSource::Flow);
    for (size_t i = 0; i < problem.arguments.size(); ++i)
      flows[problem.arguments[i].value] = base.arguments[i].source == WeightSource::Flow;
    for (const ProblemOp &op : problem.ops) // in mixed precision it is the weight in the compute type that comes and goes
      if (op.kind == OpKind::CastWeight) {
        flows[op.results[0]] = flows[op.operands[0]];
        flows[op.operands[0]] = false;
      }
  }

  Placement run() {
    // What needs least decides whether the policy fits at all, so that the smallest budget does not depend on the budget.
    Plan least = make({kSmallestUnit, 0}, everything({kSmallestUnit, 0}));
    if (!least.error.empty())
      return std::move(least.placement);
    Layout smallest = layOutSmallest(least.schedule, machine);
    if (smallest.spaces[machine.computeSpace].arenaBytes > capacity)
      return finish(std::move(least), "does not fit");

    Plan tried[kDeepest + 1];
    for (uint64_t unit = largestUnit();; unit = std::max(unit / 2, kSmallestUnit)) {
      for (uint32_t distance = kDeepest; distance > 0; --distance) {
        Plan plan = make({unit, distance}, {});
        if (same(plan, tried[distance]))
          continue;
        if (fits(plan))
          return finish(std::move(plan));
        tried[distance] = std::move(plan);
      }
      if (unit == kSmallestUnit)
        break;
    }
    // Small weights come with large ones, not in units of their own.
    uint64_t wide = std::min(std::max(problem.bucketBytes, kSmallestUnit), largestNeed());
    for (uint64_t unit : {wide, kSmallestUnit})
      for (uint32_t distance = kDeepest; distance > 0; --distance)
        if (Plan plan = withOffloads({unit, distance}); plan.fits)
          return finish(std::move(plan));
    if (Plan plan = withOffloads({kSmallestUnit, 0}); plan.fits)
      return finish(std::move(plan));
    if (smallest.fits(machine))
      return finish(std::move(least));
    // Too little on the host, then: say what is needed without activations there, if that is the better way.
    Plan kept = make({kSmallestUnit, 0}, {});
    bool enough = layOutSmallest(kept.schedule, machine).spaces[machine.computeSpace].arenaBytes <= capacity;
    return finish(enough ? std::move(kept) : std::move(least), "does not fit");
  }

private:
  struct Plan {
    FlowWindow window;
    Placement placement;
    Schedule schedule;
    std::string error;
    uint64_t kept = 0, offloaded = 0; ///< bytes of activations between forward and backward
    bool fits = false;
  };

  uint64_t largestUnit() const {
    uint64_t bytes = 0;
    for (size_t v = 0; v < flows.size(); ++v)
      bytes += flows[v] ? problem.values[v].bytes : 0;
    return std::max(std::min(problem.bucketBytes, bytes / kUnits), kSmallestUnit);
  }

  /// The most that the unit of one operation has.
  uint64_t largestNeed() {
    uint64_t most = kSmallestUnit;
    for (const Fetch &unit : units({0, 0}))
      most = std::max(most, unit.bytes);
    return most;
  }

  static bool same(const Plan &a, const Plan &b) {
    auto fetches = [](const Fetch &x, const Fetch &y) { return x.before == y.before && x.bytes == y.bytes && x.parts.size() == y.parts.size(); };
    auto buckets = [](const Bucket &x, const Bucket &y) { return x.bytes == y.bytes; };
    const Placement &p = a.placement, &q = b.placement;
    return std::equal(p.fetches.begin(), p.fetches.end(), q.fetches.begin(), q.fetches.end(), fetches) &&
           std::equal(p.buckets.begin(), p.buckets.end(), q.buckets.begin(), q.buckets.end(), buckets);
  }

  const std::vector<Fetch> &units(FlowWindow window) {
    if (unitsOf.empty() || window.unitBytes != unitsFor.unitBytes || window.distance != unitsFor.distance) {
      unitsOf = flowValues(problem, flows, window);
      unitsFor = window;
    }
    return unitsOf;
  }

  /// All activations that a window leaves any time to be away.
  std::vector<IdleValue> everything(FlowWindow window) {
    std::vector<IdleValue> chosen;
    for (const IdleValue &v : idle)
      if (issueBefore(units(window), v.first, window.distance) > v.after + 1)
        chosen.push_back(v);
    return chosen;
  }

  Plan make(FlowWindow window, const std::vector<IdleValue> &away) {
    Plan plan;
    plan.window = window;
    plan.placement = base;
    plan.placement.fetches = units(window);
    for (const IdleValue &v : idle)
      plan.kept += v.bytes;
    for (const IdleValue &v : away) {
      plan.kept -= v.bytes;
      plan.offloaded += v.bytes;
      plan.placement.offloads.push_back({v.value, v.after});
      Fetch fetch;
      fetch.parts = {{v.value, v.first, v.last}};
      fetch.bytes = v.bytes;
      fetch.before = issueBefore(units(window), v.first, window.distance);
      plan.placement.fetches.push_back(std::move(fetch));
      plan.placement.decisions.push_back({problem.values[v.value].label, "ActivationOffloaded", true,
                                          "waits on " + machine.spaces[machine.hostSpace].name + " between forward and backward",
                                          {{"bytes", v.bytes}, {"idle_operations", v.first - v.after - 1}}});
    }
    auto key = [](const Fetch &fetch) { return std::make_tuple(fetch.before, fetch.parts[0].first, fetch.parts[0].value); };
    std::sort(plan.placement.fetches.begin(), plan.placement.fetches.end(), [&](const Fetch &a, const Fetch &b) { return key(a) < key(b); });
    // Gradients leave in portions of the same size.
    offloadBuckets(plan.placement, problem, trained, machine, window.unitBytes);
    plan.schedule = buildSchedule(problem, trained, machine, plan.placement, plan.error);
    return plan;
  }

  bool fits(Plan &plan) {
    assert(plan.error.empty() && "the least plan has none either");
    Layout bound = estimate(plan.schedule, machine);
    uint64_t needs = bound.spaces[machine.computeSpace].liveBytes;
    if (bound.fits(machine)) {
      Layout layout = layOut(plan.schedule, machine);
      needs = layout.spaces[machine.computeSpace].arenaBytes;
      plan.fits = layout.fits(machine);
    }
    lastNeeds = needs;
    if (!plan.fits)
      reject(decision(plan, false, "does not fit", needs));
    return plan.fits;
  }

  /// Each once: a window may come up again with activations elsewhere.
  void reject(Decision decision) {
    auto same = [&](const Decision &d) { return d.reason == decision.reason && d.numbers == decision.numbers; };
    if (std::none_of(rejected.begin(), rejected.end(), same))
      rejected.push_back(std::move(decision));
  }

  /// Offloads, in the order of `idle`, what is idle while more lives than fits.
  Plan withOffloads(FlowWindow window) {
    Plan plan = make(window, {});
    if (fits(plan))
      return plan;
    Layout bound = estimate(plan.schedule, machine);
    std::vector<uint64_t> byPosition = liveBytes(plan.schedule, bound, machine.computeSpace), live(problem.ops.size());
    for (size_t i = 0; i < plan.schedule.ops.size(); ++i)
      if (int32_t op = plan.schedule.ops[i].op; op >= 0 && problem.ops[op].kind == OpKind::Compute)
        live[op] = byPosition[i];
    // Lives tell less than addresses: aim lower where packing left gaps.
    constexpr int kAttempts = 4;
    uint64_t target = capacity;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      plan = make(window, choose(window, live, target));
      if (fits(plan))
        return plan;
      uint64_t excess = lastNeeds > capacity ? lastNeeds - capacity : 0;
      if (excess == 0 || excess > target)
        return plan;
      target -= excess;
    }
    return plan;
  }

  std::vector<IdleValue> choose(FlowWindow window, std::vector<uint64_t> live, uint64_t target) {
    std::vector<IdleValue> chosen;
    for (const IdleValue &v : everything(window)) {
      auto begin = live.begin() + v.after + 1, end = live.begin() + issueBefore(units(window), v.first, window.distance);
      if (*std::max_element(begin, end) <= target)
        continue;
      chosen.push_back(v);
      for (auto it = begin; it != end; ++it)
        *it -= std::min(*it, v.bytes);
    }
    return chosen;
  }

  Decision decision(const Plan &plan, bool accepted, const char *problemText, uint64_t needs) const {
    const std::string &space = machine.spaces[machine.computeSpace].name;
    std::string how = "units of up to " + readableSize(plan.window.unitBytes) + ", ";
    how += plan.window.distance == 0 ? "no prefetch possible: each fetch waits"
                                     : "issued " + std::to_string(plan.window.distance) + " unit" + (plan.window.distance > 1 ? "s" : "") + " ahead";
    if (problemText)
      how += std::string(": ") + problemText;
    int64_t number = 0, bytes = 0, awaited = 0, awaitedBytes = 0;
    for (const Fetch &fetch : plan.placement.fetches) {
      if (!flows[fetch.parts[0].value])
        continue;
      ++number;
      bytes += fetch.bytes;
      // Ahead of use is what is issued before some other operation.
      if (fetch.before == fetch.parts[0].first || fetch.parts[0].first == firstCompute()) {
        ++awaited;
        awaitedBytes += fetch.bytes;
      }
    }
    return {"weights", "WeightsFlow", accepted, how,
            {{"units", number}, {"bytes_up", bytes}, {"distance", plan.window.distance}, {"unit_limit", plan.window.unitBytes}, {"awaited_units", awaited},
             {"awaited_bytes", awaitedBytes}, {"activation_bytes_kept", plan.kept}, {"activation_bytes_offloaded", plan.offloaded},
             {space + "_bytes", needs}, {space + "_capacity", capacity}}};
  }

  uint32_t firstCompute() const {
    for (uint32_t i = 0; i < problem.ops.size(); ++i)
      if (problem.ops[i].kind == OpKind::Compute)
        return i;
    return 0;
  }

  Placement finish(Plan plan, const char *problemText = nullptr) {
    uint64_t needs = estimate(plan.schedule, machine).spaces[machine.computeSpace].liveBytes;
    std::vector<Decision> decisions = std::move(rejected);
    decisions.push_back(decision(plan, problemText == nullptr, problemText, needs));
    std::move(plan.placement.decisions.begin(), plan.placement.decisions.end(), std::back_inserter(decisions));
    plan.placement.decisions = std::move(decisions);
    return std::move(plan.placement);
  }

  const Problem &problem;
  const std::vector<TrainedParameter> &trained;
  const Machine &machine;
  Placement base;
  std::vector<bool> flows; ///< by value
  std::vector<IdleValue> idle;
  uint64_t capacity;
  std::vector<Fetch> unitsOf; ///< for window `unitsFor`
  FlowWindow unitsFor;
  uint64_t lastNeeds = 0;
  std::vector<Decision> rejected;
};

/// Masters, moments and fp32 gradients on the host, updated there; weights come when they are needed.
class WeightFlowPolicy : public PlacementPolicy {
public:
  const char *name() const override { return "weight-flow"; }
  bool supports(const Machine &machine, std::string &why) const override {
    why = "a machine with two memory spaces";
    return machine.offloads();
  }
  Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const override {
    return Search(problem, trained, machine).run();
  }
};

} // namespace

std::unique_ptr<PlacementPolicy> planning::makeWeightFlow() { return std::make_unique<WeightFlowPolicy>(); }
