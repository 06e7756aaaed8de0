//===- OpElementwise.cpp - Elementwise operators --------------------------===//

#include "Emitter.h"

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <cmath>

using namespace mlir;
using onnx::TensorProto;

namespace forebay::import {

using expr::FOp;
using expr::Kind;
using expr::Ref;

static bool isFloat(Emitter &e, const Val &val) { return expr::isFloat(e.kindOf(val.dtype)); }

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

static Value floatOp(Emitter &e, FOp op, Value x, Value y) {
  OpBuilder &b = e.b;
  Location loc = e.t.loc;
  switch (op) {
  case FOp::Add:
    return arith::AddFOp::create(b, loc, x, y);
  case FOp::Sub:
    return arith::SubFOp::create(b, loc, x, y);
  case FOp::Mul:
    return arith::MulFOp::create(b, loc, x, y);
  case FOp::Div:
    return arith::DivFOp::create(b, loc, x, y);
  case FOp::Min:
    return arith::MinimumFOp::create(b, loc, x, y);
  default:
    return arith::MaximumFOp::create(b, loc, x, y);
  }
}

static Ref intExpr(Emitter &e, FOp op, Ref x, Ref y) {
  switch (op) {
  case FOp::Add:
    return e.exprs.add(x, y);
  case FOp::Sub:
    return e.exprs.sub(x, y);
  case FOp::Mul:
    return e.exprs.mul(x, y);
  case FOp::Div:
    return e.exprs.truncDiv(x, y);
  case FOp::Min:
    return e.exprs.min(x, y);
  default:
    return e.exprs.max(x, y);
  }
}

/// Constants that an integer is divided by.
static void requireDivisor(Emitter &e, const Val &divisor) {
  std::optional<std::vector<int64_t>> values = e.isDense(divisor) ? e.tryConstants(divisor) : std::nullopt;
  if (values && llvm::is_contained(*values, 0))
    e.fail("divides integers by 0");
}

Val Emitter::arithmetic(FOp op, Val &x, Val &y) {
  Kind kind = kindOf(x.dtype);
  assert(x.dtype == y.dtype && kind != Kind::Bool && "operands have been checked");
  // x * 1, x / 1 are x, bit for bit.
  if (op == FOp::Div && !expr::isFloat(kind))
    requireDivisor(*this, y);
  Shape shape = broadcastShapes({&x, &y});
  if ((op == FOp::Mul || op == FOp::Div) && splatValue(y) == 1.0 && shape == x.shape)
    return x;
  if (op == FOp::Mul && splatValue(x) == 1.0 && shape == y.shape)
    return y;
  if (expr::isFloat(kind))
    return elementwise({&x, &y}, x.dtype, [&](ArrayRef<Ref> v) { return exprs.fbinary(op, v[0], v[1]); },
                       [&](ArrayRef<Value> v) { return floatOp(*this, op, v[0], v[1]); });
  return elementwise({&x, &y}, x.dtype, [&](ArrayRef<Ref> v) { return intExpr(*this, op, v[0], v[1]); }, nullptr);
}

template <FOp op> static void importBinary(Emitter &e, Node &n) {
  e.set(n, 0, e.arithmetic(op, *n.inputs[0], *n.inputs[1]));
}

/// Max, Min, Sum: any number of operands.
template <FOp op> static void importVariadic(Emitter &e, Node &n) {
  Val result = *n.inputs[0];
  for (Val *input : ArrayRef<Val *>(n.inputs).drop_front())
    result = e.arithmetic(op, result, *input);
  e.set(n, 0, result);
}

static void importMean(Emitter &e, Node &n) {
  Val result = *n.inputs[0];
  for (Val *input : ArrayRef<Val *>(n.inputs).drop_front())
    result = e.arithmetic(FOp::Add, result, *input);
  Val count = e.splat(result.dtype, {}, n.inputs.size());
  e.set(n, 0, e.arithmetic(FOp::Div, result, count));
}

static void importMod(Emitter &e, Node &n) {
  Val &x = *n.inputs[0], &y = *n.inputs[1];
  bool truncates = n.integer("fmod", 0);
  if (isFloat(e, x))
    e.fail("takes the remainder of floats, which is not supported",
           "write x - floor(x / y) * y (torch.remainder) or x - trunc(x / y) * y (torch.fmod) in the model");
  requireDivisor(e, y);
  auto onExprs = [&](ArrayRef<Ref> v) { return truncates ? e.exprs.truncMod(v[0], v[1]) : e.exprs.floorMod(v[0], v[1]); };
  e.set(n, 0, e.elementwise({&x, &y}, x.dtype, onExprs, nullptr));
}

static void importPow(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  Val y = e.cast(*n.inputs[1], x.dtype);
  std::optional<double> p = e.splatValue(y);
  if (!isFloat(e, x)) {
    if (!p || *p < 0 || *p > 8)
      e.fail("raises an integer to a power that is not a constant from 0 to 8");
    Val result = e.splat(x.dtype, x.shape, 1);
    for (int i = 0; i < int(*p); ++i)
      result = e.arithmetic(FOp::Mul, result, x);
    return e.set(n, 0, result);
  }
  Shape shape = e.broadcastShapes({&x, &y});
  if (!p || shape != x.shape || (x.expr && y.expr)) {
    return e.set(n, 0, e.elementwise({&x, &y}, x.dtype, [&](ArrayRef<Ref> v) { return e.exprs.fbinary(FOp::Pow, v[0], v[1]); },
                                     [&](ArrayRef<Value> v) { return Value(math::PowFOp::create(e.b, e.t.loc, v[0], v[1])); }));
  }
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) -> Value {
    auto product = [&](Value a, Value c) -> Value { return arith::MulFOp::create(e.b, e.t.loc, a, c); };
    auto inverse = [&](Value a) -> Value { return arith::DivFOp::create(e.b, e.t.loc, e.t.splatLike(a, 1), a); };
    Value x = v[0];
    if (*p == 0)
      return e.t.splatLike(x, 1);
    if (*p == 1)
      return x;
    if (*p == 2)
      return product(x, x);
    if (*p == 3)
      return product(product(x, x), x);
    if (*p == 4)
      return product(product(x, x), product(x, x));
    if (*p == -1)
      return inverse(x);
    if (*p == 0.5)
      return math::SqrtOp::create(e.b, e.t.loc, x);
    if (*p == -0.5)
      return inverse(math::SqrtOp::create(e.b, e.t.loc, x));
    return math::PowFOp::create(e.b, e.t.loc, x, e.t.splatLike(x, *p));
  }));
}

