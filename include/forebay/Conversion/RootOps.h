//===- RootOps.h - Operations that dispatches are made around ---*- C++ -*-===//

#ifndef FOREBAY_CONVERSION_ROOTOPS_H
#define FOREBAY_CONVERSION_ROOTOPS_H

#include "forebay/Conversion/StridedView.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace forebay {

/// Element types in which products and reductions are built-in kernels; those of bf16 and f16 are planned, not written yet.
bool hasKernels(mlir::Type element);

/// Operations with a built-in kernel (linalg.contract apart, see MatchContract.h).
bool isBuiltinRoot(mlir::Operation *op);
/// Operations that become compiled loops: tensor.concat, pad, insert_slice, reductions without a built-in kernel, train.update.
bool isCompiledRoot(mlir::Operation *op);

/// An operand that only gives the shape of the result.
bool isDestination(mlir::OpOperand &use);
/// Whether the kernel of the operation follows strides of this operand, and whether it follows these.
bool acceptsStridedOperand(mlir::OpOperand &use);
bool acceptsView(mlir::OpOperand &use, const StridedView &view);
/// Whether the kernel of the operation can write this result through strides (innermost dimension contiguous).
bool acceptsStridedResult(mlir::OpResult result);

/// Of a reduction with the built-in kernel "reduce": its `kind`.
std::optional<int64_t> reduceKind(mlir::linalg::ReduceOp op);
/// [outer, reduce, inner] sizes of its operand, if the reduced dimensions are adjacent in a contiguous buffer.
struct ReducedRange {
  int64_t outer = 1, reduce = 1, inner = 1;
};
std::optional<ReducedRange> reducedRange(mlir::linalg::ReduceOp op);

} // namespace forebay

#endif // FOREBAY_CONVERSION_ROOTOPS_H
