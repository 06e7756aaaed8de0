//===- GradientModelsLinalg.cpp - Gradients and costs of linalg -----------===//
//
// Broadcasts become sums and sums broadcasts; a contraction's gradients are contractions over the same loops with the
// maps exchanged, so that no operand is ever transposed or repeated in memory.
//
//===----------------------------------------------------------------------===//

#include "GradientModels.h"

#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/AffineMap.h"

using namespace mlir;
using namespace forebay::train;

namespace {

using Pred = arith::CmpFPredicate;
using Needs = ArrayRef<bool>;
using Out = SmallVectorImpl<Value> &;

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

struct Broadcast : GradientOpInterface::ExternalModel<Broadcast, linalg::BroadcastOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs, Out out) const {
    GradientBuilder b(builder, op->getLoc());
    out[0] = b.reduceSum(grads[0], cast<linalg::BroadcastOp>(op).getDimensions());
    return success();
  }
};

struct Transpose : GradientOpInterface::ExternalModel<Transpose, linalg::TransposeOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs, Out out) const {
    GradientBuilder b(builder, op->getLoc());
    auto transpose = cast<linalg::TransposeOp>(op);
    Value init = b.empty(tensorType(transpose.getInput()));
    out[0] = linalg::TransposeOp::create(b, grads[0], init, invertPermutationVector(transpose.getPermutation()))
                 ->getResult(0);
    return success();
  }
};

/// The destination of a fill is overwritten, and the levels that are differentiated fill with constants only.
struct Fill : GradientOpInterface::ExternalModel<Fill, linalg::FillOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &, ValueRange, Needs needs, Out) const {
    if (needs[0])
      return op->emitOpError() << "has no gradient with respect to a scalar";
    return success();
  }
};

/// Sum, product, largest and smallest over dimensions, folded into the destination (which is an operand like another).
struct Reduce : GradientOpInterface::ExternalModel<Reduce, linalg::ReduceOp> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs needs, Out out) const {
    auto reduce = cast<linalg::ReduceOp>(op);
    Block *body = reduce.getBlock();
    Operation *combiner = &body->front();
    if (op->getNumResults() != 1 || body->getOperations().size() != 2 || combiner->getNumOperands() != 2 ||
        body->getTerminator()->getOperand(0) != combiner->getResult(0))
      return op->emitOpError() << "has a gradient only with one operation as its combiner";
    GradientBuilder b(builder, op->getLoc());
    Value x = op->getOperand(0), init = op->getOperand(1), y = op->getResult(0), g = grads[0];
    ArrayRef<int64_t> dims = reduce.getDimensions();
    RankedTensorType type = tensorType(x);
    if (isa<arith::AddFOp>(combiner)) {
      if (needs[0])
        out[0] = b.broadcast(g, type, dims);
      out[1] = g;
      return success();
    }
    if (isa<arith::MaximumFOp, arith::MaxNumFOp, arith::MinimumFOp, arith::MinNumFOp>(combiner)) {
      extremum(b, x, init, y, g, dims, needs, out);
      return success();
    }
    if (isa<arith::MulFOp>(combiner)) {
      product(b, x, init, y, g, dims, needs, out);
      return success();
    }
    return op->emitOpError() << "has no gradient for the combiner '" << combiner->getName() << "'";
  }

  /// The elements that equal the result share its gradient evenly (PyTorch's amax, which the exporter writes as
  /// ReduceMax). A destination that varies is one more element of its row.
  static void extremum(GradientBuilder &b, Value x, Value init, Value y, Value g, ArrayRef<int64_t> dims, Needs needs,
                       Out out) {
    RankedTensorType type = tensorType(x);
    Value hit = b.cmp(Pred::OEQ, x, b.broadcast(y, type, dims));
    Value count = b.reduceSum(b.select(hit, b.splat(type, 1.0), b.zeros(type)), dims);
    Value zero = b.zeros(y.getType()), initHit;
    if (needs[1]) {
      initHit = b.cmp(Pred::OEQ, init, y);
      count = b.add(count, b.select(initHit, b.splat(y.getType(), 1.0), zero));
    }
    Value share = b.div(g, count);
    if (needs[0])
      out[0] = b.select(hit, b.broadcast(share, type, dims), b.zeros(type));
    if (needs[1])
      out[1] = b.select(initHit, share, zero);
  }

  /// Product of the other elements. Zeros are counted apart: with one zero in a row only its own gradient remains,
  /// with more none does.
  static void product(GradientBuilder &b, Value x, Value init, Value y, Value g, ArrayRef<int64_t> dims, Needs needs,
                      Out out) {
    RankedTensorType type = tensorType(x);
    Value one = b.splat(type, 1.0), zero = b.zeros(type);
    Value isZero = b.cmp(Pred::OEQ, x, zero);
    Value filled = b.select(isZero, one, x);
    auto reduceMul = [&](Value values, Value from) -> Value {
      return linalg::ReduceOp::create(b, ValueRange{values}, ValueRange{from}, dims,
                                      [](OpBuilder &builder, Location loc, ValueRange args) {
                                        Value p = arith::MulFOp::create(builder, loc, args[1], args[0]);
                                        linalg::YieldOp::create(builder, loc, p);
                                      })
          ->getResult(0);
    };
    if (needs[0]) {
      Value zeros = b.reduceSum(b.select(isZero, one, zero), dims);
      Value others = b.broadcast(b.mul(g, reduceMul(filled, init)), type, dims);
      Value count = b.broadcast(zeros, type, dims);
      Value atZero = b.select(b.cmp(Pred::OEQ, count, one), others, zero);
      Value elsewhere = b.select(b.cmp(Pred::OEQ, count, zero), b.div(others, filled), zero);
      out[0] = b.select(isZero, atZero, elsewhere);
    }
    if (needs[1])
      out[1] = b.mul(g, reduceMul(x, b.splat(y.getType(), 1.0)));
  }
};

