//===- EmitExpr.cpp - Operations that compute an expression ---------------===//

#include "EmitExpr.h"

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/bit.h"

using namespace mlir;

namespace forebay::import {

using expr::FOp;
using expr::Kind;
using expr::Op;
using expr::Ref;

//===----------------------------------------------------------------------===//
// Masks
//===----------------------------------------------------------------------===//

/// `a - b + imm` of two coordinates; the pair is (a, b).
static std::optional<std::pair<Ref, Ref>> coordDifference(Ref node) {
  if (node->op != Op::Linear || node->args.size() != 2 || node->args[0]->op != Op::Coord || node->args[1]->op != Op::Coord)
    return std::nullopt;
  if (node->coefs[0] == 1 && node->coefs[1] == -1)
    return std::pair(node->args[0], node->args[1]);
  if (node->coefs[0] == -1 && node->coefs[1] == 1)
    return std::pair(node->args[1], node->args[0]);
  return std::nullopt;
}

MaskFactors splitMask(expr::Context &context, Ref mask, unsigned queryAxis, unsigned keyAxis) {
  MaskFactors result;
  SmallVector<Ref, 4> factors;
  if (mask->op == Op::And)
    factors.append(mask->args.begin(), mask->args.end());
  else
    factors.push_back(mask);
  for (Ref factor : factors) {
    auto pair = factor->op == Op::Le0 ? coordDifference(factor->args[0]) : std::nullopt;
    int64_t k = pair ? factor->args[0]->imm : 0;
    if (pair && pair->first->imm == keyAxis && pair->second->imm == queryAxis && k == 0) {
      result.causal = true; // k - q <= 0
    } else if (pair && pair->first->imm == queryAxis && pair->second->imm == keyAxis && k <= 0) {
      result.window = std::min(result.window.value_or(1 - k), 1 - k); // q - k - (w - 1) <= 0
    } else if (!expr::isInt(factor, 1)) {
      result.rest.push_back(factor);
    }
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

SmallVector<int64_t, 4> ExprEmitter::axesOf(uint64_t set) {
  SmallVector<int64_t, 4> axes;
  for (; set; set &= set - 1)
    axes.push_back(llvm::countr_zero(set));
  return axes;
}

static Type typeOf(OpBuilder &b, Kind kind) {
  switch (kind) {
  case Kind::Int:
    return b.getI64Type();
  case Kind::Bool:
    return b.getI1Type();
  case Kind::F32:
    return b.getF32Type();
  case Kind::F64:
    return b.getF64Type();
  }
  llvm_unreachable("all kinds are listed");
}

Value ExprEmitter::over(Ref node, uint64_t set) {
  SmallVector<int64_t, 4> axes = axesOf(set);
  Shape sizes;
  for (int64_t axis : axes)
    sizes.push_back(shape[axis]);
  if (node->op == Op::Const) {
    if (expr::isFloat(node->kind))
      return t.splat(sizes, typeOf(t.b, node->kind), node->fimm);
    return t.splatInt(sizes, typeOf(t.b, node->kind), node->imm);
  }
  Value value = tensor(node);
  if (node->axes == set)
    return value;
  SmallVector<int64_t, 4> positions;
  for (int64_t axis : axesOf(node->axes))
    positions.push_back(llvm::find(axes, axis) - axes.begin());
  return t.broadcastAxes(value, positions, sizes);
}

Value ExprEmitter::emit(Ref node, int32_t dtype) {
  Type want = e.elementType(dtype);
  if (node->op == Op::Const) {
    if (expr::isFloat(node->kind))
      return t.splat(shape, want, node->fimm);
    return t.splatInt(shape, want, node->imm);
  }
  Value value = tensor(node);
  if (elementOf(value) != want)
    value = arith::TruncIOp::create(t.b, t.loc, t.type(shapeOf(value), want), value);
  return t.broadcastAxes(value, axesOf(node->axes), shape);
}

Value ExprEmitter::tensor(Ref node) {
  Value &slot = e.emitted[node];
  if (slot)
    return slot;
  Value value = build(node);
  return e.emitted[node] = value; // `slot` may have moved
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

static arith::CmpFPredicate floatPredicate(FOp op) {
  return op == FOp::Lt ? arith::CmpFPredicate::OLT : op == FOp::Le ? arith::CmpFPredicate::OLE : arith::CmpFPredicate::OEQ;
}

Value ExprEmitter::apply(Ref node, ArrayRef<Value> v) {
  OpBuilder &b = t.b;
  Location loc = t.loc;
  auto like = [&](Type element) -> Type {
    if (auto type = dyn_cast<RankedTensorType>(v[0].getType()))
      return type.clone(element);
    return element;
  };
  auto zero = [&](Value value) -> Value {
    return arith::ConstantOp::create(b, loc, b.getZeroAttr(value.getType()));
  };
  auto chain = [&](auto create) {
    Value result = v[0];
    for (Value value : v.drop_front())
      result = create(result, value);
    return result;
  };
  // A fed divisor may be 0 or -1, which the machine traps on (-1 with the least integer): the quotient is 0 then, or the negated dividend.
  auto divide = [&](bool down) -> Value {
    Value divisor = v[1];
    Ref range = node->args[1];
    auto constant = [&](int64_t value) -> Value {
      TypedAttr k = b.getI64IntegerAttr(value);
      if (auto type = dyn_cast<RankedTensorType>(divisor.getType()))
        k = DenseElementsAttr::get(type, value);
      return arith::ConstantOp::create(b, loc, k);
    };
    auto equals = [&](int64_t value) -> Value {
      return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, v[1], constant(value));
    };
    bool mayTrap = range->lo <= 0 && range->hi >= -1;
    if (mayTrap)
      divisor = arith::SelectOp::create(b, loc, arith::OrIOp::create(b, loc, equals(0), equals(-1)), constant(1), divisor);
    Value quotient = down ? Value(arith::FloorDivSIOp::create(b, loc, v[0], divisor))
                          : Value(arith::DivSIOp::create(b, loc, v[0], divisor));
    if (!mayTrap)
      return quotient;
    quotient = arith::SelectOp::create(b, loc, equals(-1), arith::SubIOp::create(b, loc, zero(v[0]), v[0]), quotient);
    return arith::SelectOp::create(b, loc, equals(0), zero(v[0]), quotient);
  };
  // Of a divisor of 0 as well: 0.
  auto remainder = [&](bool down) -> Value {
    Value rest = arith::SubIOp::create(b, loc, v[0], arith::MulIOp::create(b, loc, divide(down), v[1]));
    if (node->args[1]->lo > 0 || node->args[1]->hi < 0)
      return rest;
    Value none = arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, v[1], zero(v[1]));
    return arith::SelectOp::create(b, loc, none, zero(rest), rest);
  };
  switch (node->op) {
  case Op::Linear: {
    Value sum;
    for (auto [arg, coef] : llvm::zip_equal(v, node->coefs)) {
      Value term = arg;
      if (coef != 1)
        term = arith::MulIOp::create(
            b, loc, arg,
            arith::ConstantOp::create(b, loc,
                                      isa<RankedTensorType>(arg.getType())
                                          ? TypedAttr(DenseElementsAttr::get(cast<ShapedType>(arg.getType()), coef))
                                          : TypedAttr(b.getI64IntegerAttr(coef))));
      sum = sum ? Value(arith::AddIOp::create(b, loc, sum, term)) : term;
    }
    if (node->imm) {
      TypedAttr k = b.getI64IntegerAttr(node->imm);
      if (auto type = dyn_cast<RankedTensorType>(sum.getType()))
        k = DenseElementsAttr::get(type, node->imm);
      sum = arith::AddIOp::create(b, loc, sum, arith::ConstantOp::create(b, loc, k));
    }
    return sum;
  }
  case Op::Mul:
    return arith::MulIOp::create(b, loc, v[0], v[1]);
  case Op::FloorDiv:
    return divide(/*down=*/true);
  case Op::FloorMod:
    return remainder(/*down=*/true);
  case Op::TruncDiv:
    return divide(/*down=*/false);
  case Op::TruncMod:
    return remainder(/*down=*/false);
  case Op::Min:
    return arith::MinSIOp::create(b, loc, v[0], v[1]);
  case Op::Max:
    return arith::MaxSIOp::create(b, loc, v[0], v[1]);
  case Op::Le0:
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::sle, v[0], zero(v[0]));
  case Op::Eq0:
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::eq, v[0], zero(v[0]));
  case Op::And:
    return chain([&](Value x, Value y) { return arith::AndIOp::create(b, loc, x, y); });
  case Op::Or:
    return chain([&](Value x, Value y) { return arith::OrIOp::create(b, loc, x, y); });
  case Op::Not: {
    TypedAttr yes = b.getBoolAttr(true);
    if (auto type = dyn_cast<RankedTensorType>(v[0].getType()))
      yes = DenseElementsAttr::get(type, true);
    return arith::XOrIOp::create(b, loc, v[0], arith::ConstantOp::create(b, loc, yes));
  }
  case Op::Select:
    return arith::SelectOp::create(b, loc, v[0], v[1], v[2]);
  case Op::ToFloat:
    return arith::SIToFPOp::create(b, loc, like(typeOf(b, node->kind)), v[0]);
  case Op::ToInt:
    return arith::FPToSIOp::create(b, loc, like(typeOf(b, node->kind)), v[0]);
  case Op::FCast:
    if (node->kind == Kind::F64)
      return arith::ExtFOp::create(b, loc, like(b.getF64Type()), v[0]);
    return arith::TruncFOp::create(b, loc, like(b.getF32Type()), v[0]);
  case Op::FCmp:
    return arith::CmpFOp::create(b, loc, floatPredicate(node->fop), v[0], v[1]);
  case Op::FBinary:
    switch (node->fop) {
    case FOp::Add:
      return arith::AddFOp::create(b, loc, v[0], v[1]);
    case FOp::Sub:
      return arith::SubFOp::create(b, loc, v[0], v[1]);
    case FOp::Mul:
      return arith::MulFOp::create(b, loc, v[0], v[1]);
    case FOp::Div:
      return arith::DivFOp::create(b, loc, v[0], v[1]);
    case FOp::Pow:
      return math::PowFOp::create(b, loc, v[0], v[1]);
    case FOp::Min:
      return arith::MinimumFOp::create(b, loc, v[0], v[1]);
    default:
      return arith::MaximumFOp::create(b, loc, v[0], v[1]);
    }
  case Op::FUnary:
    switch (node->fop) {
    case FOp::Neg:
      return arith::NegFOp::create(b, loc, v[0]);
    case FOp::Abs:
      return math::AbsFOp::create(b, loc, v[0]);
    case FOp::Sqrt:
      return math::SqrtOp::create(b, loc, v[0]);
    case FOp::Exp:
      return math::ExpOp::create(b, loc, v[0]);
    case FOp::Log:
      return math::LogOp::create(b, loc, v[0]);
    case FOp::Tanh:
      return math::TanhOp::create(b, loc, v[0]);
    case FOp::Erf:
      return math::ErfOp::create(b, loc, v[0]);
    case FOp::Sin:
      return math::SinOp::create(b, loc, v[0]);
    case FOp::Cos:
      return math::CosOp::create(b, loc, v[0]);
    case FOp::Ceil:
      return math::CeilOp::create(b, loc, v[0]);
    default:
      return math::FloorOp::create(b, loc, v[0]);
    }
  case Op::Const:
  case Op::Coord:
  case Op::Table:
  case Op::Load:
    break;
  }
  llvm_unreachable("leaves are emitted elsewhere");
}

