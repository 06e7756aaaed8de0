//===- Activations.cpp - What backward needs of forward -------------------===//

#include "forebay/Planning/Activations.h"
#include "forebay/Planning/Packer.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

using namespace forebay;
using namespace forebay::planning;

static constexpr uint32_t kNone = ~0u;

/// For each value the Compute operation of forward that makes it, or kNone.
static std::vector<uint32_t> forwardProducers(const Problem &problem) {
  std::vector<uint32_t> producer(problem.values.size(), kNone);
  for (uint32_t i = 0; i < problem.ops.size(); ++i)
    if (problem.ops[i].kind == OpKind::Compute && problem.ops[i].phase == Phase::Forward)
      for (uint32_t result : problem.ops[i].results)
        producer[result] = i;
  return producer;
}

std::vector<ActivationGroup> planning::activationGroups(const Problem &problem, const Machine &machine) {
  std::vector<uint32_t> producer = forwardProducers(problem);
  std::map<uint32_t, ActivationGroup> byOp;
  std::vector<bool> waits(problem.values.size());
  for (IdleValue &v : idleActivations(problem)) {
    waits[v.value] = true;
    ActivationGroup &group = byOp[producer[v.value]];
    group.op = producer[v.value];
    group.after = std::max(group.after, v.after);
    group.first = group.values.empty() ? v.first : std::min(group.first, v.first);
    group.bytes += roundUp(v.bytes);
    group.values.push_back(v);
  }
  // How many operations of forward read each value: what only one reads must be computed again for that one alone.
  std::vector<uint32_t> readers(problem.values.size());
  for (const ProblemOp &op : problem.ops)
    if (op.kind == OpKind::Compute && op.phase == Phase::Forward)
      for (uint32_t operand : op.operands)
        ++readers[operand];
  std::vector<ActivationGroup> groups;
  for (auto &[op, group] : byOp) {
    std::vector<uint32_t> pending{op};
    std::set<uint32_t> seen{op};
    while (!pending.empty()) {
      uint32_t at = pending.back();
      pending.pop_back();
      group.seconds += dispatchSeconds(machine, machine.computeQueue, problem.ops[at].cost);
      for (uint32_t operand : problem.ops[at].operands)
        if (uint32_t by = producer[operand]; by != kNone && !waits[operand] && readers[operand] == 1 && seen.insert(by).second)
          pending.push_back(by);
    }
    std::sort(group.values.begin(), group.values.end(), [](const IdleValue &a, const IdleValue &b) { return a.value < b.value; });
    groups.push_back(std::move(group));
  }
  return groups;
}

std::vector<std::vector<uint32_t>> planning::activationClasses(const std::vector<ActivationGroup> &groups) {
  std::map<std::pair<uint64_t, int64_t>, std::vector<uint32_t>> alike;
  for (uint32_t g = 0; g < groups.size(); ++g)
    alike[{groups[g].bytes, std::llround(groups[g].seconds * 1e9)}].push_back(g);
  std::vector<std::vector<uint32_t>> classes;
  for (auto &[key, members] : alike)
    classes.push_back(std::move(members));
  return classes;
}

/// First operations of the segments but that of the first one.
static std::vector<uint32_t> segmentCuts(const Problem &problem) {
  // Bytes that forward made before a position and forward reads after it; weights and inputs do not count.
  std::vector<uint32_t> producer = forwardProducers(problem);
  std::vector<int64_t> change(problem.ops.size() + 1);
  std::vector<uint32_t> lastRead(problem.values.size());
  for (uint32_t i = 0; i < problem.ops.size(); ++i)
    if (problem.ops[i].kind == OpKind::Compute && problem.ops[i].phase == Phase::Forward)
      for (uint32_t operand : problem.ops[i].operands)
        lastRead[operand] = i;
  for (uint32_t v = 0; v < problem.values.size(); ++v)
    if (producer[v] != kNone && lastRead[v] > producer[v]) {
      change[producer[v] + 1] += problem.values[v].bytes;
      change[lastRead[v] + 1] -= problem.values[v].bytes;
    }
  uint32_t end = 0;
  for (uint32_t i = 0; i < problem.ops.size(); ++i)
    if (problem.ops[i].kind == OpKind::Compute && problem.ops[i].phase == Phase::Forward)
      end = i;
  // A cut is where least crosses, within a tenth; what is computed once for all layers (masks, tables) crosses everywhere.
  std::vector<int64_t> crossing(problem.ops.size() + 1);
  int64_t sum = 0, least = INT64_MAX;
  for (uint32_t i = 0; i <= end; ++i) {
    crossing[i] = sum += change[i];
    if (i > 0 && sum > 0)
      least = std::min(least, sum);
  }
  std::vector<uint32_t> cuts;
  for (uint32_t i = 1; i <= end; ++i)
    if (crossing[i] > 0 && crossing[i] <= least + least / 10 && (cuts.empty() || i > cuts.back() + 1))
      cuts.push_back(i);
  return cuts;
}

std::vector<uint32_t> planning::activationSegments(const Problem &problem, const std::vector<ActivationGroup> &groups) {
  std::vector<uint32_t> cuts = segmentCuts(problem), segments;
  for (const ActivationGroup &group : groups)
    segments.push_back(std::upper_bound(cuts.begin(), cuts.end(), group.op) - cuts.begin());
  return segments;
}

