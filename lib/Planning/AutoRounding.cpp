//===- AutoRounding.cpp - From the linear program to a plan ---------------===//
//
// Fractions of the program become choices for buckets, activations and weights; a few numbers of this rounding are improved one at a time on the simulator.
//
//===----------------------------------------------------------------------===//

#include "AutoSearch.h"

#include <algorithm>
#include <cmath>

using namespace forebay;
using namespace forebay::planning;

PlanCost AutoSearch::attempt(const Knobs &knobs, PlanChoices &choices, std::pair<double, double> &reserves) {
  PlanCost cost;
  std::pair<double, double> used = reserves;
  for (int round = 0; round < 5; ++round) {
    Machine seen = machine;
    auto reduce = [&](uint32_t s, double reserve) {
      double left = seen.spaces[s].capacity * share - reserve;
      seen.spaces[s].capacity = left > 0 ? static_cast<uint64_t>(left) : 0;
    };
    reduce(machine.computeSpace, reserves.first);
    reduce(machine.hostSpace, reserves.second);
    MachineQueue &cpu = seen.queues[machine.hostQueue];
    cpu.bandwidth *= knobs.hostRate;
    for (double &rate : cpu.classBandwidth)
      rate *= knobs.hostRate;
    for (uint32_t q : {machine.toCompute, machine.toHost})
      for (Curve::Point &point : seen.queues[q].link.points)
        point.y *= knobs.linkRate;
    seen.spaces[machine.hostSpace].bandwidth *= knobs.memoryRate;
    Bound relaxed = relaxedPlan(problem, trained, seen, options);
    if (!relaxed.feasible)
      return cost; // of the round before, if any
    PlanChoices rounded = roundOff(relaxed, knobs);
    PlanCost now = space.cost(rounded, share);
    if (!now.valid)
      return cost;
    if (!cost.valid || better(now, cost)) {
      choices = rounded;
      cost = now;
    }
    double overHbm = static_cast<double>(now.live[machine.computeSpace]) - machine.spaces[machine.computeSpace].capacity * share;
    double overHost = static_cast<double>(now.live[machine.hostSpace]) - machine.spaces[machine.hostSpace].capacity * share;
    auto close = [&](double over, uint32_t s) { return over <= 0 && over > -0.005 * machine.spaces[s].capacity; };
    bool fits = overHbm <= 0 && overHost <= 0;
    if (fits && round > 0 && (close(overHbm, machine.computeSpace) || reserves.first == 0) && (close(overHost, machine.hostSpace) || reserves.second == 0))
      break;
    // Room that is left is given back, but slower.
    auto adjust = [](double reserve, double over) { return std::max(reserve + (over > 0 ? 1.05 * over : 0.7 * over), 0.0); };
    std::pair<double, double> next{adjust(reserves.first, overHbm), adjust(reserves.second, overHost)};
    if (next == reserves)
      break;
    if (fits)
      used = reserves;
    reserves = next;
  }
  if (cost.valid)
    reserves = used;
  return cost;
}

