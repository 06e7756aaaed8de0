//===- GradientModels.cpp - Helpers and registration ----------------------===//

#include "GradientModels.h"

#include "forebay/Dialect/Train/Transforms/GradientModels.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace forebay::train;

Value GradientBuilder::splat(Type type, double value) {
  auto shaped = dyn_cast<ShapedType>(type);
  TypedAttr element = getFloatAttr(shaped ? shaped.getElementType() : type, value);
  return arith::ConstantOp::create(*this, shaped ? DenseElementsAttr::get(shaped, element) : element);
}

Value GradientBuilder::empty(RankedTensorType type) {
  return tensor::EmptyOp::create(*this, type.getShape(), type.getElementType());
}

Value GradientBuilder::zeroFilled(RankedTensorType type) {
  Value zero = arith::ConstantOp::create(*this, getZeroAttr(type.getElementType()));
  return linalg::FillOp::create(*this, ValueRange{zero}, ValueRange{empty(type)}).getResult(0);
}

Value GradientBuilder::broadcast(Value value, RankedTensorType type, ArrayRef<int64_t> dimensions) {
  if (dimensions.empty())
    return value;
  if (DenseElementsAttr splat; matchPattern(value, m_Constant(&splat)) && splat.isSplat())
    return arith::ConstantOp::create(*this, splat.resizeSplat(type));
  return linalg::BroadcastOp::create(*this, value, empty(type), dimensions)->getResult(0);
}

Value GradientBuilder::reduceSum(Value value, ArrayRef<int64_t> dimensions) {
  if (dimensions.empty())
    return value;
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::enumerate(type.getShape()))
    if (!llvm::is_contained(dimensions, int64_t(axis)))
      shape.push_back(size);
  Value init = zeroFilled(RankedTensorType::get(shape, type.getElementType()));
  return linalg::ReduceOp::create(*this, ValueRange{value}, ValueRange{init}, dimensions,
                                  [](OpBuilder &builder, Location loc, ValueRange args) {
                                    Value sum = arith::AddFOp::create(builder, loc, args[1], args[0]);
                                    linalg::YieldOp::create(builder, loc, sum);
                                  })
      ->getResult(0);
}

bool forebay::train::isConstantLike(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (matchPattern(op, m_Constant()))
      return true;
    if (!isa<linalg::FillOp, linalg::BroadcastOp, linalg::TransposeOp, tensor::ExpandShapeOp, tensor::CollapseShapeOp,
             tensor::CastOp, tensor::ExtractSliceOp, arith::ExtFOp, arith::TruncFOp>(op))
      return false;
    value = op->getOperand(0);
  }
  return false;
}

void forebay::train::registerGradientModels(DialectRegistry &registry) {
  registerElementwiseGradients(registry);
  registerLinalgGradients(registry);
  registerTensorGradients(registry);
}
