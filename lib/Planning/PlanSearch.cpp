//===- PlanSearch.cpp - What policies that search share -------------------===//

#include "PlanSearch.h"

#include <algorithm>

using namespace forebay;
using namespace forebay::planning;

uint64_t PlanCost::excess(const Machine &machine, double share) const {
  uint64_t over = 0;
  for (size_t s = 0; s < live.size(); ++s) {
    auto budget = static_cast<uint64_t>(machine.spaces[s].capacity * share);
    over += live[s] > budget ? live[s] - budget : 0;
  }
  return over;
}

PlanCost planning::evaluate(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement,
                            double share) {
  PlanCost cost;
  std::string error;
  Schedule schedule = buildSchedule(problem, trained, machine, placement, error);
  if (!error.empty())
    return cost;
  for (const SpaceLayout &space : estimate(schedule, machine, 2).spaces)
    cost.live.push_back(space.liveBytes);
  if (machine.timed() && (share == 0 || cost.excess(machine, share) == 0)) {
    SimResult result = simulate(modelOf(schedule, machine, problem.accumulate));
    if (!result.stuck.empty())
      return cost;
    cost.seconds = result.stepSeconds;
  }
  cost.valid = true;
  return cost;
}

TableCost planning::evaluateTable(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, const Placement &placement) {
  TableCost cost;
  std::string error;
  Schedule schedule = buildSchedule(problem, trained, machine, placement, error);
  if (!error.empty())
    return cost;
  Layout layout = layOut(schedule, machine);
  cost.fits = layout.fits(machine);
  if (cost.fits && machine.timed())
    cost.seconds = simulate(modelOf(schedule, layout, machine, problem.accumulate)).stepSeconds;
  return cost;
}

bool PlanChoices::operator==(const PlanChoices &o) const {
  return buckets == o.buckets && groups == o.groups && flows == o.flows && masters == o.masters && inPlace == o.inPlace && window.unitBytes == o.window.unitBytes && window.distance == o.window.distance &&
         castOnDevice == o.castOnDevice && undoInPlace == o.undoInPlace && copyPace == o.copyPace && uploadLag == o.uploadLag && streamSlots == o.streamSlots && lead == o.lead &&
         wholeLayers == o.wholeLayers;
}

PlanSpace::PlanSpace(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, uint64_t bucketLimit)
    : problem(problem), trained(trained), machine(machine), buckets(formBuckets(problem, trained, bucketLimit)), groups(activationGroups(problem, machine)),
      segments(activationSegments(problem, groups)), crosses(groups.size()), bucketsOf(trained.size()), gathered(problem.arguments.size()), frozenWeight(problem.arguments.size()),
      weightOf(problem.arguments.size()) {
  for (uint32_t b = 0; b < buckets.size(); ++b)
    for (const Piece &piece : buckets[b].pieces)
      if (bucketsOf[piece.parameter].empty() || bucketsOf[piece.parameter].back() != b)
        bucketsOf[piece.parameter].push_back(b);
  // The segment of an operation is that of the last group at or before it.
  auto segmentOf = [&](uint32_t op) {
    auto it = std::upper_bound(groups.begin(), groups.end(), op, [](uint32_t at, const ActivationGroup &group) { return at < group.op; });
    return it == groups.begin() ? 0 : segments[it - groups.begin() - 1];
  };
  for (size_t g = 0; g < groups.size(); ++g)
    crosses[g] = segmentOf(groups[g].after) > segments[g];
  std::vector<bool> isState(problem.arguments.size()), isTrained(problem.arguments.size());
  for (const TrainedParameter &p : trained) {
    isTrained[p.argument] = true;
    for (uint32_t state : p.states)
      isState[state] = true;
    if (p.accumulator >= 0)
      isState[p.accumulator] = true;
  }
  std::vector<uint32_t> cast(problem.values.size());
  std::vector<bool> read(problem.values.size()), otherwise(problem.values.size());
  for (uint32_t v = 0; v < cast.size(); ++v)
    cast[v] = v;
  for (const ProblemOp &op : problem.ops) {
    if (op.kind == OpKind::CastWeight)
      cast[op.operands[0]] = op.results[0];
    if (op.kind == OpKind::Compute)
      for (uint32_t operand : op.operands) {
        read[operand] = true;
        otherwise[operand] = otherwise[operand] || op.cost.cls != OpClass::Gather;
      }
  }
  for (uint32_t a = 0; a < problem.arguments.size(); ++a) {
    uint32_t value = problem.arguments[a].value;
    weightOf[a] = cast[value];
    gathered[a] = machine.offloads() && read[cast[value]] && !otherwise[cast[value]] && problem.values[value].role == Role::Parameter;
    frozenWeight[a] = !isTrained[a] && !isState[a] && problem.values[value].role != Role::Input && read[cast[value]];
  }
}

