//===- GradientModelsElementwise.cpp - Gradients of arith and math --------===//
//
// Conventions are PyTorch's where a function has no derivative:
//  * maximumf/minimumf (maxnumf/minnumf) of two values that both vary: a tie gives each operand half of the gradient
//    (torch.maximum). Where one operand is constant the operation is a clip: at the bound the whole gradient passes
//    (torch.clamp). A rectifier, whose gradient at 0 is 0, is therefore `select(x > 0, x, 0)`, not a maximum.
//  * absf at 0 gives 0. Rounding functions give 0 everywhere.
//  * select routes the gradient with a select of its own, so that a branch that was not taken gets exactly 0,
//    whatever the values there are.
//
//===----------------------------------------------------------------------===//

#include "GradientModels.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

using namespace mlir;
using namespace forebay::train;

namespace {

using Pred = arith::CmpFPredicate;
using Needs = ArrayRef<bool>;
using Out = SmallVectorImpl<Value> &;

/// Calls `Derived::build(builder, op, grad, needs, out)`.
template <typename Derived, typename OpT>
struct Model : GradientOpInterface::ExternalModel<Derived, OpT> {
  LogicalResult buildGradient(Operation *op, OpBuilder &builder, ValueRange grads, Needs needs, Out out) const {
    GradientBuilder b(builder, op->getLoc());
    Derived::build(b, cast<OpT>(op), grads[0], needs, out);
    return success();
  }
};

/// A function of one tensor: `Derived::dx(builder, grad, x, y)`.
template <typename Derived, typename OpT>
struct Unary : Model<Derived, OpT> {
  static void build(GradientBuilder &b, OpT op, Value g, Needs, Out out) {
    out[0] = Derived::dx(b, g, op->getOperand(0), op->getResult(0));
  }
};

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

struct AddF : Model<AddF, arith::AddFOp> {
  static void build(GradientBuilder &, arith::AddFOp, Value g, Needs, Out out) { out[0] = out[1] = g; }
};

struct SubF : Model<SubF, arith::SubFOp> {
  static void build(GradientBuilder &b, arith::SubFOp, Value g, Needs needs, Out out) {
    out[0] = g;
    if (needs[1])
      out[1] = b.neg(g);
  }
};

struct MulF : Model<MulF, arith::MulFOp> {
  static void build(GradientBuilder &b, arith::MulFOp op, Value g, Needs needs, Out out) {
    if (needs[0])
      out[0] = b.mul(g, op.getRhs());
    if (needs[1])
      out[1] = b.mul(g, op.getLhs());
  }
};

struct DivF : Model<DivF, arith::DivFOp> {
  static void build(GradientBuilder &b, arith::DivFOp op, Value g, Needs needs, Out out) {
    out[0] = b.div(g, op.getRhs());
    if (needs[1])
      out[1] = b.neg(b.mul(out[0], op.getResult()));
  }
};

struct NegF : Unary<NegF, arith::NegFOp> {
  static Value dx(GradientBuilder &b, Value g, Value, Value) { return b.neg(g); }
};

/// `below` is the comparison under which an operand loses.
template <typename Derived, typename OpT, Pred below>
struct Extremum : Model<Derived, OpT> {
  static void build(GradientBuilder &b, OpT op, Value g, Needs needs, Out out) {
    Value zero = b.zeros(g.getType());
    for (unsigned i = 0; i < 2; ++i) {
      if (!needs[i])
        continue;
      Value self = op->getOperand(i), other = op->getOperand(1 - i), share = g;
      if (!isConstantLike(other))
        share = b.select(b.cmp(Pred::OEQ, self, other), b.mul(g, 0.5), g);
      out[i] = b.select(b.cmp(below, self, other), zero, share);
    }
  }
};
struct MaximumF : Extremum<MaximumF, arith::MaximumFOp, Pred::OLT> {};
struct MaxNumF : Extremum<MaxNumF, arith::MaxNumFOp, Pred::OLT> {};
struct MinimumF : Extremum<MinimumF, arith::MinimumFOp, Pred::OGT> {};
struct MinNumF : Extremum<MinNumF, arith::MinNumFOp, Pred::OGT> {};

struct Select : Model<Select, arith::SelectOp> {
  static void build(GradientBuilder &b, arith::SelectOp op, Value g, Needs needs, Out out) {
    Value zero = b.zeros(g.getType());
    if (needs[1])
      out[1] = b.select(op.getCondition(), g, zero);
    if (needs[2])
      out[2] = b.select(op.getCondition(), zero, g);
  }
};

struct ExtF : Unary<ExtF, arith::ExtFOp> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) { return arith::TruncFOp::create(b, x.getType(), g); }
};
struct TruncF : Unary<TruncF, arith::TruncFOp> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) { return arith::ExtFOp::create(b, x.getType(), g); }
};