//===----------------------------------------------------------------------===//
// Functions of one operand
//===----------------------------------------------------------------------===//

template <typename OpTy> static Value unaryOp(Emitter &e, Value value) { return OpTy::create(e.b, e.t.loc, value); }

template <FOp op, typename OpTy> static void importUnary(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  e.set(n, 0, e.elementwise({&x}, x.dtype, [&](ArrayRef<Ref> v) { return e.exprs.funary(op, v[0]); },
                            [&](ArrayRef<Value> v) { return unaryOp<OpTy>(e, v[0]); }));
}

/// Without an expression form: seen on trained values only.
template <typename OpTy> static void importRuntimeUnary(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) { return unaryOp<OpTy>(e, v[0]); }));
}

static void importNeg(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  if (isFloat(e, x))
    return importUnary<FOp::Neg, arith::NegFOp>(e, n);
  Val zero = e.splat(x.dtype, {}, 0);
  e.set(n, 0, e.arithmetic(FOp::Sub, zero, x));
}

static void importAbs(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  if (isFloat(e, x))
    return importUnary<FOp::Abs, math::AbsFOp>(e, n);
  Val zero = e.splat(x.dtype, {}, 0);
  Val negated = e.arithmetic(FOp::Sub, zero, x);
  e.set(n, 0, e.arithmetic(FOp::Max, x, negated));
}

static void importReciprocal(Emitter &e, Node &n) {
  Val one = e.splat(n.inputs[0]->dtype, {}, 1);
  e.set(n, 0, e.arithmetic(FOp::Div, one, *n.inputs[0]));
}

static Value compareFloat(Emitter &e, arith::CmpFPredicate predicate, Value x, Value y) {
  return arith::CmpFOp::create(e.b, e.t.loc, predicate, x, y);
}
static Value choose(Emitter &e, Value condition, Value x, Value y) {
  return arith::SelectOp::create(e.b, e.t.loc, condition, x, y);
}

/// Bounds by compare and select: at a bound, and for a NaN, the value itself passes, and with it the gradient (PyTorch).
static Value clamp(Emitter &e, Value x, Value low, Value high) {
  if (low)
    x = choose(e, compareFloat(e, arith::CmpFPredicate::OLT, x, low), low, x);
  if (high)
    x = choose(e, compareFloat(e, arith::CmpFPredicate::OGT, x, high), high, x);
  return x;
}

