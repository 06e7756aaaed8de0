//===- PaperSystems.cpp - The systems of the SuperOffload paper -----------===//

#include "PaperSystems.h"

#include "forebay/Planning/Machine.h"

#include <algorithm>
#include <set>

using namespace forebay;
using namespace forebay::bench;
using namespace forebay::planning;

namespace {

/// Parameters of a group before repartitioning: `reduce_bucket_size` and
/// `sub_group_size` of the artifact (prism.json).
constexpr uint64_t kGroupParameters = 600000000;
/// AdamW reads p, g, m, v and writes p, m, v in fp32.
constexpr double kOptimizerBytes = 28;

/// Operations [first, last] of one layer in either direction.
struct LayerOps {
  uint32_t forward[2], backward[2];
};

bool startsWith(const std::string &text, const char *prefix) {
  return text.rfind(prefix, 0) == 0;
}

std::vector<LayerOps> layersOf(const Problem &problem) {
  std::vector<LayerOps> layers;
  size_t next = 0;
  for (uint32_t i = 0; i < problem.ops.size(); ++i) {
    const ProblemOp &op = problem.ops[i];
    if (op.kind != OpKind::Compute)
      continue;
    if (startsWith(op.label, "norm1.")) {
      layers.push_back({{i, i}, {0, 0}});
      next = layers.size();
    } else if (startsWith(op.label, "residual2.")) {
      layers.back().forward[1] = i;
    } else if (startsWith(op.label, "residual2 d.")) {
      layers[--next].backward[0] = i;
    } else if (startsWith(op.label, "norm1 d.")) {
      layers[next].backward[1] = i;
    }
  }
  return layers;
}

} // namespace

const std::vector<OptimizerTime> &bench::optimizerTimes() {
  static const std::vector<OptimizerTime> times = {{1e9, 0.289, 0.098, 0.082},
                                                   {2e9, 0.531, 0.198, 0.160},
                                                   {4e9, 0.958, 0.393, 0.316},
                                                   {8e9, 1.834, 0.769, 0.608}};
  return times;
}

const std::vector<CastTime> &bench::castTimes() {
  static const std::vector<CastTime> times = {
      {16e6, 1.19e-3, 0.25e-3},   {32e6, 1.63e-3, 0.47e-3},
      {64e6, 2.75e-3, 0.92e-3},   {128e6, 5.05e-3, 1.81e-3},
      {256e6, 18.1e-3, 5.73e-3},  {512e6, 27.4e-3, 8.31e-3},
      {1024e6, 40.2e-3, 16.8e-3}, {2048e6, 62.9e-3, 33.1e-3}};
  return times;
}

Machine bench::practised(const Machine &machine, const Techniques &techniques) {
  Machine result = machine;
  MachineQueue &host = result.queues[result.hostQueue];
  if (!techniques.graceAdam) {
    double ratio = 0;
    for (const OptimizerTime &time : optimizerTimes())
      ratio += time.cpuAdam / time.graceAdam / optimizerTimes().size();
    double &bandwidth =
        host.classBandwidth[static_cast<unsigned>(OpClass::Optimizer)];
    bandwidth = (bandwidth > 0 ? bandwidth : host.bandwidth) / ratio;
  }
  if (!techniques.repartitioned) {
    // One queue for both: an update and a return exclude each other.
    result.toCompute = result.hostQueue;
    host.link.points.clear();
    for (const CastTime &time : castTimes()) {
      double bytes = techniques.castOnDevice ? time.bytes : time.bytes / 2;
      host.link.points.push_back(
          {bytes,
           bytes / (techniques.castOnDevice ? time.onDevice : time.onHost)});
    }
    host.compute =
        false; // for its copies; its updates find their rates all the same
  }
  return result;
}

std::vector<Recompute> bench::recomputeLayers(const Problem &problem) {
  std::vector<Recompute> list;
  std::vector<LayerOps> layers = layersOf(problem);
  for (size_t l = layers.size(); l-- > 0;)
    for (uint32_t i = layers[l].forward[0]; i <= layers[l].forward[1]; ++i)
      list.push_back({i, layers[l].backward[0]});
  return list;
}

/// The first of the buckets that the GPU updates: no parameter is in them and
/// in another one.
static size_t firstOfTail(const std::vector<Bucket> &buckets, uint32_t count) {
  size_t first = buckets.size() - std::min<size_t>(count, buckets.size());
  auto parameters = [&](size_t from, size_t to) {
    std::set<uint32_t> list;
    for (size_t b = from; b < to; ++b)
      for (const Piece &piece : buckets[b].pieces)
        list.insert(piece.parameter);
    return list;
  };
  // Buckets are in the order of completion, so a parameter that is divided is
  // in neighbours.
  while (first > 0 && first < buckets.size()) {
    std::set<uint32_t> before = parameters(first - 1, first),
                       after = parameters(first, first + 1);
    if (std::none_of(before.begin(), before.end(),
                     [&](uint32_t p) { return after.count(p); }))
      break;
    --first;
  }
  return first;
}

