//===- SuperOffload.cpp - The paper's policy ------------------------------===//
//
// SuperOffload (arXiv 2509.21271): buckets of 64 MB in the order of backward (4.3), fp32 moves with casts on the GPU (4.5), speculative updates on the CPU during
// backward (4.4), the last n buckets on the GPU by its inequality 4-5 and the best n found by search, weights stationary or flowing (4.2), all layers computed again
// as a whole or none. Two things are ours because the paper's are not exact or not said: speculation goes to shadow buffers as far as the host's memory allows (the paper undoes in
// place), the rest is updated after the verdict; and of the variants that fit the one that simulates fastest is taken, by its command table where that waits for bytes.
//
//===----------------------------------------------------------------------===//

#include "PlanSearch.h"

#include <algorithm>

using namespace forebay;
using namespace forebay::planning;

namespace {

constexpr uint64_t kBucket = 64ull << 20;

class Search {
public:
  /// `share` of the capacities that live bytes may take, for what packing loses.
  Search(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, bool undoInPlace, double share)
      : machine(machine), space(problem, trained, machine, std::min(kBucket, problem.bucketBytes)), undoInPlace(undoInPlace), share(share) {}

  Placement run() {
    bool found = false;
    for (bool flow : {false, true}) {
      // Flowing pays where a layer computes longer than its weights take: the paper asks for an efficiency of half (eq. 1-3).
      if (flow && (found || efficiency() < 0.5))
        break;
      for (int stride : {0, 1, 2}) { // layers between what is kept; 0: nothing is computed again
        if (stride > 0 && space.groups.empty())
          continue;
        PlanChoices choices = base(flow, stride);
        found |= tryTails(choices, stride);
      }
    }
    Placement placement = space.realize(best);
    placement.decisions = std::move(decisions);
    tell(placement);
    return placement;
  }

  /// Whether live bytes of what was found fit, and seconds of its schedule.
  bool fits() const { return bestFits; }
  double seconds() const { return bestSeconds; }

private:
  /// Time of forward over the same plus the time in which the weights come (paper, 4.2).
  double efficiency() const {
    double compute = 0, bytes = 0;
    for (const ProblemOp &op : space.problem.ops)
      if (op.kind == OpKind::Compute && op.phase == Phase::Forward)
        compute += dispatchSeconds(machine, machine.computeQueue, op.cost);
    for (const TrainedParameter &p : space.trained)
      bytes += space.problem.values[p.weight].bytes;
    double rate = machine.queues[machine.toCompute].link.at(kBucket);
    return rate > 0 && compute > 0 ? compute / (compute + bytes / rate) : 0;
  }

  PlanChoices base(bool flow, int stride) const {
    PlanChoices choices = space.resident();
    choices.undoInPlace = undoInPlace;
    choices.castOnDevice = true;
    choices.uploadLag = 1;
    choices.buckets.assign(space.buckets.size(), UpdateWay::HostSpeculative);
    if (flow) {
      for (const TrainedParameter &p : space.trained)
        choices.flows[p.argument] = true;
      for (size_t a = 0; a < space.frozenWeight.size(); ++a)
        choices.flows[a] = choices.flows[a] || space.frozenWeight[a];
      choices.window = {kBucket, 2};
    }
    choices.wholeLayers = stride > 0;
    if (stride > 0)
      for (size_t g = 0; g < space.groups.size(); ++g)
        choices.groups[g] = space.crosses[g] && space.segments[g] % stride == 0 ? ActivationWay::Keep : ActivationWay::Recompute;
    return choices;
  }

  void setTail(PlanChoices &choices, size_t n) const {
    size_t total = choices.buckets.size();
    for (size_t b = 0; b < total; ++b)
      if (b + n >= total)
        choices.buckets[b] = UpdateWay::Device;
    // A parameter has one home: what its other buckets hold comes along.
    for (size_t p = 0; p < space.trained.size(); ++p) {
      bool any = false;
      for (uint32_t b : space.bucketsOf[p])
        any |= choices.buckets[b] == UpdateWay::Device;
      for (uint32_t b : space.bucketsOf[p])
        if (any)
          choices.buckets[b] = UpdateWay::Device;
    }
  }

