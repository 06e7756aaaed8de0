//===- OpView.cpp - Operators that move elements --------------------------===//

#include "Emitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/BuiltinAttributes.h"

#include "forebay/Dialect/Train/IR/Train.h"

using namespace mlir;
using onnx::TensorProto;

namespace forebay::import {

using expr::Kind;
using expr::Ref;

/// Whether a value has, beside its expression, a tensor that views of it should be made from.
static bool hasTensor(const Val &val) { return val.ir && (!val.expr || val.expr->hasLoad); }

/// A view of `val`: its expression read at other coordinates, its tensor through `onValue`.
static Val view(Emitter &e, Val &val, ArrayRef<int64_t> shape, function_ref<Ref(unsigned, int64_t)> coordinates,
                function_ref<Value(Value)> onValue) {
  if (e.elements(shape) == 0)
    return e.splat(val.dtype, shape, 0);
  if (!val.expr)
    return e.make(val.dtype, onValue(e.ir(val)));
  Val result = e.make(val.dtype, shape, e.exprs.substitute(val.expr, coordinates), {&val});
  if (hasTensor(val) && result.expr && result.expr->hasLoad) {
    result.ir = onValue(val.ir);
    e.remember(result);
  }
  return result;
}

Val Emitter::reshape(Val &val, ArrayRef<int64_t> shape) {
  if (ArrayRef<int64_t>(val.shape) == shape)
    return val;
  if (val.expr && elements(shape) != 0) {
    // Coordinate of each old axis in terms of the new ones, part by part.
    SmallVector<Ref, 4> old(val.shape.size());
    for (ShapeGroup &group : groupShapes(val.shape, shape)) {
      SmallVector<std::pair<int64_t, Ref>, 4> terms;
      int64_t stride = 1;
      for (int64_t axis : llvm::reverse(group.to)) {
        terms.push_back({stride, exprs.coord(axis, shape[axis])});
        stride *= shape[axis];
      }
      Ref flat = exprs.linear(terms, 0);
      stride = 1;
      for (int64_t axis : llvm::reverse(group.from)) {
        old[axis] = exprs.floorMod(exprs.floorDiv(flat, exprs.intConst(stride)), exprs.intConst(val.shape[axis]));
        stride *= val.shape[axis];
      }
    }
    return view(*this, val, shape, [&](unsigned axis, int64_t) { return old[axis]; },
                [&](Value value) { return t.reshape(value, shape); });
  }
  return view(*this, val, shape, nullptr, [&](Value value) { return t.reshape(value, shape); });
}

Val Emitter::transpose(Val &val, ArrayRef<int64_t> permutation) {
  Shape shape;
  for (int64_t axis : permutation)
    shape.push_back(val.shape[axis]);
  return view(
      *this, val, shape,
      [&](unsigned axis, int64_t size) { return exprs.coord(llvm::find(permutation, axis) - permutation.begin(), size); },
      [&](Value value) { return t.transpose(value, permutation); });
}

Val Emitter::expand(Val &val, ArrayRef<int64_t> shape) {
  int64_t shift = int64_t(shape.size()) - val.rank();
  return view(*this, val, shape, [&](unsigned axis, int64_t size) { return exprs.coord(axis + shift, size); },
              [&](Value value) { return t.broadcast(value, shape); });
}

Val Emitter::slice(Val &val, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  if (sizes == ArrayRef<int64_t>(val.shape) && llvm::all_of(strides, [](int64_t step) { return step > 0; }))
    return val;
  bool backwards = false;
  for (auto [size, stride] : llvm::zip_equal(sizes, strides))
    backwards |= size > 1 && stride < 0;
  if (backwards && hasTensor(val)) {
    if (!val.expr && elements(sizes) != 0)
      fail("slices backwards (with a negative step) a tensor that follows from weights or float inputs, which is not supported",
           "reverse the tensor in the model with an index instead");
    Val expression = val;
    expression.ir = nullptr;
    return slice(expression, offsets, sizes, strides);
  }
  return view(
      *this, val, sizes,
      [&](unsigned axis, int64_t) {
        return exprs.linear({{strides[axis], exprs.coord(axis, sizes[axis])}}, offsets[axis]);
      },
      [&](Value value) { return t.slice(value, offsets, sizes, strides); });
}

Val Emitter::concat(ArrayRef<Val *> all, int64_t axis) {
  // Empty parts add nothing.
  SmallVector<Val *, 4> vals;
  Shape shape = all.front()->shape;
  shape[axis] = 0;
  for (Val *val : all) {
    if (val->rank() != int64_t(shape.size()))
      fail("has operands of different ranks");
    for (auto [dim, size] : llvm::enumerate(val->shape))
      if (int64_t(dim) != axis && size != shape[dim])
        fail("has operands that differ in axis " + Twine(dim) + ", not only in axis " + Twine(axis));
    shape[axis] += val->shape[axis];
    if (val->shape[axis] != 0)
      vals.push_back(val);
  }
  if (elements(shape) == 0)
    return splat(all.front()->dtype, shape, 0);
  if (vals.size() == 1)
    return *vals.front();
  auto values = [&] {
    SmallVector<Value, 4> operands;
    for (Val *val : vals)
      operands.push_back(ir(*val));
    return t.concat(operands, axis);
  };
  if (!llvm::all_of(vals, [](Val *val) { return val->expr; }))
    return make(vals.front()->dtype, values());
  Ref result = nullptr, d = exprs.coord(axis, shape[axis]);
  int64_t start = shape[axis];
  for (Val *val : llvm::reverse(vals)) {
    int64_t end = start;
    start -= val->shape[axis];
    Ref part = exprs.substitute(val->expr, [&](unsigned at, int64_t size) {
      return at == axis ? exprs.addConst(d, -start) : exprs.coord(at, size);
    });
    result = result ? exprs.select(exprs.lt(d, exprs.intConst(end)), part, result) : part;
  }
  Val made = make(vals.front()->dtype, shape, result, vals);
  if (llvm::any_of(vals, [](Val *val) { return hasTensor(*val); }) && result->hasLoad)
    made.ir = values();
  remember(made);
  return made;
}

//===----------------------------------------------------------------------===//
// Cast
//===----------------------------------------------------------------------===//

static bool isUnsigned(int32_t dtype) {
  return dtype == TensorProto::UINT8 || dtype == TensorProto::UINT16 || dtype == TensorProto::UINT32 ||
         dtype == TensorProto::UINT64;
}

static Value castValue(Emitter &e, Value value, int32_t from, int32_t to) {
  OpBuilder &b = e.b;
  Location loc = e.t.loc;
  Type target = e.elementType(to), source = elementOf(value);
  Type type = e.t.type(shapeOf(value), target);
  if (source == target)
    return value;
  bool fromFloat = isa<FloatType>(source), toFloat = isa<FloatType>(target);
  if (target.isInteger(1)) {
    if (fromFloat)
      return arith::CmpFOp::create(b, loc, arith::CmpFPredicate::UNE, value, e.t.splatLike(value, 0));
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, value, e.t.splatLike(value, 0));
  }
  if (fromFloat && toFloat) {
    if (source.getIntOrFloatBitWidth() < target.getIntOrFloatBitWidth())
      return arith::ExtFOp::create(b, loc, type, value);
    return arith::TruncFOp::create(b, loc, type, value);
  }
  if (toFloat) {
    if (isUnsigned(from) || source.isInteger(1))
      return arith::UIToFPOp::create(b, loc, type, value);
    return arith::SIToFPOp::create(b, loc, type, value);
  }
  if (fromFloat) {
    if (isUnsigned(to))
      return arith::FPToUIOp::create(b, loc, type, value);
    return arith::FPToSIOp::create(b, loc, type, value);
  }
  if (source.getIntOrFloatBitWidth() > target.getIntOrFloatBitWidth())
    return arith::TruncIOp::create(b, loc, type, value);
  if (isUnsigned(from) || source.isInteger(1))
    return arith::ExtUIOp::create(b, loc, type, value);
  return arith::ExtSIOp::create(b, loc, type, value);
}

