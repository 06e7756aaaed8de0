//===- Auto.cpp - The policy that decides by price ------------------------===//
//
// A linear program says which mixture of options the machine could bear at best (Bound.cpp). It is rounded to buckets and layers, realised as a schedule and simulated; a few
// numbers of the rounding are then improved one at a time on the simulator, and last single choices. The other policies are candidates, too, so that none is better.
// docs/algorithms/auto.md.
//
//===----------------------------------------------------------------------===//

#include "PlanSearch.h"
#include "forebay/Planning/Bound.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>

using namespace forebay;
using namespace forebay::planning;

namespace {

/// Numbers of the rounding.
struct Knobs {
  double hostRate = 1, linkRate = 1, memoryRate = 1; ///< machine that the linear program sees: queues cost something
  double hostSpeculation = 1, streamSpeculation = 1;  ///< more or less of it than the program says
  double skew = 0.3;              ///< see roundOff
  double tail = 0.3;              ///< of what is on the device, what forward needs first; the rest is spread
  double device = 0;              ///< more on the device than it says, share of all
  double pace = 0;                ///< share of the fastest rate of the link; 0: none
  double lag = 4, slots = 3, lead = 1;
};

class Search {
public:
  /// The smallest transfer that reaches 95% of both links' best rate; smaller where that leaves few buckets.
  static uint64_t bucketLimit(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) {
    double size = 0;
    if (machine.offloads() && machine.timed())
      for (uint32_t q : {machine.toCompute, machine.toHost}) {
        const Curve &link = machine.queues[q].link;
        const double most = link.most();
        for (const Curve::Point &point : link.points)
          if (point.y >= 0.95 * most) {
            size = std::max(size, point.x);
            break;
          }
      }
    uint64_t bytes = 0;
    for (const TrainedParameter &p : trained)
      bytes += 4 * p.elements;
    uint64_t best = size > 0 ? std::min<uint64_t>(problem.bucketBytes, static_cast<uint64_t>(size)) : problem.bucketBytes;
    return std::max<uint64_t>(std::min(best, bytes / 16), 4096);
  }

  /// `share` of the capacities that live bytes may take, for what packing loses.
  Search(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, double share, const PlanOptions &options)
      : options(options), problem(problem), trained(trained), machine(machine), share(share), space(problem, trained, machine, bucketLimit(problem, trained, machine)), unitOf(space.buckets.size(), ~0u) {
    this->options.speculative = options.speculative && machine.speculation;
    this->options.streamed = options.streamed && problem.accumulate == 1;
    makeUnits();
    left = std::max<size_t>(40'000'000 / (200 * (problem.ops.size() + 4 * space.buckets.size() + 50)), 40);
    small = left >= kSmall;
    left = std::min<size_t>(left, kSmallBudget);
  }

  Placement run() {
    best = space.resident();
    bestCost = space.cost(best, share);
    if (!settle(best, bestCost))
      bestCost.valid = false;
    if (machine.timed()) {
      roundAndImprove();
      improveChoices();
    }
    Placement placement = space.realize(best);
    tell(placement);
    if (machine.timed() && bestCost.excess(machine, 1) == 0)
      placement.worth = worth();
    return placement;
  }

  PlanCost cost() const { return bestCost; }

private:
  static constexpr UpdateWay kWays[] = {UpdateWay::Device, UpdateWay::Host, UpdateWay::HostWaiting, UpdateWay::HostSpeculative, UpdateWay::Streamed, UpdateWay::StreamedSpeculative};
  static constexpr size_t kStarts = 3;
  static constexpr size_t kAll = 1000;         ///< combinations that are all tried
  static constexpr size_t kSmall = 1000;       ///< so many simulations are cheap: a small problem
  static constexpr size_t kSmallBudget = 1500; ///< simulations from each start
  static constexpr size_t kStartBudget = 150;  ///< simulations of changes to each of the plans from which the best starts are taken
  static constexpr size_t kStartsBudget = 4000; ///< to all of them

  bool better(const PlanCost &a, const PlanCost &b) const {
    if (a.valid != b.valid)
      return a.valid;
    uint64_t overA = a.excess(machine, share), overB = b.excess(machine, share);
    if (overA > 0 || overB > 0) // what is over has not been simulated
      return overA < overB;
    return a.seconds < b.seconds * (1 - 1e-6);
  }