  /// Shadows take as much again as the state: as many of the last-finished buckets as the host has no room for wait for the verdict.
  PlanCost fitSpeculation(PlanChoices &choices) const {
    PlanCost cost = space.cost(choices);
    while (cost.valid && cost.excess(machine, share) > 0) {
      uint64_t host = cost.live[machine.hostSpace], capacity = static_cast<uint64_t>(machine.spaces[machine.hostSpace].capacity * share);
      if (host <= capacity)
        break;
      uint64_t over = host - capacity, freed = 0;
      bool changed = false;
      for (size_t b = choices.buckets.size(); b-- > 0 && freed < over;)
        if (choices.buckets[b] == UpdateWay::HostSpeculative) {
          for (uint32_t other : space.bucketsOf[space.buckets[b].pieces[0].parameter])
            if (choices.buckets[other] == UpdateWay::HostSpeculative) {
              choices.buckets[other] = UpdateWay::Host;
              freed += 3 * space.buckets[other].bytes;
            }
          changed = true;
        }
      if (!changed)
        break;
      cost = space.cost(choices);
    }
    return cost;
  }

  /// Best n by search, from none upwards; true if any fits.
  bool tryTails(const PlanChoices &start, int stride) {
    size_t total = start.buckets.size();
    double bestHere = 0;
    size_t bestTail = 0;
    bool fits = false;
    auto attempt = [&](size_t n) {
      PlanChoices choices = start;
      setTail(choices, n);
      PlanCost cost = fitSpeculation(choices);
      bool good = cost.valid && cost.excess(machine, share) == 0;
      if (!anything || (good && (!bestFits || cost.seconds < bestSeconds)) || (!good && !bestFits && cost.excess(machine, share) < bestExcess)) {
        anything = true;
        best = choices;
        bestFits = good;
        bestSeconds = cost.seconds;
        bestExcess = cost.excess(machine, share);
      }
      if (good && (!fits || cost.seconds < bestHere)) {
        bestHere = cost.seconds;
        bestTail = n;
      }
      fits |= good;
      return good;
    };
    for (size_t n = 0; n <= total; n = n < 4 ? n + 1 : n + (n + 1) / 2)
      if (!attempt(n) && n > 0 && fits)
        break;
    // Between the neighbours of the best of these.
    size_t step = std::max<size_t>(bestTail / 6, 1);
    for (size_t n = bestTail > 2 * step ? bestTail - 2 * step : 1; fits && bestTail > 4 && n <= std::min(bestTail + 2 * step, total); n += step)
      attempt(n);
    decisions.push_back({"layers", stride ? "Recomputed" : "Kept", fits, stride ? "all are computed again in backward" : "no layer is computed again",
                         {{"every", stride}, {"tail_buckets", static_cast<int64_t>(bestTail)}, {"step_us", static_cast<int64_t>(bestHere * 1e6)}}});
    return fits;
  }

  void tell(Placement &placement) const {
    int64_t speculative = 0, after = 0, device = 0;
    for (const BucketPlacement &bucket : placement.bucketPlacements)
      (bucket.gradientSpace == machine.computeSpace ? device : bucket.time == UpdateTime::Speculative ? speculative : after) += 1;
    placement.decisions.push_back({"buckets", "Placed", true, "64 MB, fp32 moves and casts on the compute engine, the last ones updated there",
                                   {{"speculative", speculative}, {"after_verdict", after}, {"on_device", device}, {"step_us", static_cast<int64_t>(bestSeconds * 1e6)}}});
  }

  const Machine &machine;
  PlanSpace space;
  bool undoInPlace;
  double share;
  PlanChoices best;
  double bestSeconds = 0;
  uint64_t bestExcess = 0;
  bool anything = false, bestFits = false;
  std::vector<Decision> decisions;
};

class SuperOffloadPolicy : public PlacementPolicy {
public:
  explicit SuperOffloadPolicy(bool undoInPlace) : undoInPlace(undoInPlace) {}
  const char *name() const override { return "superoffload"; }
  bool supports(const Machine &machine, std::string &why) const override {
    why = machine.offloads() ? "a machine with rates" : "a machine with two memory spaces";
    return machine.offloads() && machine.timed();
  }
  Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const override {
    // With as much room left as packing turns out to need: to fit, and for commands not to wait for bytes that others still use.
    Placement placement;
    TableCost best;
    for (double share : {1., 0.985, 0.955}) {
      Search search(problem, trained, machine, undoInPlace, share);
      Placement found = search.run();
      TableCost table;
      if (search.fits())
        table = evaluateTable(problem, trained, machine, found);
      if (share == 1 || (table.fits && (!best.fits || table.seconds < best.seconds))) {
        placement = std::move(found);
        best = table;
      }
      if (!search.fits() || (table.fits && table.seconds <= kTableAgrees * search.seconds()))
        break;
    }
    return placement;
  }

private:
  bool undoInPlace;
};

} // namespace

std::unique_ptr<PlacementPolicy> planning::makeSuperOffload(bool undoInPlace) { return std::make_unique<SuperOffloadPolicy>(undoInPlace); }
