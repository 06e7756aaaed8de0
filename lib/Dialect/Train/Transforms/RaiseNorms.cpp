//===- RaiseNorms.cpp - RMS norm and layer norm ---------------------------===//

#include "RaiseUtils.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/MapVector.h"

namespace forebay {
#define GEN_PASS_DEF_TRAINRAISENORMS
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;
using namespace forebay::raise;

static constexpr llvm::StringLiteral kPass = "train-raise-norms";

namespace {

/// Why an inverse root mean square was not raised, by the operation that takes the root.
using NearMisses = llvm::MapVector<Operation *, std::string>;

/// 1 / sqrt(mean(square) + eps), with the square indexed by the axes of the product that it scales.
struct InverseRms {
  Operation *root = nullptr;
  Access square;
  double eps = 0;
};

/// A sum over the last axis divided by its length; `summand` is indexed like `access` and by `lastAxis`.
struct Mean {
  Access summand;
  std::string problem;
};

std::optional<Mean> matchMean(Access access, int lastAxis) {
  Value sum;
  double factor = 1;
  bool scaled = splitConstantFactor(access.base, sum, factor);
  Access summed = scaled ? access.into(sum) : access;
  auto reduce = summed.base.getDefiningOp<linalg::ReduceOp>();
  if (!reduce || reduce.getInputs().size() != 1 || reduce.getCombiner().front().getOperations().size() != 2 ||
      !isa<arith::AddFOp>(reduce.getCombiner().front().front()) || splatOf(reduce.getInits().front()) != 0.0)
    return std::nullopt;
  Mean mean;
  Value input = reduce.getInputs().front();
  int64_t rank = shapeOf(input).size();
  if (reduce.getDimensions() != ArrayRef<int64_t>{rank - 1}) {
    mean.problem = "the mean is not over the last axis alone";
    return mean;
  }
  if (!nearly(factor * shapeOf(input).back(), 1)) {
    mean.problem = "the sum is not divided by the size of the last axis";
    return mean;
  }
  mean.summand = {input, summed.dims};
  mean.summand.dims.push_back(lastAxis);
  peelViews(mean.summand);
  return mean;
}

/// Matches `access` as 1 / sqrt(mean + eps); `inverse` is false where it is the square root itself (a divisor).
std::optional<InverseRms> matchInverseRms(Access access, bool inverse, int lastAxis, NearMisses &misses) {
  InverseRms match;
  if (inverse) {
    if (auto rsqrt = access.base.getDefiningOp<math::RsqrtOp>()) {
      match.root = rsqrt;
    } else {
      auto div = access.base.getDefiningOp<arith::DivFOp>();
      if (!div || splatOf(div.getLhs()) != 1.0)
        return std::nullopt;
      access = access.into(div.getRhs());
    }
  }
  if (!match.root)
    match.root = access.base.getDefiningOp<math::SqrtOp>();
  if (!match.root)
    return std::nullopt;
  access = access.into(match.root->getOperand(0));
  if (auto add = access.base.getDefiningOp<arith::AddFOp>()) {
    std::optional<double> right = splatOf(add.getRhs()), left = splatOf(add.getLhs());
    if (!right && !left) {
      if (matchMean(access.into(add.getLhs()), lastAxis) || matchMean(access.into(add.getRhs()), lastAxis))
        misses[match.root] = "what is added to the mean is not a constant";
      return std::nullopt;
    }
    match.eps = right ? *right : *left;
    access = access.into(right ? add.getLhs() : add.getRhs());
  }
  std::optional<Mean> mean = matchMean(access, lastAxis);
  if (!mean)
    return std::nullopt;
  if (!mean->problem.empty()) {
    misses[match.root] = mean->problem;
    return std::nullopt;
  }
  match.square = mean->summand;
  return match;
}

/// `value` as a vector along the last axis of the anchor, if it is that and no constant; nothing is emitted.
std::optional<Access> lastAxisVector(Value value, int lastAxis) {
  if (splatOf(value))
    return std::nullopt;
  Access access = peeledAccess(value);
  // An axis of size 1 shows no use; the vector has one element then.
  for (int axis : access.dims)
    if (axis >= 0 && axis != lastAxis)
      return std::nullopt;
  if (shapeOf(access.base).empty() || (shapeOf(value)[lastAxis] != 1 && !access.usesAxis(lastAxis)))
    return std::nullopt;
  return access;
}

struct NormRaiser {
  OpBuilder builder;
  NearMisses misses;

  explicit NormRaiser(MLIRContext *context) : builder(context) {}

  Value vectorOf(const Access &access, int lastAxis, Location loc) {
    return projectAccess(builder, loc, access, {lastAxis});
  }

  /// If the only use of `value` is an operation of kind `OpTy` with a vector, that operation.
  template <typename OpTy> OpTy soleUserWithVector(Value value, int lastAxis, std::optional<Access> &vector) {
    if (!value.hasOneUse())
      return {};
    auto user = dyn_cast<OpTy>(*value.user_begin());
    if (!user)
      return {};
    vector = lastAxisVector(user.getLhs() == value ? user.getRhs() : user.getLhs(), lastAxis);
    return vector ? user : OpTy();
  }

