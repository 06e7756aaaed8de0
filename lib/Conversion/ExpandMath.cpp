//===- ExpandMath.cpp - math functions as arithmetic ----------------------===//
//
// Elementary functions as + - * / fma, comparisons and integer operations: the same bits on every instruction set, and
// vectorisable. The frequent ones (exp, tanh, erf) work in the type of their operand; the others evaluate in f64 and round.
// Errors in units of the last place are measured in test/unit/Conversion/ExpandMathTest.cpp.
//
//===----------------------------------------------------------------------===//

#include "forebay/Conversion/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/TypeSwitch.h"

#include <cmath>

using namespace mlir;

namespace forebay {
#define GEN_PASS_DEF_FOREBAYEXPANDMATH
#include "forebay/Conversion/Passes.h.inc"
} // namespace forebay

using namespace forebay;

namespace {

/// Shorthands for scalar arithmetic; operands of one call have one type.
class Math {
public:
  Math(OpBuilder &builder, Location loc) : b(loc, builder) {}

  ImplicitLocOpBuilder b;

  Value constant(double value, Type type) { return arith::ConstantOp::create(b, b.getFloatAttr(type, value)); }
  Value like(double value, Value x) { return constant(value, x.getType()); }
  Value integer(int64_t value, Type type) { return arith::ConstantOp::create(b, b.getIntegerAttr(type, value)); }
  Value add(Value x, Value y) { return arith::AddFOp::create(b, x, y); }
  Value sub(Value x, Value y) { return arith::SubFOp::create(b, x, y); }
  Value mul(Value x, Value y) { return arith::MulFOp::create(b, x, y); }
  Value div(Value x, Value y) { return arith::DivFOp::create(b, x, y); }
  Value fma(Value x, Value y, Value z) { return math::FmaOp::create(b, x, y, z); }
  Value neg(Value x) { return arith::NegFOp::create(b, x); }
  Value abs(Value x) { return math::AbsFOp::create(b, x); }
  Value copySign(Value x, Value y) { return math::CopySignOp::create(b, x, y); }
  Value cmp(arith::CmpFPredicate predicate, Value x, Value y) { return arith::CmpFOp::create(b, predicate, x, y); }
  Value gt(Value x, double y) { return cmp(arith::CmpFPredicate::OGT, x, like(y, x)); }
  Value lt(Value x, double y) { return cmp(arith::CmpFPredicate::OLT, x, like(y, x)); }
  Value eq(Value x, double y) { return cmp(arith::CmpFPredicate::OEQ, x, like(y, x)); }
  Value select(Value c, Value x, Value y) { return arith::SelectOp::create(b, c, x, y); }
  Value all(Value x, Value y) { return arith::AndIOp::create(b, x, y); }
  Value any(Value x, Value y) { return arith::OrIOp::create(b, x, y); }
  Value isNaN(Value x) { return cmp(arith::CmpFPredicate::UNO, x, x); }
  Value bits(Value x) { return arith::BitcastOp::create(b, intLike(x), x); }
  Value fromBits(Value x, Type type) { return arith::BitcastOp::create(b, type, x); }
  Value widen(Value x) { return x.getType().isF64() ? x : Value(arith::ExtFOp::create(b, b.getF64Type(), x)); }
  Value narrow(Value x, Type type) { return type == x.getType() ? x : Value(arith::TruncFOp::create(b, type, x)); }
  Type intLike(Value x) { return b.getIntegerType(x.getType().getIntOrFloatBitWidth()); }

  /// c[0] + x (c[1] + x (c[2] + ...)), by fma.
  Value horner(Value x, ArrayRef<double> coefficients) {
    Value result = like(coefficients.back(), x);
    for (double coefficient : llvm::reverse(coefficients.drop_back()))
      result = fma(result, x, like(coefficient, x));
    return result;
  }

  /// The nearest integer, as a float, and (modulo 2^22, 2^51) as an integer; |x| must be below 2^22 or 2^51.
  std::pair<Value, Value> roundToInt(Value x, Value factor) {
    Value magic = like(x.getType().isF32() ? 12582912.0 : 6755399441055744.0, x);
    Value shifted = fma(x, factor, magic);
    Value rounded = sub(shifted, magic);
    Value asInt = arith::SubIOp::create(b, bits(shifted), bits(magic));
    return {rounded, asInt};
  }