/// Nothing to give: constants have no operands.
struct Constant : GradientOpInterface::ExternalModel<Constant, arith::ConstantOp> {
  LogicalResult buildGradient(Operation *, OpBuilder &, ValueRange, Needs, Out) const { return success(); }
};

//===----------------------------------------------------------------------===//
// math
//===----------------------------------------------------------------------===//

struct Sqrt : Unary<Sqrt, math::SqrtOp> {
  static Value dx(GradientBuilder &b, Value g, Value, Value y) { return b.div(b.mul(g, 0.5), y); }
};
struct Rsqrt : Unary<Rsqrt, math::RsqrtOp> {
  static Value dx(GradientBuilder &b, Value g, Value, Value y) { return b.mul(b.mul(g, -0.5), b.mul(y, b.mul(y, y))); }
};
struct Exp : Unary<Exp, math::ExpOp> {
  static Value dx(GradientBuilder &b, Value g, Value, Value y) { return b.mul(g, y); }
};
struct Exp2 : Unary<Exp2, math::Exp2Op> {
  static Value dx(GradientBuilder &b, Value g, Value, Value y) { return b.mul(b.mul(g, M_LN2), y); }
};
struct ExpM1 : Unary<ExpM1, math::ExpM1Op> {
  static Value dx(GradientBuilder &b, Value g, Value, Value y) { return b.mul(g, b.add(y, b.splat(y.getType(), 1.0))); }
};
struct Log : Unary<Log, math::LogOp> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) { return b.div(g, x); }
};
struct Log2 : Unary<Log2, math::Log2Op> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) { return b.div(b.mul(g, M_LOG2E), x); }
};
struct Log10 : Unary<Log10, math::Log10Op> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) { return b.div(b.mul(g, M_LOG10E), x); }
};
struct Log1p : Unary<Log1p, math::Log1pOp> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) { return b.div(g, b.add(x, b.splat(x.getType(), 1.0))); }
};
struct Tanh : Unary<Tanh, math::TanhOp> {
  static Value dx(GradientBuilder &b, Value g, Value, Value y) {
    return b.mul(g, b.sub(b.splat(y.getType(), 1.0), b.mul(y, y)));
  }
};
struct Erf : Unary<Erf, math::ErfOp> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) {
    Value bell = math::ExpOp::create(b, b.neg(b.mul(x, x)));
    return b.mul(b.mul(g, M_2_SQRTPI), bell);
  }
};
struct Sin : Unary<Sin, math::SinOp> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) { return b.mul(g, math::CosOp::create(b, x)); }
};
struct Cos : Unary<Cos, math::CosOp> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) { return b.neg(b.mul(g, math::SinOp::create(b, x))); }
};
struct AbsF : Unary<AbsF, math::AbsFOp> {
  static Value dx(GradientBuilder &b, Value g, Value x, Value) {
    Value zero = b.zeros(x.getType());
    Value negative = b.select(b.cmp(Pred::OLT, x, zero), b.neg(g), zero);
    return b.select(b.cmp(Pred::OGT, x, zero), g, negative);
  }
};

/// Piecewise constant: a path, but a gradient of 0 (as in PyTorch, where such a parameter still decays).
template <typename Derived, typename OpT>
struct Rounding : Unary<Derived, OpT> {
  static Value dx(GradientBuilder &b, Value, Value x, Value) { return b.zeros(x.getType()); }
};
struct Floor : Rounding<Floor, math::FloorOp> {};
struct Ceil : Rounding<Ceil, math::CeilOp> {};
struct Round : Rounding<Round, math::RoundOp> {};
struct RoundEven : Rounding<RoundEven, math::RoundEvenOp> {};
struct Trunc : Rounding<Trunc, math::TruncOp> {};

/// da = g * b * a^(b-1), 0 where b is 0; db = g * a^b * log(a), 0 where a is 0 and b is not negative.
struct PowF : Model<PowF, math::PowFOp> {
  static void build(GradientBuilder &b, math::PowFOp op, Value g, Needs needs, Out out) {
    Value base = op.getLhs(), exponent = op.getRhs(), zero = b.zeros(g.getType());
    if (needs[0])
      out[0] = baseGradient(b, base, exponent, g, zero);
    if (needs[1]) {
      Value slope = b.mul(op.getResult(), math::LogOp::create(b, base));
      Value flat = arith::AndIOp::create(b, b.cmp(Pred::OEQ, base, zero), b.cmp(Pred::OGE, exponent, zero));
      out[1] = b.select(flat, zero, b.mul(g, slope));
    }
  }