Val Emitter::cast(Val &val, int32_t dtype) {
  Kind kind = kindOf(dtype);
  if (val.dtype == dtype)
    return val;
  if (elements(val.shape) == 0)
    return splat(dtype, val.shape, 0);
  if (!val.expr)
    return make(dtype, castValue(*this, ir(val), val.dtype, dtype));
  Val result = make(dtype, val.shape, exprs.cast(val.expr, kind), {&val});
  // Integers keep their value in every width.
  if (hasTensor(val) && kind == Kind::Int && val.expr->kind == Kind::Int)
    result.ir = castValue(*this, val.ir, val.dtype, dtype);
  return result;
}

//===----------------------------------------------------------------------===//
// Operators
//===----------------------------------------------------------------------===//

static void importReshape(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  std::vector<int64_t> asked = e.constants(*n.inputs[1], "its shape");
  bool allowZero = n.integer("allowzero", 0);
  Shape shape;
  int64_t known = 1, open = -1;
  for (auto [i, size] : llvm::enumerate(asked)) {
    if (size == 0 && !allowZero) {
      if (int64_t(i) >= x.rank())
        e.fail("copies dimension " + Twine(i) + " of a tensor of rank " + Twine(x.rank()));
      size = x.shape[i];
    }
    if (size == -1) {
      if (open >= 0)
        e.fail("has two dimensions of -1 in its shape");
      open = i;
    } else if (size < 0) {
      e.fail("has a dimension of " + Twine(size) + " in its shape");
    }
    shape.push_back(size);
    if (size != -1)
      known *= size;
  }
  int64_t count = e.elements(x.shape);
  if (open >= 0) {
    if (known == 0 || count % known != 0)
      e.fail("cannot split " + Twine(count) + " elements into parts of " + Twine(known));
    shape[open] = count / known;
  }
  if (e.elements(shape) != count)
    e.fail("reshapes " + Twine(count) + " elements to " + Twine(e.elements(shape)));
  e.set(n, 0, e.reshape(x, shape));
}