  /// x * 2^n for n within twice the range of exponents: two exact factors, one rounding.
  Value scale(Value x, Value n) {
    bool single = x.getType().isF32();
    Type type = n.getType();
    Value half = arith::ShRSIOp::create(b, n, integer(1, type));
    Value rest = arith::SubIOp::create(b, n, half);
    auto power = [&](Value exponent) {
      Value biased = arith::AddIOp::create(b, exponent, integer(single ? 127 : 1023, type));
      return fromBits(arith::ShLIOp::create(b, biased, integer(single ? 23 : 52, type)), x.getType());
    };
    return mul(mul(x, power(half)), power(rest));
  }

  Value exp(Value x);
  Value log(Value x);
  Value tanh(Value x);
  Value erf(Value x);
  Value sinCos(Value x, bool cosine);
  Value pow(Value x, Value y);
  Value powi(Value x, Value n);
  Value expm1(Value x);
  Value log1p(Value x);
};

/// 1/k! for k = 0 .. n.
static SmallVector<double> taylorExp(unsigned n) {
  SmallVector<double> result{1.0};
  for (unsigned k = 1; k <= n; ++k)
    result.push_back(result.back() / k);
  return result;
}

/// exp(x) = 2^n exp(r), |r| <= ln(2)/2. f32: minimax polynomial of degree 6, below 1 ulp; f64: Taylor.
Value Math::exp(Value x) {
  bool single = x.getType().isF32();
  double low = single ? -104.0 : -746.0, high = single ? 89.0 : 710.0;
  Value clamped = select(gt(x, high), like(high, x), select(lt(x, low), like(low, x), x));
  auto [n, asInt] = roundToInt(clamped, like(1.4426950408889634, x));
  Value r = fma(n, like(single ? -0x1.62e400p-1 : -0x1.62e42fefa39efp-1, x), clamped);
  r = fma(n, like(single ? -0x1.7f7d1cp-20 : -0x1.abc9e3b39803fp-56, x), r);
  static const double minimax[] = {1.0, 1.0, 4.99999851e-1, 1.66664720e-1, 4.16695364e-2, 8.37312452e-3, 1.37805939e-3};
  Value p = single ? horner(r, minimax) : horner(r, taylorExp(13));
  return scale(p, asInt);
}

/// log(x) = e ln(2) + log(m), m in [sqrt(1/2), sqrt(2)): the series of 2 artanh((m - 1) / (m + 1)); in f64.
Value Math::log(Value x) {
  Type type = x.getType();
  Value wide = widen(x);
  Type word = intLike(wide);
  // A denormal f64 becomes normal; one of f32 already is.
  Value tiny = lt(wide, 0x1p-1022);
  if (type.isF64())
    wide = select(tiny, mul(wide, like(0x1p54, wide)), wide);
  Value raw = bits(wide);
  Value shifted = arith::SubIOp::create(b, raw, integer(0x3FE6A09E667F3BCD, word));
  Value exponent = arith::ShRSIOp::create(b, shifted, integer(52, word));
  Value m = fromBits(arith::SubIOp::create(b, raw, arith::ShLIOp::create(b, exponent, integer(52, word))), wide.getType());
  // The exponent fits 32 bits, whose conversion every instruction set has.
  Value e = arith::SIToFPOp::create(b, wide.getType(), arith::TruncIOp::create(b, b.getI32Type(), exponent));
  if (type.isF64())
    e = select(tiny, sub(e, like(54.0, e)), e);
  Value f = div(sub(m, like(1.0, m)), add(m, like(1.0, m)));
  Value s = mul(f, f);
  SmallVector<double> series;
  for (unsigned k = 0; k < 12; ++k)
    series.push_back(2.0 / (2 * k + 1));
  // ln(2) in two parts, the first with trailing zeros, so that e times it is exact.
  Value tail = fma(e, like(0x1.ef35793c76730p-45, e), mul(f, horner(s, series)));
  Value result = fma(e, like(0x1.62e42fefa3800p-1, e), tail);
  double infinity = std::numeric_limits<double>::infinity();
  result = select(eq(wide, infinity), wide, result);
  result = select(eq(wide, 0.0), like(-infinity, wide), result);
  result = select(cmp(arith::CmpFPredicate::ULT, wide, like(0.0, wide)), like(std::nan(""), wide), result);
  return narrow(result, type);
}

/// f32: odd polynomial below 0.6, else 1 - 2 / (exp(2|x|) + 1).
Value Math::tanh(Value x) {
  Type type = x.getType();
  if (!type.isF32()) {
    // (e^2|x| - 1) / (e^2|x| + 1)
    Value a = abs(x), e = expm1(add(a, a));
    Value result = select(gt(a, 22.0), like(1.0, x), div(e, add(e, like(2.0, x))));
    return copySign(result, x);
  }
  Value a = abs(x), s = mul(x, x);
  static const double odd[] = {0.0, -3.33327681e-1, 1.33152470e-1, -5.23025580e-2, 1.57394409e-2};
  Value small = fma(horner(s, odd), x, x);
  Value e = exp(add(a, a));
  Value large = sub(like(1.0, x), div(like(2.0, x), add(like(1.0, x), e)));
  return select(lt(a, 0.599609375), small, copySign(large, x));
}

/// f32: Juffa's two polynomials, below 1 ulp: odd around 0, 1 - exp(-polynomial) outside.
Value Math::erf(Value x) {
  Value a = abs(x), s = mul(x, x);
  static const double odd[] = {1.28379166e-1,  -3.76125336e-1, 1.12819925e-1,
                               -2.67681349e-2, 4.99119423e-3,  -5.96761703e-4};
  Value small = fma(horner(s, odd), x, x);
  // Beyond 4 erf rounds to 1, and the polynomial is bounded.
  Value t = select(gt(a, 4.0), like(4.0, a), a);
  Value ts = mul(t, t);
  Value r = fma(like(-1.72853470e-5, t), t, like(3.83197126e-4, t));
  Value u = fma(like(-3.88396438e-3, t), t, like(2.42546219e-2, t));
  r = fma(r, ts, u);
  r = fma(r, t, like(-1.06777877e-1, t));
  r = fma(r, t, like(-6.34846687e-1, t));
  r = fma(r, t, like(-1.28717512e-1, t));
  r = fma(r, t, neg(t));
  Value large = copySign(sub(like(1.0, x), exp(r)), x);
  return select(gt(a, 0.927734375), large, select(isNaN(x), x, small));
}

/// x = n pi/2 + r in f64 with pi/2 in three parts; exact enough for |x| up to 2^30. Beyond 2^45 the result is NaN.
Value Math::sinCos(Value x, bool cosine) {
  Type type = x.getType();
  Value wide = widen(x);
  Value inRange = lt(abs(wide), 0x1p45);
  Value safe = select(inRange, wide, like(0.0, wide));
  auto [n, asInt] = roundToInt(safe, like(0.63661977236758138, wide));
  Value r = fma(n, like(-0x1.921fb54442d18p+0, wide), safe);
  r = fma(n, like(-0x1.1a62633145c07p-54, wide), r);
  r = fma(n, like(0x1.f1976b7ed8fbcp-110, wide), r);
  Value s = mul(r, r);
  SmallVector<double> sine, cosineSeries;
  double factorial = 1;
  for (int k = 0; k < 9; ++k) {
    double sign = k % 2 ? -1 : 1;
    cosineSeries.push_back(sign / factorial);
    factorial *= 2 * k + 1;
    sine.push_back(sign / factorial);
    factorial *= 2 * k + 2;
  }
  sine.front() = 0.0; // sin(r) = r + r * (...): keeps small r exact.
  Value sinR = fma(horner(s, sine), r, r), cosR = horner(s, cosineSeries);
  Type word = asInt.getType();
  Value quadrant = cosine ? Value(arith::AddIOp::create(b, asInt, integer(1, word))) : asInt;
  auto bit = [&](int64_t mask) {
    Value masked = arith::AndIOp::create(b, quadrant, integer(mask, word));
    return arith::CmpIOp::create(b, arith::CmpIPredicate::ne, masked, integer(0, word));
  };
  Value result = select(bit(1), cosR, sinR);
  result = select(bit(2), neg(result), result);
  if (!cosine) // -0 stays -0.
    result = select(eq(wide, 0.0), wide, result);
  return narrow(select(inRange, result, like(std::nan(""), wide)), type);
}

/// |x|^y = exp(y log|x|) in f64, signs and special cases as C's pow. For f32 the rounding is right in nearly all cases.
Value Math::pow(Value x, Value y) {
  Type type = x.getType();
  Value wx = widen(x), wy = widen(y), ax = abs(wx);
  double infinity = std::numeric_limits<double>::infinity();
  Value magnitude = exp(mul(wy, log(ax)));
  Value yInt = cmp(arith::CmpFPredicate::OEQ, math::FloorOp::create(b, wy), wy);
  Value halfY = mul(wy, like(0.5, wy));
  Value yEven = cmp(arith::CmpFPredicate::OEQ, math::FloorOp::create(b, halfY), halfY);
  Value yOdd = all(yInt, arith::XOrIOp::create(b, yEven, integer(1, b.getI1Type())));
  Value one = like(1.0, wx), nan = like(std::nan(""), wx);
  Value negative = cmp(arith::CmpFPredicate::OLT, copySign(one, wx), like(0.0, wx));
  // A negative finite base needs an integer exponent; its sign is the base's for odd ones.
  Value bad = all(all(lt(wx, 0.0), arith::XOrIOp::create(b, yInt, integer(1, b.getI1Type()))),
                  all(cmp(arith::CmpFPredicate::OGT, wx, like(-infinity, wx)), lt(abs(wy), infinity)));
  // 1 to an infinite power: 0 * inf above.
  Value isUnit = all(eq(ax, 1.0), eq(abs(wy), infinity));
  Value result = select(isUnit, one, magnitude);
  result = select(all(negative, yOdd), neg(result), result);
  result = select(bad, nan, result);
  result = select(any(isNaN(wx), isNaN(wy)), nan, result);
  result = select(any(eq(wy, 0.0), eq(wx, 1.0)), one, result);
  result = select(eq(wy, 1.0), wx, result);
  return narrow(result, type);
}

/// By repeated squaring, in the type of x.
Value Math::powi(Value x, Value n) {
  Type word = n.getType();
  Value zero = integer(0, word), one = integer(1, word);
  Value negative = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, n, zero);
  Value count = select(negative, arith::SubIOp::create(b, zero, n), n);
  auto loop = scf::WhileOp::create(
      b, TypeRange{word, x.getType(), x.getType()}, ValueRange{count, x, like(1.0, x)},
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        Value more = arith::CmpIOp::create(builder, loc, arith::CmpIPredicate::ne, arguments[0], zero);
        scf::ConditionOp::create(builder, loc, more, arguments);
      },
      [&](OpBuilder &builder, Location loc, ValueRange arguments) {
        Value odd = arith::TruncIOp::create(builder, loc, builder.getI1Type(), arguments[0]);
        Value product = arith::MulFOp::create(builder, loc, arguments[2], arguments[1]);
        Value result = arith::SelectOp::create(builder, loc, odd, product, arguments[2]);
        Value square = arith::MulFOp::create(builder, loc, arguments[1], arguments[1]);
        Value rest = arith::ShRUIOp::create(builder, loc, arguments[0], one);
        scf::YieldOp::create(builder, loc, ValueRange{rest, square, result});
      });
  Value result = loop.getResult(2);
  return select(negative, div(like(1.0, x), result), result);
}