PlanChoices PlanSpace::resident() const {
  PlanChoices choices;
  choices.buckets.assign(buckets.size(), UpdateWay::Device);
  choices.groups.assign(groups.size(), ActivationWay::Keep);
  choices.flows.assign(problem.arguments.size(), false);
  choices.masters.assign(problem.arguments.size(), false);
  choices.inPlace.assign(problem.arguments.size(), false);
  return choices;
}

Placement PlanSpace::realize(PlanChoices choices) const {
  Placement placement;
  placement.arguments = inComputeSpace(problem, machine);
  placement.buckets = buckets;
  placement.copyPace = choices.copyPace;
  placement.hold = kToTheEnd;
  placement.undoInPlace = choices.undoInPlace;
  placement.uploadLag = choices.uploadLag;
  placement.streamSlots = choices.streamSlots;
  // A parameter has one home: with one of its buckets on the host all are. Where gradients are summed they have one home, too.
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t p = 0; p < trained.size(); ++p) {
      bool anyHost = false, anyDevice = false;
      for (uint32_t b : bucketsOf[p])
        (choices.buckets[b] == UpdateWay::Device ? anyDevice : anyHost) = true;
      if (!anyHost || !anyDevice)
        continue;
      changed = true;
      for (uint32_t b : bucketsOf[p])
        if (choices.buckets[b] == UpdateWay::Device)
          choices.buckets[b] = UpdateWay::Host;
    }
  }
  if (!machine.speculation)
    for (UpdateWay &way : choices.buckets)
      way = way == UpdateWay::HostSpeculative ? UpdateWay::Host : way == UpdateWay::StreamedSpeculative ? UpdateWay::Streamed : way;
  if (problem.accumulate > 1) // sums are on the host with the state, and nothing is known before the last micro-step
    for (UpdateWay &way : choices.buckets)
      way = way == UpdateWay::Device ? way : isSpeculative(way) ? UpdateWay::HostSpeculative : UpdateWay::Host;

  std::vector<bool> flows(problem.values.size());
  bool any = false;
  auto flow = [&](uint32_t argument, WeightSource source = WeightSource::Flow) {
    placement.arguments[argument] = {machine.hostSpace, source};
    flows[weightOf[argument]] = any = true;
  };
  for (size_t p = 0; p < trained.size(); ++p) {
    const TrainedParameter &t = trained[p];
    if (bucketsOf[p].empty() || choices.buckets[bucketsOf[p][0]] == UpdateWay::Device)
      continue;
    placement.arguments[t.argument] = {machine.hostSpace, t.firstUse < problem.ops.size() ? WeightSource::Copy : WeightSource::Home};
    for (uint32_t state : t.states)
      placement.arguments[state].home = machine.hostSpace;
    if (t.accumulator >= 0)
      placement.arguments[t.accumulator].home = machine.hostSpace;
    bool streams = false;
    for (uint32_t b : bucketsOf[p])
      streams |= isStreamed(choices.buckets[b]);
    // New weights of a streamed update are written beside the engine: they have to live there, or come from the masters.
    bool fromMaster = t.castWeight >= 0 && choices.masters[t.argument];
    if (choices.inPlace[t.argument] && gathered[t.argument] && !streams)
      placement.arguments[t.argument].source = WeightSource::InPlace;
    else if (choices.flows[t.argument] && t.firstUse < problem.ops.size() && (!streams || fromMaster))
      flow(t.argument, fromMaster ? WeightSource::FlowCast : WeightSource::Flow);
  }
  for (uint32_t a = 0; a < problem.arguments.size(); ++a) {
    if (!frozenWeight[a])
      continue;
    if (choices.inPlace[a] && gathered[a])
      placement.arguments[a] = {machine.hostSpace, WeightSource::InPlace};
    else if (choices.flows[a])
      flow(a);
  }

  uint32_t side = machine.sideQueue >= 0 ? machine.sideQueue : machine.computeQueue;
  for (UpdateWay way : choices.buckets) {
    BucketPlacement place;
    place.normOnDevice = problem.accumulate == 1;
    place.castOnDevice = choices.castOnDevice;
    if (isSpeculative(way))
      place.time = UpdateTime::Speculative;
    if (onHost(way)) {
      place.gradientSpace = machine.hostSpace;
      place.updateQueue = machine.hostQueue;
      place.gradientWaits = way == UpdateWay::HostWaiting;
    } else {
      place.gradientSpace = machine.computeSpace;
      place.updateQueue = way == UpdateWay::Device ? side : machine.computeQueue;
      place.streamed = isStreamed(way);
    }
    placement.bucketPlacements.push_back(place);
  }
  placeActivations(placement, problem, groups, choices.groups, machine, choices.lead, choices.wholeLayers, any ? flows : std::vector<bool>(), choices.window);
  return placement;
}
