//===- LowerElementwise.cpp - train activations as arith and math ---------===//

#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace forebay;

namespace forebay {
#define GEN_PASS_DEF_TRAINLOWERELEMENTWISE
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

namespace {

/// Builds arithmetic on tensors of one type; every operation gets the phase of the operation that it replaces.
class Expander {
public:
  Expander(OpBuilder &builder, Operation *op) : b(op->getLoc(), builder), stored(cast<RankedTensorType>(op->getResult(0).getType())),
                                                type(stored), phase(op->getAttr(train::kPhaseAttr)) {
    if (stored.getElementType().isBF16() || stored.getElementType().isF16())
      type = stored.clone(b.getF32Type());
  }

  /// bf16 and f16 are types of memory: the expression, and its constants, are f32.
  Value load(Value x) { return stored == type ? x : make<arith::ExtFOp>(type, x); }
  Value store(Value y) { return stored == type ? y : make<arith::TruncFOp>(stored, y); }

  Value constant(double value) {
    return arith::ConstantOp::create(b, DenseElementsAttr::get(type, b.getFloatAttr(type.getElementType(), value)));
  }
  template <typename Op, typename... Args> Value make(Args &&...args) {
    auto op = Op::create(b, std::forward<Args>(args)...);
    if (phase)
      op->setAttr(train::kPhaseAttr, phase);
    return op->getResult(0);
  }
  Value add(Value x, Value y) { return make<arith::AddFOp>(x, y); }
  Value sub(Value x, Value y) { return make<arith::SubFOp>(x, y); }
  Value mul(Value x, Value y) { return make<arith::MulFOp>(x, y); }
  Value div(Value x, Value y) { return make<arith::DivFOp>(x, y); }

  /// 1 + exp(-x)
  Value onePlusExp(Value x) { return add(constant(1.0), make<math::ExpOp>(make<arith::NegFOp>(x))); }
  Value sigmoid(Value x) { return div(constant(1.0), onePlusExp(x)); }
  Value silu(Value x) { return div(x, onePlusExp(x)); }
  /// grad * s * (1 + x * (1 - s))
  Value siluGrad(Value grad, Value x) {
    Value s = sigmoid(x);
    Value slope = add(constant(1.0), mul(x, sub(constant(1.0), s)));
    return mul(grad, mul(s, slope));
  }

  static constexpr double kSqrt2OverPi = 0.79788456080286536, kCubic = 0.044715;
  static constexpr double kSqrtHalf = 0.70710678118654752, kInvSqrt2Pi = 0.39894228040143268;

  Value tanhArgument(Value x) {
    Value cube = mul(mul(x, x), x);
    return mul(constant(kSqrt2OverPi), add(x, mul(constant(kCubic), cube)));
  }
  Value gelu(Value x, bool tanh) {
    Value inner = tanh ? make<math::TanhOp>(tanhArgument(x)) : make<math::ErfOp>(mul(x, constant(kSqrtHalf)));
    return mul(mul(constant(0.5), x), add(constant(1.0), inner));
  }
  /// grad * (cdf(x) + x * pdf(x)), for the tanh form of the approximated cdf.
  Value geluGrad(Value grad, Value x, bool tanh) {
    Value one = constant(1.0), half = constant(0.5);
    if (!tanh) {
      Value cdf = mul(half, add(one, make<math::ErfOp>(mul(x, constant(kSqrtHalf)))));
      Value pdf = mul(constant(kInvSqrt2Pi), make<math::ExpOp>(mul(mul(x, x), constant(-0.5))));
      return mul(grad, add(cdf, mul(x, pdf)));
    }
    Value t = make<math::TanhOp>(tanhArgument(x));
    Value inner = mul(constant(kSqrt2OverPi), add(one, mul(constant(3 * kCubic), mul(x, x))));
    Value slope = mul(mul(mul(half, x), sub(one, mul(t, t))), inner);
    return mul(grad, add(mul(half, add(one, t)), slope));
  }

  /// k <= q, and k > q - window.
  Value causalMask(std::optional<int64_t> window) {
    int64_t rank = type.getRank();
    auto index = [&](int64_t axis) {
      auto vector = RankedTensorType::get({type.getDimSize(axis)}, b.getI64Type());
      Value iota = make<train::IotaOp>(vector, b.getI64IntegerAttr(0), b.getI64IntegerAttr(1));
      Value empty = tensor::EmptyOp::create(b, type.getShape(), b.getI64Type());
      SmallVector<int64_t> others;
      for (int64_t i = 0; i < rank; ++i)
        if (i != axis)
          others.push_back(i);
      return make<linalg::BroadcastOp>(iota, empty, others);
    };
    Value q = index(rank - 2), k = index(rank - 1);
    Value result = make<arith::CmpIOp>(arith::CmpIPredicate::sle, k, q);
    if (!window)
      return result;
    auto indexType = RankedTensorType::get(type.getShape(), b.getI64Type());
    Value width = arith::ConstantOp::create(b, DenseElementsAttr::get(indexType, b.getI64IntegerAttr(*window)));
    Value first = make<arith::SubIOp>(q, width);
    return make<arith::AndIOp>(result, make<arith::CmpIOp>(arith::CmpIPredicate::sgt, k, first));
  }

private:
  ImplicitLocOpBuilder b;
  RankedTensorType stored, type;
  Attribute phase;
};

struct LowerElementwise : forebay::impl::TrainLowerElementwiseBase<LowerElementwise> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) { ops.push_back(op); });
    for (Operation *op : ops) {
      if (!isa<train::GeluOp, train::GeluGradOp, train::SiluOp, train::SiluGradOp, train::SigmoidOp, train::DetachOp, train::CausalMaskOp>(op))
        continue;
      OpBuilder builder(op);
      Expander e(builder, op);
      Value result = llvm::TypeSwitch<Operation *, Value>(op)
                         .Case([&](train::GeluOp op) { return e.store(e.gelu(e.load(op.getInput()), op.getTanh())); })
                         .Case([&](train::GeluGradOp op) {
                           Value grad = e.load(op.getGrad()), x = e.load(op.getInput());
                           return e.store(e.geluGrad(grad, x, op.getTanh()));
                         })
                         .Case([&](train::SiluOp op) { return e.store(e.silu(e.load(op.getInput()))); })
                         .Case([&](train::SiluGradOp op) {
                           Value grad = e.load(op.getGrad()), x = e.load(op.getInput());
                           return e.store(e.siluGrad(grad, x));
                         })
                         .Case([&](train::SigmoidOp op) { return e.store(e.sigmoid(e.load(op.getInput()))); })
                         .Case([&](train::DetachOp op) { return op.getInput(); })
                         .Case([&](train::CausalMaskOp op) { return e.causalMask(op.getWindow()); })
                         .Default([](Operation *) { return Value(); });
      if (!result)
        continue;
      op->getResult(0).replaceAllUsesWith(result);
      op->erase();
    }
  }
};

} // namespace