Value ExprEmitter::build(Ref node) {
  switch (node->op) {
  case Op::Const:
    return over(node, 0);
  case Op::Coord:
    return train::IotaOp::create(t.b, t.loc, t.type(shape[node->imm], t.b.getI64Type()), 0, 1);
  case Op::Linear:
    return linear(node);
  case Op::Le0:
  case Op::Eq0:
    return compare(node);
  case Op::And:
    return conjunction(node);
  case Op::Not:
    if (node->args[0]->op == Op::Le0 || node->args[0]->op == Op::Eq0)
      return compare(node);
    break;
  case Op::Table:
    return table(node);
  case Op::Load:
    return load(node);
  default:
    break;
  }
  SmallVector<Value, 4> args;
  for (Ref arg : node->args)
    args.push_back(over(arg, node->axes));
  return apply(node, args);
}

Value ExprEmitter::linear(Ref node) {
  // Terms over few coordinates first; the constant joins a coordinate.
  int64_t constant = node->imm;
  SmallVector<std::pair<Ref, int64_t>, 4> terms;
  for (auto [arg, coef] : llvm::zip_equal(node->args, node->coefs))
    terms.push_back({arg, coef});
  llvm::sort(terms, [](auto &x, auto &y) {
    return std::pair(llvm::popcount(x.first->axes), x.first->id) < std::pair(llvm::popcount(y.first->axes), y.first->id);
  });
  Value sum;
  uint64_t axes = 0;
  auto widen = [&](Value value, uint64_t from, uint64_t to) {
    if (from == to)
      return value;
    SmallVector<int64_t, 4> all = axesOf(to), positions;
    Shape sizes;
    for (int64_t axis : all)
      sizes.push_back(shape[axis]);
    for (int64_t axis : axesOf(from))
      positions.push_back(llvm::find(all, axis) - all.begin());
    return t.broadcastAxes(value, positions, sizes);
  };
  auto addTerm = [&](Value value, uint64_t over, bool subtract) {
    if (!sum) {
      assert(!subtract && "the first term is added");
      sum = value;
      axes = over;
      return;
    }
    uint64_t both = axes | over;
    Value left = widen(sum, axes, both), right = widen(value, over, both);
    sum = subtract ? Value(arith::SubIOp::create(t.b, t.loc, left, right)) : Value(arith::AddIOp::create(t.b, t.loc, left, right));
    axes = both;
  };
  for (auto [arg, coef] : terms) {
    if (arg->op == Op::Coord) {
      auto iota = train::IotaOp::create(t.b, t.loc, t.type(shape[arg->imm], t.b.getI64Type()), constant, coef);
      constant = 0;
      addTerm(iota, arg->axes, false);
      continue;
    }
    Value value = tensor(arg);
    bool subtract = coef == -1 && sum;
    if (coef != 1 && !subtract)
      value = arith::MulIOp::create(t.b, t.loc, value, t.splatInt(shapeOf(value), t.b.getI64Type(), coef));
    addTerm(value, arg->axes, subtract);
  }
  if (constant)
    sum = arith::AddIOp::create(t.b, t.loc, sum, t.splatInt(shapeOf(sum), t.b.getI64Type(), constant));
  return sum;
}