  static Value baseGradient(GradientBuilder &b, Value base, Value exponent, Value g, Value zero) {
    // Squares and cubes are what models write: products instead of pow.
    FloatAttr constant;
    DenseFPElementsAttr dense;
    if (matchPattern(exponent, m_Constant(&dense)) && dense.isSplat())
      constant = dense.getSplatValue<FloatAttr>();
    else
      matchPattern(exponent, m_Constant(&constant));
    if (constant) {
      double n = constant.getValueAsDouble();
      if (n == 0.0)
        return zero;
      if (n == 1.0)
        return g;
      if (n == 2.0)
        return b.mul(b.mul(g, 2.0), base);
      if (n == 3.0)
        return b.mul(b.mul(g, 3.0), b.mul(base, base));
      Value power = math::PowFOp::create(b, base, b.splat(base.getType(), n - 1.0));
      return b.mul(b.mul(g, n), power);
    }
    Value less = b.sub(exponent, b.splat(exponent.getType(), 1.0));
    Value slope = b.mul(exponent, math::PowFOp::create(b, base, less));
    return b.select(b.cmp(Pred::OEQ, exponent, zero), zero, b.mul(g, slope));
  }
};

/// An integer power: da = g * n * a^(n-1), 0 where n is 0.
struct FPowI : Model<FPowI, math::FPowIOp> {
  static void build(GradientBuilder &b, math::FPowIOp op, Value g, Needs, Out out) {
    Value base = op.getLhs(), n = op.getRhs();
    Type type = n.getType();
    auto integer = [&](int64_t value) -> Value {
      TypedAttr element = b.getIntegerAttr(getElementTypeOrSelf(type), value);
      if (auto shaped = dyn_cast<ShapedType>(type))
        element = DenseElementsAttr::get(shaped, element);
      return arith::ConstantOp::create(b, element);
    };
    Value power = math::FPowIOp::create(b, base, arith::SubIOp::create(b, n, integer(1)));
    Value slope = b.mul(arith::SIToFPOp::create(b, base.getType(), n), power);
    Value flat = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, n, integer(0));
    out[0] = b.select(flat, b.zeros(g.getType()), b.mul(g, slope));
  }
};

struct Fma : Model<Fma, math::FmaOp> {
  static void build(GradientBuilder &b, math::FmaOp op, Value g, Needs needs, Out out) {
    if (needs[0])
      out[0] = b.mul(g, op.getB());
    if (needs[1])
      out[1] = b.mul(g, op.getA());
    out[2] = g;
  }
};

} // namespace

void forebay::train::registerElementwiseGradients(DialectRegistry &registry) {
  registry.addExtension(+[](MLIRContext *context, arith::ArithDialect *) {
    arith::AddFOp::attachInterface<AddF>(*context);
    arith::SubFOp::attachInterface<SubF>(*context);
    arith::MulFOp::attachInterface<MulF>(*context);
    arith::DivFOp::attachInterface<DivF>(*context);
    arith::NegFOp::attachInterface<NegF>(*context);
    arith::MaximumFOp::attachInterface<MaximumF>(*context);
    arith::MinimumFOp::attachInterface<MinimumF>(*context);
    arith::MaxNumFOp::attachInterface<MaxNumF>(*context);
    arith::MinNumFOp::attachInterface<MinNumF>(*context);
    arith::SelectOp::attachInterface<Select>(*context);
    arith::ExtFOp::attachInterface<ExtF>(*context);
    arith::TruncFOp::attachInterface<TruncF>(*context);
    arith::ConstantOp::attachInterface<Constant>(*context);
  });
  registry.addExtension(+[](MLIRContext *context, math::MathDialect *) {
    // Gradients of math operations use arith.
    context->loadDialect<arith::ArithDialect>();
    math::SqrtOp::attachInterface<Sqrt>(*context);
    math::RsqrtOp::attachInterface<Rsqrt>(*context);
    math::ExpOp::attachInterface<Exp>(*context);
    math::Exp2Op::attachInterface<Exp2>(*context);
    math::ExpM1Op::attachInterface<ExpM1>(*context);
    math::LogOp::attachInterface<Log>(*context);
    math::Log2Op::attachInterface<Log2>(*context);
    math::Log10Op::attachInterface<Log10>(*context);
    math::Log1pOp::attachInterface<Log1p>(*context);
    math::TanhOp::attachInterface<Tanh>(*context);
    math::ErfOp::attachInterface<Erf>(*context);
    math::SinOp::attachInterface<Sin>(*context);
    math::CosOp::attachInterface<Cos>(*context);
    math::AbsFOp::attachInterface<AbsF>(*context);
    math::FloorOp::attachInterface<Floor>(*context);
    math::CeilOp::attachInterface<Ceil>(*context);
    math::RoundOp::attachInterface<Round>(*context);
    math::RoundEvenOp::attachInterface<RoundEven>(*context);
    math::TruncOp::attachInterface<Trunc>(*context);
    math::PowFOp::attachInterface<PowF>(*context);
    math::FPowIOp::attachInterface<FPowI>(*context);
    math::FmaOp::attachInterface<Fma>(*context);
  });
}
