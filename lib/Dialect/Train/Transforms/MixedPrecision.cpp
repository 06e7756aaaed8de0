//===- MixedPrecision.cpp - Forward in bf16 or f16, masters in f32 --------===//
//
// One walk over the block of @forward. A value is narrow (of the compute type) if it is computed from a parameter; operations rebuild their results
// from the types of their operands, so types spread by themselves. Backward follows from differentiation: the gradient of a narrow value is narrow,
// that of a parameter's cast brings it back to f32.
//
//===----------------------------------------------------------------------===//

#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

namespace forebay {
#define GEN_PASS_DEF_TRAINMIXEDPRECISION
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;
using namespace forebay::train;

namespace {

class Narrower {
public:
  Narrower(func::FuncOp function, FloatType narrow) : function(function), narrow(narrow), b(function.getContext()) {}

  void run() {
    SmallVector<Operation *> ops;
    for (Operation &op : function.front())
      ops.push_back(&op);
    castParameters();
    for (Operation *op : ops)
      visit(op);
  }

private:
  static RankedTensorType wideType(Type type) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    return tensor && tensor.getElementType().isF32() ? tensor : RankedTensorType();
  }
  bool isNarrow(Value value) const {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.getElementType() == narrow;
  }
  RankedTensorType narrowed(Type type) const { return cast<RankedTensorType>(type).clone(narrow); }

  /// In front of the first operation that reads each; nothing else reads the parameter then, but what returns it as an output.
  void castParameters() {
    for (BlockArgument argument : function.getArguments()) {
      auto role = function.getArgAttrOfType<RoleAttr>(argument.getArgNumber(), kRoleAttr);
      if (!role || role.getValue() != Role::Parameter || !wideType(argument.getType()))
        continue;
      Operation *first = function.front().getTerminator();
      for (Operation *user : argument.getUsers())
        first = user->isBeforeInBlock(first) ? user : first;
      if (first->hasTrait<OpTrait::IsTerminator>())
        continue;
      b.setInsertionPoint(first);
      auto cast = CastOp::create(b, argument.getLoc(), narrowed(argument.getType()), argument);
      argument.replaceUsesWithIf(cast, [&](OpOperand &use) { return use.getOwner() != cast && !use.getOwner()->hasTrait<OpTrait::IsTerminator>(); });
    }
  }

  void setInsertionPointAfter(Value value) {
    if (Operation *op = value.getDefiningOp())
      b.setInsertionPointAfter(op);
    else
      b.setInsertionPointToStart(&function.front());
  }

  /// Finite values stay finite: a mask of -3.4e38 becomes the lowest number that there is.
  APFloat converted(APFloat value) const {
    bool wasFinite = value.isFinite(), losesInfo, negative = value.isNegative();
    value.convert(narrow.getFloatSemantics(), APFloat::rmNearestTiesToEven, &losesInfo);
    return wasFinite && value.isInfinity() ? APFloat::getLargest(narrow.getFloatSemantics(), negative) : value;
  }

  /// `value`, an f32 tensor, in the compute type: constants and empty destinations as such, others by a cast that its users share.
  Value lower(Value value) {
    if (!wideType(value.getType()))
      return value;
    Value &known = lowered[value];
    if (known)
      return known;
    OpBuilder::InsertionGuard guard(b);
    setInsertionPointAfter(value);
    Location loc = value.getLoc();
    RankedTensorType type = narrowed(value.getType());
    DenseElementsAttr dense;
    Attribute scalar;
    if (value.getDefiningOp<tensor::EmptyOp>())
      return known = tensor::EmptyOp::create(b, loc, type.getShape(), narrow);
    if (matchPattern(value, m_Constant(&dense)))
      return known = arith::ConstantOp::create(b, loc, dense.mapValues(narrow, [&](const APFloat &v) { return converted(v).bitcastToAPInt(); }));
    if (auto fill = value.getDefiningOp<linalg::FillOp>(); fill && matchPattern(fill.value(), m_Constant(&scalar))) {
      Value number = arith::ConstantOp::create(b, loc, FloatAttr::get(narrow, converted(cast<FloatAttr>(scalar).getValue())));
      Value empty = tensor::EmptyOp::create(b, loc, type.getShape(), narrow);
      return known = linalg::FillOp::create(b, loc, number, empty).getResult(0);
    }
    return known = arith::TruncFOp::create(b, loc, type, value);
  }

  Value widen(Value value) {
    if (!isNarrow(value))
      return value;
    Value &known = widened[value];
    if (!known) {
      OpBuilder::InsertionGuard guard(b);
      setInsertionPointAfter(value);
      known = arith::ExtFOp::create(b, value.getLoc(), cast<RankedTensorType>(value.getType()).clone(b.getF32Type()), value);
    }
    return known;
  }

  void lowerOperands(Operation *op, unsigned first = 0, unsigned count = ~0u) {
    for (unsigned i = first; i < op->getNumOperands() && i - first < count; ++i)
      op->setOperand(i, lower(op->getOperand(i)));
  }

  /// The operation computes in the compute type: its f32 operands and results change.
  void lowerAll(Operation *op) {
    lowerOperands(op);
    for (Value result : op->getResults())
      if (wideType(result.getType()))
        result.setType(narrowed(result.getType()));
  }

  /// The same with result 0 alone narrow: the others are statistics.
  void lowerFirst(Operation *op, unsigned operands) {
    lowerOperands(op, 0, operands);
    op->getResult(0).setType(narrowed(op->getResult(0).getType()));
  }