static void importFlatten(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  int64_t axis = n.integer("axis", 1);
  axis = axis == x.rank() ? axis : e.axis(axis, x.rank());
  ArrayRef<int64_t> shape = x.shape;
  e.set(n, 0, e.reshape(x, {e.elements(shape.take_front(axis)), e.elements(shape.drop_front(axis))}));
}

static void importSqueeze(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  SmallVector<int64_t> axes;
  if (n.has(1)) {
    for (int64_t axis : e.constants(*n.inputs[1], "its axes"))
      axes.push_back(e.axis(axis, x.rank()));
  } else {
    for (auto [axis, size] : llvm::enumerate(x.shape))
      if (size == 1)
        axes.push_back(axis);
  }
  Shape shape;
  for (auto [axis, size] : llvm::enumerate(x.shape)) {
    if (!llvm::is_contained(axes, int64_t(axis)))
      shape.push_back(size);
    else if (size != 1)
      e.fail("squeezes axis " + Twine(axis) + " of size " + Twine(size));
  }
  e.set(n, 0, e.reshape(x, shape));
}

static void importUnsqueeze(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  std::vector<int64_t> asked = e.constants(*n.inputs[1], "its axes");
  int64_t rank = x.rank() + asked.size();
  Shape shape(rank, 0);
  for (int64_t axis : asked) {
    axis = e.axis(axis, rank);
    if (shape[axis] == 1)
      e.fail("names axis " + Twine(axis) + " twice");
    shape[axis] = 1;
  }
  auto next = x.shape.begin();
  for (int64_t &size : shape)
    if (size == 0)
      size = *next++;
  e.set(n, 0, e.reshape(x, shape));
}

static void importTranspose(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  SmallVector<int64_t> permutation;
  if (auto given = n.integers("perm"))
    permutation.assign(given->begin(), given->end());
  else
    for (int64_t axis = x.rank(); axis-- > 0;)
      permutation.push_back(axis);
  SmallVector<int64_t> sorted(permutation);
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, x.rank())))
    e.fail("has a perm that is not a permutation of the " + Twine(x.rank()) + " axes");
  e.set(n, 0, e.transpose(x, permutation));
}

static void importExpand(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  Val target;
  std::vector<int64_t> asked = e.constants(*n.inputs[1], "its shape");
  target.shape.assign(asked.begin(), asked.end());
  e.set(n, 0, e.expand(x, e.broadcastShapes({&x, &target})));
}

