//===- MatchContract.h - linalg.contract as a matrix product ----*- C++ -*-===//

#ifndef FOREBAY_CONVERSION_MATCHCONTRACT_H
#define FOREBAY_CONVERSION_MATCHCONTRACT_H

#include "forebay/Conversion/StridedView.h"
#include "forebay/builtin_kernels.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace forebay {

struct GemmMatch {
  kernels::GemmParams params;
  /// A and B have changed places (C is computed with its columns along the rows of the first operand).
  bool swapped = false;

  int64_t batches() const { return params.batch[0] * params.batch[1] * params.batch[2] * params.batch[3]; }
  int64_t flops() const { return 2 * batches() * params.m * params.n * params.k; }
};

/// The parameters of the built-in kernel "gemm" for `op` (f32) with operands and result in these places (views over the
/// dimensions of the operation's operands and result). `bias`, if there, is added to the result and has a view over
/// its dimensions. None if the strides do not fit.
std::optional<GemmMatch> matchContract(mlir::linalg::ContractOp op, const StridedView &a, const StridedView &b,
                                       const StridedView &c, const StridedView *bias = nullptr);

} // namespace forebay

#endif // FOREBAY_CONVERSION_MATCHCONTRACT_H