  /// If `x` is x0 minus its mean over the last axis, x0.
  Value centred(Value x, int lastAxis) {
    auto sub = x.getDefiningOp<arith::SubFOp>();
    if (!sub)
      return Value();
    std::optional<Mean> mean = matchMean(peeledAccess(sub.getRhs()), lastAxis);
    return mean && mean->problem.empty() && mean->summand == peeledAccess(sub.getLhs()) ? sub.getLhs() : Value();
  }

  /// Raises `op` = x * r (or x / sqrt, with a weight among the factors or in the only use).
  void raise(Operation *op) {
    Value result = op->getResult(0);
    int lastAxis = shapeOf(result).size() - 1;
    if (lastAxis < 0)
      return;
    SmallVector<Value> factors;
    std::optional<InverseRms> rms;
    if (auto div = dyn_cast<arith::DivFOp>(op)) {
      rms = matchInverseRms(peeledAccess(div.getRhs()), false, lastAxis, misses);
      flattenProduct(div.getLhs(), factors, 3);
    } else {
      flattenProduct(result, factors, 3);
      for (Value &factor : factors) {
        if ((rms = matchInverseRms(peeledAccess(factor), true, lastAxis, misses))) {
          factors.erase(&factor);
          break;
        }
      }
    }
    if (!rms)
      return;
    Access squared = rms->square;
    Value root = squareRoot(squared.base);
    if (!root) {
      misses[rms->root] = "the mean is not of a square";
      return;
    }
    squared = squared.into(root);
    // One factor is the value whose squares were averaged, the other, if any, a weight.
    Value x;
    std::optional<Access> weight;
    bool fits = factors.size() <= 2;
    for (Value factor : factors) {
      if (!x && peeledAccess(factor) == squared)
        x = factor;
      else if (auto vector = weight ? std::nullopt : lastAxisVector(factor, lastAxis))
        weight = vector;
      else
        fits = false;
    }
    if (!x) {
      // The product as a whole may have been squared: weight first, then the norm.
      Value product = isa<arith::DivFOp>(op) ? op->getOperand(0) : Value();
      for (Value operand : op->getOperands())
        if (peeledAccess(operand) == squared)
          product = operand;
      if (!product || !(peeledAccess(product) == squared)) {
        misses[rms->root] = "the value that is scaled is not the one whose squares were averaged";
        return;
      }
      x = product;
      weight.reset();
    } else if (!fits) {
      return; // an inner product is the match
    }
    replace(op, x, *rms, weight, lastAxis);
    misses.erase(rms->root);
  }

  void replace(Operation *op, Value x, const InverseRms &rms, std::optional<Access> weight, int lastAxis) {
    Value value = op->getResult(0);
    Value uncentred = centred(x, lastAxis);
    if (!weight)
      if (auto mul = soleUserWithVector<arith::MulFOp>(value, lastAxis, weight))
        value = mul.getResult();
    std::optional<Access> bias;
    if (uncentred)
      if (auto add = soleUserWithVector<arith::AddFOp>(value, lastAxis, bias))
        value = add.getResult();
    Operation *last = value.getDefiningOp();
    Location loc = last->getLoc();
    builder.setInsertionPoint(last);
    bool unitOffset = false;
    if (weight && !uncentred)
      if (auto add = weight->base.getDefiningOp<arith::AddFOp>())
        for (auto [one, other] : {std::pair(add.getRhs(), add.getLhs()), std::pair(add.getLhs(), add.getRhs())})
          if (!unitOffset && splatOf(one) == 1.0) {
            weight = weight->into(other);
            unitOffset = true;
          }
    Value weightVector = weight ? vectorOf(*weight, lastAxis, loc) : Value();
    auto type = cast<RankedTensorType>(x.getType());
    auto rowType = RankedTensorType::get(type.getShape().drop_back(), type.getElementType());
    FloatAttr eps = builder.getF64FloatAttr(rms.eps);
    Value raised;
    if (uncentred)
      raised = train::LayerNormOp::create(builder, loc, TypeRange{type, rowType, rowType}, uncentred, weightVector,
                                          bias ? vectorOf(*bias, lastAxis, loc) : Value(), eps)
                   .getResult();
    else
      raised = train::RMSNormOp::create(builder, loc, TypeRange{type, rowType}, x, weightVector, eps,
                                        unitOffset ? builder.getUnitAttr() : UnitAttr())
                   .getResult();
    remarkRaised(loc, kPass, uncentred ? "layer_norm" : "rms_norm");
    value.replaceAllUsesWith(raised);
  }
};

struct TrainRaiseNorms : forebay::impl::TrainRaiseNormsBase<TrainRaiseNorms> {
  void runOnOperation() override {
    NormRaiser raiser(&getContext());
    for (Operation *op : collect<arith::MulFOp, arith::DivFOp>(getOperation()))
      if (!op->use_empty())
        raiser.raise(op);
    for (auto &[root, why] : raiser.misses)
      remarkNearMiss(root->getLoc(), kPass, "norm", why);
    eraseDeadOps(getOperation());
  }
};

} // namespace
