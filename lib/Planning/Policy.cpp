//===- Policy.cpp - Buckets and placement policies ------------------------===//

#include "Policies.h"
#include "forebay/Planning/Bound.h"

#include <algorithm>
#include <map>

using namespace forebay;
using namespace forebay::planning;

std::vector<Bucket> planning::formBuckets(const Problem &problem, const std::vector<TrainedParameter> &trained, uint64_t limit) {
  std::vector<uint32_t> order(trained.size());
  for (uint32_t i = 0; i < order.size(); ++i)
    order[i] = i;
  std::sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
    return std::make_pair(trained[a].completeAt, a) < std::make_pair(trained[b].completeAt, b);
  });

  const uint64_t block = kNormBlock * 4, piece = std::max(problem.bucketBytes / block * block, block);
  std::vector<Bucket> buckets;
  bool open = false;
  auto add = [&](uint32_t parameter, uint64_t first, uint64_t count) {
    Bucket &bucket = buckets.back();
    const TrainedParameter &p = trained[parameter];
    bucket.firstUse = bucket.pieces.empty() ? p.firstUse : std::min(bucket.firstUse, p.firstUse);
    bucket.pieces.push_back({parameter, first, count});
    bucket.bytes += count * 4;
    bucket.completeAt = std::max(bucket.completeAt, p.completeAt);
  };
  for (uint32_t parameter : order) {
    uint64_t elements = trained[parameter].elements, bytes = elements * 4;
    if (bytes > piece) {
      for (uint64_t first = 0; first < elements; first += piece / 4) {
        buckets.emplace_back();
        add(parameter, first, std::min(piece / 4, elements - first));
      }
      open = false;
      continue;
    }
    if (!open || buckets.back().bytes + bytes > limit)
      buckets.emplace_back();
    open = true;
    add(parameter, 0, elements);
  }
  return buckets;
}

std::vector<ArgumentPlacement> planning::inComputeSpace(const Problem &problem, const Machine &machine) {
  return std::vector<ArgumentPlacement>(problem.arguments.size(), ArgumentPlacement{machine.computeSpace});
}

void planning::stateOnHost(Placement &placement, const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine,
                           WeightSource source) {
  for (const TrainedParameter &p : trained) {
    // Without a reader in forward and backward there is nothing that a copy would serve.
    placement.arguments[p.argument] = {machine.hostSpace, p.firstUse < problem.ops.size() ? source : WeightSource::Home};
    for (uint32_t state : p.states)
      placement.arguments[state].home = machine.hostSpace;
    if (p.accumulator >= 0)
      placement.arguments[p.accumulator].home = machine.hostSpace;
  }
}

void planning::offloadBuckets(Placement &placement, const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine,
                              uint64_t limit) {
  placement.buckets = formBuckets(problem, trained, limit);
  placement.bucketPlacements.assign(placement.buckets.size(), {machine.hostSpace, machine.hostQueue});
  for (size_t i = 0; i < placement.buckets.size(); ++i) {
    const Bucket &bucket = placement.buckets[i];
    int64_t states = 0, up = 0, bytes = bucket.bytes;
    for (const Piece &piece : bucket.pieces) {
      const TrainedParameter &p = trained[piece.parameter];
      states += piece.count * 4 * p.states.size();
      if (placement.arguments[p.argument].source == WeightSource::Copy)
        up += piece.count * 4;
    }
    placement.decisions.push_back({"bucket " + std::to_string(i), "Offloaded", true,
                                   "masters, moments and gradients on " + machine.spaces[machine.hostSpace].name + ", update on " +
                                       machine.queues[machine.hostQueue].name + " after the verdict",
                                   {{"parameters", static_cast<int64_t>(bucket.pieces.size())},
                                    {"gradient_bytes_down", bytes},
                                    {"weight_bytes_up", up},
                                    {"host_bytes", 2 * bytes + states},
                                    {"complete_at", bucket.completeAt},
                                    {"first_use", bucket.firstUse}}});
  }
}

namespace {

/// Everything where the forward and backward run; update there, too.
class ResidentPolicy : public PlacementPolicy {
public:
  const char *name() const override { return "resident"; }
  bool supports(const Machine &, std::string &) const override { return true; }

  Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const override {
    Placement placement;
    placement.arguments = inComputeSpace(problem, machine);
    // One bucket a parameter, unsplit: nothing is copied, so there is nothing to bundle.
    for (uint32_t i = 0; i < trained.size(); ++i) {
      Bucket bucket;
      bucket.pieces = {{i, 0, trained[i].elements}};
      bucket.bytes = trained[i].elements * 4;
      bucket.completeAt = trained[i].completeAt;
      bucket.firstUse = trained[i].firstUse;
      placement.buckets.push_back(std::move(bucket));
    }
    placement.bucketPlacements.assign(placement.buckets.size(), {machine.computeSpace, machine.computeQueue});
    int64_t parameters = 0, states = 0;
    for (const TrainedParameter &p : trained) {
      parameters += p.elements * 4;
      states += p.elements * 4 * p.states.size();
    }
    placement.decisions.push_back({"all parameters", "Kept", true, "policy resident keeps all state in " + machine.spaces[machine.computeSpace].name,
                                   {{"parameter_bytes", parameters}, {"moment_bytes", states}}});
    return placement;
  }
};

/// Masters, moments and fp32 gradients on the host, updated there after the verdict; compute weights beside the GPU.
class ZeroOffloadPolicy : public PlacementPolicy {
public:
  const char *name() const override { return "zero-offload"; }
  bool supports(const Machine &machine, std::string &why) const override {
    why = "a machine with two memory spaces";
    return machine.offloads();
  }

  Placement place(const Problem &problem, const std::vector<TrainedParameter> &trained, const Machine &machine) const override {
    Placement placement;
    placement.arguments = inComputeSpace(problem, machine);
    stateOnHost(placement, problem, trained, machine, WeightSource::Copy);
    offloadBuckets(placement, problem, trained, machine, problem.bucketBytes);
    return placement;
  }
};

} // namespace

/// What plug-ins have brought.
static std::map<std::string, PolicyFactory> &registeredPolicies() {
  static std::map<std::string, PolicyFactory> policies;
  return policies;
}

std::unique_ptr<PlacementPolicy> planning::findPolicy(const std::string &name) {
  if (name == "resident")
    return std::make_unique<ResidentPolicy>();
  if (name == "zero-offload")
    return std::make_unique<ZeroOffloadPolicy>();
  if (name == "weight-flow")
    return makeWeightFlow();
  if (name == "superoffload")
    return makeSuperOffload();
  if (name == "auto")
    return makeAuto();
  auto it = registeredPolicies().find(name);
  return it == registeredPolicies().end() ? nullptr : it->second();
}

bool planning::registerPolicy(const std::string &name, PolicyFactory make) {
  if (name.empty() || findPolicy(name))
    return false;
  registeredPolicies()[name] = std::move(make);
  return true;
}

std::vector<std::string> planning::policyNames() { return {"resident", "zero-offload", "superoffload", "weight-flow"}; }

std::vector<std::string> planning::knownPolicies() {
  std::vector<std::string> names = policyNames();
  names.insert(names.begin(), "auto");
  for (auto &[name, make] : registeredPolicies())
    names.push_back(name);
  return names;
}