  bool offer(const PlanChoices &choices, PlanCost cost) {
    if (!better(cost, bestCost) || !settle(choices, cost) || !better(cost, bestCost))
      return false;
    best = choices;
    bestCost = cost;
    return true;
  }

  /// Buckets that share a parameter are decided together: a parameter has one home.
  void makeUnits() {
    for (uint32_t b = 0; b < space.buckets.size(); ++b) {
      if (unitOf[b] != ~0u)
        continue;
      std::vector<uint32_t> unit{b};
      unitOf[b] = units.size();
      for (size_t i = 0; i < unit.size(); ++i)
        for (const Piece &piece : space.buckets[unit[i]].pieces)
          for (uint32_t other : space.bucketsOf[piece.parameter])
            if (unitOf[other] == ~0u) {
              unitOf[other] = units.size();
              unit.push_back(other);
            }
      double bytes = 0;
      for (uint32_t other : unit)
        bytes += space.buckets[other].bytes;
      units.push_back(std::move(unit));
      unitBytes.push_back(bytes);
    }
  }

  //===--------------------------------------------------------------------===//
  // From the linear program
  //===--------------------------------------------------------------------===//

  /// The rounding for `knobs`, with the memory that the program sees made smaller until the schedule fits.
  PlanCost attempt(const Knobs &knobs, PlanChoices &choices, std::pair<double, double> &reserves) {
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

  PlanChoices roundOff(const Bound &relaxed, const Knobs &knobs) const {
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
    // Weights that flow, evenly among those updated on the host.
    double onHosts = 0;
    credit = 0;
    for (size_t u = 0; u < units.size(); ++u)
      onHosts += onHost(choices.buckets[units[u][0]]) ? unitBytes[u] : 0;
    double flowing = onHosts > 0 ? std::min(relaxed.flows * total / onHosts, 1.0) : 0;
    for (size_t u = 0; u < units.size(); ++u) {
      if (!onHost(choices.buckets[units[u][0]]))
        continue;
      credit += flowing * unitBytes[u];
      if (credit < unitBytes[u] / 2)
        continue;
      credit -= unitBytes[u];
      for (uint32_t b : units[u])
        for (const Piece &piece : space.buckets[b].pieces)
          choices.flows[trained[piece.parameter].argument] = true;
    }
    choices.window = firstWindow();
    choices.copyPace = knobs.pace * machine.queues[machine.toCompute].link.most();
    choices.uploadLag = static_cast<uint32_t>(knobs.lag);
    choices.streamSlots = static_cast<uint32_t>(knobs.slots);
    choices.lead = knobs.lead;
    choices.castOnDevice = !options.narrowMoves;
    return choices;
  }

  /// What leaves first stays away longest: of groups that are alike the first ones go to the host, the last ones stay, those between are computed again.
  void roundActivations(const Bound &relaxed, PlanChoices &choices) const {
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

  /// Either everything that does not cross between layers is computed again, or nothing.
  void wholeLayers(PlanChoices &choices) const {
    choices.wholeLayers = true;
    bool any = std::find(choices.groups.begin(), choices.groups.end(), ActivationWay::Recompute) != choices.groups.end();
    for (size_t g = 0; g < space.groups.size(); ++g)
      if (any)
        choices.groups[g] = !space.crosses[g] ? ActivationWay::Recompute : choices.groups[g] == ActivationWay::Recompute ? ActivationWay::Keep : choices.groups[g];
  }

  void roundAndImprove() {
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

  //===--------------------------------------------------------------------===//
  // Single choices
  //===--------------------------------------------------------------------===//

  /// One thing decided otherwise.
  struct Move {
    enum What : uint8_t { InPlace, Bucket, Group, Flow, Lag, Slots, Lead, Pace, Window, Cast } what;
    uint32_t at = 0;
    double value = 0;
  };

  /// Small problems: all combinations where they are few; else every single change, every pair of changes of what is placed and every three buckets or groups, as long as one helps, from
  /// several starts. Large ones: as many single changes as the budget of simulations allows.
  void improveChoices() {
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

  std::vector<Move> listMoves() const {
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

  static bool isPlace(const Move &move) { return move.what == Move::Bucket || move.what == Move::Group; }
  static bool differ(const Move &a, const Move &b) { return a.what != b.what || a.at != b.at; }

  PlanChoices apply(PlanChoices choices, const Move &move) const {
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

  /// Subject, and what was tried about it.
  std::pair<std::string, std::string> describe(const Move &move) const {
    if (move.what == Move::Bucket)
      return {"bucket " + std::to_string(move.at), nameOf(static_cast<UpdateWay>(move.value))};
    if (move.what == Move::Group)
      return {labelOf(move.at), nameOf(static_cast<ActivationWay>(move.value))};
    return {problem.values[problem.arguments[move.at].value].label, move.what == Move::Flow ? "comes and goes, or not" : "read in place, or not"};
  }

  /// Ways that come to the same in this problem and on this machine under one name, as PlanSpace::realize understands them.
  UpdateWay canonical(UpdateWay way) const {
    if (way == UpdateWay::Device)
      return way;
    if (isSpeculative(way) && !machine.speculation)
      way = way == UpdateWay::HostSpeculative ? UpdateWay::Host : UpdateWay::Streamed;
    if (problem.accumulate > 1)
      way = isSpeculative(way) ? UpdateWay::HostSpeculative : UpdateWay::Host;
    return way;
  }

  /// Takes every change that helps, single ones first, then (`deep`) pairs (what needs room together with what makes it), then three at once. Ends in `at` and `cost`.
  void descend(PlanChoices &at, PlanCost &cost, const std::vector<Move> &moves, bool deep, bool tell) {
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
      if (tell && isNew && single && single->what <= Move::Flow)
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
          if (moves[j].what <= Move::Flow && differ(moves[i], moves[j]))
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

  /// Sets of units that are on the device: all of them where there are few, else those that are complete first or last.
  std::vector<std::vector<bool>> deviceSets() const {
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

  using Start = std::pair<PlanChoices, PlanCost>;

  /// Takes `choices` into the list of the best.
  void consider(PlanChoices choices, std::vector<Start> &list) {
    PlanCost cost = space.cost(choices, share);
    bool full = list.size() == kStarts;
    if (!cost.valid || (full && !better(cost, list.back().second)) || !settle(choices, cost))
      return;
    offer(choices, cost);
    insert({std::move(choices), std::move(cost)}, list);
  }

  void insert(Start start, std::vector<Start> &list) const {
    auto at = std::upper_bound(list.begin(), list.end(), start, [&](const Start &a, const Start &b) { return better(a.second, b.second); });
    list.insert(at, std::move(start));
    if (list.size() > kStarts)
      list.pop_back();
  }

  FlowWindow firstWindow() const { return {std::min<uint64_t>(problem.bucketBytes, 64ull << 20), 2}; }

  /// All on the device, the numbers as the search begins with them.
  PlanChoices plainNumbers() const {
    PlanChoices choices = space.resident();
    choices.window = firstWindow();
    choices.castOnDevice = !options.narrowMoves;
    return choices;
  }

  /// Tries all combinations of ways of buckets and groups and of weights that flow, if there are no more than kAll, and returns the best in `list`.
  bool everything(std::vector<Start> &list) {
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

  /// Buckets first, then groups, then weights; false: `visit` wanted no more.
  template <typename F> bool eachCombination(PlanChoices &choices, size_t at, F &visit) const {
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

  /// For each set of what is on the device and each way of all activations the best of those plans in which the rest and the weights go one way, and from there what changes
  /// of activations reach; of these the best. Only few of the activations may be what has to go, or be computed again, for the set to fit.
  std::vector<Start> starts(const std::vector<Move> &changes) {
    std::vector<Start> list;
    std::vector<Move> moves;
    std::copy_if(changes.begin(), changes.end(), std::back_inserter(moves), [](const Move &move) { return move.what == Move::Group; });
    std::vector<std::vector<bool>> sets = deviceSets();
    for (const std::vector<bool> &device : sets)
      for (ActivationWay group : {ActivationWay::Keep, ActivationWay::Offload, ActivationWay::Recompute}) {
        if ((!options.selective && group != ActivationWay::Keep) || !allowed(group))
          continue;
        std::vector<Start> here;
        for (UpdateWay way : kWays)
          for (bool flow : {false, true}) {
            bool all = std::find(device.begin(), device.end(), false) == device.end(), any = std::find(device.begin(), device.end(), true) != device.end();
            if (all != (way == UpdateWay::Device) || (any && !options.onDevice) || (!all && (!machine.offloads() || !allowed(way))) || (flow && (!onHost(way) || !options.flows)))
              continue;
            PlanChoices choices = plainNumbers();
            for (uint32_t b = 0; b < choices.buckets.size(); ++b)
              choices.buckets[b] = device[unitOf[b]] ? UpdateWay::Device : way;
            choices.groups.assign(choices.groups.size(), group);
            for (const TrainedParameter &p : trained)
              choices.flows[p.argument] = flow;
            consider(std::move(choices), here);
          }
        if (here.empty())
          continue;
        Start start = std::move(here.front());
        left = std::min(kStartBudget, kStartsBudget / (3 * sets.size()));
        descend(start.first, start.second, moves, /*deep=*/true, /*tell=*/false);
        insert(std::move(start), list);
      }
    return list;
  }

  std::string key(const PlanChoices &choices) const {
    std::string text;
    for (UpdateWay way : choices.buckets)
      text += static_cast<char>('0' + static_cast<int>(canonical(way)));
    for (ActivationWay way : choices.groups)
      text += static_cast<char>('0' + static_cast<int>(way));
    for (const std::vector<bool> *flags : {&choices.flows, &choices.inPlace})
      for (bool flag : *flags)
        text += flag ? '1' : '0';
    for (double number : {choices.copyPace, static_cast<double>(choices.uploadLag), static_cast<double>(choices.streamSlots), choices.lead,
                          static_cast<double>(choices.window.unitBytes), static_cast<double>(choices.window.distance), static_cast<double>(choices.castOnDevice)})
      text += " " + std::to_string(number);
    return text;
  }

  /// In small problems, where packing may lose more than the share that is left for it, a plan whose live bytes fit must have addresses, too, and takes as long as its command
  /// table, with the waits for bytes. False if it has none.
  bool settle(const PlanChoices &choices, PlanCost &cost) const {
    if (!small || !cost.valid || cost.excess(machine, share) > 0)
      return true;
    TableCost table = evaluateTable(problem, trained, machine, space.realize(choices));
    if (table.fits && machine.timed())
      cost.seconds = table.seconds;
    return table.fits;
  }

  /// The plan without each of the options that it uses.
  std::vector<OptionWorth> worth() const {
    std::vector<OptionWorth> list;
    auto without = [&](const char *name, auto change) {
      PlanChoices choices = best;
      change(choices);
      if (choices == best)
        return;
      PlanCost cost = space.cost(choices);
      list.push_back({name, cost.valid && cost.excess(machine, 1) == 0 ? cost.seconds : 0});
    };
    auto buckets = [](UpdateWay from, UpdateWay to) {
      return [=](PlanChoices &choices) { std::replace(choices.buckets.begin(), choices.buckets.end(), from, to); };
    };
    auto groups = [](ActivationWay from, ActivationWay to) {
      return [=](PlanChoices &choices) { std::replace(choices.groups.begin(), choices.groups.end(), from, to); };
    };
    without("speculative updates on the host (after the verdict instead)", buckets(UpdateWay::HostSpeculative, UpdateWay::Host));
    without("speculative streamed updates (after the verdict instead)", buckets(UpdateWay::StreamedSpeculative, UpdateWay::Streamed));
    without("streamed state (on the host instead)", [&](PlanChoices &choices) {
      buckets(UpdateWay::Streamed, UpdateWay::Host)(choices);
      buckets(UpdateWay::StreamedSpeculative, UpdateWay::HostSpeculative)(choices);
    });
    without("state on the device (on the host instead)", buckets(UpdateWay::Device, UpdateWay::Host));
    without("gradients that wait on the device", buckets(UpdateWay::HostWaiting, UpdateWay::Host));
    without("offloaded activations (kept instead)", groups(ActivationWay::Offload, ActivationWay::Keep));
    without("offloaded activations (computed again instead)", groups(ActivationWay::Offload, ActivationWay::Recompute));
    without("recomputed activations (kept instead)", groups(ActivationWay::Recompute, ActivationWay::Keep));
    without("weights that flow (kept instead)", [](PlanChoices &choices) { choices.flows.assign(choices.flows.size(), false); });
    without("casts on the host (on the device instead)", [&](PlanChoices &choices) { choices.castOnDevice = hasCasts(); });
    without("pace of copies", [](PlanChoices &choices) { choices.copyPace = 0; });
    return list;
  }

  bool hasCasts() const {
    return std::any_of(trained.begin(), trained.end(), [](const TrainedParameter &p) { return p.castWeight >= 0; });
  }

  bool allowed(ActivationWay way) const { return way != ActivationWay::Offload || (options.offload && machine.offloads()); }

  bool allowed(UpdateWay way) const {
    return (way != UpdateWay::Device || options.onDevice) && (!isStreamed(way) || options.streamed) && (!isSpeculative(way) || options.speculative) &&
           ((way != UpdateWay::Host && way != UpdateWay::HostWaiting) || options.deferred) && way == canonical(way);
  }

  static const char *nameOf(UpdateWay way) {
    static const char *const names[] = {"on the device",  "on the host", "on the host, gradient waits", "on the host, speculative", "streamed",
                                        "streamed, speculative"};
    return names[static_cast<int>(way)];
  }
  static const char *nameOf(ActivationWay way) {
    static const char *const names[] = {"kept", "offloaded", "recomputed"};
    return names[static_cast<int>(way)];
  }
  std::string labelOf(size_t group) const { return problem.values[space.groups[group].values[0].value].label; }

  /// What was decided for each bucket, weight and group of activations, and what was tried instead.
  void tellEach(Placement &placement) const {
    for (size_t b = 0; b < best.buckets.size(); ++b) {
      const Bucket &bucket = space.buckets[b];
      placement.decisions.push_back({"bucket " + std::to_string(b), "Update", true, nameOf(best.buckets[b]),
                                     {{"gradient_bytes", static_cast<int64_t>(bucket.bytes)}, {"complete_at", bucket.completeAt}, {"first_use", bucket.firstUse}}});
    }
    for (size_t g = 0; g < space.groups.size(); ++g)
      placement.decisions.push_back({labelOf(g), "Activation", true, nameOf(best.groups[g]),
                                     {{"bytes", static_cast<int64_t>(space.groups[g].bytes)},
                                      {"recompute_us", static_cast<int64_t>(space.groups[g].seconds * 1e6)},
                                      {"idle_operations", static_cast<int64_t>(space.groups[g].first - space.groups[g].after)}}});
    for (uint32_t a = 0; a < problem.arguments.size(); ++a)
      if (best.flows[a] || best.inPlace[a])
        placement.decisions.push_back({problem.values[problem.arguments[a].value].label, "Weight", true, best.inPlace[a] ? "read in place" : "flows",
                                       {{"bytes", static_cast<int64_t>(problem.values[space.weightOf[a]].bytes)}}});
    for (const auto &[what, outcome] : tried)
      if (!outcome.taken)
        placement.decisions.push_back({what.first, "Tried", false, what.second + (outcome.over > 0 ? ": does not fit" : ": not faster"),
                                       {{"step_us", outcome.us}, {"over_bytes", outcome.over}}});
  }

  void tell(Placement &placement) const {
    tellEach(placement);
    int64_t count[6] = {}, bytes[3] = {};
    for (UpdateWay way : best.buckets)
      ++count[static_cast<int>(way)];
    for (size_t g = 0; g < space.groups.size(); ++g)
      bytes[static_cast<int>(best.groups[g])] += space.groups[g].bytes;
    auto us = static_cast<int64_t>(bestCost.seconds * 1e6);
    placement.decisions.push_back({"buckets", "Placed", true, "fastest plan that was found",
                                   {{"on_device", count[0]}, {"on_host", count[1]}, {"on_host_gradient_waits", count[2]}, {"on_host_speculative", count[3]},
                                    {"streamed", count[4]}, {"streamed_speculative", count[5]}, {"step_us", us}}});
    placement.decisions.push_back({"activations", "Placed", true, "between forward and backward",
                                   {{"kept_bytes", bytes[0]}, {"offloaded_bytes", bytes[1]}, {"recomputed_bytes", bytes[2]}}});
  }

  PlanOptions options;
  const Problem &problem;
  const std::vector<TrainedParameter> &trained;
  const Machine &machine;
  const double share;
  PlanSpace space;
  std::vector<std::vector<uint32_t>> units; ///< of buckets
  std::vector<double> unitBytes;
  std::vector<uint32_t> unitOf;             ///< by bucket
  struct Outcome {
    bool taken;
    int64_t us, over;
  };
  std::map<std::pair<std::string, std::string>, Outcome> tried; ///< single changes, by subject and what
  PlanChoices best;
  PlanCost bestCost;
  size_t left = 0;   ///< simulations of single choices
  bool small = false; ///< enough of them for more than single changes of the rounding
  struct Known {
    PlanCost cost;
    bool settled = false, packs = false; ///< see settle
  };
  std::unordered_map<std::string, Known> known; ///< by key
};

class AutoPolicy : public PlacementPolicy {
public:
  AutoPolicy(const PlanOptions &options, bool compare) : options(options), compare(compare) {}
  const char *name() const override { return "auto"; }
  bool supports(const Machine &, std::string &) const override { return true; }

  Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const override {
    // The plan that was found, with as much room left as packing turns out to need: to fit, and for commands not to wait for bytes that others still use.
    Candidate best;
    for (double share : {0.985, 0.955, 0.9}) {
      Search search(problem, trained, machine, share, options);
      Placement placement = search.run();
      bool over = !search.cost().valid || search.cost().excess(machine, 1) > 0;
      Candidate found = judge(problem, trained, machine, std::move(placement), search.cost());
      bool good = found.fits && found.seconds <= kTableAgrees * found.cost.seconds;
      if (share == 0.985 || (found.fits && (!best.fits || found.seconds < best.seconds)))
        best = std::move(found);
      if (good || over || !machine.timed())
        break;
    }
    // Whatever another policy does better is taken from it. Without rates the first that fits is best; if none fits, the one that needs least says what would do.
    bool decided = (best.fits && !machine.timed()) || !compare;
    for (const std::string &name : policyNames()) {
      std::unique_ptr<PlacementPolicy> policy = findPolicy(name);
      std::string why;
      if (decided || !policy->supports(machine, why))
        continue;
      Placement placement = policy->place(problem, trained, machine);
      PlanCost cost = evaluate(problem, trained, machine, placement);
      // Waits may reorder what shares a channel, so a table may take a little less than its schedule.
      bool hopeless = !cost.valid || (best.fits && machine.timed() && cost.seconds >= 1.01 * best.seconds);
      Candidate other;
      if (!hopeless)
        other = judge(problem, trained, machine, std::move(placement), cost);
      bool wins = !hopeless && (other.fits ? !best.fits || (machine.timed() && other.seconds < best.seconds) : !best.fits && name == "weight-flow");
      best.placement.decisions.push_back({"policy " + name, wins ? "PolicyChosen" : "PolicyRejected", wins,
                                          hopeless ? "is not faster" : other.fits ? "fits" : "does not fit",
                                          {{"step_us", static_cast<int64_t>(cost.seconds * 1e6)}}});
      if (!wins)
        continue;
      std::vector<Decision> decisions = std::move(best.placement.decisions);
      best = std::move(other);
      best.placement.decisions.insert(best.placement.decisions.begin(), decisions.begin(), decisions.end());
      decided = best.fits && !machine.timed();
    }
    return std::move(best.placement);
  }

private:
  struct Candidate {
    Placement placement;
    PlanCost cost;
    bool fits = false;  ///< with addresses
    double seconds = 0; ///< of the command table, with its waits
  };
  PlanOptions options;
  bool compare; ///< with the other policies

  static Candidate judge(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, Placement placement, const PlanCost &cost) {
    Candidate candidate{std::move(placement), cost, false};
    if (!cost.valid || cost.excess(machine, 1) > 0)
      return candidate;
    TableCost table = evaluateTable(problem, trained, machine, candidate.placement);
    candidate.fits = table.fits;
    if (!candidate.fits || !machine.timed())
      return candidate;
    candidate.seconds = table.seconds;
    // What options are worth was simulated without addresses, as `cost` was.
    for (OptionWorth &option : candidate.placement.worth)
      option.seconds *= cost.seconds > 0 ? candidate.seconds / cost.seconds : 1;
    return candidate;
  }
};

} // namespace

uint64_t planning::autoBucketLimit(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) {
  return Search::bucketLimit(problem, trained, machine);
}

std::unique_ptr<PlacementPolicy> planning::makeAuto(const PlanOptions &options, bool compare) { return std::make_unique<AutoPolicy>(options, compare); }
