//===- Reference.h - Reference interpreter ----------------------*- C++ -*-===//
///
/// \file
/// Evaluates functions of the levels imported, raised, differentiated, step and dispatch with plain loops in double
/// precision. It is the oracle of the tests of import, raising, gradients, dispatch forming and kernels: every operation is
/// written from its definition, none shares code with the compiler or the runtime. Speed is of no concern.
///
///     std::vector<Tensor> results = cantFail(evaluate(func, {x, w}));
///
/// Operations: `arith` and `math` (elementwise, scalars too), `linalg` (every structured operation, by its maps and region),
/// `tensor` on static shapes, all of `train`, `func.call` and `offload.dispatch`. What `tensor.empty` holds is NaN, so that a
/// read of it shows. An operation that is not known is an error at its location.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_TEST_LIB_REFERENCE_REFERENCE_H
#define FOREBAY_TEST_LIB_REFERENCE_REFERENCE_H

#include "Tensor.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <optional>

namespace forebay::reference {

struct EvaluateOptions {
  /// Round the floating-point results of each operation to their element type. Sums inside of an operation (matrix
  /// products, reductions, norms) stay in double and are rounded once. Off: everything is double.
  bool roundToType = false;
  /// What `train.scalars` reads: number of the step (from 1) and scheduled learning rate; without a rate, the hyper
  /// `lr` of the group or of the optimizer.
  int64_t step = 1;
  std::optional<double> learningRate;
  /// The first micro-step of a step: `train.accumulate` gives its gradient.
  bool firstMicroStep = true;
};

/// The results of `func` for `arguments` (one each, of the arguments' shapes).
llvm::FailureOr<std::vector<Tensor>> evaluate(mlir::func::FuncOp func, llvm::ArrayRef<Tensor> arguments,
                                              const EvaluateOptions &options = {});

} // namespace forebay::reference

#endif // FOREBAY_TEST_LIB_REFERENCE_REFERENCE_H