static void importSlice(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  std::vector<int64_t> starts = e.constants(*n.inputs[1], "its starts"), ends = e.constants(*n.inputs[2], "its ends");
  std::vector<int64_t> axes, steps(starts.size(), 1);
  if (n.has(3))
    axes = e.constants(*n.inputs[3], "its axes");
  else
    for (size_t i = 0; i < starts.size(); ++i)
      axes.push_back(i);
  if (n.has(4))
    steps = e.constants(*n.inputs[4], "its steps");
  if (ends.size() != starts.size() || axes.size() != starts.size() || steps.size() != starts.size())
    e.fail("has starts, ends, axes and steps of different lengths");
  SmallVector<int64_t> offsets(x.rank(), 0), sizes(ArrayRef<int64_t>(x.shape)), strides(x.rank(), 1);
  for (size_t i = 0; i < starts.size(); ++i) {
    int64_t axis = e.axis(axes[i], x.rank()), size = x.shape[axis], step = steps[i];
    if (step == 0)
      e.fail("has a step of 0");
    // As numpy does: negative positions count from the end, then all are clamped.
    auto position = [&](int64_t value, int64_t low, int64_t high) {
      if (value < 0 && __builtin_add_overflow(value, size, &value))
        value = low;
      return std::clamp(value, low, high);
    };
    int64_t start = step > 0 ? position(starts[i], 0, size) : position(starts[i], -1, size - 1);
    int64_t end = step > 0 ? position(ends[i], 0, size) : position(ends[i], -1, size - 1);
    // A step that leaves at once takes one element.
    step = std::clamp<int64_t>(step, -std::max<int64_t>(size, 1), std::max<int64_t>(size, 1));
    int64_t count = step > 0 ? (end - start + step - 1) / step : (start - end - step - 1) / -step;
    offsets[axis] = start;
    sizes[axis] = std::max<int64_t>(count, 0);
    strides[axis] = step;
  }
  e.set(n, 0, e.slice(x, offsets, sizes, strides));
}

static void importConcat(Emitter &e, Node &n) {
  e.set(n, 0, e.concat(n.inputs, e.axis(n.integer("axis", 0), n.inputs[0]->rank())));
}

/// Parts of `x` along an axis.
static std::vector<Val> split(Emitter &e, Val &x, int64_t axis, ArrayRef<int64_t> sizes) {
  int64_t sum = 0;
  for (int64_t size : sizes)
    sum += size;
  if (sum != x.shape[axis] || llvm::any_of(sizes, [](int64_t size) { return size < 0; }))
    e.fail("splits an axis of size " + Twine(x.shape[axis]) + " into parts that add up to " + Twine(sum));
  std::vector<Val> parts;
  SmallVector<int64_t> offsets(x.rank(), 0), strides(x.rank(), 1);
  for (int64_t size : sizes) {
    SmallVector<int64_t> shape(ArrayRef<int64_t>(x.shape));
    shape[axis] = size;
    parts.push_back(e.slice(x, offsets, shape, strides));
    offsets[axis] += size;
  }
  return parts;
}

/// Pieces of `size`, the last one smaller.
static SmallVector<int64_t> chunks(int64_t total, int64_t size) {
  SmallVector<int64_t> sizes;
  for (int64_t start = 0; start < total; start += size)
    sizes.push_back(std::min(size, total - start));
  return sizes;
}

static void importSplit(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  int64_t axis = e.axis(n.integer("axis", 0), x.rank()), size = x.shape[axis];
  SmallVector<int64_t> sizes;
  if (n.has(1)) {
    std::vector<int64_t> given = e.constants(*n.inputs[1], "its split");
    sizes.assign(given.begin(), given.end());
  } else {
    int64_t parts = n.integer("num_outputs", n.proto.output_size());
    sizes = chunks(size, std::max<int64_t>((size + parts - 1) / parts, 1));
    while (int64_t(sizes.size()) < parts)
      sizes.push_back(0);
  }
  if (int64_t(sizes.size()) < n.proto.output_size())
    e.fail("splits into " + Twine(sizes.size()) + " parts but has " + Twine(n.proto.output_size()) + " outputs");
  for (auto [i, part] : llvm::enumerate(split(e, x, axis, sizes)))
    e.set(n, i, part);
}