Value ExprEmitter::compare(Ref node) {
  bool inverted = node->op == Op::Not;
  Ref test = inverted ? node->args[0] : node, form = test->args[0];
  if (!inverted && test->op == Op::Le0 && shape.size() >= 2) {
    unsigned rank = shape.size();
    if (splitMask(e.exprs, test, rank - 2, rank - 1).causal)
      return train::CausalMaskOp::create(t.b, t.loc, t.type(shape.take_back(2), t.b.getI1Type()), IntegerAttr());
  }
  // Positive terms on the left, negative terms and the constant on the right.
  SmallVector<std::pair<int64_t, Ref>, 4> left, right;
  int64_t constant = 0;
  if (form->op == Op::Linear) {
    for (auto [arg, coef] : llvm::zip_equal(form->args, form->coefs))
      (coef > 0 ? left : right).push_back({coef > 0 ? coef : -coef, arg});
    constant = form->imm;
  } else {
    left.push_back({1, form});
  }
  Ref l = e.exprs.linear(left, left.empty() ? constant : 0), r = e.exprs.linear(right, left.empty() ? 0 : -constant);
  auto predicate = test->op == Op::Eq0 ? (inverted ? arith::CmpIPredicate::ne : arith::CmpIPredicate::eq)
                                       : (inverted ? arith::CmpIPredicate::sgt : arith::CmpIPredicate::sle);
  return arith::CmpIOp::create(t.b, t.loc, predicate, over(l, node->axes), over(r, node->axes));
}

