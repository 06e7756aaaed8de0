//===- AutoChoices.cpp - Single choices of policy auto --------------------===//
//
// Everything that can be decided otherwise is tried on the simulator, alone and, in small problems, two or three together.
//
//===----------------------------------------------------------------------===//

#include "AutoSearch.h"

#include <algorithm>

using namespace forebay;
using namespace forebay::planning;

void AutoSearch::improveChoices() {
  std::vector<Move> moves = listMoves();
  PlanChoices choices = best;
  PlanCost cost = bestCost;
  descend(choices, cost, moves, /*deep=*/small, /*tell=*/true);
  if (!small)
    return;
  std::vector<Start> from;
  if (!everything(from))
    from = starts(moves);
  for (auto &[choices, cost] : from) {
    left = kSmallBudget;
    descend(choices, cost, moves, /*deep=*/true, /*tell=*/false);
  }
}

std::vector<AutoSearch::Move> AutoSearch::listMoves() const {
  std::vector<Move> moves;
  // What only rows are read of may stay on the host.
  for (uint32_t a = 0; a < problem.arguments.size(); ++a)
    if (space.gathered[a] && options.flows)
      moves.push_back({Move::InPlace, a});
  if (machine.offloads())
    for (uint32_t b = 0; b < space.buckets.size(); ++b)
      for (UpdateWay way : kWays)
        if (allowed(way))
          moves.push_back({Move::Bucket, b, static_cast<double>(way)});
  for (uint32_t g = 0; g < space.groups.size() && options.selective; ++g)
    for (ActivationWay way : {ActivationWay::Keep, ActivationWay::Offload, ActivationWay::Recompute})
      if (allowed(way))
        moves.push_back({Move::Group, g, static_cast<double>(way)});
  if (!small || !machine.offloads())
    return moves;
  for (uint32_t p = 0; p < trained.size() && options.flows; ++p)
    moves.push_back({Move::Flow, trained[p].argument, 0});
  for (uint32_t p = 0; p < trained.size() && options.flows && options.masters; ++p)
    if (trained[p].castWeight >= 0)
      moves.push_back({Move::Master, trained[p].argument, 0});
  for (double lag : {0, 1, 4, 16})
    moves.push_back({Move::Lag, 0, lag});
  for (double slots : {1, 2, 3, 6})
    moves.push_back({Move::Slots, 0, slots});
  for (double lead : {0, 1, 3, 8})
    moves.push_back({Move::Lead, 0, lead});
  for (double pace : {0., 0.35, 0.5, 0.7})
    moves.push_back({Move::Pace, 0, pace});
  for (double distance : {1, 2, 4})
    moves.push_back({Move::Window, 0, distance});
  if (options.narrowMoves)
    moves.push_back({Move::Cast, 0, 0});
  return moves;
}

PlanChoices AutoSearch::apply(PlanChoices choices, const Move &move) const {
  switch (move.what) {
  case Move::InPlace:
    choices.inPlace[move.at] = !choices.inPlace[move.at];
    break;
  case Move::Bucket: {
    auto way = static_cast<UpdateWay>(move.value);
    std::vector<UpdateWay> before = choices.buckets;
    for (uint32_t other : units[unitOf[move.at]])
      if (other == move.at || way == UpdateWay::Device || before[other] == UpdateWay::Device)
        choices.buckets[other] = way;
    break;
  }
  case Move::Group:
    choices.groups[move.at] = static_cast<ActivationWay>(move.value);
    break;
  case Move::Flow:
    choices.flows[move.at] = !choices.flows[move.at];
    break;
  case Move::Master: // what stays begins to flow
    choices.masters[move.at] = !choices.masters[move.at] || !choices.flows[move.at];
    choices.flows[move.at] = true;
    break;
  case Move::Lag:
    choices.uploadLag = static_cast<uint32_t>(move.value);
    break;
  case Move::Slots:
    choices.streamSlots = static_cast<uint32_t>(move.value);
    break;
  case Move::Lead:
    choices.lead = move.value;
    break;
  case Move::Pace:
    choices.copyPace = move.value * machine.queues[machine.toCompute].link.most();
    break;
  case Move::Window:
    choices.window.distance = static_cast<uint32_t>(move.value);
    break;
  case Move::Cast:
    choices.castOnDevice = !choices.castOnDevice;
    break;
  }
  return choices;
}