static void importSplitToSequence(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  int64_t axis = e.axis(n.integer("axis", 0), x.rank()), size = x.shape[axis];
  bool keepDims = true;
  SmallVector<int64_t> sizes;
  if (!n.has(1)) {
    keepDims = n.integer("keepdims", 1);
    sizes.assign(size, 1);
  } else {
    std::vector<int64_t> given = e.constants(*n.inputs[1], "its split");
    if (n.inputs[1]->rank() == 0) {
      if (given[0] <= 0)
        e.fail("splits into pieces of size " + Twine(given[0]));
      sizes = chunks(size, given[0]);
    } else {
      sizes.assign(given.begin(), given.end());
    }
  }
  Val result;
  result.dtype = x.dtype;
  result.sequence = std::make_shared<std::vector<Val>>(split(e, x, axis, sizes));
  if (!keepDims)
    for (Val &part : *result.sequence) {
      Shape shape = part.shape;
      shape.erase(shape.begin() + axis);
      part = e.reshape(part, shape);
    }
  e.set(n, 0, result);
}

static void importSequenceAt(Emitter &e, Node &n) {
  std::vector<Val> &sequence = *n.inputs[0]->sequence;
  int64_t at = e.axis(e.constantScalar(*n.inputs[1], "its position"), sequence.size());
  e.set(n, 0, sequence[at]);
}

static void importSequenceConstruct(Emitter &e, Node &n) {
  Val result;
  result.dtype = n.inputs[0]->dtype;
  result.sequence = std::make_shared<std::vector<Val>>();
  for (Val *val : n.inputs)
    result.sequence->push_back(*val);
  e.set(n, 0, result);
}

static void importSequenceLength(Emitter &e, Node &n) {
  e.set(n, 0, e.splat(TensorProto::INT64, {}, n.inputs[0]->sequence->size()));
}

static void importConcatFromSequence(Emitter &e, Node &n) {
  std::vector<Val> &sequence = *n.inputs[0]->sequence;
  if (sequence.empty())
    e.fail("concatenates an empty sequence");
  bool newAxis = n.integer("new_axis", 0);
  int64_t axis = e.axis(n.integer("axis", 0), sequence.front().rank() + newAxis);
  std::vector<Val> parts = sequence;
  SmallVector<Val *, 4> operands;
  for (Val &part : parts) {
    if (newAxis) {
      Shape shape = part.shape;
      shape.insert(shape.begin() + axis, 1);
      part = e.reshape(part, shape);
    }
    operands.push_back(&part);
  }
  e.set(n, 0, e.concat(operands, axis));
}

static void importPad(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  std::string mode = n.text("mode", "constant");
  std::vector<int64_t> pads = e.constants(*n.inputs[1], "its pads"), axes;
  if (n.has(3))
    axes = e.constants(*n.inputs[3], "its axes");
  else
    for (int64_t axis = 0; axis < x.rank(); ++axis)
      axes.push_back(axis);
  if (pads.size() != 2 * axes.size())
    e.fail("has " + Twine(pads.size()) + " pads for " + Twine(axes.size()) + " axes");
  SmallVector<int64_t> low(x.rank(), 0), high(x.rank(), 0);
  Shape shape = x.shape;
  for (size_t i = 0; i < axes.size(); ++i) {
    int64_t axis = e.axis(axes[i], x.rank());
    low[axis] = pads[i];
    high[axis] = pads[i + axes.size()];
    shape[axis] += low[axis] + high[axis];
    if (shape[axis] < 0)
      e.fail("cuts off more than axis " + Twine(axis) + " has");
  }
  auto nonZero = [](int64_t amount) { return amount != 0; };
  if (llvm::none_of(low, nonZero) && llvm::none_of(high, nonZero))
    return e.set(n, 0, x);
  if (mode != "constant")
    e.fail("pads in mode '" + mode + "', which is not supported", "only mode 'constant' is");
  std::optional<double> fill = 0.0;
  if (n.has(2)) {
    fill = e.splatValue(*n.inputs[2]);
    if (!fill)
      e.fail("needs its padding value as a constant");
  }
  if (e.elements(shape) == 0)
    return e.set(n, 0, e.splat(x.dtype, shape, 0));
  if (e.elements(x.shape) == 0)
    return e.set(n, 0, e.splat(x.dtype, shape, *fill));
  auto onValue = [&](Value value) {
    Type element = elementOf(value);
    TypedAttr attribute = isa<FloatType>(element) ? TypedAttr(FloatAttr::get(element, *fill))
                          : element.isInteger(1)  ? TypedAttr(e.b.getBoolAttr(*fill != 0))
                                                  : TypedAttr(IntegerAttr::get(element, int64_t(*fill)));
    return e.t.pad(value, low, high, attribute);
  };
  if (!x.expr)
    return e.set(n, 0, e.make(x.dtype, onValue(e.ir(x))));
  SmallVector<Ref, 4> inside;
  for (auto [axis, size] : llvm::enumerate(shape)) {
    Ref d = e.exprs.coord(axis, size);
    inside.push_back(e.exprs.le(e.exprs.intConst(low[axis]), d));
    inside.push_back(e.exprs.lt(d, e.exprs.intConst(low[axis] + x.shape[axis])));
  }
  Ref moved = e.exprs.substitute(x.expr, [&](unsigned axis, int64_t) {
    return e.exprs.addConst(e.exprs.coord(axis, shape[axis]), -low[axis]);
  });
  Ref padding = e.splat(x.dtype, {}, *fill).expr;
  Val result = e.make(x.dtype, shape, e.exprs.select(e.exprs.andOf(inside), moved, padding), {&x});
  if (hasTensor(x) && result.expr && result.expr->hasLoad)
    result.ir = onValue(x.ir);
  e.remember(result);
  e.set(n, 0, result);
}