Value ExprEmitter::conjunction(Ref node) {
  // Factors over the same coordinates meet first, then each group is broadcast.
  SmallVector<std::pair<uint64_t, Value>, 4> groups;
  auto add = [&](uint64_t axes, Value value) {
    for (auto &[set, product] : groups)
      if (set == axes) {
        product = arith::AndIOp::create(t.b, t.loc, product, value);
        return;
      }
    groups.push_back({axes, value});
  };
  unsigned rank = shape.size();
  MaskFactors factors;
  if (rank >= 2)
    factors = splitMask(e.exprs, node, rank - 2, rank - 1);
  SmallVector<Ref, 4> rest(node->args.begin(), node->args.end());
  if (factors.causal) {
    rest = factors.rest;
    auto window = factors.window ? t.b.getI64IntegerAttr(*factors.window) : IntegerAttr();
    add(uint64_t(3) << (rank - 2), train::CausalMaskOp::create(t.b, t.loc, t.type(shape.take_back(2), t.b.getI1Type()), window));
  }
  for (Ref factor : rest)
    add(factor->axes, tensor(factor));
  llvm::sort(groups, [](auto &x, auto &y) {
    return std::pair(llvm::popcount(x.first), x.first) < std::pair(llvm::popcount(y.first), y.first);
  });
  SmallVector<int64_t, 4> all = axesOf(node->axes);
  Shape sizes;
  for (int64_t axis : all)
    sizes.push_back(shape[axis]);
  Value result;
  for (auto &[set, value] : groups) {
    SmallVector<int64_t, 4> positions;
    for (int64_t axis : axesOf(set))
      positions.push_back(llvm::find(all, axis) - all.begin());
    Value wide = t.broadcastAxes(value, positions, sizes);
    result = result ? Value(arith::AndIOp::create(t.b, t.loc, result, wide)) : wide;
  }
  return result;
}