static void importClip(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  SmallVector<Val *, 4> operands{&x};
  Val *low = n.has(1) ? n.inputs[1] : nullptr, *high = n.has(2) ? n.inputs[2] : nullptr;
  for (Val *bound : {low, high})
    if (bound)
      operands.push_back(bound);
  bool floating = isFloat(e, x);
  auto onExprs = [&](ArrayRef<Ref> v) {
    unsigned i = 1;
    Ref r = v[0];
    if (low)
      r = floating ? e.exprs.fbinary(FOp::Max, r, v[i++]) : e.exprs.max(r, v[i++]);
    if (high)
      r = floating ? e.exprs.fbinary(FOp::Min, r, v[i++]) : e.exprs.min(r, v[i++]);
    return r;
  };
  e.set(n, 0, e.elementwise(operands, x.dtype, onExprs, [&](ArrayRef<Value> v) -> Value {
    unsigned i = 1;
    Value lowValue = low ? v[i++] : Value(), highValue = high ? v[i++] : Value();
    return clamp(e, v[0], lowValue, highValue);
  }));
}

static void importRelu(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  // The gradient at 0 is 0; a NaN stays.
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) {
    Value zero = e.t.splatLike(v[0], 0);
    return choose(e, compareFloat(e, arith::CmpFPredicate::UGT, v[0], zero), v[0], zero);
  }));
}

static void importLeakyRelu(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  double alpha = n.real("alpha", 0.01f);
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) {
    Value small = arith::MulFOp::create(e.b, e.t.loc, v[0], e.t.splatLike(v[0], alpha));
    return choose(e, compareFloat(e, arith::CmpFPredicate::OGT, v[0], e.t.splatLike(v[0], 0)), v[0], small);
  }));
}

/// max(x, 0) + log(1 + exp(-|x|)). ONNX's log(exp(x) + 1) overflows from 89 on. The gradient at 0 is 1/2.
static void importSoftplus(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) -> Value {
    Value zero = e.t.splatLike(v[0], 0), above = compareFloat(e, arith::CmpFPredicate::UGT, v[0], zero);
    Value below = choose(e, above, arith::NegFOp::create(e.b, e.t.loc, v[0]), v[0]);
    Value rest = math::Log1pOp::create(e.b, e.t.loc, math::ExpOp::create(e.b, e.t.loc, below));
    return arith::AddFOp::create(e.b, e.t.loc, choose(e, above, v[0], zero), rest);
  }));
}

/// gain * (x above 0, scale * (exp(x / width) - 1) below). ONNX's bodies take exp(x) of large x as well, which makes the gradient 0 * inf.
static void importElu(Emitter &e, Node &n, double gain, double scale, double width) {
  Val &x = *n.inputs[0];
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) -> Value {
    auto times = [&](Value value, double factor) -> Value {
      return factor == 1 ? value : Value(arith::MulFOp::create(e.b, e.t.loc, value, e.t.splatLike(value, factor)));
    };
    Value zero = e.t.splatLike(v[0], 0), above = compareFloat(e, arith::CmpFPredicate::UGT, v[0], zero);
    Value below = choose(e, above, zero, v[0]);
    if (width != 1)
      below = arith::DivFOp::create(e.b, e.t.loc, below, e.t.splatLike(below, width));
    below = times(math::ExpM1Op::create(e.b, e.t.loc, below), scale);
    return times(choose(e, above, v[0], below), gain);
  }));
}

static void importPlainElu(Emitter &e, Node &n) { importElu(e, n, 1, n.real("alpha", 1), 1); }
static void importSelu(Emitter &e, Node &n) {
  importElu(e, n, n.real("gamma", 1.05070102214813232421875), n.real("alpha", 1.67326319217681884765625), 1);
}
static void importCelu(Emitter &e, Node &n) {
  double alpha = n.real("alpha", 1);
  if (alpha == 0)
    e.fail("has an alpha of 0");
  importElu(e, n, 1, alpha, alpha);
}

static void importHardSwish(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  // x * clamp(x / 6 + 1/2, 0, 1)
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) -> Value {
    Value gate = arith::DivFOp::create(e.b, e.t.loc, v[0], e.t.splatLike(v[0], 6));
    gate = arith::AddFOp::create(e.b, e.t.loc, gate, e.t.splatLike(v[0], 0.5));
    gate = clamp(e, gate, e.t.splatLike(v[0], 0), e.t.splatLike(v[0], 1));
    return arith::MulFOp::create(e.b, e.t.loc, v[0], gate);
  }));
}

