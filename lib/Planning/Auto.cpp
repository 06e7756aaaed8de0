//===- Auto.cpp - The policy that decides by price ------------------------===//
//
// A linear program says which mixture of options the machine could bear at best (Bound.cpp). It is rounded to buckets and layers, realised as a schedule and simulated; a few
// numbers of the rounding are then improved one at a time on the simulator, and last single choices. The other policies are candidates, too, so that none is better.
// docs/algorithms/auto.md.
//
//===----------------------------------------------------------------------===//

#include "AutoSearch.h"

#include <algorithm>
#include <cstdio>

using namespace forebay;
using namespace forebay::planning;

uint64_t AutoSearch::bucketLimit(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) {
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

AutoSearch::AutoSearch(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine, double share, const PlanOptions &options)
    : options(options), problem(problem), trained(trained), machine(machine), share(share), space(problem, trained, machine, bucketLimit(problem, trained, machine)), unitOf(space.buckets.size(), ~0u) {
  this->options.speculative = options.speculative && machine.speculation;
  this->options.streamed = options.streamed && problem.accumulate == 1;
  makeUnits();
  left = std::max<size_t>(40'000'000 / (200 * (problem.ops.size() + 4 * space.buckets.size() + 50)), 40);
  small = left >= kSmall;
  left = std::min<size_t>(left, kSmallBudget);
}

Placement AutoSearch::run() {
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

bool AutoSearch::better(const PlanCost &a, const PlanCost &b) const {
  if (a.valid != b.valid)
    return a.valid;
  uint64_t overA = a.excess(machine, share), overB = b.excess(machine, share);
  if (overA > 0 || overB > 0) // what is over has not been simulated
    return overA < overB;
  return a.seconds < b.seconds * (1 - 1e-6);
}

bool AutoSearch::offer(const PlanChoices &choices, PlanCost cost) {
  if (!better(cost, bestCost) || !settle(choices, cost) || !better(cost, bestCost))
    return false;
  best = choices;
  bestCost = cost;
  return true;
}

void AutoSearch::makeUnits() {
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

UpdateWay AutoSearch::canonical(UpdateWay way) const {
  if (way == UpdateWay::Device)
    return way;
  if (isSpeculative(way) && !machine.speculation)
    way = way == UpdateWay::HostSpeculative ? UpdateWay::Host : UpdateWay::Streamed;
  if (problem.accumulate > 1)
    way = isSpeculative(way) ? UpdateWay::HostSpeculative : UpdateWay::Host;
  return way;
}

std::vector<OptionWorth> AutoSearch::worth() const {
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
  without("weights cast on their way from the masters (copies flow instead)", [](PlanChoices &choices) { choices.masters.assign(choices.masters.size(), false); });
  without("casts on the host (on the device instead)", [&](PlanChoices &choices) { choices.castOnDevice = hasCasts(); });
  without("pace of copies", [](PlanChoices &choices) { choices.copyPace = 0; });
  return list;
}

const char *AutoSearch::nameOf(UpdateWay way) {
  static const char *const names[] = {"on the device",  "on the host", "on the host, gradient waits", "on the host, speculative", "streamed",
                                      "streamed, speculative"};
  return names[static_cast<int>(way)];
}

const char *AutoSearch::nameOf(ActivationWay way) {
  static const char *const names[] = {"kept", "offloaded", "recomputed"};
  return names[static_cast<int>(way)];
}

void AutoSearch::tellEach(Placement &placement) const {
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
      placement.decisions.push_back({problem.values[problem.arguments[a].value].label, "Weight", true, best.inPlace[a] ? "read in place" : best.masters[a] ? "flows, cast on its way from the master" : "flows",
                                     {{"bytes", static_cast<int64_t>(problem.values[space.weightOf[a]].bytes)}}});
  for (const auto &[what, outcome] : tried)
    if (!outcome.taken)
      placement.decisions.push_back({what.first, "Tried", false, what.second + (outcome.over > 0 ? ": does not fit" : ": not faster"),
                                     {{"step_us", outcome.us}, {"over_bytes", outcome.over}}});
}

void AutoSearch::tell(Placement &placement) const {
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

namespace {

class AutoPolicy : public PlacementPolicy {
public:
  AutoPolicy(const PlanOptions &options, bool compare) : options(options), compare(compare) {}
  const char *name() const override { return "auto"; }
  bool supports(const Machine &, std::string &) const override { return true; }

  Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const override {
    // The plan that was found, with as much room left as packing turns out to need: to fit, and for commands not to wait for bytes that others still use.
    Candidate best;
    for (double share : {0.985, 0.955, 0.9}) {
      AutoSearch search(problem, trained, machine, share, options);
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
    Candidate plain; // the fastest of the policies that fit, the first of equals
    std::string plainName, chosen;
    std::vector<std::pair<std::string, double>> near; // policies that fit and are not much slower, with seconds
    for (const std::string &name : policyNames()) {
      std::unique_ptr<PlacementPolicy> policy = findPolicy(name);
      std::string why;
      if (decided || !policy->supports(machine, why))
        continue;
      Placement placement = policy->place(problem, trained, machine);
      PlanCost cost = evaluate(problem, trained, machine, placement);
      // Waits may reorder what shares a channel, so a table may take a little less than its schedule.
      bool hopeless = !cost.valid || (best.fits && machine.timed() && cost.seconds >= 1.01 * best.seconds / (1 - kLittle));
      Candidate other;
      if (!hopeless)
        other = judge(problem, trained, machine, std::move(placement), cost);
      bool wins = !hopeless && (other.fits ? !best.fits || (machine.timed() && other.seconds < best.seconds) : !best.fits && name == "weight-flow");
      best.placement.decisions.push_back({"policy " + name, wins ? "PolicyChosen" : "PolicyRejected", wins,
                                          hopeless ? "is not faster" : other.fits ? "fits" : "does not fit",
                                          {{"step_us", static_cast<int64_t>(cost.seconds * 1e6)}}});
      if (other.fits && machine.timed())
        near.push_back({name, other.seconds});
      if (other.fits && machine.timed() && (!plain.fits || other.seconds < plain.seconds)) {
        plain = other;
        plainName = name;
      }
      if (!wins)
        continue;
      replace(best, std::move(other));
      chosen = best.fits ? name : "";
      decided = best.fits && !machine.timed();
    }
    if (!chosen.empty() && !machine.timed())
      best.placement.note = "policy " + chosen + "'s plan is taken: the first that fits; the machine has no rates to compare by";
    else if (!chosen.empty())
      best.placement.note = "policy " + chosen + "'s plan is taken: none that is faster was found" + besideSimpler(chosen, best.seconds, near);
    else if (plain.fits && best.seconds > (1 - kLittle) * plain.seconds)
      takePlain(best, std::move(plain), plainName);
    return std::move(best.placement);
  }

private:
  struct Candidate {
    Placement placement;
    PlanCost cost;
    bool fits = false;  ///< with addresses
    double seconds = 0; ///< of the command table, with its waits
  };
  /// Where a plan saves less than this share of a policy's step it is not worth its complexity.
  static constexpr double kLittle = 0.02;

  PlanOptions options;
  bool compare; ///< with the other policies

  /// `best` becomes `other`, and what has been told about it so far stays.
  static void replace(Candidate &best, Candidate other) {
    std::vector<Decision> decisions = std::move(best.placement.decisions);
    best = std::move(other);
    best.placement.decisions.insert(best.placement.decisions.begin(), decisions.begin(), decisions.end());
  }

  static std::string percent(double share) {
    char text[16];
    std::snprintf(text, sizeof text, "%.1f%%", 100 * share);
    return text;
  }

  /// What `chosen` saves beside a simpler policy, if that is little.
  static std::string besideSimpler(const std::string &chosen, double seconds, const std::vector<std::pair<std::string, double>> &near) {
    for (auto &[name, theirs] : near) {
      if (name == chosen)
        break;
      if (seconds > (1 - kLittle) * theirs)
        return ", but there is little to gain: it saves " + percent(1 - seconds / theirs) + " of a step beside policy " + name;
    }
    return "";
  }

  /// There is little to gain. `plain` is no slower than any other policy, so neither is what is taken then.
  static void takePlain(Candidate &best, Candidate plain, const std::string &name) {
    std::string reason = "there is little to gain: the fastest plan that was found saves " + percent(1 - best.seconds / plain.seconds) + " of a step (less than " + percent(kLittle) +
                         ") beside policy " + name + ", whose plan is taken";
    Decision decision{"policy " + name, "PlainPlan", true, reason,
                      {{"step_us", static_cast<int64_t>(plain.seconds * 1e6)}, {"fastest_us", static_cast<int64_t>(best.seconds * 1e6)}}};
    replace(best, std::move(plain));
    best.placement.decisions.push_back(std::move(decision));
    best.placement.note = std::move(reason);
  }

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
  return AutoSearch::bucketLimit(problem, trained, machine);
}

std::unique_ptr<PlacementPolicy> planning::makeAuto(const PlanOptions &options, bool compare) { return std::make_unique<AutoPolicy>(options, compare); }
