//===- Problem.h - A step to be planned -------------------------*- C++ -*-===//
///
/// \file
/// One micro-step as a list of operations on values, before anything has a place. Made from a module at level "dispatch" by
/// lib/Dialect/Offload/Transforms/ProblemBuilder.cpp, or by hand in tests. No MLIR here.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PLANNING_PROBLEM_H
#define FOREBAY_PLANNING_PROBLEM_H

#include "forebay/program.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace forebay::planning {

enum class Phase : uint8_t { Forward, Backward, Accumulate, Verdict, Update };
const char *name(Phase phase);

/// What an operation is to the planner. Everything but Compute has its place decided by the policy.
enum class OpKind : uint8_t {
  Compute,      ///< forward and backward, and whatever else is not one of the following
  Accumulate,   ///< accumulator, gradient -> accumulator
  NormPartials, ///< gradient -> partial sums
  Verdict,      ///< partial sums... -> verdict
  Scalars,      ///< -> scalars of a parameter group
  CastWeight,   ///< parameter -> the same in the compute type, which forward and backward read
  CastGradient, ///< gradient in the compute type -> fp32
  Update,       ///< parameter, gradient, states..., scalars, verdict -> parameter, states...
};

struct ProblemValue {
  std::string label;
  Role role = Role::Activation;
  uint64_t bytes = 0;
};

struct ProblemOp {
  OpKind kind = OpKind::Compute;
  Phase phase = Phase::Forward;
  std::string label;
  std::vector<uint32_t> operands, results; ///< values
  /// For each result the operand whose bytes it may take over (same size), or -1. May be shorter than `results`.
  std::vector<int32_t> inplace;
  int32_t kernel = -1;           ///< the maker's number of the kernel
  int32_t group = -1;            ///< Scalars
  /// As in the kernel's parameter block and interface. The block of Accumulate and NormPartials begins {count, K, elements per tile}, that of Update
  /// {first, count, elements per tile}: these the planner can split.
  std::vector<int64_t> params, tiles;
  uint64_t scratch = 0, workspace = 0;
  Cost cost;
};

/// A function argument: input, parameter, buffer, moment, accumulator.
struct ProblemArgument {
  uint32_t value = 0;
  int32_t donated = -1; ///< value that replaces it after the step, or -1
};

/// A function result that is reported: loss, other outputs.
struct ProblemOutput {
  std::string name;
  uint32_t value = 0;
  Role role = Role::Output;
};

struct Problem {
  std::vector<ProblemValue> values;
  std::vector<ProblemArgument> arguments; ///< parameters in initializer order
  std::vector<ProblemOutput> outputs;
  std::vector<ProblemOp> ops; ///< in an order in which they can run
  uint32_t accumulate = 1;    ///< K
  uint64_t bucketBytes = 64ull << 20;
};

/// Everything about one parameter that is updated.
struct TrainedParameter {
  uint32_t argument;               ///< its argument
  uint32_t update;                 ///< its Update operation
  uint32_t gradient;               ///< value computed by backward, in the type in which it computes it
  uint32_t weight = 0;             ///< value that forward and backward read: the parameter, or its CastWeight
  int32_t castWeight = -1;         ///< CastWeight operation
  uint32_t gradient32 = 0;         ///< `gradient`, or its CastGradient
  int32_t castGradient = -1;       ///< CastGradient operation
  int32_t accumulate = -1;         ///< Accumulate operation, if K > 1
  int32_t norm = -1;               ///< NormPartials operation; equal gradients may share one
  std::vector<uint32_t> states;    ///< arguments: moments
  int32_t accumulator = -1;        ///< argument
  uint32_t completeAt = 0;         ///< operation after which the gradient is complete
  uint32_t firstUse = 0;           ///< first operation that reads the parameter; number of operations if none does
  uint64_t elements = 0;           ///< fp32
};

/// The trained parameters in initializer order. On a malformed problem (an Update without its parameter, ...) `error` says why.
std::vector<TrainedParameter> trainedParameters(const Problem &problem, std::string &error);

} // namespace forebay::planning

#endif // FOREBAY_PLANNING_PROBLEM_H