static void importGelu(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  std::string approximate = n.text("approximate", "none");
  if (approximate != "none" && approximate != "tanh")
    e.fail("approximates by '" + approximate + "'", "known are 'none' and 'tanh'");
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) -> Value {
    auto tanh = approximate == "tanh" ? e.b.getUnitAttr() : UnitAttr();
    return train::GeluOp::create(e.b, e.t.loc, v[0].getType(), v[0], tanh);
  }));
}

static void importSigmoid(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  e.set(n, 0, e.elementwise({&x}, x.dtype, nullptr, [&](ArrayRef<Value> v) -> Value {
    return train::SigmoidOp::create(e.b, e.t.loc, v[0].getType(), v[0]);
  }));
}

//===----------------------------------------------------------------------===//
// Comparisons and booleans
//===----------------------------------------------------------------------===//

enum class Compare { Eq, Lt, Le };

static Val compare(Emitter &e, Compare what, Val &x, Val &y) {
  Kind kind = e.kindOf(x.dtype);
  auto onExprs = [&](ArrayRef<Ref> v) {
    if (expr::isFloat(kind))
      return e.exprs.fcmp(what == Compare::Eq ? FOp::Eq : what == Compare::Lt ? FOp::Lt : FOp::Le, v[0], v[1]);
    return what == Compare::Eq   ? e.exprs.eq(v[0], v[1])
           : what == Compare::Lt ? e.exprs.lt(v[0], v[1])
                                 : e.exprs.le(v[0], v[1]);
  };
  return e.elementwise({&x, &y}, TensorProto::BOOL, onExprs, [&](ArrayRef<Value> v) -> Value {
    assert((expr::isFloat(kind) || what == Compare::Eq) && "integers are expressions");
    if (kind == Kind::Bool)
      return arith::CmpIOp::create(e.b, e.t.loc, arith::CmpIPredicate::eq, v[0], v[1]);
    auto predicate = what == Compare::Eq   ? arith::CmpFPredicate::OEQ
                     : what == Compare::Lt ? arith::CmpFPredicate::OLT
                                           : arith::CmpFPredicate::OLE;
    return compareFloat(e, predicate, v[0], v[1]);
  });
}

template <Compare what, bool swapped> static void importCompare(Emitter &e, Node &n) {
  e.set(n, 0, compare(e, what, *n.inputs[swapped ? 1 : 0], *n.inputs[swapped ? 0 : 1]));
}

static void importAnd(Emitter &e, Node &n) {
  e.set(n, 0, e.elementwise(n.inputs, TensorProto::BOOL, [&](ArrayRef<Ref> v) { return e.exprs.andOf(v); },
                            [&](ArrayRef<Value> v) { return Value(arith::AndIOp::create(e.b, e.t.loc, v[0], v[1])); }));
}
static void importOr(Emitter &e, Node &n) {
  e.set(n, 0, e.elementwise(n.inputs, TensorProto::BOOL, [&](ArrayRef<Ref> v) { return e.exprs.orOf(v); },
                            [&](ArrayRef<Value> v) { return Value(arith::OrIOp::create(e.b, e.t.loc, v[0], v[1])); }));
}
static void importXor(Emitter &e, Node &n) {
  e.set(n, 0, e.elementwise(n.inputs, TensorProto::BOOL, [&](ArrayRef<Ref> v) { return e.exprs.notOf(e.exprs.eq(v[0], v[1])); },
                            [&](ArrayRef<Value> v) { return Value(arith::XOrIOp::create(e.b, e.t.loc, v[0], v[1])); }));
}
static void importNot(Emitter &e, Node &n) {
  e.set(n, 0, e.elementwise(n.inputs, TensorProto::BOOL, [&](ArrayRef<Ref> v) { return e.exprs.notOf(v[0]); },
                            [&](ArrayRef<Value> v) -> Value {
                              Value yes = e.t.splatInt(shapeOf(v[0]), e.b.getI1Type(), 1);
                              return arith::XOrIOp::create(e.b, e.t.loc, v[0], yes);
                            }));
}

