//===- OpConstant.cpp - Operators that make shapes, positions, constants --===//

#include "Emitter.h"

#include <cmath>
#include <cstring>

using namespace mlir;
using onnx::TensorProto;

namespace forebay::import {

using expr::FOp;
using expr::Kind;
using expr::Ref;

/// The elements of a small tensor inside the graph, as its bytes.
static std::vector<char> bytesOf(Emitter &e, const TensorProto &tensor) {
  if (tensor.data_location() == TensorProto::EXTERNAL)
    e.fail("keeps its value in a data file, which only initializers may");
  if (tensor.has_raw_data())
    return std::vector<char>(tensor.raw_data().begin(), tensor.raw_data().end());
  std::vector<char> bytes;
  auto append = [&](auto value) {
    const char *begin = reinterpret_cast<const char *>(&value);
    bytes.insert(bytes.end(), begin, begin + sizeof(value));
  };
  switch (tensor.data_type()) {
  case TensorProto::FLOAT:
    llvm::for_each(tensor.float_data(), [&](float value) { append(value); });
    break;
  case TensorProto::DOUBLE:
    llvm::for_each(tensor.double_data(), [&](double value) { append(value); });
    break;
  case TensorProto::INT64:
    llvm::for_each(tensor.int64_data(), [&](int64_t value) { append(value); });
    break;
  case TensorProto::UINT64:
  case TensorProto::UINT32:
    for (uint64_t value : tensor.uint64_data())
      tensor.data_type() == TensorProto::UINT64 ? append(value) : append(uint32_t(value));
    break;
  case TensorProto::INT32:
    llvm::for_each(tensor.int32_data(), [&](int32_t value) { append(value); });
    break;
  case TensorProto::INT16:
  case TensorProto::UINT16:
    llvm::for_each(tensor.int32_data(), [&](int32_t value) { append(int16_t(value)); });
    break;
  case TensorProto::BOOL:
  case TensorProto::INT8:
  case TensorProto::UINT8:
    llvm::for_each(tensor.int32_data(), [&](int32_t value) { append(int8_t(value)); });
    break;
  default:
    e.elementType(tensor.data_type()); // reports the type
  }
  return bytes;
}

static Val constantOf(Emitter &e, const TensorProto &proto) {
  Tensor tensor;
  tensor.dtype = proto.data_type();
  tensor.shape.assign(proto.dims().begin(), proto.dims().end());
  std::vector<char> bytes = bytesOf(e, proto);
  unsigned width = std::max(e.elementType(tensor.dtype).getIntOrFloatBitWidth() / 8, 1u);
  if (int64_t(bytes.size()) != e.elements(tensor.shape) * int64_t(width))
    e.fail("has a constant whose data does not fit its shape");
  std::optional<Val> val = e.constant(tensor, bytes, /*progressions=*/false);
  if (!val)
    e.fail("holds a constant of " + Twine(e.elements(tensor.shape)) + " elements; at most " + Twine(kConstantLimit) +
           " are supported");
  return *val;
}

static Val integers(Emitter &e, ArrayRef<int64_t> values) {
  Tensor tensor;
  tensor.dtype = TensorProto::INT64;
  tensor.shape = {int64_t(values.size())};
  return *e.constant(tensor, ArrayRef(reinterpret_cast<const char *>(values.data()), values.size() * 8), false);
}

static void importConstant(Emitter &e, Node &n) {
  if (const auto *a = n.attribute("value"))
    return e.set(n, 0, constantOf(e, a->t()));
  if (const auto *a = n.attribute("value_ints"))
    return e.set(n, 0, integers(e, {a->ints().data(), size_t(a->ints_size())}));
  if (const auto *a = n.attribute("value_int"))
    return e.set(n, 0, e.make(TensorProto::INT64, {}, e.exprs.intConst(a->i()), {}));
  if (const auto *a = n.attribute("value_float"))
    return e.set(n, 0, e.splat(TensorProto::FLOAT, {}, a->f()));
  if (const auto *a = n.attribute("value_floats")) {
    Tensor tensor;
    tensor.dtype = TensorProto::FLOAT;
    tensor.shape = {a->floats_size()};
    ArrayRef bytes(reinterpret_cast<const char *>(a->floats().data()), size_t(a->floats_size()) * 4);
    if (auto val = e.constant(tensor, bytes, false))
      return e.set(n, 0, *val);
  }
  e.fail("holds a constant of a form that is not supported", "supported are value, value_int(s) and value_float(s)");
}

static void importConstantOfShape(Emitter &e, Node &n) {
  std::vector<int64_t> shape = e.constants(*n.inputs[0], "its shape");
  Val value = e.splat(TensorProto::FLOAT, {}, 0);
  if (const auto *a = n.attribute("value")) {
    value = constantOf(e, a->t());
    value = e.reshape(value, {});
  }
  if (llvm::any_of(shape, [](int64_t size) { return size < 0; }))
    e.fail("has a negative dimension in its shape");
  e.set(n, 0, e.make(value.dtype, shape, value.expr, {&value}));
}

static void importShape(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  int64_t rank = x.rank();
  auto bound = [&](StringRef name, int64_t otherwise) {
    int64_t value = n.integer(name, otherwise);
    return std::clamp<int64_t>(value < 0 ? value + rank : value, 0, rank);
  };
  int64_t start = bound("start", 0), end = std::max(start, bound("end", rank));
  e.set(n, 0, integers(e, ArrayRef<int64_t>(x.shape).slice(start, end - start)));
}

static void importSize(Emitter &e, Node &n) {
  e.set(n, 0, e.make(TensorProto::INT64, {}, e.exprs.intConst(e.elements(n.inputs[0]->shape)), {}));
}

static void importRange(Emitter &e, Node &n) {
  Val &start = *n.inputs[0], &limit = *n.inputs[1], &step = *n.inputs[2];
  if (expr::isFloat(e.kindOf(start.dtype))) {
    auto first = e.splatValue(start), last = e.splatValue(limit), by = e.splatValue(step);
    if (!first || !last || !by || *by == 0)
      e.fail("needs its start, limit and step as constants, the step not 0");
    int64_t count = int64_t(std::max(0.0, std::ceil((*last - *first) / *by)));
    Kind kind = e.kindOf(start.dtype);
    Ref i = e.exprs.cast(e.exprs.coord(0, count), kind);
    Ref value = e.exprs.fbinary(FOp::Add, e.exprs.fbinary(FOp::Mul, i, e.exprs.floatConst(kind, *by)),
                                e.exprs.floatConst(kind, *first));
    return e.set(n, 0, e.make(start.dtype, {count}, value, {}, /*keep=*/true));
  }
  int64_t first = e.constantScalar(start, "its start"), last = e.constantScalar(limit, "its limit"),
          by = e.constantScalar(step, "its step");
  if (by == 0)
    e.fail("has a step of 0");
  int64_t distance;
  if (__builtin_sub_overflow(last, first, &distance))
    e.fail("has more than 2^63 elements");
  int64_t count = by > 0 ? (distance > 0 ? (distance - 1) / by + 1 : 0) : (distance < 0 ? (distance + 1) / by + 1 : 0);
  Ref value = e.exprs.linear({{by, e.exprs.coord(0, count)}}, first);
  e.set(n, 0, e.make(start.dtype, {count}, value, {}, /*keep=*/true));
}

static void importTrilu(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  if (x.rank() < 2)
    e.fail("takes a triangle of a tensor of rank " + Twine(x.rank()));
  int64_t k = n.has(1) ? e.constantScalar(*n.inputs[1], "its diagonal") : 0;
  k = std::clamp<int64_t>(k, -(int64_t(1) << 40), int64_t(1) << 40);
  int64_t rows = x.rank() - 2, columns = x.rank() - 1;
  Ref diagonal = e.exprs.sub(e.exprs.coord(columns, x.shape[columns]), e.exprs.coord(rows, x.shape[rows]));
  Ref offset = e.exprs.intConst(k);
  Val mask;
  mask.dtype = TensorProto::BOOL;
  mask.shape = x.shape;
  mask.expr = n.integer("upper", 1) ? e.exprs.le(offset, diagonal) : e.exprs.le(diagonal, offset);
  Val zero = e.splat(x.dtype, {}, 0);
  if (x.expr && e.elements(x.shape) != 0)
    return e.set(n, 0, e.make(x.dtype, x.shape, e.exprs.select(mask.expr, x.expr, zero.expr), {&x}, /*keep=*/true));
  e.set(n, 0, e.where(mask, x, zero));
}

static void importEyeLike(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  int32_t dtype = n.integer("dtype", x.dtype);
  if (x.rank() != 2)
    e.fail("makes an identity of rank " + Twine(x.rank()));
  Ref row = e.exprs.addConst(e.exprs.coord(0, x.shape[0]), n.integer("k", 0));
  Ref on = e.exprs.eq(row, e.exprs.coord(1, x.shape[1]));
  e.set(n, 0, e.make(dtype, x.shape, e.exprs.cast(on, e.kindOf(dtype)), {}, /*keep=*/true));
}

static void importCumSum(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  int64_t axis = e.axis(e.constantScalar(*n.inputs[1], "its axis"), x.rank()), size = x.shape[axis];
  bool exclusive = n.integer("exclusive", 0), reverse = n.integer("reverse", 0);
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, x);
  Kind kind = e.kindOf(x.dtype);
  // Of equal values along the axis: their number times the value.
  if (x.expr && !(x.expr->axes >> axis & 1)) {
    Ref d = e.exprs.coord(axis, size);
    Ref count = reverse ? e.exprs.linear({{-1, d}}, size - exclusive) : e.exprs.addConst(d, 1 - exclusive);
    Ref sum = kind == Kind::Int ? e.exprs.mul(count, x.expr) : e.exprs.fbinary(FOp::Mul, e.exprs.cast(count, kind), x.expr);
    return e.set(n, 0, e.make(x.dtype, x.shape, sum, {&x}, /*keep=*/true));
  }
  auto values = e.tryConstants(x);
  if (values) {
    int64_t inner = 1;
    for (int64_t dim : ArrayRef<int64_t>(x.shape).drop_front(axis + 1))
      inner *= dim;
    std::vector<int64_t> sums(values->size());
    for (int64_t start = 0; start < int64_t(values->size()); start += size * inner)
      for (int64_t i = 0; i < inner; ++i) {
        uint64_t sum = 0;
        for (int64_t step = 0; step < size; ++step) {
          int64_t at = start + i + (reverse ? size - 1 - step : step) * inner;
          uint64_t value = (*values)[at];
          sums[at] = int64_t(exclusive ? sum : sum + value);
          sum += value;
        }
      }
    Val flat = integers(e, sums);
    Val shaped = e.reshape(flat, x.shape);
    shaped.dtype = x.dtype;
    return e.set(n, 0, shaped);
  }
  Value sums = e.t.cumulativeSum(e.ir(x), axis, exclusive, reverse);
  e.set(n, 0, e.makeSum(x, sums, exclusive ? 0 : 1, exclusive ? size - 1 : size));
}

