//===- GradientModels.h - Helpers for gradient models -----------*- C++ -*-===//
///
/// \file
/// Private to the GradientModels*.cpp files.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_GRADIENTMODELS_H
#define FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_GRADIENTMODELS_H

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace forebay::train {

/// Builds the operations that gradients are made of: elementwise `arith` on tensors of equal type, splat
/// constants, and reductions and broadcasts over given dimensions.
class GradientBuilder : public mlir::ImplicitLocOpBuilder {
public:
  GradientBuilder(mlir::OpBuilder &builder, mlir::Location loc) : ImplicitLocOpBuilder(loc, builder) {}

  mlir::Value splat(mlir::Type type, double value);
  mlir::Value zeros(mlir::Type type) { return splat(type, 0.0); }

  mlir::Value add(mlir::Value a, mlir::Value b) { return mlir::arith::AddFOp::create(*this, a, b); }
  mlir::Value sub(mlir::Value a, mlir::Value b) { return mlir::arith::SubFOp::create(*this, a, b); }
  mlir::Value mul(mlir::Value a, mlir::Value b) { return mlir::arith::MulFOp::create(*this, a, b); }
  mlir::Value mul(mlir::Value a, double b) { return mul(a, splat(a.getType(), b)); }
  mlir::Value div(mlir::Value a, mlir::Value b) { return mlir::arith::DivFOp::create(*this, a, b); }
  mlir::Value neg(mlir::Value a) { return mlir::arith::NegFOp::create(*this, a); }
  mlir::Value cmp(mlir::arith::CmpFPredicate predicate, mlir::Value a, mlir::Value b) {
    return mlir::arith::CmpFOp::create(*this, predicate, a, b);
  }
  mlir::Value select(mlir::Value condition, mlir::Value a, mlir::Value b) {
    return mlir::arith::SelectOp::create(*this, condition, a, b);
  }

  /// `value` stretched along `dimensions` of `type` (an ordinary linalg.broadcast).
  mlir::Value broadcast(mlir::Value value, mlir::RankedTensorType type, llvm::ArrayRef<int64_t> dimensions);
  /// Sum over `dimensions`; nothing is emitted when there are none.
  mlir::Value reduceSum(mlir::Value value, llvm::ArrayRef<int64_t> dimensions);
  mlir::Value empty(mlir::RankedTensorType type);
  /// A destination of zeros for a contraction or a reduction.
  mlir::Value zeroFilled(mlir::RankedTensorType type);
};

/// True where `value` is the same for every execution: a constant, or a fill, broadcast, reshape or cast of one.
bool isConstantLike(mlir::Value value);

void registerElementwiseGradients(mlir::DialectRegistry &registry);
void registerLinalgGradients(mlir::DialectRegistry &registry);
void registerTensorGradients(mlir::DialectRegistry &registry);

} // namespace forebay::train

#endif // FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_GRADIENTMODELS_H