/// (u - 1) x / log(u) with u = exp(x) (Kahan), in f64; Taylor where u rounds to 1.
Value Math::expm1(Value x) {
  Type type = x.getType();
  Value wide = widen(x);
  SmallVector<double> series = taylorExp(13);
  series.erase(series.begin());
  Value small = mul(wide, horner(wide, series));
  Value large = sub(exp(wide), like(1.0, wide));
  return narrow(select(lt(abs(wide), 0.3466), small, large), type);
}

/// log(1 + x) with the rounding of 1 + x made up for, in f64.
Value Math::log1p(Value x) {
  Type type = x.getType();
  Value wide = widen(x), one = like(1.0, wide);
  Value u = add(one, wide);
  Value lost = sub(wide, sub(u, one));
  Value result = add(log(u), select(lt(abs(wide), 0x1p40), div(lost, u), like(0.0, wide)));
  result = select(lt(abs(wide), 0x1p-54), wide, result);
  return narrow(select(eq(u, 0.0), like(-std::numeric_limits<double>::infinity(), wide), result), type);
}

/// The replacement of `op`, or null if it stays (an instruction everywhere) or is not known.
static Value expand(Operation *op, OpBuilder &builder) {
  Math m(builder, op->getLoc());
  Value x = op->getOperand(0);
  Type type = x.getType();
  auto inF64 = [&](auto &&body) { return m.narrow(body(m.widen(x)), type); };
  return llvm::TypeSwitch<Operation *, Value>(op)
      .Case([&](math::ExpOp) { return m.exp(x); })
      .Case([&](math::LogOp) { return m.log(x); })
      .Case([&](math::TanhOp) { return m.tanh(x); })
      .Case([&](math::ErfOp) { return type.isF32() ? m.erf(x) : Value(); })
      .Case([&](math::SinOp) { return m.sinCos(x, false); })
      .Case([&](math::CosOp) { return m.sinCos(x, true); })
      .Case([&](math::TanOp) {
        return inF64([&](Value w) { return m.div(m.sinCos(w, false), m.sinCos(w, true)); });
      })
      .Case([&](math::PowFOp op) { return m.pow(x, op.getRhs()); })
      .Case([&](math::FPowIOp op) { return m.powi(x, op.getRhs()); })
      .Case([&](math::ExpM1Op) { return m.expm1(x); })
      .Case([&](math::Log1pOp) { return m.log1p(x); })
      .Case([&](math::Exp2Op) {
        return inF64([&](Value w) { return m.exp(m.mul(w, m.like(0.69314718055994531, w))); });
      })
      .Case([&](math::Log2Op) {
        return inF64([&](Value w) { return m.mul(m.log(w), m.like(1.4426950408889634, w)); });
      })
      .Case([&](math::Log10Op) {
        return inF64([&](Value w) { return m.mul(m.log(w), m.like(0.43429448190325183, w)); });
      })
      .Case([&](math::SinhOp) {
        return inF64([&](Value w) {
          Value e = m.expm1(m.abs(w));
          Value half = m.mul(m.like(0.5, w), m.add(e, m.div(e, m.add(e, m.like(1.0, w)))));
          Value large = m.mul(m.exp(m.mul(m.abs(w), m.like(0.5, w))), m.mul(m.exp(m.mul(m.abs(w), m.like(0.5, w))), m.like(0.5, w)));
          return m.copySign(m.select(m.gt(m.abs(w), 40.0), large, half), w);
        });
      })
      .Case([&](math::CoshOp) {
        return inF64([&](Value w) {
          Value e = m.exp(m.abs(w));
          return m.mul(m.like(0.5, w), m.add(e, m.div(m.like(1.0, w), e)));
        });
      })
      .Case([&](math::RsqrtOp) { return m.div(m.like(1.0, x), math::SqrtOp::create(m.b, x)); })
      .Default([](Operation *) { return Value(); });
}