Value Emitter::detach(Value value) { return train::DetachOp::create(b, t.loc, value.getType(), value); }

static void importIdentity(Emitter &e, Node &n) {
  Val &x = *n.inputs[0];
  if (!x.sequence && !x.expr && e.model.isDetach(n.proto))
    return e.set(n, 0, e.make(x.dtype, e.detach(e.ir(x))));
  e.set(n, 0, x);
}

static void importTile(Emitter &e, Node &n) {
  // [a, b] tiled by [p, q] is [p, a, q, b] broadcast, then reshaped.
  Val x = *n.inputs[0];
  std::vector<int64_t> repeats = e.constants(*n.inputs[1], "its repeats");
  if (int64_t(repeats.size()) != x.rank())
    e.fail("has " + Twine(repeats.size()) + " repeats for a tensor of rank " + Twine(x.rank()));
  Shape narrow, wide, result;
  for (auto [times, size] : llvm::zip_equal(repeats, x.shape)) {
    if (times < 0)
      e.fail("repeats " + Twine(times) + " times");
    narrow.append({1, size});
    wide.append({times, size});
    result.push_back(times * size);
  }
  if (e.elements(result) == 0)
    return e.set(n, 0, e.splat(x.dtype, result, 0));
  Val apart = e.reshape(x, narrow);
  Val repeated = e.expand(apart, wide);
  e.set(n, 0, e.reshape(repeated, result));
}

static void importCast(Emitter &e, Node &n) { e.set(n, 0, e.cast(*n.inputs[0], n.integer("to", 0))); }
static void importCastLike(Emitter &e, Node &n) { e.set(n, 0, e.cast(*n.inputs[0], n.inputs[1]->dtype)); }

/// The model's loader has refused dropout that is active.
static void importDropout(Emitter &e, Node &n) {
  e.set(n, 0, *n.inputs[0]);
  e.set(n, 1, e.splat(TensorProto::BOOL, n.inputs[0]->shape, 1));
}

void addViewOps(OpTable &ops) {
  ops["Reshape"] = importReshape;
  ops["Flatten"] = importFlatten;
  ops["Squeeze"] = importSqueeze;
  ops["Unsqueeze"] = importUnsqueeze;
  ops["Transpose"] = importTranspose;
  ops["Expand"] = importExpand;
  ops["Slice"] = importSlice;
  ops["Concat"] = importConcat;
  ops["Split"] = importSplit;
  ops["SplitToSequence"] = importSplitToSequence;
  ops["SequenceAt"] = importSequenceAt;
  ops["SequenceConstruct"] = importSequenceConstruct;
  ops["SequenceLength"] = importSequenceLength;
  ops["ConcatFromSequence"] = importConcatFromSequence;
  ops["Pad"] = importPad;
  ops["Identity"] = importIdentity;
  ops["Tile"] = importTile;
  ops["Cast"] = importCast;
  ops["CastLike"] = importCastLike;
  ops["Dropout"] = importDropout;
}

} // namespace forebay::import