//===----------------------------------------------------------------------===//
// Tables and fed tensors
//===----------------------------------------------------------------------===//

static Value denseConstant(TensorBuilder &t, Kind kind, ArrayRef<int64_t> shape, ArrayRef<expr::Scalar> values) {
  Type element = typeOf(t.b, kind);
  SmallVector<Attribute> attributes;
  for (expr::Scalar value : values) {
    if (kind == Kind::Bool)
      attributes.push_back(t.b.getBoolAttr(value.i));
    else if (kind == Kind::Int)
      attributes.push_back(t.b.getI64IntegerAttr(value.i));
    else
      attributes.push_back(FloatAttr::get(element, value.f));
  }
  return arith::ConstantOp::create(t.b, t.loc, DenseElementsAttr::get(t.type(shape, element), attributes));
}

static Value wholeTable(TensorBuilder &t, Ref node) {
  std::vector<expr::Scalar> values;
  for (double value : node->table->floats)
    values.push_back({0, value});
  for (int64_t value : node->table->ints)
    values.push_back({value, 0});
  return denseConstant(t, node->kind, node->table->shape, values);
}

Value ExprEmitter::table(Ref node) {
  SmallVector<int64_t, 4> axes = axesOf(node->axes);
  Shape sizes;
  int64_t count = 1;
  for (int64_t axis : axes) {
    sizes.push_back(shape[axis]);
    count = std::min(count * std::min(shape[axis], kConstantLimit + 1), kConstantLimit + 1);
  }
  if (count <= kConstantLimit && !node->hasLoad) {
    std::vector<expr::Scalar> values;
    SmallVector<int64_t, 4> coords(shape.size(), 0);
    for (int64_t i = 0; i < count; ++i) {
      int64_t rest = i;
      for (size_t dim = axes.size(); dim-- > 0; rest /= sizes[dim])
        coords[axes[dim]] = rest % sizes[dim];
      values.push_back(expr::evaluate(node, coords));
    }
    return denseConstant(t, node->kind, sizes, values);
  }
  return gather(node);
}

/// A fed integer as the 64 bits of an Int.
static Value extend(TensorBuilder &t, Value value, int32_t dtype) {
  Type type = getElementTypeOrSelf(value.getType());
  if (type.isInteger(1) || type.isInteger(64) || isa<FloatType>(type))
    return value;
  Type wide = t.b.getI64Type();
  if (auto tensor = dyn_cast<RankedTensorType>(value.getType()))
    wide = tensor.clone(wide);
  bool isUnsigned = dtype == onnx::TensorProto::UINT8 || dtype == onnx::TensorProto::UINT16 || dtype == onnx::TensorProto::UINT32;
  if (isUnsigned)
    return arith::ExtUIOp::create(t.b, t.loc, wide, value);
  return arith::ExtSIOp::create(t.b, t.loc, wide, value);
}