/// Operations that LLVM has as instructions (or short exact sequences) on every CPU that we compile for.
static bool isInstruction(Operation *op) {
  return isa<math::SqrtOp, math::FmaOp, math::AbsFOp, math::AbsIOp, math::CopySignOp, math::FloorOp, math::CeilOp,
             math::RoundEvenOp, math::TruncOp, math::RoundOp, math::IsNaNOp, math::IsInfOp, math::IsFiniteOp,
             math::CountLeadingZerosOp, math::CountTrailingZerosOp, math::CtPopOp>(op);
}

struct ExpandMath : forebay::impl::ForebayExpandMathBase<ExpandMath> {
  void runOnOperation() override {
    SmallVector<Operation *> ops;
    getOperation()->walk([&](Operation *op) {
      if (isa<math::MathDialect>(op->getDialect()) && !isInstruction(op))
        ops.push_back(op);
    });
    bool failedAny = false;
    for (Operation *op : ops) {
      Type type = op->getOperand(0).getType();
      OpBuilder builder(op);
      Value result = type.isF32() || type.isF64() ? expand(op, builder) : Value();
      if (!result) {
        InFlightDiagnostic error = op->emitError() << "no arithmetic form of '" << op->getName() << "' on " << type;
        error.attachNote() << "exp, log, tanh, sin, cos, pow and relatives work on f32 and f64, erf on f32";
        failedAny = true;
        continue;
      }
      op->replaceAllUsesWith(ValueRange{result});
      op->erase();
    }
    if (failedAny)
      signalPassFailure();
  }
};

} // namespace
