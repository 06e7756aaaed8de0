//===- Elementwise.cpp - Reference interpreter: arith and math ------------===//
//
// Elementwise operations take their shape from their operands, not from their type: a function on scalars (an optimizer's
// update) is evaluated on whole tensors. Operands of rank 0 stand for every element.
//
//===----------------------------------------------------------------------===//

#include "Evaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/TypeUtilities.h"

#include <cmath>

using namespace mlir;
using namespace forebay::reference;

/// Makes the result as large as the largest operand and returns its number of elements.
static int64_t shapeResult(const Frame &f) {
  Tensor &out = f.out();
  for (const TensorRef &operand : f.operands)
    if (operand->rank() > out.rank())
      out = Tensor(operand->shape, out.isFloat);
  return out.size();
}

static int64_t at(const Tensor &tensor, int64_t i) { return tensor.rank() == 0 ? 0 : i; }

template <double (*fn)(double)>
static LogicalResult unary(const Frame &f) {
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i)
    f.out().floats[i] = fn(f.in(0).floats[at(f.in(0), i)]);
  return success();
}

template <double (*fn)(double, double)>
static LogicalResult binary(const Frame &f) {
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i)
    f.out().floats[i] = fn(f.in(0).floats[at(f.in(0), i)], f.in(1).floats[at(f.in(1), i)]);
  return success();
}

/// Wraps to the width of the type, as two's complement; i1 is 0 or 1.
static int64_t wrap(Type type, int64_t value) {
  unsigned bits = isa<IndexType>(type) ? 64 : type.getIntOrFloatBitWidth();
  if (bits == 64)
    return value;
  if (bits == 1)
    return value & 1;
  return int64_t(uint64_t(value) << (64 - bits)) >> (64 - bits);
}

template <int64_t (*fn)(int64_t, int64_t)>
static LogicalResult integer(const Frame &f) {
  Type type = getElementTypeOrSelf(f.op->getResult(0).getType());
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i)
    f.out().ints[i] = wrap(type, fn(f.in(0).ints[at(f.in(0), i)], f.in(1).ints[at(f.in(1), i)]));
  return success();
}

static double addf(double a, double b) { return a + b; }
static double subf(double a, double b) { return a - b; }
static double mulf(double a, double b) { return a * b; }
static double divf(double a, double b) { return a / b; }
static double negf(double a) { return -a; }
/// maximum and minimum pass a NaN on and order -0 below +0; maxnum and minnum drop a NaN.
static double maximumf(double a, double b) {
  if (std::isnan(a) || std::isnan(b))
    return NAN;
  return a == b ? (std::signbit(a) ? b : a) : std::max(a, b);
}
static double minimumf(double a, double b) { return -maximumf(-a, -b); }
static double rsqrt(double a) { return 1.0 / std::sqrt(a); }

static int64_t addi(int64_t a, int64_t b) { return uint64_t(a) + uint64_t(b); }
static int64_t subi(int64_t a, int64_t b) { return uint64_t(a) - uint64_t(b); }
static int64_t muli(int64_t a, int64_t b) { return uint64_t(a) * uint64_t(b); }
static int64_t divsi(int64_t a, int64_t b) { return b == 0 ? 0 : b == -1 ? subi(0, a) : a / b; }
static int64_t remsi(int64_t a, int64_t b) { return b == 0 || b == -1 ? 0 : a % b; }
static int64_t floordivsi(int64_t a, int64_t b) { return divsi(a, b) - (remsi(a, b) != 0 && (a < 0) != (b < 0)); }
static int64_t ceildivsi(int64_t a, int64_t b) { return divsi(a, b) + (remsi(a, b) != 0 && (a < 0) == (b < 0)); }
static int64_t maxsi(int64_t a, int64_t b) { return std::max(a, b); }
static int64_t minsi(int64_t a, int64_t b) { return std::min(a, b); }
static int64_t andi(int64_t a, int64_t b) { return a & b; }
static int64_t ori(int64_t a, int64_t b) { return a | b; }
static int64_t xori(int64_t a, int64_t b) { return a ^ b; }
static int64_t shli(int64_t a, int64_t b) { return b > 63 ? 0 : uint64_t(a) << b; }
static int64_t shrsi(int64_t a, int64_t b) { return a >> std::min<int64_t>(b, 63); }

static bool compare(arith::CmpFPredicate predicate, double a, double b) {
  bool unordered = std::isnan(a) || std::isnan(b);
  using P = arith::CmpFPredicate;
  switch (predicate) {
  case P::AlwaysFalse: return false;
  case P::OEQ: return a == b;
  case P::OGT: return a > b;
  case P::OGE: return a >= b;
  case P::OLT: return a < b;
  case P::OLE: return a <= b;
  case P::ONE: return !unordered && a != b;
  case P::ORD: return !unordered;
  case P::UEQ: return unordered || a == b;
  case P::UGT: return unordered || a > b;
  case P::UGE: return unordered || a >= b;
  case P::ULT: return unordered || a < b;
  case P::ULE: return unordered || a <= b;
  case P::UNE: return a != b;
  case P::UNO: return unordered;
  case P::AlwaysTrue: return true;
  }
  llvm_unreachable("every predicate is above");
}