static void importOneHot(Emitter &e, Node &n) {
  Val &indices = *n.inputs[0];
  int64_t depth = e.constantScalar(*n.inputs[1], "its depth"), rank = indices.rank() + 1;
  int64_t axis = e.axis(n.integer("axis", -1), rank);
  if (!indices.expr || indices.expr->kind != Kind::Int)
    e.fail("takes indices of a type other than int32 and int64");
  Shape narrow = indices.shape, shape = indices.shape;
  narrow.insert(narrow.begin() + axis, 1);
  shape.insert(shape.begin() + axis, depth);
  if (e.elements(shape) == 0)
    return e.set(n, 0, e.splat(n.inputs[2]->dtype, shape, 0));
  Val wide = e.reshape(indices, narrow);
  Ref d = e.exprs.coord(axis, depth);
  Ref on = e.exprs.orOf({e.exprs.eq(wide.expr, d), e.exprs.eq(wide.expr, e.exprs.addConst(d, -depth))});
  Val mask = e.make(TensorProto::BOOL, shape, on, {&indices});
  Val off = e.slice(*n.inputs[2], {0}, {1}, {1}), value = e.slice(*n.inputs[2], {1}, {1}, {1});
  e.set(n, 0, e.where(mask, value, off));
}

void addConstantOps(OpTable &ops) {
  ops["Constant"] = importConstant;
  ops["ConstantOfShape"] = importConstantOfShape;
  ops["Shape"] = importShape;
  ops["Size"] = importSize;
  ops["Range"] = importRange;
  ops["Trilu"] = importTrilu;
  ops["EyeLike"] = importEyeLike;
  ops["CumSum"] = importCumSum;
  ops["OneHot"] = importOneHot;
}

} // namespace forebay::import
