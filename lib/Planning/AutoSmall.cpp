//===- AutoSmall.cpp - What small problems can afford ---------------------===//
//
// All combinations where they are few, else starts that differ in what is on the device; and plans count only with addresses and by the time of their command table.
//
//===----------------------------------------------------------------------===//

#include "AutoSearch.h"

#include <algorithm>

using namespace forebay;
using namespace forebay::planning;

bool AutoSearch::settle(const PlanChoices &choices, PlanCost &cost) const {
  if (!small || !cost.valid || cost.excess(machine, share) > 0)
    return true;
  TableCost table = evaluateTable(problem, trained, machine, space.realize(choices));
  if (table.fits && machine.timed())
    cost.seconds = table.seconds;
  return table.fits;
}

PlanChoices AutoSearch::plainNumbers() const {
  PlanChoices choices = space.resident();
  choices.window = firstWindow();
  choices.castOnDevice = !options.narrowMoves;
  return choices;
}

void AutoSearch::consider(PlanChoices choices, std::vector<Start> &list) {
  PlanCost cost = space.cost(choices, share);
  bool full = list.size() == kStarts;
  if (!cost.valid || (full && !better(cost, list.back().second)) || !settle(choices, cost))
    return;
  offer(choices, cost);
  insert({std::move(choices), std::move(cost)}, list);
}

void AutoSearch::insert(Start start, std::vector<Start> &list) const {
  auto at = std::upper_bound(list.begin(), list.end(), start, [&](const Start &a, const Start &b) { return better(a.second, b.second); });
  list.insert(at, std::move(start));
  if (list.size() > kStarts)
    list.pop_back();
}

bool AutoSearch::everything(std::vector<Start> &list) {
  if (!options.selective)
    return false;
  PlanChoices choices = plainNumbers();
  size_t count = 0;
  auto counted = [&] { return ++count <= kAll; };
  if (!eachCombination(choices, 0, counted))
    return false;
  auto tried = [&] {
    consider(choices, list);
    return true;
  };
  eachCombination(choices, 0, tried);
  return true;
}

template <typename F> bool AutoSearch::eachCombination(PlanChoices &choices, size_t at, F &visit) const {
  const size_t buckets = choices.buckets.size(), groups = choices.groups.size();
  if (at < buckets) {
    for (UpdateWay way : kWays) {
      // All buckets of a unit are on the device, or none.
      uint32_t first = units[unitOf[at]][0];
      if (!allowed(way) || (way != UpdateWay::Device && !machine.offloads()) || (first < at && (choices.buckets[first] == UpdateWay::Device) != (way == UpdateWay::Device)))
        continue;
      choices.buckets[at] = way;
      if (!eachCombination(choices, at + 1, visit))
        return false;
    }
    return true;
  }
  if (at < buckets + groups) {
    for (ActivationWay way : {ActivationWay::Keep, ActivationWay::Offload, ActivationWay::Recompute}) {
      if (!allowed(way))
        continue;
      choices.groups[at - buckets] = way;
      if (!eachCombination(choices, at + 1, visit))
        return false;
    }
    return true;
  }
  size_t p = at - buckets - groups;
  if (p == trained.size())
    return visit();
  bool may = options.flows;
  for (uint32_t b : space.bucketsOf[p])
    may &= onHost(choices.buckets[b]);
  bool going = true;
  for (int flows = 0; flows <= may && going; ++flows) {
    choices.flows[trained[p].argument] = flows;
    going = eachCombination(choices, at + 1, visit);
  }
  choices.flows[trained[p].argument] = false;
  return going;
}

std::vector<std::vector<bool>> AutoSearch::deviceSets() const {
  size_t n = units.size();
  std::vector<std::vector<bool>> sets;
  if (n <= 5) {
    for (uint32_t bits = 0; bits < (1u << n); ++bits) {
      sets.emplace_back(n);
      for (size_t u = 0; u < n; ++u)
        sets.back()[u] = bits >> u & 1;
    }
  } else {
    for (size_t k = 0; k <= n; ++k) {
      sets.emplace_back(n);
      std::fill_n(sets.back().begin(), k, true);
      sets.emplace_back(n);
      std::fill_n(sets.back().rbegin(), k, true);
    }
  }
  return sets;
}

/// The best of the plans in which `device` is on the device, all activations go one way, and the rest goes one way, with weights that flow or not.
bool AutoSearch::uniformStart(const std::vector<bool> &device, ActivationWay group, bool flow, Start &start) {
  const bool all = std::find(device.begin(), device.end(), false) == device.end(), any = std::find(device.begin(), device.end(), true) != device.end();
  if ((any && !options.onDevice) || (!all && !machine.offloads()) || (flow && !options.flows))
    return false;
  std::vector<Start> list;
  for (UpdateWay way : kWays) {
    if (all != (way == UpdateWay::Device) || (!all && !allowed(way)) || (flow && !onHost(way)))
      continue;
    PlanChoices choices = plainNumbers();
    for (uint32_t b = 0; b < choices.buckets.size(); ++b)
      choices.buckets[b] = device[unitOf[b]] ? UpdateWay::Device : way;
    choices.groups.assign(choices.groups.size(), group);
    for (const TrainedParameter &p : trained)
      choices.flows[p.argument] = flow;
    consider(std::move(choices), list);
  }
  if (list.empty())
    return false;
  start = std::move(list.front());
  return true;
}

std::vector<AutoSearch::Start> AutoSearch::starts(const std::vector<Move> &changes) {
  std::vector<Start> list;
  std::vector<std::vector<bool>> sets = deviceSets();
  for (const std::vector<bool> &device : sets) {
    std::vector<Move> moves;
    std::copy_if(changes.begin(), changes.end(), std::back_inserter(moves), [&](const Move &move) {
      return move.what == Move::Group || (move.what == Move::Bucket && !device[unitOf[move.at]] && static_cast<UpdateWay>(move.value) != UpdateWay::Device);
    });
    for (ActivationWay group : {ActivationWay::Keep, ActivationWay::Offload, ActivationWay::Recompute})
      for (bool flow : {false, true}) {
        Start start;
        if ((!options.selective && group != ActivationWay::Keep) || !allowed(group) || !uniformStart(device, group, flow, start))
          continue;
        left = std::min(kStartBudget, kStartsBudget / (3 * sets.size()));
        descend(start.first, start.second, moves, /*deep=*/true, /*tell=*/false);
        insert(std::move(start), list);
      }
  }
  return list;
}
