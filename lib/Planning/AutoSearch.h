//===- AutoSearch.h - The search of policy auto -----------------*- C++ -*-===//
//
// From the linear program to a plan (AutoRounding.cpp), then single choices (AutoChoices.cpp), and what small problems can afford beyond that (AutoSmall.cpp). What was decided
// and what options are worth: Auto.cpp. docs/algorithms/auto.md.
//
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_PLANNING_AUTOSEARCH_H
#define FOREBAY_LIB_PLANNING_AUTOSEARCH_H

#include "PlanSearch.h"
#include "forebay/Planning/Bound.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace forebay::planning {

class AutoSearch {
public:
  /// The smallest transfer that reaches 95% of both links' best rate; smaller where that leaves few buckets.
  static uint64_t bucketLimit(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine);

  /// `share` of the capacities that live bytes may take, for what packing loses.
  AutoSearch(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, double share, const PlanOptions &options);

  Placement run();
  PlanCost cost() const { return bestCost; }

private:
  static constexpr UpdateWay kWays[] = {UpdateWay::Device, UpdateWay::Host, UpdateWay::HostWaiting, UpdateWay::HostSpeculative, UpdateWay::Streamed, UpdateWay::StreamedSpeculative};
  static constexpr size_t kStarts = 3;
  static constexpr size_t kAll = 1000;         ///< combinations that are all tried
  static constexpr size_t kSmall = 1000;       ///< so many simulations are cheap: a small problem
  static constexpr size_t kSmallBudget = 1500; ///< simulations from each start
  static constexpr size_t kStartBudget = 150;  ///< simulations of changes to each of the plans from which the best starts are taken
  static constexpr size_t kStartsBudget = 4000; ///< to all of them

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

  /// One thing decided otherwise.
  struct Move {
    enum What : uint8_t { InPlace, Bucket, Group, Flow, Master, Lag, Slots, Lead, Pace, Window, Cast } what;
    uint32_t at = 0;
    double value = 0;
  };

  using Start = std::pair<PlanChoices, PlanCost>;

  bool better(const PlanCost &a, const PlanCost &b) const;
  /// Takes `choices` if they are better than the best so far; true if they were.
  bool offer(const PlanChoices &choices, PlanCost cost);
  /// Buckets that share a parameter are decided together: a parameter has one home.
  void makeUnits();
  /// In small problems, where packing may lose more than the share that is left for it, a plan whose live bytes fit must have addresses, too, and takes as long as its command
  /// table, with the waits for bytes. False if it has none.
  bool settle(const PlanChoices &choices, PlanCost &cost) const;
  bool hasCasts() const {
    return std::any_of(trained.begin(), trained.end(), [](const TrainedParameter &p) { return p.castWeight >= 0; });
  }
  bool allowed(ActivationWay way) const { return way != ActivationWay::Offload || (options.offload && machine.offloads()); }
  bool allowed(UpdateWay way) const {
    return (way != UpdateWay::Device || options.onDevice) && (!isStreamed(way) || options.streamed) && (!isSpeculative(way) || options.speculative) &&
           ((way != UpdateWay::Host && way != UpdateWay::HostWaiting) || options.deferred) && way == canonical(way);
  }
  /// Ways that come to the same in this problem and on this machine under one name, as PlanSpace::realize understands them.
  UpdateWay canonical(UpdateWay way) const;
  FlowWindow firstWindow() const { return {std::min<uint64_t>(problem.bucketBytes, 64ull << 20), 2}; }

  //===--------------------------------------------------------------------===//
  // From the linear program
  //===--------------------------------------------------------------------===//

  /// The rounding for `knobs`, with the memory that the program sees made smaller until the schedule fits.
  PlanCost attempt(const Knobs &knobs, PlanChoices &choices, std::pair<double, double> &reserves);
  PlanChoices roundOff(const Bound &relaxed, const Knobs &knobs) const;
  /// Weights that flow, evenly among those updated on the host and among streamed ones.
  void roundFlows(const Bound &relaxed, PlanChoices &choices) const;
  /// What leaves first stays away longest: of groups that are alike the first ones go to the host, the last ones stay, those between are computed again.
  void roundActivations(const Bound &relaxed, PlanChoices &choices) const;
  /// Either everything that does not cross between layers is computed again, or nothing.
  void wholeLayers(PlanChoices &choices) const;
  void roundAndImprove();

  //===--------------------------------------------------------------------===//
  // Single choices
  //===--------------------------------------------------------------------===//

  /// Small problems: all combinations where they are few; else every single change, every pair of changes of what is placed and every three buckets or groups, as long as one helps, from
  /// several starts. Large ones: as many single changes as the budget of simulations allows.
  void improveChoices();
  std::vector<Move> listMoves() const;
  static bool isPlace(const Move &move) { return move.what == Move::Bucket || move.what == Move::Group; }
  static bool differ(const Move &a, const Move &b) { return a.what != b.what || a.at != b.at; }
  PlanChoices apply(PlanChoices choices, const Move &move) const;
  /// Subject, and what was tried about it.
  std::pair<std::string, std::string> describe(const Move &move) const;
  std::string key(const PlanChoices &choices) const;
  /// Takes every change that helps, single ones first, then (`deep`) pairs (what needs room together with what makes it), then three at once. Ends in `at` and `cost`.
  void descend(PlanChoices &at, PlanCost &cost, const std::vector<Move> &moves, bool deep, bool tell);

  //===--------------------------------------------------------------------===//
  // Small problems
  //===--------------------------------------------------------------------===//

  /// Sets of units that are on the device: all of them where there are few, else those that are complete first or last.
  std::vector<std::vector<bool>> deviceSets() const;
  /// Takes `choices` into the list of the best.
  void consider(PlanChoices choices, std::vector<Start> &list);
  void insert(Start start, std::vector<Start> &list) const;
  /// All on the device, the numbers as the search begins with them.
  PlanChoices plainNumbers() const;
  /// Tries all combinations of ways of buckets and groups and of weights that flow, if there are no more than kAll, and returns the best in `list`.
  bool everything(std::vector<Start> &list);
  /// Buckets first, then groups, then weights; false: `visit` wanted no more.
  template <typename F> bool eachCombination(PlanChoices &choices, size_t at, F &visit) const;
  bool uniformStart(const std::vector<bool> &device, ActivationWay group, bool flow, Start &start);
  /// For each set of what is on the device, each way of all activations, and weights that flow or stay: the best of the plans in which the rest goes one way, and from there what
  /// changes of activations and of the rest reach; of these the best. Only few of the activations or buckets may be what has to go another way for the set to fit.
  std::vector<Start> starts(const std::vector<Move> &changes);

  //===--------------------------------------------------------------------===//
  // Answers
  //===--------------------------------------------------------------------===//

  /// The plan without each of the options that it uses.
  std::vector<OptionWorth> worth() const;
  static const char *nameOf(UpdateWay way);
  static const char *nameOf(ActivationWay way);
  std::string labelOf(size_t group) const { return problem.values[space.groups[group].values[0].value].label; }
  /// What was decided for each bucket, weight and group of activations, and what was tried instead.
  void tellEach(Placement &placement) const;
  void tell(Placement &placement) const;

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

} // namespace forebay::planning

#endif
