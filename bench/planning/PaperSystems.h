//===- PaperSystems.h - The systems of the SuperOffload paper ---*- C++ -*-===//
///
/// \file
/// Decisions of the systems that "SuperOffload" (Lian et al., arXiv
/// 2509.21271v1) measures on one GH200, as placements of our planner, and the
/// machine as each of them uses it. What was read how, and what other readings
/// give: docs/benchmarks/paper.md.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_BENCH_PLANNING_PAPERSYSTEMS_H
#define FOREBAY_BENCH_PLANNING_PAPERSYSTEMS_H

#include "Gpt.h"
#include "forebay/Planning/Policy.h"

namespace forebay::bench {

/// The four techniques that the paper's ablation (Table 2) adds one after the
/// other. None: its ZeRO-Offload baseline.
struct Techniques {
  bool graceAdam = false;
  bool castOnDevice = false; ///< fp32 moves, else the compute type does
  bool speculative = false;  ///< updates during backward
  bool repartitioned =
      false; ///< 64 MiB buckets in pinned memory, the last ones updated on the
             ///< GPU; else groups of 600 million parameters
};

/// `machine` as a system with `techniques` uses it. Before repartitioning,
/// weights return through pageable memory: one thread of the host updates a
/// group, then moves it, and moves at the rates of the paper's Fig. 9.
planning::Machine practised(const planning::Machine &machine,
                            const Techniques &techniques);

/// Table 3: seconds of one update of so many parameters.
struct OptimizerTime {
  double parameters, pytorch, cpuAdam, graceAdam;
};
const std::vector<OptimizerTime> &optimizerTimes();

/// Fig. 9: bytes of a tensor in fp32, seconds of cast and transfer with the
/// cast on either side.
struct CastTime {
  double bytes, onHost, onDevice;
};
const std::vector<CastTime> &castTimes();

/// ZeRO-Offload and the rows of the ablation: masters and moments on the host,
/// weights in the compute type on the GPU. All layers are recomputed.
/// `tailBuckets`: so many of the last buckets, rounded up to whole parameters,
/// have their state on the GPU.
planning::Placement
offloaded(const planning::Problem &problem,
          const std::vector<planning::TrainedParameter> &trained,
          const planning::Machine &machine, const Techniques &techniques,
          uint32_t tailBuckets = 0);

/// ZeRO-Infinity without NVMe: weights live on the host as well and come for
/// each layer, twice.
planning::Placement
flowing(const planning::Problem &problem,
        const std::vector<planning::TrainedParameter> &trained,
        const planning::Machine &machine);

/// Counts of `tailBuckets` that differ, ascending from 0, up to `most` or the
/// first above.
std::vector<uint32_t>
tails(const planning::Problem &problem,
      const std::vector<planning::TrainedParameter> &trained, uint32_t most);

/// The smallest n of the paper's equations 4 and 5: move(gradient) +
/// update(bucket) + move(weights) <= backward(n buckets) + update of n buckets
/// on the GPU.
uint32_t smallestTail(const GptShape &shape, const planning::Machine &machine);

/// Size of a bucket of SuperOffload, of fp32 gradient.
constexpr uint64_t kBucketBytes = 64ull << 20;

/// Every layer of a GPT by `makeGpt` is computed again in front of its
/// backward; only its input is kept.
std::vector<planning::Recompute>
recomputeLayers(const planning::Problem &problem);

} // namespace forebay::bench

#endif // FOREBAY_BENCH_PLANNING_PAPERSYSTEMS_H
