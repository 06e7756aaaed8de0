//===- GradientModelsTensor.cpp - Gradients of tensor operations ----------===//
//
// Gradients of views are views. The gradient of a contiguous slice is a tensor.pad, which the differentiation pass
// recognises: slices that together make up a tensor become one tensor.concat of their gradients.
//
//===----------------------------------------------------------------------===//

#include "GradientModels.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace forebay::train;

namespace {

using Needs = ArrayRef<bool>;
using Out = SmallVectorImpl<Value> &;

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

LogicalResult requireStatic(Operation *op, bool isStatic) {
  if (isStatic)
    return success();
  return op->emitOpError() << "has a gradient only with static offsets, sizes and strides";
}

struct ExpandShape : GradientOpInterface::ExternalModel<ExpandShape, tensor::ExpandShapeOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs, Out out) const {
    auto expand = cast<tensor::ExpandShapeOp>(op);
    out[0] = tensor::CollapseShapeOp::create(builder, op->getLoc(), expand.getSrcType(), grads[0],
                                             expand.getReassociationIndices());
    return success();
  }
};

struct CollapseShape : GradientOpInterface::ExternalModel<CollapseShape, tensor::CollapseShapeOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs, Out out) const {
    auto collapse = cast<tensor::CollapseShapeOp>(op);
    out[0] = tensor::ExpandShapeOp::create(builder, op->getLoc(), collapse.getSrcType(), grads[0],
                                           collapse.getReassociationIndices());
    return success();
  }
};

struct Cast : GradientOpInterface::ExternalModel<Cast, tensor::CastOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs, Out out) const {
    out[0] = tensor::CastOp::create(builder, op->getLoc(), op->getOperand(0).getType(), grads[0]);
    return success();
  }
};

/// No values, so no gradient.
struct Empty : GradientOpInterface::ExternalModel<Empty, tensor::EmptyOp> {
  LogicalResult buildGradient(Operation *, OpBuilder &, ValueRange, Needs, Out) const { return success(); }
};

/// `value` with the unit dimensions back that a rank-reducing slice of `sizes` had dropped.
Value undoRankReduction(GradientBuilder &b, Value value, ArrayRef<int64_t> sizes,
                        const llvm::SmallBitVector &dropped) {
  if (dropped.none())
    return value;
  RankedTensorType type = tensorType(value);
  SmallVector<ReassociationIndices> groups;
  ReassociationIndices group;
  for (int64_t axis = 0, rank = sizes.size(); axis < rank; ++axis) {
    // A kept axis opens a group; dropped ones join the group before them (the first group for leading ones).
    if (!dropped.test(axis) && llvm::any_of(group, [&](int64_t other) { return !dropped.test(other); })) {
      groups.push_back(group);
      group.clear();
    }
    group.push_back(axis);
  }
  if (type.getRank() > 0)
    groups.push_back(group);
  return tensor::ExpandShapeOp::create(b, RankedTensorType::get(sizes, type.getElementType()), value, groups);
}

struct ExtractSlice : GradientOpInterface::ExternalModel<ExtractSlice, tensor::ExtractSliceOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs, Out out) const {
    auto slice = cast<tensor::ExtractSliceOp>(op);
    if (failed(requireStatic(op, op->getNumOperands() == 1)))
      return failure();
    GradientBuilder b(builder, op->getLoc());
    RankedTensorType type = tensorType(slice.getSource());
    Value g = undoRankReduction(b, grads[0], slice.getStaticSizes(), slice.getDroppedDims());
    if (!llvm::all_of(slice.getStaticStrides(), [](int64_t stride) { return stride == 1; })) {
      out[0] = tensor::InsertSliceOp::create(b, g, b.zeroFilled(type), slice.getMixedOffsets(), slice.getMixedSizes(),
                                             slice.getMixedStrides());
      return success();
    }
    SmallVector<OpFoldResult> low, high;
    for (auto [size, offset, length] : llvm::zip(type.getShape(), slice.getStaticOffsets(), slice.getStaticSizes())) {
      low.push_back(b.getIndexAttr(offset));
      high.push_back(b.getIndexAttr(size - offset - length));
    }
    Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type.getElementType()));
    out[0] = tensor::PadOp::create(b, type, g, low, high, zero);
    return success();
  }
};

