//===- RaiseActivations.cpp - Softmax, sigmoid, GELU, SiLU ----------------===//

#include "RaiseUtils.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"

namespace forebay {
#define GEN_PASS_DEF_TRAINRAISEACTIVATIONS
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;
using namespace forebay::raise;

static constexpr llvm::StringLiteral kPass = "train-raise-activations";

/// If `value` is `1 + exp(-x)`, returns x.
static Value onePlusExpOfMinus(Value value) {
  auto add = value.getDefiningOp<arith::AddFOp>();
  if (!add)
    return Value();
  for (auto [one, other] : {std::pair(add.getRhs(), add.getLhs()), std::pair(add.getLhs(), add.getRhs())}) {
    auto exp = other.getDefiningOp<math::ExpOp>();
    if (!exp || splatOf(one) != 1.0)
      continue;
    if (auto neg = exp.getOperand().getDefiningOp<arith::NegFOp>())
      return neg.getOperand();
    Value x;
    double factor;
    if (splitConstantFactor(exp.getOperand(), x, factor) && factor == -1)
      return x;
  }
  return Value();
}

/// 1 / (1 + exp(-x)) -> sigmoid(x), and y / (1 + exp(-x)) -> y * sigmoid(x).
static bool raiseSigmoid(OpBuilder &builder, Operation *op) {
  auto div = dyn_cast<arith::DivFOp>(op);
  Value x = div ? onePlusExpOfMinus(div.getRhs()) : Value();
  if (!x)
    return false;
  builder.setInsertionPoint(op);
  Value result = train::SigmoidOp::create(builder, op->getLoc(), x.getType(), x);
  if (splatOf(div.getLhs()) != 1.0)
    result = arith::MulFOp::create(builder, op->getLoc(), div.getLhs(), result);
  remarkRaised(op->getLoc(), kPass, "sigmoid");
  div.getResult().replaceAllUsesWith(result);
  return true;
}

/// exp(x - max(x)) / sum(exp(x - max(x))), both over the last axis -> softmax(x).
static bool raiseSoftmax(OpBuilder &builder, Operation *op) {
  auto div = dyn_cast<arith::DivFOp>(op);
  auto exp = div ? div.getLhs().getDefiningOp<math::ExpOp>() : nullptr;
  if (!exp)
    return false;
  int last = shapeOf(div.getResult()).size() - 1;
  auto overLastAxis = [&](Value value, auto isCombiner) -> Value {
    Access access = peeledAccess(value);
    auto reduce = access.base.getDefiningOp<linalg::ReduceOp>();
    if (!reduce || reduce.getInputs().size() != 1 || reduce.getDimensions() != ArrayRef<int64_t>{last})
      return Value();
    // The remaining axes must be the rows' own, in order.
    Access rows = identityAccess(reduce->getResult(0));
    if (access.dims != rows.dims || reduce.getCombiner().front().getOperations().size() != 2 ||
        !isCombiner(&reduce.getCombiner().front().front()))
      return Value();
    return reduce.getInputs().front();
  };
  Value summed = overLastAxis(div.getRhs(), [](Operation *op) { return isa<arith::AddFOp>(op); });
  if (summed != exp.getResult())
    return false;
  // Softmax does not depend on what is subtracted from a row; the largest element is what keeps exp finite.
  auto sub = exp.getOperand().getDefiningOp<arith::SubFOp>();
  Value x = sub ? sub.getLhs() : exp.getOperand();
  if (sub && overLastAxis(sub.getRhs(), [](Operation *op) { return isa<arith::MaximumFOp, arith::MaxNumFOp>(op); }) != x) {
    remarkNearMiss(op->getLoc(), kPass, "softmax", "what is subtracted before the exponential is not the row's largest element");
    return false;
  }
  builder.setInsertionPoint(op);
  remarkRaised(op->getLoc(), kPass, "softmax");
  div.getResult().replaceAllUsesWith(train::SoftmaxOp::create(builder, op->getLoc(), x.getType(), x));
  return true;
}

/// x * sigmoid(x) -> silu(x).
static bool raiseSilu(OpBuilder &builder, Operation *op) {
  auto mul = dyn_cast<arith::MulFOp>(op);
  if (!mul || mul->use_empty())
    return false;
  for (auto [gate, x] : {std::pair(mul.getRhs(), mul.getLhs()), std::pair(mul.getLhs(), mul.getRhs())}) {
    auto sigmoid = gate.getDefiningOp<train::SigmoidOp>();
    if (!sigmoid || sigmoid.getInput() != x)
      continue;
    builder.setInsertionPoint(op);
    remarkRaised(op->getLoc(), kPass, "silu");
    mul.getResult().replaceAllUsesWith(train::SiluOp::create(builder, op->getLoc(), x.getType(), x));
    return true;
  }
  return false;
}

/// The tanh or erf that `value` is a linear function of, and that function.
static Operation *linearInTanhOrErf(Value value, Polynomial &line) {
  // A short walk: at most constants are added and multiplied.
  SmallVector<Value> worklist{value};
  for (unsigned i = 0; i < worklist.size() && i < 8; ++i) {
    Operation *op = worklist[i].getDefiningOp();
    if (!op)
      continue;
    if (isa<math::TanhOp, math::ErfOp>(op)) {
      std::optional<Polynomial> polynomial = polynomialIn(value, op->getResult(0), 4);
      if (!polynomial || (*polynomial)[1] == 0 || (*polynomial)[2] != 0 || (*polynomial)[3] != 0)
        return nullptr;
      line = *polynomial;
      return op;
    }
    if (isa<arith::AddFOp, arith::MulFOp>(op))
      llvm::append_range(worklist, op->getOperands());
  }
  return nullptr;
}

/// c * x * (a + a tanh(u)) -> gelu(x): c a = 1/2, u = sqrt(2/pi) (x + 0.044715 x^3) or erf(x / sqrt(2)). Constants may be
/// anywhere in the products and u be written as any polynomial in x.
static bool raiseGelu(OpBuilder &builder, Operation *op) {
  if (!isa<arith::MulFOp>(op))
    return false;
  SmallVector<Value> factors;
  flattenProduct(op->getResult(0), factors);
  double constant = 1;
  Value x;
  Operation *inner = nullptr;
  Polynomial line{};
  for (Value factor : factors) {
    if (std::optional<double> splat = splatOf(factor)) {
      constant *= *splat;
      continue;
    }
    Polynomial found{};
    if (Operation *function = inner ? nullptr : linearInTanhOrErf(factor, found)) {
      inner = function;
      line = found;
      continue;
    }
    if (x)
      return false;
    x = factor;
  }
  if (!x || !inner || !nearly(line[0], line[1]))
    return false;
  bool isTanh = isa<math::TanhOp>(inner);
  double linear = isTanh ? 0.7978845608028654 : 0.7071067811865476, cubic = isTanh ? linear * 0.044715 : 0;
  std::optional<Polynomial> u = polynomialIn(inner->getOperand(0), x);
  Value undivided;
  double quotient;
  if (!u && x.getDefiningOp<arith::DivFOp>() && splitConstantFactor(x, undivided, quotient)) {
    x = undivided;
    constant *= quotient;
    u = polynomialIn(inner->getOperand(0), x);
  }
  if (!u) // some other use of tanh
    return false;
  if (!nearly(constant * line[0], 0.5)) {
    // A factor of 1/2 may still follow: then that product is the match.
    bool follows = op->hasOneUse() && isa<arith::MulFOp, arith::DivFOp>(*op->user_begin());
    if (!follows)
      remarkNearMiss(op->getLoc(), kPass, "gelu", "the factor is " + Twine(std::to_string(constant * line[0])) + ", not 0.5");
    return false;
  }
  if ((*u)[0] != 0 || !nearly((*u)[1], linear) || (*u)[2] != 0 || !nearly((*u)[3], cubic)) {
    remarkNearMiss(op->getLoc(), kPass, "gelu",
                   "the polynomial inside " + Twine(isTanh ? "tanh" : "erf") + " has the coefficients " +
                       std::to_string((*u)[0]) + ", " + std::to_string((*u)[1]) + ", " + std::to_string((*u)[2]) + ", " +
                       std::to_string((*u)[3]));
    return false;
  }
  builder.setInsertionPoint(op);
  remarkRaised(op->getLoc(), kPass, isTanh ? "gelu (tanh)" : "gelu");
  op->getResult(0).replaceAllUsesWith(train::GeluOp::create(builder, op->getLoc(), x.getType(), x, isTanh));
  return true;
}

namespace {
struct TrainRaiseActivations : forebay::impl::TrainRaiseActivationsBase<TrainRaiseActivations> {
  void runOnOperation() override {
    OpBuilder builder(&getContext());
    // In program order, so that what an operation reads has been raised.
    for (Operation *op : collect<arith::MulFOp, arith::DivFOp>(getOperation()))
      if (!raiseSigmoid(builder, op) && !raiseSoftmax(builder, op) && !raiseGelu(builder, op))
        raiseSilu(builder, op);
    // A quotient y / (1 + exp(-x)) has become a product that may be a silu.
    for (Operation *op : collect<arith::MulFOp>(getOperation()))
      raiseSilu(builder, op);
    eraseDeadOps(getOperation());
  }
};
} // namespace