static void importIsNaN(Emitter &e, Node &n) {
  e.set(n, 0, e.elementwise(n.inputs, TensorProto::BOOL,
                            [&](ArrayRef<Ref> v) { return e.exprs.notOf(e.exprs.fcmp(FOp::Eq, v[0], v[0])); },
                            [&](ArrayRef<Value> v) { return compareFloat(e, arith::CmpFPredicate::UNO, v[0], v[0]); }));
}

static void importIsInf(Emitter &e, Node &n) {
  bool negative = n.integer("detect_negative", 1), positive = n.integer("detect_positive", 1);
  e.set(n, 0, e.elementwise(n.inputs, TensorProto::BOOL, nullptr, [&](ArrayRef<Value> v) -> Value {
    Value x = v[0];
    if (negative && positive)
      x = math::AbsFOp::create(e.b, e.t.loc, x);
    double infinity = positive ? INFINITY : -INFINITY;
    Value found = compareFloat(e, arith::CmpFPredicate::OEQ, x, e.t.splatLike(x, infinity));
    return negative || positive ? found : e.t.splatInt(shapeOf(x), e.b.getI1Type(), 0);
  }));
}

Val Emitter::where(Val &condition, Val &yes, Val &no) {
  // A condition that is decided leaves one side.
  if (auto decided = splatValue(condition))
    return expand(*decided != 0 ? yes : no, broadcastShapes({&condition, &yes, &no}));
  return elementwise({&condition, &yes, &no}, yes.dtype, [&](ArrayRef<Ref> v) { return exprs.select(v[0], v[1], v[2]); },
                     [&](ArrayRef<Value> v) { return choose(*this, v[0], v[1], v[2]); });
}

static void importWhere(Emitter &e, Node &n) { e.set(n, 0, e.where(*n.inputs[0], *n.inputs[1], *n.inputs[2])); }

void addElementwiseOps(OpTable &ops) {
  ops["Add"] = importBinary<FOp::Add>;
  ops["Sub"] = importBinary<FOp::Sub>;
  ops["Mul"] = importBinary<FOp::Mul>;
  ops["Div"] = importBinary<FOp::Div>;
  ops["Max"] = importVariadic<FOp::Max>;
  ops["Min"] = importVariadic<FOp::Min>;
  ops["Sum"] = importVariadic<FOp::Add>;
  ops["Mean"] = importMean;
  ops["Mod"] = importMod;
  ops["Pow"] = importPow;
  ops["Neg"] = importNeg;
  ops["Abs"] = importAbs;
  ops["Reciprocal"] = importReciprocal;
  ops["Sqrt"] = importUnary<FOp::Sqrt, math::SqrtOp>;
  ops["Exp"] = importUnary<FOp::Exp, math::ExpOp>;
  ops["Log"] = importUnary<FOp::Log, math::LogOp>;
  ops["Tanh"] = importUnary<FOp::Tanh, math::TanhOp>;
  ops["Erf"] = importUnary<FOp::Erf, math::ErfOp>;
  ops["Sin"] = importUnary<FOp::Sin, math::SinOp>;
  ops["Cos"] = importUnary<FOp::Cos, math::CosOp>;
  ops["Ceil"] = importUnary<FOp::Ceil, math::CeilOp>;
  ops["Floor"] = importUnary<FOp::Floor, math::FloorOp>;
  ops["Round"] = importRuntimeUnary<math::RoundEvenOp>;
  ops["Clip"] = importClip;
  ops["Relu"] = importRelu;
  ops["LeakyRelu"] = importLeakyRelu;
  ops["Softplus"] = importSoftplus;
  ops["Elu"] = importPlainElu;
  ops["Selu"] = importSelu;
  ops["Celu"] = importCelu;
  ops["HardSwish"] = importHardSwish;
  ops["Gelu"] = importGelu;
  ops["Sigmoid"] = importSigmoid;
  ops["Equal"] = importCompare<Compare::Eq, false>;
  ops["Less"] = importCompare<Compare::Lt, false>;
  ops["LessOrEqual"] = importCompare<Compare::Le, false>;
  ops["Greater"] = importCompare<Compare::Lt, true>;
  ops["GreaterOrEqual"] = importCompare<Compare::Le, true>;
  ops["And"] = importAnd;
  ops["Or"] = importOr;
  ops["Xor"] = importXor;
  ops["Not"] = importNot;
  ops["IsNaN"] = importIsNaN;
  ops["IsInf"] = importIsInf;
  ops["Where"] = importWhere;
}

} // namespace forebay::import