PlanChoices AutoSearch::roundOff(const Bound &relaxed, const Knobs &knobs) const {
  PlanChoices choices = space.resident();
  size_t n = space.buckets.size();
  double total = 0;
  for (const Bucket &bucket : space.buckets)
    total += bucket.bytes;
  // On the device: what forward needs first. Whole parameters only.
  double device = machine.offloads() ? std::min(relaxed.onDevice + knobs.device, 1.0) * total : total, taken = 0;
  std::vector<bool> onDevice(units.size());
  for (size_t u = units.size(); u-- > 0;)
    if (taken + unitBytes[u] <= device * knobs.tail * (1 + 1e-9)) {
      taken += unitBytes[u];
      onDevice[u] = true;
    }
  // The others evenly: their updates run beside forward.
  double share = total > taken ? (device - taken) / (total - taken) : 0, credit = 0;
  for (size_t u = units.size(); u-- > 0;) {
    if (onDevice[u])
      continue;
    credit += share * unitBytes[u];
    if (credit < unitBytes[u] * 0.5 || taken + unitBytes[u] > device * (1 + 1e-9))
      continue;
    credit -= unitBytes[u];
    taken += unitBytes[u];
    onDevice[u] = true;
  }
  // All ways evenly over the layers, so that every engine has work at all times and no stretch of forward waits for one; `skew` speculates more on what is complete
  // first. Each unit takes the way that is owed most.
  double hosted = relaxed.onHost + relaxed.onHostWaiting + relaxed.onHostSpeculative, streamed = relaxed.streamed + relaxed.streamedSpeculative;
  double rest = total - taken, others = std::max(hosted + streamed, 1e-12);
  const UpdateWay ways[] = {UpdateWay::HostSpeculative, UpdateWay::Host, UpdateWay::StreamedSpeculative, UpdateWay::Streamed};
  double hostSpeculative = std::min(relaxed.onHostSpeculative * knobs.hostSpeculation, hosted), streamSpeculative = std::min(relaxed.streamedSpeculative * knobs.streamSpeculation, streamed);
  const double shares[] = {hostSpeculative / others, (hosted - hostSpeculative) / others, streamSpeculative / others, (streamed - streamSpeculative) / others};
  double owed[4] = {}, passed = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    if (onDevice[u])
      continue;
    double middle = rest > 0 ? (passed + unitBytes[u] / 2) / rest : 0, tilt = knobs.skew * (1 - 2 * middle), sum = 0, now[4];
    passed += unitBytes[u];
    for (int w = 0; w < 4; ++w)
      sum += now[w] = shares[w] * std::max(isSpeculative(ways[w]) ? 1 + tilt : 1 - tilt, 0.0);
    int most = 0;
    for (int w = 0; w < 4; ++w) {
      owed[w] += sum > 0 ? unitBytes[u] * now[w] / sum : 0;
      if (owed[w] > owed[most])
        most = w;
    }
    owed[most] -= unitBytes[u];
    for (uint32_t b : units[u])
      choices.buckets[b] = ways[most];
  }
  double waiting = relaxed.onHostWaiting / others * rest;
  // Gradients that wait for the verdict beside the engine: the last ones, which would have the longest way to hide.
  for (size_t b = n; b-- > 0 && waiting > space.buckets[b].bytes / 2;)
    if (choices.buckets[b] == UpdateWay::Host) {
      choices.buckets[b] = UpdateWay::HostWaiting;
      waiting -= space.buckets[b].bytes;
    }
  roundActivations(relaxed, choices);
  if (!options.selective)
    wholeLayers(choices);
  roundFlows(relaxed, choices);
  choices.window = firstWindow();
  choices.copyPace = knobs.pace * machine.queues[machine.toCompute].link.most();
  choices.uploadLag = static_cast<uint32_t>(knobs.lag);
  choices.streamSlots = static_cast<uint32_t>(knobs.slots);
  choices.lead = knobs.lead;
  choices.castOnDevice = !options.narrowMoves;
  return choices;
}

void AutoSearch::roundFlows(const Bound &relaxed, PlanChoices &choices) const {
  double total = 0, hosted = 0, streamed = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    UpdateWay way = choices.buckets[units[u][0]];
    total += unitBytes[u];
    (onHost(way) ? hosted : isStreamed(way) ? streamed : total) += way == UpdateWay::Device ? 0 : unitBytes[u];
  }
  auto shareOf = [&](double fraction, double of) { return of > 0 ? std::min(fraction * total / of, 1.0) : 0; };
  const double narrow = shareOf(relaxed.flows, hosted), cast = shareOf(relaxed.flowsCast, hosted), castStreamed = shareOf(relaxed.flowsCastStreamed, streamed);
  double owedNarrow = 0, owedCast = 0, owedStreamed = 0;
  for (size_t u = 0; u < units.size(); ++u) {
    UpdateWay way = choices.buckets[units[u][0]];
    if (way == UpdateWay::Device)
      continue;
    double *owed = &owedStreamed;
    if (onHost(way)) {
      owedNarrow += narrow * unitBytes[u];
      owedCast += cast * unitBytes[u];
      owed = owedCast > owedNarrow ? &owedCast : &owedNarrow;
    } else {
      owedStreamed += castStreamed * unitBytes[u];
    }
    if (*owed < unitBytes[u] / 2)
      continue;
    *owed -= unitBytes[u];
    for (uint32_t b : units[u])
      for (const Piece &piece : space.buckets[b].pieces) {
        choices.flows[trained[piece.parameter].argument] = true;
        choices.masters[trained[piece.parameter].argument] = owed != &owedNarrow;
      }
  }
}

