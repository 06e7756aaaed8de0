//===- TrainGradients.cpp - Gradients of train operations -----------------===//
//
// GradientOpInterface for the operations of this dialect; upstream operations have external models in Transforms/.
//
//===----------------------------------------------------------------------===//

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace forebay::train;

/// The gradient of result `index`, or zeros where none reaches it.
static Value gradOrZero(OpBuilder &builder, Operation *op, ValueRange grads, unsigned index) {
  if (grads[index])
    return grads[index];
  auto type = cast<RankedTensorType>(op->getResult(index).getType());
  return arith::ConstantOp::create(builder, op->getLoc(), type, builder.getZeroAttr(type));
}

/// Statistics (lse, rstd, ...) exist for our own gradients only: a gradient into one has no definition here.
static LogicalResult rejectStatisticGrads(Operation *op, ValueRange grads) {
  for (Value grad : grads.drop_front())
    if (grad)
      return op->emitOpError() << "has no gradient with respect to its statistics";
  return success();
}

LogicalResult GeluOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>, SmallVectorImpl<Value> &out) {
  out[0] = GeluGradOp::create(builder, getLoc(), getType(), grads[0], getInput(), getTanhAttr());
  return success();
}

LogicalResult SiluOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>, SmallVectorImpl<Value> &out) {
  out[0] = SiluGradOp::create(builder, getLoc(), getType(), grads[0], getInput());
  return success();
}

/// dx = dy * s * (1 - s)
LogicalResult SigmoidOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>,
                                       SmallVectorImpl<Value> &out) {
  auto type = cast<RankedTensorType>(getType());
  Value one = arith::ConstantOp::create(
      builder, getLoc(), DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 1.0)));
  Value rest = arith::SubFOp::create(builder, getLoc(), one, getResult());
  Value slope = arith::MulFOp::create(builder, getLoc(), getResult(), rest);
  out[0] = arith::MulFOp::create(builder, getLoc(), grads[0], slope);
  return success();
}

LogicalResult CastOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>, SmallVectorImpl<Value> &out) {
  out[0] = CastOp::create(builder, getLoc(), getInput().getType(), grads[0]);
  return success();
}

LogicalResult DetachOp::buildGradient(OpBuilder &, ValueRange, ArrayRef<bool>, SmallVectorImpl<Value> &) {
  return success();
}

LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>,
                                       SmallVectorImpl<Value> &out) {
  out[0] = SoftmaxGradOp::create(builder, getLoc(), getType(), grads[0], getResult());
  return success();
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>,
                                         SmallVectorImpl<Value> &out) {
  if (failed(rejectStatisticGrads(*this, grads)))
    return failure();
  auto type = cast<RankedTensorType>(getInput().getType());
  auto vector = RankedTensorType::get({type.getShape().back()}, type.getElementType());
  auto grad = LayerNormGradOp::create(builder, getLoc(), TypeRange{type, vector, vector}, grads[0], getInput(), getMean(),
                                      getRstd(), getWeight());
  out[0] = grad.getDinput();
  unsigned next = 1;
  if (getWeight())
    out[next++] = grad.getDweight();
  if (getBias())
    out[next] = grad.getDbias();
  return success();
}

LogicalResult RMSNormOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>,
                                       SmallVectorImpl<Value> &out) {
  if (failed(rejectStatisticGrads(*this, grads)))
    return failure();
  auto type = cast<RankedTensorType>(getInput().getType());
  auto vector = RankedTensorType::get({type.getShape().back()}, type.getElementType());
  auto grad = RMSNormGradOp::create(builder, getLoc(), TypeRange{type, vector}, grads[0], getInput(), getRstd(),
                                    getWeight(), getUnitOffsetAttr());
  out[0] = grad.getDinput();
  if (getWeight())
    out[1] = grad.getDweight();
  return success();
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool> needs,
                                         SmallVectorImpl<Value> &out) {
  if (failed(rejectStatisticGrads(*this, grads)))
    return failure();
  if (getMask() && needs[3])
    return emitOpError() << "has no gradient with respect to its mask";
  auto grad = AttentionGradOp::create(
      builder, getLoc(), TypeRange{getQuery().getType(), getKey().getType(), getValue().getType()}, grads[0], getQuery(),
      getKey(), getValue(), getResult(), getLse(), getMask(), getKeyPadding(), getScaleAttr(), getCausalAttr(),
      getWindowAttr(), getSoftcapAttr());
  for (unsigned i = 0; i < 3; ++i)
    out[i] = grad->getResult(i);
  return success();
}

LogicalResult RotaryOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool> needs,
                                      SmallVectorImpl<Value> &out) {
  if (needs[1] || needs[2])
    return emitOpError() << "has no gradient with respect to cos and sin";
  UnitAttr inverse = getInverse() ? UnitAttr() : builder.getUnitAttr();
  out[0] = RotaryOp::create(builder, getLoc(), getType(), grads[0], getCos(), getSin(), getInterleavedAttr(), inverse);
  return success();
}

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>,
                                         SmallVectorImpl<Value> &out) {
  Value ids = getIds();
  if (std::optional<uint64_t> padding = getPadding()) {
    // Rows outside the table are dropped.
    auto type = cast<RankedTensorType>(ids.getType());
    auto splat = [&](int64_t value) -> Value {
      auto number = builder.getIntegerAttr(type.getElementType(), value);
      return arith::ConstantOp::create(builder, getLoc(), DenseElementsAttr::get(type, Attribute(number)));
    };
    Value pads = arith::CmpIOp::create(builder, getLoc(), arith::CmpIPredicate::eq, ids, splat(int64_t(*padding)));
    ids = arith::SelectOp::create(builder, getLoc(), pads, splat(cast<ShapedType>(getTable().getType()).getDimSize(0)), ids);
  }
  out[0] = EmbeddingGradOp::create(builder, getLoc(), getTable().getType(), grads[0], ids);
  return success();
}

LogicalResult CrossEntropyOp::buildGradient(OpBuilder &builder, ValueRange grads, ArrayRef<bool>,
                                            SmallVectorImpl<Value> &out) {
  if (failed(rejectStatisticGrads(*this, grads)))
    return failure();
  out[0] = CrossEntropyGradOp::create(builder, getLoc(), getLogits().getType(), gradOrZero(builder, *this, grads, 0),
                                      getLogits(), getLabels(), getLse(), getIgnoreIndexAttr(), getSumAttr());
  return success();
}
