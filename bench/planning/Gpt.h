//===- Gpt.h - Training steps of GPTs as planning problems ------*- C++ -*-===//
///
/// \file
/// A decoder-only transformer of any size as a `planning::Problem`, without a model file: for benchmarks of the planner and its property tests.
/// The same list of operations that the compiler makes of an exported GPT, without biases and norm parameters.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_BENCH_PLANNING_GPT_H
#define FOREBAY_BENCH_PLANNING_GPT_H

#include "forebay/Planning/Problem.h"

namespace forebay::bench {

struct GptShape {
  uint64_t layers = 1, hidden = 1, heads = 32, vocabulary = 50304;
  uint64_t batch = 1, sequence = 1024;
  uint32_t accumulate = 1;
  bool mixed = true;           ///< compute type bf16, else fp32
  /// One kernel for scores, softmax and values, which keeps no scores in memory and skips what the causal mask hides; else scores lie in memory.
  bool fusedAttention = true;

  uint64_t tokens() const { return batch * sequence; }
  /// 12 L h^2 + V h.
  uint64_t parameters() const { return 12 * layers * hidden * hidden + vocabulary * hidden; }
  /// Forward, 2mnk of all products, attention over the full square.
  double forwardFlops() const {
    double t = static_cast<double>(tokens());
    return t * (24.0 * layers * hidden * hidden + 4.0 * layers * sequence * hidden + 2.0 * vocabulary * hidden);
  }
  /// Megatron's count of a step: 72 B s L h^2 + 12 B s^2 L h + 6 B s h V, without recomputation.
  double stepFlops() const { return 3 * forwardFlops(); }
};

/// AdamW, two moments, clipped by the global norm. Each layer keeps 34 bytes a token and hidden unit for backward in bf16 (Korthikanti et al. 2022, section 4.1, without the
/// scores of unfused attention).
planning::Problem makeGpt(const GptShape &shape);

} // namespace forebay::bench

#endif // FOREBAY_BENCH_PLANNING_GPT_H