std::pair<std::string, std::string> AutoSearch::describe(const Move &move) const {
  if (move.what == Move::Bucket)
    return {"bucket " + std::to_string(move.at), nameOf(static_cast<UpdateWay>(move.value))};
  if (move.what == Move::Group)
    return {labelOf(move.at), nameOf(static_cast<ActivationWay>(move.value))};
  return {problem.values[problem.arguments[move.at].value].label, move.what == Move::Flow ? "comes and goes, or not" : move.what == Move::Master ? "cast on its way from the master, or not" : "read in place, or not"};
}

std::string AutoSearch::key(const PlanChoices &choices) const {
  std::string text;
  for (UpdateWay way : choices.buckets)
    text += static_cast<char>('0' + static_cast<int>(canonical(way)));
  for (ActivationWay way : choices.groups)
    text += static_cast<char>('0' + static_cast<int>(way));
  for (const std::vector<bool> *flags : {&choices.flows, &choices.masters, &choices.inPlace})
    for (bool flag : *flags)
      text += flag ? '1' : '0';
  for (double number : {choices.copyPace, static_cast<double>(choices.uploadLag), static_cast<double>(choices.streamSlots), choices.lead,
                        static_cast<double>(choices.window.unitBytes), static_cast<double>(choices.window.distance), static_cast<double>(choices.castOnDevice)})
    text += " " + std::to_string(number);
  return text;
}

void AutoSearch::descend(PlanChoices &at, PlanCost &cost, const std::vector<Move> &moves, bool deep, bool tell) {
  auto attempt = [&](PlanChoices &&choices, const Move *single = nullptr) {
    if (left == 0 || choices == at)
      return false;
    auto [it, isNew] = known.try_emplace(key(choices));
    Known &now = it->second;
    if (isNew) {
      --left;
      now.cost = space.cost(choices, share);
    }
    bool taken = better(now.cost, cost);
    if (taken && !now.settled) {
      now.settled = true;
      now.packs = settle(choices, now.cost);
    }
    taken = taken && now.packs && better(now.cost, cost);
    if (tell && isNew && single && single->what <= Move::Master)
      tried[describe(*single)] = {taken, static_cast<int64_t>(now.cost.seconds * 1e6), static_cast<int64_t>(now.cost.valid ? now.cost.excess(machine, share) : 0)};
    if (!taken)
      return false;
    at = std::move(choices);
    cost = now.cost;
    offer(at, cost);
    return true;
  };
  for (bool changed = true; changed && left > 0;) {
    changed = false;
    for (const Move &move : moves)
      changed |= attempt(apply(at, move), &move);
    for (size_t i = 0; deep && i < moves.size() && !changed && left > 0; ++i)
      for (size_t j = i + 1; j < moves.size() && !changed && left > 0; ++j)
        if (moves[j].what <= Move::Master && differ(moves[i], moves[j]))
          changed = attempt(apply(apply(at, moves[i]), moves[j]));
    // Three: two that leave make room for one that stays. First of one kind.
    for (bool mixed : {false, true})
      for (size_t i = 0; deep && i < moves.size() && !changed && left > 0; ++i)
        for (size_t j = i + 1; j < moves.size() && !changed && left > 0; ++j)
          for (size_t k = j + 1; k < moves.size() && !changed && left > 0; ++k)
            if (isPlace(moves[i]) && isPlace(moves[k]) && differ(moves[i], moves[j]) && differ(moves[j], moves[k]) && mixed == (moves[i].what != moves[k].what))
              changed = attempt(apply(apply(apply(at, moves[i]), moves[j]), moves[k]));
  }
}