namespace {

/// Which operations run again, and in front of what: a value that is gone is computed where backward first asks for it.
class RecomputePlanner {
public:
  /// `whole`: segments run again as a whole.
  RecomputePlanner(const Problem &problem, const std::vector<bool> &dropped, bool whole)
      : problem(problem), producer(forwardProducers(problem)), gone(dropped), firstRead(problem.values.size(), kNone) {
    if (whole)
      cuts = segmentCuts(problem);
    ranAgain.resize(cuts.size() + 1);
    // What forward made and nobody keeps for backward is gone, too, once forward is over.
    std::vector<bool> inBackward(problem.values.size());
    for (const ProblemOp &op : problem.ops)
      if (op.phase != Phase::Forward || op.kind != OpKind::Compute)
        for (uint32_t operand : op.operands)
          inBackward[operand] = true;
    for (uint32_t v = 0; v < problem.values.size(); ++v)
      if (producer[v] != kNone && !inBackward[v])
        gone[v] = true;
  }

  std::vector<Recompute> run() {
    for (uint32_t i = 0; i < problem.ops.size(); ++i) {
      const ProblemOp &op = problem.ops[i];
      if (op.kind == OpKind::Compute && op.phase != Phase::Forward)
        for (uint32_t operand : op.operands)
          want(operand, i);
    }
    return std::move(list);
  }

  /// First position at which an operation that runs again reads `value`, or kNone.
  uint32_t readAt(uint32_t value) const { return firstRead[value]; }

private:
  void want(uint32_t value, uint32_t before) {
    if (!gone[value])
      return;
    uint32_t op = producer[value];
    size_t segment = std::upper_bound(cuts.begin(), cuts.end(), op) - cuts.begin();
    // What is before the first layer and behind the last one is no layer.
    if (segment == 0 || segment >= cuts.size() || ranAgain[segment])
      return again(op, before);
    ranAgain[segment] = true;
    for (uint32_t i = cuts[segment - 1]; i < cuts[segment]; ++i)
      if (problem.ops[i].kind == OpKind::Compute && problem.ops[i].phase == Phase::Forward)
        again(i, before);
  }

  void again(uint32_t op, uint32_t before) {
    for (uint32_t operand : problem.ops[op].operands) {
      want(operand, before);
      firstRead[operand] = std::min(firstRead[operand], before);
    }
    for (uint32_t result : problem.ops[op].results)
      gone[result] = false;
    list.push_back({op, before});
  }

  const Problem &problem;
  std::vector<uint32_t> producer;
  std::vector<bool> gone;
  std::vector<uint32_t> firstRead, cuts;
  std::vector<bool> ranAgain; ///< by segment
  std::vector<Recompute> list;
};

} // namespace

/// When each operation starts if nothing waits, seconds from the start of forward; one more for the end.
static std::vector<double> startTimes(const Problem &problem, const Machine &machine, const std::vector<Recompute> &recomputes) {
  std::vector<double> starts{0};
  size_t again = 0;
  for (uint32_t i = 0; i < problem.ops.size(); ++i) {
    double seconds = 0;
    for (; again < recomputes.size() && recomputes[again].before <= i; ++again)
      seconds += dispatchSeconds(machine, machine.computeQueue, problem.ops[recomputes[again].op].cost);
    if (problem.ops[i].kind == OpKind::Compute)
      seconds += dispatchSeconds(machine, machine.computeQueue, problem.ops[i].cost);
    starts.push_back(starts.back() + seconds);
  }
  return starts;
}

void planning::placeActivations(Placement &placement, const Problem &problem, const std::vector<ActivationGroup> &groups, const std::vector<ActivationWay> &ways,
                                const Machine &machine, double lead, bool wholeLayers, const std::vector<bool> &flows, FlowWindow weights) {
  std::vector<bool> dropped(problem.values.size());
  for (size_t g = 0; g < groups.size(); ++g)
    if (ways[g] == ActivationWay::Recompute)
      for (const IdleValue &v : groups[g].values)
        dropped[v.value] = true;
  RecomputePlanner planner(problem, dropped, wholeLayers);
  placement.recomputes = planner.run();

  std::vector<IdleValue> away;
  for (size_t g = 0; g < groups.size(); ++g) {
    if (ways[g] != ActivationWay::Offload)
      continue;
    for (IdleValue v : groups[g].values) {
      v.first = std::min(v.first, planner.readAt(v.value));
      if (v.first > v.after + 1)
        away.push_back(v);
    }
  }
  for (const IdleValue &v : away)
    placement.offloads.push_back({v.value, v.after});
  std::sort(away.begin(), away.end(), [](const IdleValue &a, const IdleValue &b) { return std::make_pair(a.first, a.value) < std::make_pair(b.first, b.value); });
  std::vector<Fetch> fetches;
  if (!flows.empty())
    fetches = flowValues(problem, flows, weights, placement.recomputes);
  std::vector<double> starts = startTimes(problem, machine, placement.recomputes);
  double free = starts.back();
  std::vector<uint32_t> issued(away.size());
  for (size_t i = away.size(); i-- > 0;) {
    // The latest start that still meets the deadline, in the order of need; and `lead` copies more.
    double seconds = copySeconds(machine, machine.toCompute, away[i].bytes);
    free = std::min(free, starts[away[i].first]) - seconds;
    double at = free - lead * seconds;
    issued[i] = std::upper_bound(starts.begin(), starts.end() - 1, at) - starts.begin();
    issued[i] = issued[i] > 0 ? issued[i] - 1 : 0;
    // Never before it has left, nor after it is needed.
    issued[i] = std::min(std::max(issued[i], away[i].after + 1), away[i].first);
  }
  for (size_t i = 0; i < away.size(); ++i) {
    Fetch fetch;
    fetch.parts = {{away[i].value, away[i].first, away[i].last}};
    fetch.bytes = away[i].bytes;
    fetch.before = issued[i];
    fetches.push_back(std::move(fetch));
  }
  std::stable_sort(fetches.begin(), fetches.end(), [](const Fetch &a, const Fetch &b) { return a.before < b.before; });
  placement.fetches = std::move(fetches);
}