Placement bench::offloaded(const Problem &original,
                           const std::vector<TrainedParameter> &trained,
                           const Machine &machine, const Techniques &techniques,
                           uint32_t tailBuckets) {
  Problem problem = original;
  problem.bucketBytes =
      techniques.repartitioned ? kBucketBytes : 4 * kGroupParameters;
  Placement placement =
      findPolicy("zero-offload")->place(problem, trained, machine);
  placement.recomputes = recomputeLayers(problem);
  placement.updatesBlock = true;
  size_t tail = firstOfTail(placement.buckets, tailBuckets);
  for (size_t b = 0; b < placement.buckets.size(); ++b) {
    BucketPlacement &place = placement.bucketPlacements[b];
    place.castOnDevice = techniques.castOnDevice;
    place.normOnDevice = problem.accumulate == 1;
    if (b < tail) {
      place.time = techniques.speculative ? UpdateTime::Speculative
                                          : UpdateTime::AfterVerdict;
      continue;
    }
    place.gradientSpace = machine.computeSpace;
    place.updateQueue = machine.computeQueue;
    for (const Piece &piece : placement.buckets[b].pieces) {
      placement.arguments[trained[piece.parameter].argument] = {
          machine.computeSpace, WeightSource::Home};
      for (uint32_t state : trained[piece.parameter].states)
        placement.arguments[state].home = machine.computeSpace;
    }
  }
  return placement;
}

std::vector<uint32_t> bench::tails(const Problem &original,
                                   const std::vector<TrainedParameter> &trained,
                                   uint32_t most) {
  Problem problem = original;
  problem.bucketBytes = kBucketBytes;
  std::vector<Bucket> buckets = formBuckets(problem, trained);
  std::vector<uint32_t> list{0};
  for (uint32_t n = 1; list.back() < most && n <= buckets.size(); ++n)
    if (uint32_t whole = buckets.size() - firstOfTail(buckets, n);
        whole > list.back())
      list.push_back(whole);
  return list;
}

uint32_t bench::smallestTail(const GptShape &shape, const Machine &machine) {
  uint64_t elements = kBucketBytes / 4;
  auto update = [&](uint32_t queue, double buckets) {
    return dispatchSeconds(
        machine, queue,
        {OpClass::Optimizer, DType::F32, 0,
         static_cast<uint64_t>(buckets * kOptimizerBytes * elements), 0});
  };
  double exposed = copySeconds(machine, machine.toHost, kBucketBytes) +
                   update(machine.hostQueue, 1) +
                   copySeconds(machine, machine.toCompute, kBucketBytes);
  for (uint32_t n = 0;; ++n) {
    Cost backward{OpClass::Matmul, DType::BF16,
                  4.0 * shape.tokens() * elements * n, 0, shape.hidden};
    if (exposed <= dispatchSeconds(machine, machine.computeQueue, backward) +
                       update(machine.computeQueue, n))
      return n;
  }
}

Placement bench::flowing(const Problem &problem,
                         const std::vector<TrainedParameter> &trained,
                         const Machine &machine) {
  Placement placement =
      offloaded(problem, trained, machine, {true, true, false, true});
  std::vector<LayerOps> layers = layersOf(problem);
  // A layer at a time, one ahead. The embedding, which begins forward and ends
  // backward, stays.
  std::vector<std::vector<uint32_t>> weights(layers.size());
  std::vector<bool> flows(problem.values.size());
  for (const TrainedParameter &p : trained) {
    size_t l = 0;
    while (l < layers.size() && !(layers[l].forward[0] <= p.firstUse &&
                                  p.firstUse <= layers[l].forward[1]))
      ++l;
    if (l == layers.size())
      continue;
    placement.arguments[p.argument].source = WeightSource::Flow;
    weights[l].push_back(p.weight);
  }
  std::vector<uint32_t> begins;
  auto fetch = [&](size_t l, const uint32_t(&ops)[2]) {
    Fetch fetch;
    for (uint32_t weight : weights[l]) {
      fetch.parts.push_back({weight, ops[0], ops[1]});
      fetch.bytes += problem.values[weight].bytes;
    }
    begins.push_back(ops[0]);
    fetch.before = begins[begins.size() < 2 ? 0 : begins.size() - 2];
    placement.fetches.push_back(std::move(fetch));
  };
  for (size_t l = 0; l < layers.size(); ++l)
    fetch(l, layers[l].forward);
  for (size_t l = layers.size(); l-- > 0;)
    fetch(l, layers[l].backward);
  return placement;
}