void AutoSearch::roundActivations(const Bound &relaxed, PlanChoices &choices) const {
  for (const std::vector<uint32_t> &members : activationClasses(space.groups)) {
    double away = 0, again = 0;
    for (uint32_t g : members) {
      away += relaxed.offload[g];
      again += relaxed.recompute[g];
    }
    size_t offloaded = std::lround(away), computed = std::lround(away + again) - offloaded;
    for (size_t i = 0; i < members.size(); ++i)
      choices.groups[members[i]] = i < offloaded ? ActivationWay::Offload : i < offloaded + computed ? ActivationWay::Recompute : ActivationWay::Keep;
  }
}

void AutoSearch::wholeLayers(PlanChoices &choices) const {
  choices.wholeLayers = true;
  bool any = std::find(choices.groups.begin(), choices.groups.end(), ActivationWay::Recompute) != choices.groups.end();
  for (size_t g = 0; g < space.groups.size(); ++g)
    if (any)
      choices.groups[g] = !space.crosses[g] ? ActivationWay::Recompute : choices.groups[g] == ActivationWay::Recompute ? ActivationWay::Keep : choices.groups[g];
}

void AutoSearch::roundAndImprove() {
  Knobs knobs;
  struct Knob {
    double Knobs::*field;
    std::vector<double> values;
  };
  const std::vector<Knob> list{{&Knobs::hostRate, {0.8, 0.9, 1, 1.1}},
                               {&Knobs::memoryRate, {0.8, 0.9, 1, 1.1}},
                               {&Knobs::skew, {-0.3, 0, 0.3, 0.6, 1}},
                               {&Knobs::tail, {0, 0.1, 0.3, 0.6, 1}},
                               {&Knobs::hostSpeculation, {0, 0.5, 0.8, 1, 1.2}},
                               {&Knobs::streamSpeculation, {0, 0.5, 1, 1.5}},
                               {&Knobs::pace, {0, 0.35, 0.5, 0.7}},
                               {&Knobs::linkRate, {0.7, 0.85, 1, 1.15}},
                               {&Knobs::device, {0, 0.02, 0.05, 0.1}},
                               {&Knobs::lead, {0.5, 1, 3, 8}},
                               {&Knobs::lag, {0, 4, 16, 1e6}},
                               {&Knobs::slots, {2, 3, 6}}};
  PlanChoices choices;
  std::pair<double, double> reserves{0, 0};
  PlanCost current = attempt(knobs, choices, reserves);
  if (!current.valid)
    return;
  offer(choices, current);
  for (int round = 0; round < 2; ++round) {
    bool changed = false;
    for (const Knob &knob : list)
      for (double value : knob.values) {
        if (knobs.*knob.field == value)
          continue;
        Knobs tried = knobs;
        tried.*knob.field = value;
        PlanChoices other;
        std::pair<double, double> now = reserves;
        PlanCost cost = attempt(tried, other, now);
        if (!cost.valid || !better(cost, current))
          continue;
        changed = true;
        current = cost;
        knobs = tried;
        reserves = now;
        offer(other, cost);
      }
    if (!changed)
      break;
  }
}