static bool compare(arith::CmpIPredicate predicate, int64_t a, int64_t b, unsigned bits) {
  // Unsigned comparisons look at the bits of the type.
  uint64_t mask = bits == 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1;
  uint64_t ua = a & mask, ub = b & mask;
  // A true i1 is -1 when it is signed.
  if (bits == 1)
    a = -a, b = -b;
  using P = arith::CmpIPredicate;
  switch (predicate) {
  case P::eq: return ua == ub;
  case P::ne: return ua != ub;
  case P::slt: return a < b;
  case P::sle: return a <= b;
  case P::sgt: return a > b;
  case P::sge: return a >= b;
  case P::ult: return ua < ub;
  case P::ule: return ua <= ub;
  case P::ugt: return ua > ub;
  case P::uge: return ua >= ub;
  }
  llvm_unreachable("every predicate is above");
}

static LogicalResult cmpf(const Frame &f) {
  auto predicate = cast<arith::CmpFOp>(f.op).getPredicate();
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i)
    f.out().ints[i] = compare(predicate, f.in(0).floats[at(f.in(0), i)], f.in(1).floats[at(f.in(1), i)]);
  return success();
}

static LogicalResult cmpi(const Frame &f) {
  auto predicate = cast<arith::CmpIOp>(f.op).getPredicate();
  Type type = getElementTypeOrSelf(f.op->getOperand(0).getType());
  unsigned bits = isa<IndexType>(type) ? 64 : type.getIntOrFloatBitWidth();
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i)
    f.out().ints[i] = compare(predicate, f.in(0).ints[at(f.in(0), i)], f.in(1).ints[at(f.in(1), i)], bits);
  return success();
}

static LogicalResult select(const Frame &f) {
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i) {
    const Tensor &from = f.in(0).ints[at(f.in(0), i)] ? f.in(1) : f.in(2);
    if (f.out().isFloat)
      f.out().floats[i] = from.floats[at(from, i)];
    else
      f.out().ints[i] = from.ints[at(from, i)];
  }
  return success();
}

/// In double mode every floating-point type is double; truncf rounds only if the options say so.
static LogicalResult copyFloats(const Frame &f) {
  f.out() = f.in(0);
  return success();
}

static LogicalResult convertInts(const Frame &f, bool isSigned) {
  Type from = getElementTypeOrSelf(f.op->getOperand(0).getType());
  Type to = getElementTypeOrSelf(f.op->getResult(0).getType());
  unsigned bits = isa<IndexType>(from) ? 64 : from.getIntOrFloatBitWidth();
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i) {
    int64_t value = f.in(0).ints[at(f.in(0), i)];
    if (bits == 1 && isSigned)
      value = -value;
    if (!isSigned && bits < 64)
      value &= (int64_t(1) << bits) - 1;
    if (f.out().isFloat)
      f.out().floats[i] = isSigned || bits < 64 ? double(value) : double(uint64_t(value));
    else
      f.out().ints[i] = wrap(to, value);
  }
  return success();
}
static LogicalResult signedInts(const Frame &f) { return convertInts(f, true); }
static LogicalResult unsignedInts(const Frame &f) { return convertInts(f, false); }

static LogicalResult floatToInt(const Frame &f) {
  Type to = getElementTypeOrSelf(f.op->getResult(0).getType());
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i) {
    double value = f.in(0).floats[at(f.in(0), i)];
    // Out of range is poison in MLIR; a fixed value keeps the interpreter defined.
    bool fits = value >= -9.2233720368547758e18 && value < 9.2233720368547758e18;
    f.out().ints[i] = wrap(to, fits ? int64_t(value) : INT64_MIN);
  }
  return success();
}

static LogicalResult constant(const Frame &f) {
  Attribute value = cast<arith::ConstantOp>(f.op).getValue();
  Tensor &out = f.out();
  if (auto number = dyn_cast<FloatAttr>(value))
    out.floats[0] = number.getValueAsDouble();
  else if (auto number = dyn_cast<IntegerAttr>(value))
    out.ints[0] = wrap(number.getType(), number.getValue().getSExtValue());
  else if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    Type element = dense.getElementType();
    if (out.isFloat)
      for (auto [i, number] : llvm::enumerate(dense.getValues<FloatAttr>()))
        out.floats[i] = number.getValueAsDouble();
    else
      for (auto [i, number] : llvm::enumerate(dense.getValues<APInt>()))
        out.ints[i] = wrap(element, number.getSExtValue());
  } else {
    return f.op->emitError() << "holds a constant that the reference interpreter does not know";
  }
  return success();
}