  void replace(Operation *op, Operation *made) {
    made->setDiscardableAttrs(op->getDiscardableAttrDictionary());
    op->replaceAllUsesWith(made->getResults());
    op->erase();
  }

  void visit(Operation *op) {
    if (llvm::none_of(op->getOperands(), [&](Value value) { return isNarrow(value); }))
      return;
    b.setInsertionPoint(op);
    llvm::TypeSwitch<Operation *>(op)
        .Case<CastOp>([](auto) {}) // ours
        .Case<LayerNormOp, RMSNormOp>([&](auto norm) { lowerFirst(norm, norm->getNumOperands()); })
        .Case([&](AttentionOp attention) {
          lowerFirst(attention, 3);
          if (Value mask = attention.getMask())
            attention.getMaskMutable().assign(widen(mask));
        })
        .Case([&](RotaryOp rotary) { isNarrow(rotary.getInput()) ? lowerFirst(rotary, 1) : widenAll(rotary); })
        .Case([&](EmbeddingOp embedding) { embedding.getResult().setType(narrowed(embedding.getType())); })
        .Case([&](CrossEntropyOp) {}) // logits in the compute type, statistics and loss in f32
        .Case<SoftmaxOp, GeluOp, SiluOp, SigmoidOp, DetachOp>([&](auto) { lowerAll(op); })
        .Case([&](linalg::TransposeOp transpose) {
          replace(op, linalg::TransposeOp::create(b, op->getLoc(), transpose.getInput(), lower(transpose.getInit()), transpose.getPermutation()));
        })
        .Case([&](linalg::BroadcastOp broadcast) {
          replace(op, linalg::BroadcastOp::create(b, op->getLoc(), broadcast.getInput(), lower(broadcast.getInit()), broadcast.getDimensions()));
        })
        .Case([&](linalg::ContractOp contract) {
          lowerOperands(op);
          replace(op, linalg::ContractOp::create(b, op->getLoc(), TypeRange{op->getOperand(2).getType()}, op->getOperands().take_front(2),
                                                 op->getOperands().drop_front(2), contract.getIndexingMapsAttr()));
        })
        .Case<linalg::MatmulOp, linalg::BatchMatmulOp>([&](auto product) {
          lowerOperands(op);
          replace(op, decltype(product)::create(b, op->getLoc(), TypeRange{op->getOperand(2).getType()}, op->getOperands().take_front(2),
                                                op->getOperands().drop_front(2)));
        })
        .Case([&](tensor::PadOp pad) { lowerPad(pad); })
        .Case<tensor::CollapseShapeOp, tensor::ExpandShapeOp, tensor::ExtractSliceOp, tensor::InsertSliceOp, tensor::ConcatOp, tensor::CastOp>(
            [&](auto) { lowerAll(op); })
        .Case<arith::ExtFOp, arith::TruncFOp, arith::FPToSIOp, arith::FPToUIOp>([&](auto) { convert(op); })
        .Default([&](Operation *) {
          bool elementwise = op->hasTrait<OpTrait::Elementwise>() && isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
          elementwise && !isa<arith::BitcastOp>(op) ? lowerAll(op) : widenAll(op);
        });
  }

  /// What is not known here (sums, the function's results) goes on in f32.
  void widenAll(Operation *op) {
    for (OpOperand &use : op->getOpOperands())
      use.set(widen(use.get()));
  }

  /// A conversion to a type other than f32 stays; one that lost its reason goes.
  void convert(Operation *op) {
    Value input = op->getOperand(0), result = op->getResult(0);
    if (isNarrow(result)) {
      result.replaceAllUsesWith(input);
      op->erase();
    } else if (isa<arith::TruncFOp>(op)) {
      widenAll(op);
    }
  }

  void lowerPad(tensor::PadOp pad) {
    lowerOperands(pad, 0, 1);
    auto yield = cast<tensor::YieldOp>(pad.getBody()->getTerminator());
    Value value = yield.getValue();
    FloatAttr number;
    if (matchPattern(value, m_Constant(&number)))
      yield.getValueMutable().assign(arith::ConstantOp::create(b, pad.getLoc(), FloatAttr::get(narrow, converted(number.getValue()))));
    else {
      b.setInsertionPoint(yield);
      yield.getValueMutable().assign(arith::TruncFOp::create(b, pad.getLoc(), narrow, value));
    }
    pad.getResult().setType(narrowed(pad.getType()));
  }

  func::FuncOp function;
  FloatType narrow;
  OpBuilder b;
  DenseMap<Value, Value> lowered, widened;
};

struct TrainMixedPrecision : forebay::impl::TrainMixedPrecisionBase<TrainMixedPrecision> {
  using TrainMixedPrecisionBase::TrainMixedPrecisionBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (type != "bf16" && type != "f16") {
      module.emitError() << "type of train-mixed-precision is bf16 or f16, not '" << type << "'";
      return signalPassFailure();
    }
    auto forward = module.lookupSymbol<func::FuncOp>("forward");
    if (!forward || !forward.getBody().hasOneBlock()) {
      module.emitError() << "has no @forward: train-mixed-precision goes before train-differentiate";
      return signalPassFailure();
    }
    Builder b(&getContext());
    Narrower(forward, type == "bf16" ? cast<FloatType>(b.getBF16Type()) : cast<FloatType>(b.getF16Type())).run();
  }
};

} // namespace