//===----------------------------------------------------------------------===//
// Contractions
//===----------------------------------------------------------------------===//

/// `value`, indexed by `from`, with the dimensions of `to` in their order; those that `from` lacks are broadcast.
Value align(GradientBuilder &b, Value value, AffineMap from, AffineMap to, RankedTensorType type) {
  SmallVector<int64_t> permutation, missing;
  for (unsigned axis = 0; axis < to.getNumResults(); ++axis) {
    if (std::optional<unsigned> position = from.getResultPosition(to.getResult(axis)))
      permutation.push_back(*position);
    else
      missing.push_back(axis);
  }
  RankedTensorType own = tensorType(value);
  if (!llvm::is_sorted(permutation)) {
    auto ordered = RankedTensorType::get(applyPermutation(own.getShape(), permutation), own.getElementType());
    value = linalg::TransposeOp::create(b, value, b.empty(ordered), permutation)->getResult(0);
  }
  if (own.getElementType() != type.getElementType())
    value = arith::ExtFOp::create(b, tensorType(value).clone(type.getElementType()), value);
  return b.broadcast(value, type, missing);
}

/// `lhs` and `rhs` contracted onto a tensor of the type `type`, accumulated at no less than f32.
Value contract(GradientBuilder &b, Value lhs, Value rhs, RankedTensorType type, AffineMap lhsMap, AffineMap rhsMap,
               AffineMap outMap) {
  Type wide = type.getElementType();
  for (Value operand : {lhs, rhs})
    if (tensorType(operand).getElementType().getIntOrFloatBitWidth() > wide.getIntOrFloatBitWidth())
      wide = tensorType(operand).getElementType();
  RankedTensorType accumulator = type.clone(wide);
  Value result;
  // linalg.contract must reduce a dimension; an outer product is a multiplication of broadcasts.
  bool reduces = llvm::any_of(lhsMap.getResults(), [&](AffineExpr dim) { return !outMap.getResultPosition(dim); });
  if (!reduces)
    result = b.mul(align(b, lhs, lhsMap, outMap, accumulator), align(b, rhs, rhsMap, outMap, accumulator));
  else
    result = linalg::ContractOp::create(b, TypeRange{accumulator}, ValueRange{lhs, rhs},
                                        ValueRange{b.zeroFilled(accumulator)},
                                        b.getAffineMapArrayAttr({lhsMap, rhsMap, outMap}))
                 ->getResult(0);
  return accumulator == type ? result : arith::TruncFOp::create(b, type, result);
}

template <typename Derived, typename OpT>
struct Contraction : GradientOpInterface::ExternalModel<Derived, OpT> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs needs, Out out) const {
    SmallVector<AffineMap> maps = cast<linalg::LinalgOp>(op).getIndexingMapsArray();
    assert(llvm::all_of(maps, [](AffineMap map) { return map.isProjectedPermutation(); }) && "the verifiers see to it");
    GradientBuilder b(builder, op->getLoc());
    Value lhs = op->getOperand(0), rhs = op->getOperand(1), g = grads[0];
    if (needs[0])
      out[0] = contract(b, g, rhs, tensorType(lhs), maps[2], maps[1], maps[0]);
    if (needs[1])
      out[1] = contract(b, lhs, g, tensorType(rhs), maps[0], maps[2], maps[1]);
    out[2] = g;
    return success();
  }
};
struct Contract : Contraction<Contract, linalg::ContractOp> {};
struct Matmul : Contraction<Matmul, linalg::MatmulOp> {};
struct BatchMatmul : Contraction<BatchMatmul, linalg::BatchMatmulOp> {};

/// A multiply-add for each point of the iteration space.
template <typename Derived, typename OpT>
struct ProductCost : CostOpInterface::ExternalModel<Derived, OpT> {
  int64_t getFlops(Operation *op) const {
    int64_t flops = 2;
    for (int64_t range : cast<linalg::LinalgOp>(op).getStaticLoopRanges())
      flops *= range;
    return flops;
  }
};
struct ContractCost : ProductCost<ContractCost, linalg::ContractOp> {};
struct MatmulCost : ProductCost<MatmulCost, linalg::MatmulOp> {};
struct BatchMatmulCost : ProductCost<BatchMatmulCost, linalg::BatchMatmulOp> {};

} // namespace

void forebay::train::registerLinalgGradients(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, linalg::LinalgDialect *) {
    context->loadDialect<arith::ArithDialect>();
    linalg::BroadcastOp::attachInterface<Broadcast>(*context);
    linalg::TransposeOp::attachInterface<Transpose>(*context);
    linalg::FillOp::attachInterface<Fill>(*context);
    linalg::ReduceOp::attachInterface<Reduce>(*context);
    linalg::ContractOp::attachInterface<Contract>(*context);
    linalg::MatmulOp::attachInterface<Matmul>(*context);
    linalg::BatchMatmulOp::attachInterface<BatchMatmul>(*context);
    linalg::ContractOp::attachInterface<ContractCost>(*context);
    linalg::MatmulOp::attachInterface<MatmulCost>(*context);
    linalg::BatchMatmulOp::attachInterface<BatchMatmulCost>(*context);
  });
}