struct InsertSlice : GradientOpInterface::ExternalModel<InsertSlice, tensor::InsertSliceOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs needs, Out out) const {
    auto insert = cast<tensor::InsertSliceOp>(op);
    if (failed(requireStatic(op, op->getNumOperands() == 2)))
      return failure();
    GradientBuilder b(builder, op->getLoc());
    if (needs[0])
      out[0] = tensor::ExtractSliceOp::create(b, insert.getSourceType(), grads[0], insert.getMixedOffsets(),
                                              insert.getMixedSizes(), insert.getMixedStrides());
    if (needs[1])
      out[1] = tensor::InsertSliceOp::create(b, b.zeros(insert.getSourceType()), grads[0], insert.getMixedOffsets(),
                                             insert.getMixedSizes(), insert.getMixedStrides());
    return success();
  }
};

/// A slice with unit strides. An empty one may lie at the end, where the verifier allows no offset: zeros of its type.
Value unitSlice(GradientBuilder &b, Value value, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes) {
  if (llvm::is_contained(sizes, 0))
    return b.zeros(RankedTensorType::get(sizes, tensorType(value).getElementType()));
  SmallVector<OpFoldResult> strides(offsets.size(), b.getIndexAttr(1));
  return tensor::ExtractSliceOp::create(b, value, getAsIndexOpFoldResult(b.getContext(), offsets),
                                        getAsIndexOpFoldResult(b.getContext(), sizes), strides);
}

struct Concat : GradientOpInterface::ExternalModel<Concat, tensor::ConcatOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs needs, Out out) const {
    GradientBuilder b(builder, op->getLoc());
    uint64_t axis = cast<tensor::ConcatOp>(op).getDim();
    SmallVector<int64_t> offsets(tensorType(grads[0]).getRank(), 0);
    for (auto [index, input] : llvm::enumerate(op->getOperands())) {
      if (needs[index])
        out[index] = unitSlice(b, grads[0], offsets, tensorType(input).getShape());
      offsets[axis] += tensorType(input).getDimSize(axis);
    }
    return success();
  }
};

/// What lies in the padding has no gradient; a negative padding (a crop) pads the gradient with zeros.
struct Pad : GradientOpInterface::ExternalModel<Pad, tensor::PadOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs, Out out) const {
    auto pad = cast<tensor::PadOp>(op);
    if (failed(requireStatic(op, op->getNumOperands() == 1)))
      return failure();
    if (!pad.getConstantPaddingValue())
      return op->emitOpError() << "has a gradient only with a constant padding value";
    GradientBuilder b(builder, op->getLoc());
    RankedTensorType type = pad.getSourceType();
    SmallVector<int64_t> offsets, sizes;
    SmallVector<OpFoldResult> low, high;
    bool cropped = false;
    for (auto [size, before, after] : llvm::zip(type.getShape(), pad.getStaticLow(), pad.getStaticHigh())) {
      offsets.push_back(std::max<int64_t>(before, 0));
      sizes.push_back(std::max<int64_t>(size + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0), 0));
      low.push_back(b.getIndexAttr(std::max<int64_t>(-before, 0)));
      high.push_back(b.getIndexAttr(std::max<int64_t>(-after, 0)));
      cropped |= before < 0 || after < 0;
    }
    out[0] = unitSlice(b, grads[0], offsets, sizes);
    if (cropped) {
      Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type.getElementType()));
      out[0] = tensor::PadOp::create(b, type, out[0], low, high, zero);
    }
    return success();
  }
};

} // namespace

void forebay::train::registerTensorGradients(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, tensor::TensorDialect *) {
    context->loadDialect<arith::ArithDialect, linalg::LinalgDialect>();
    tensor::ExpandShapeOp::attachInterface<ExpandShape>(*context);
    tensor::CollapseShapeOp::attachInterface<CollapseShape>(*context);
    tensor::CastOp::attachInterface<Cast>(*context);
    tensor::EmptyOp::attachInterface<Empty>(*context);
    tensor::ExtractSliceOp::attachInterface<ExtractSlice>(*context);
    tensor::InsertSliceOp::attachInterface<InsertSlice>(*context);
    tensor::ConcatOp::attachInterface<Concat>(*context);
    tensor::PadOp::attachInterface<Pad>(*context);
  });
}