Value ExprEmitter::viewOfLoad(Ref node) {
  Value root = e.roots[node->root];
  SmallVector<int64_t, 4> offsets, sizes, strides, axes, order;
  Shape kept;
  for (auto [index, size] : llvm::zip_equal(node->args, shapeOf(root))) {
    if (index->lo < 0 || index->hi >= size)
      return nullptr;
    Ref coord = index;
    int64_t step = 1, offset = 0;
    if (index->op == Op::Linear && index->args.size() == 1) {
      coord = index->args[0];
      step = index->coefs[0];
      offset = index->imm;
    }
    if (index->op == Op::Const) {
      offsets.push_back(index->imm);
      sizes.push_back(1);
      strides.push_back(1);
      continue;
    }
    if (coord->op != Op::Coord || step < 1 || llvm::is_contained(axes, coord->imm))
      return nullptr;
    offsets.push_back(offset);
    sizes.push_back(coord->size);
    strides.push_back(step);
    axes.push_back(coord->imm);
    kept.push_back(coord->size);
  }
  Value value = t.reshape(t.slice(root, offsets, sizes, strides), kept);
  SmallVector<int64_t, 4> sorted(axes);
  llvm::sort(sorted);
  for (int64_t axis : sorted)
    order.push_back(llvm::find(axes, axis) - axes.begin());
  return t.transpose(value, order);
}

/// Reads at `d div k` or `d mod k`, as reshapes that join dimensions leave behind (heads joined to the batch): with d as two coordinates, d div k
/// and d mod k, they are views.
Value ExprEmitter::splitLoad(Ref node) {
  for (Ref index : node->args) {
    if ((index->op != Op::FloorDiv && index->op != Op::FloorMod) || index->args[0]->op != Op::Coord || !expr::isConst(index->args[1]))
      continue;
    unsigned axis = index->args[0]->imm;
    int64_t size = shape[axis], inner = index->args[1]->imm;
    if (inner <= 1 || size % inner != 0 || shape.size() >= 63)
      continue;
    Shape split(shape), joined;
    split[axis] = size / inner;
    split.insert(split.begin() + axis + 1, inner);
    Ref moved = e.exprs.substitute(node, [&](unsigned at, int64_t n) {
      if (at == axis)
        return e.exprs.linear({{inner, e.exprs.coord(axis, size / inner)}, {1, e.exprs.coord(axis + 1, inner)}}, 0);
      return e.exprs.coord(at > axis ? at + 1 : at, n);
    });
    uint64_t below = (uint64_t(1) << axis) - 1, set = node->axes;
    uint64_t axes = (set & below) | (uint64_t(3) << axis) | ((set & ~below & ~(uint64_t(1) << axis)) << 1);
    for (int64_t at : axesOf(set))
      joined.push_back(shape[at]);
    return t.reshape(ExprEmitter(e, split).over(moved, axes), joined);
  }
  return nullptr;
}

Value ExprEmitter::load(Ref node) {
  if (Value view = viewOfLoad(node))
    return extend(t, view, e.rootTypes[node->root]);
  if (Value joined = splitLoad(node))
    return joined;
  return gather(node);
}

/// Elements at positions that are computed: rows, of one element, of what is read as a flat table.
Value ExprEmitter::gather(Ref node) {
  bool loads = node->op == Op::Load;
  Value source = loads ? e.roots[node->root] : wholeTable(t, node);
  SmallVector<std::pair<int64_t, Ref>, 4> terms;
  int64_t count = 1;
  for (auto [index, size] : llvm::reverse(llvm::zip_equal(node->args, shapeOf(source)))) {
    // An index may leave the tensor where a select discards what is read.
    Ref inside = e.exprs.min(e.exprs.max(index, e.exprs.intConst(0)), e.exprs.intConst(size - 1));
    terms.push_back({count, inside});
    count *= size;
  }
  Value ids = over(e.exprs.linear(terms, 0), node->axes);
  Value table = t.reshape(source, {count});
  Value value = train::EmbeddingOp::create(t.b, t.loc, t.type(shapeOf(ids), elementOf(table)), table, ids);
  return loads ? extend(t, value, e.rootTypes[node->root]) : value;
}

} // namespace forebay::import
