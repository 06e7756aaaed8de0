//===- RootOps.cpp - Operations that dispatches are made around -----------===//

#include "forebay/Conversion/RootOps.h"

#include "forebay/Conversion/LoopNest.h"
#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Interfaces/DestinationStyleOpInterface.h"

using namespace mlir;
using namespace forebay;

bool forebay::hasKernels(Type element) { return element.isF32() || element.isBF16() || element.isF16(); }

bool forebay::isBuiltinRoot(Operation *op) {
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    return reduceKind(reduce).has_value();
  return isa<train::SoftmaxOp, train::SoftmaxGradOp, train::LayerNormOp, train::LayerNormGradOp, train::RMSNormOp,
             train::RMSNormGradOp, train::AttentionOp, train::AttentionGradOp, train::RotaryOp, train::EmbeddingOp,
             train::EmbeddingGradOp, train::CrossEntropyOp, train::CrossEntropyGradOp, train::AccumulateOp,
             train::NormPartialsOp, train::VerdictOp, train::CastOp>(op);
}

bool forebay::isCompiledRoot(Operation *op) {
  if (auto reduce = dyn_cast<linalg::ReduceOp>(op))
    return reduce.getInputs().size() == 1 && !reduceKind(reduce);
  return isa<tensor::ConcatOp, tensor::PadOp, tensor::InsertSliceOp, train::UpdateOp>(op);
}

bool forebay::isDestination(OpOperand &use) {
  if (auto dps = dyn_cast<DestinationStyleOpInterface>(use.getOwner()))
    return !isa<tensor::InsertSliceOp>(use.getOwner()) && dps.isDpsInit(&use);
  // The padding value of tensor.pad is inside its region; scalars are no operands of kernels.
  return !isa<RankedTensorType>(use.get().getType());
}

bool forebay::acceptsStridedOperand(OpOperand &use) {
  Operation *op = use.getOwner();
  unsigned index = use.getOperandNumber();
  if (isa<train::RotaryOp>(op))
    return index == 0;
  if (auto attention = dyn_cast<train::AttentionOp>(op))
    return index < 3 || use.get() == attention.getMask();
  if (auto attention = dyn_cast<train::AttentionGradOp>(op))
    return index < 5 || use.get() == attention.getMask();
  return false;
}

bool forebay::acceptsView(OpOperand &use, const StridedView &view) {
  if (auto attention = dyn_cast<train::AttentionOp>(use.getOwner()))
    if (use.get() == attention.getMask())
      return true;
  if (auto attention = dyn_cast<train::AttentionGradOp>(use.getOwner()))
    if (use.get() == attention.getMask())
      return true;
  if (!view.isUnitStride(view.rank() - 1))
    return false;
  // Rows of attention are rows of a matrix.
  return isa<train::RotaryOp>(use.getOwner()) || view.sizes[2] <= 1 || view.strides[2] >= view.sizes[3];
}

bool forebay::acceptsStridedResult(OpResult result) {
  Operation *op = result.getOwner();
  if (isa<train::AttentionOp, train::RotaryOp>(op))
    return result.getResultNumber() == 0;
  return isa<train::AttentionGradOp>(op);
}

std::optional<int64_t> forebay::reduceKind(linalg::ReduceOp op) {
  Block &body = op.getCombiner().front();
  if (op.getInputs().size() != 1 || body.getOperations().size() != 2)
    return std::nullopt;
  auto type = cast<RankedTensorType>(op.getInputs()[0].getType());
  DenseElementsAttr init = constantOf(op.getInits()[0]);
  if (!hasKernels(type.getElementType()) || !init || !init.isSplat())
    return std::nullopt;
  Operation &combiner = body.front();
  APFloat start = init.getSplatValue<APFloat>();
  if (isa<arith::AddFOp>(combiner) && start.isZero())
    return 0;
  if (isa<arith::MaximumFOp>(combiner) && start.isInfinity() && start.isNegative())
    return 1;
  if (isa<arith::MinimumFOp>(combiner) && start.isInfinity() && !start.isNegative())
    return 2;
  if (isa<arith::MulFOp>(combiner) && start.isExactlyValue(1.0))
    return 3;
  return std::nullopt;
}

std::optional<ReducedRange> forebay::reducedRange(linalg::ReduceOp op) {
  ArrayRef<int64_t> shape = cast<RankedTensorType>(op.getInputs()[0].getType()).getShape();
  ReducedRange range;
  int state = 0; // before, in, after the reduced dimensions
  for (auto [dim, size] : llvm::enumerate(shape)) {
    bool reduced = llvm::is_contained(op.getDimensions(), int64_t(dim));
    if (size == 1)
      continue;
    if (reduced && state == 0)
      state = 1;
    if (!reduced && state == 1)
      state = 2;
    if (reduced && state == 2)
      return std::nullopt;
    (state == 0 ? range.outer : state == 1 ? range.reduce : range.inner) *= size;
  }
  return range;
}