static LogicalResult fma3(const Frame &f) {
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i)
    f.out().floats[i] = std::fma(f.in(0).floats[at(f.in(0), i)], f.in(1).floats[at(f.in(1), i)],
                                 f.in(2).floats[at(f.in(2), i)]);
  return success();
}

static LogicalResult fpowi(const Frame &f) {
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i)
    f.out().floats[i] = std::pow(f.in(0).floats[at(f.in(0), i)], double(f.in(1).ints[at(f.in(1), i)]));
  return success();
}

template <bool (*fn)(double)>
static LogicalResult classify(const Frame &f) {
  for (int64_t i = 0, n = shapeResult(f); i < n; ++i)
    f.out().ints[i] = fn(f.in(0).floats[at(f.in(0), i)]);
  return success();
}
static bool isNaN(double a) { return std::isnan(a); }
static bool isInf(double a) { return std::isinf(a); }
static bool isFinite(double a) { return std::isfinite(a); }

void forebay::reference::addElementwiseHandlers(Handlers &h) {
  h["arith.constant"] = constant;
  h["arith.addf"] = binary<addf>;
  h["arith.subf"] = binary<subf>;
  h["arith.mulf"] = binary<mulf>;
  h["arith.divf"] = binary<divf>;
  h["arith.remf"] = binary<std::fmod>;
  h["arith.maximumf"] = binary<maximumf>;
  h["arith.minimumf"] = binary<minimumf>;
  h["arith.maxnumf"] = binary<std::fmax>;
  h["arith.minnumf"] = binary<std::fmin>;
  h["arith.negf"] = unary<negf>;
  h["arith.addi"] = integer<addi>;
  h["arith.subi"] = integer<subi>;
  h["arith.muli"] = integer<muli>;
  h["arith.divsi"] = integer<divsi>;
  h["arith.remsi"] = integer<remsi>;
  h["arith.floordivsi"] = integer<floordivsi>;
  h["arith.ceildivsi"] = integer<ceildivsi>;
  h["arith.maxsi"] = integer<maxsi>;
  h["arith.minsi"] = integer<minsi>;
  h["arith.andi"] = integer<andi>;
  h["arith.ori"] = integer<ori>;
  h["arith.xori"] = integer<xori>;
  h["arith.shli"] = integer<shli>;
  h["arith.shrsi"] = integer<shrsi>;
  h["arith.cmpf"] = cmpf;
  h["arith.cmpi"] = cmpi;
  h["arith.select"] = select;
  h["arith.extf"] = copyFloats;
  h["arith.truncf"] = copyFloats;
  h["train.cast"] = copyFloats;
  h["arith.extsi"] = signedInts;
  h["arith.extui"] = unsignedInts;
  h["arith.trunci"] = signedInts;
  h["arith.index_cast"] = signedInts;
  h["arith.sitofp"] = signedInts;
  h["arith.uitofp"] = unsignedInts;
  h["arith.fptosi"] = floatToInt;
  h["arith.fptoui"] = floatToInt;
  h["math.sqrt"] = unary<std::sqrt>;
  h["math.rsqrt"] = unary<rsqrt>;
  h["math.cbrt"] = unary<std::cbrt>;
  h["math.exp"] = unary<std::exp>;
  h["math.exp2"] = unary<std::exp2>;
  h["math.expm1"] = unary<std::expm1>;
  h["math.log"] = unary<std::log>;
  h["math.log2"] = unary<std::log2>;
  h["math.log10"] = unary<std::log10>;
  h["math.log1p"] = unary<std::log1p>;
  h["math.tanh"] = unary<std::tanh>;
  h["math.erf"] = unary<std::erf>;
  h["math.erfc"] = unary<std::erfc>;
  h["math.sin"] = unary<std::sin>;
  h["math.cos"] = unary<std::cos>;
  h["math.tan"] = unary<std::tan>;
  h["math.asin"] = unary<std::asin>;
  h["math.acos"] = unary<std::acos>;
  h["math.atan"] = unary<std::atan>;
  h["math.sinh"] = unary<std::sinh>;
  h["math.cosh"] = unary<std::cosh>;
  h["math.absf"] = unary<std::fabs>;
  h["math.floor"] = unary<std::floor>;
  h["math.ceil"] = unary<std::ceil>;
  h["math.round"] = unary<std::round>;
  h["math.roundeven"] = unary<std::nearbyint>;
  h["math.trunc"] = unary<std::trunc>;
  h["math.powf"] = binary<std::pow>;
  h["math.atan2"] = binary<std::atan2>;
  h["math.copysign"] = binary<std::copysign>;
  h["math.fma"] = fma3;
  h["math.fpowi"] = fpowi;
  h["math.isnan"] = classify<isNaN>;
  h["math.isinf"] = classify<isInf>;
  h["math.isfinite"] = classify<isFinite>;
}
