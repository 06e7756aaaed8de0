//===- TensorBuilder.cpp - Tensor operations in canonical form ------------===//

#include "TensorBuilder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <limits>

using namespace mlir;

namespace forebay::import {

Value TensorBuilder::empty(ArrayRef<int64_t> shape, Type element) {
  return tensor::EmptyOp::create(b, loc, shape, element);
}

static TypedAttr scalarAttr(Type element, double value) {
  if (auto type = dyn_cast<FloatType>(element)) {
    llvm::APFloat number(value);
    bool inexact;
    number.convert(type.getFloatSemantics(), llvm::APFloat::rmNearestTiesToEven, &inexact);
    return FloatAttr::get(type, number);
  }
  return IntegerAttr::get(element, int64_t(value));
}

Value TensorBuilder::filled(ArrayRef<int64_t> shape, Type element, double value) {
  Value scalar = arith::ConstantOp::create(b, loc, scalarAttr(element, value));
  return linalg::FillOp::create(b, loc, scalar, empty(shape, element)).getResult(0);
}

Value TensorBuilder::splat(ArrayRef<int64_t> shape, Type element, double value) {
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type(shape, element), Attribute(scalarAttr(element, value))));
}

Value TensorBuilder::splatInt(ArrayRef<int64_t> shape, Type element, int64_t value) {
  Attribute scalar = element.isInteger(1) ? Attribute(BoolAttr::get(b.getContext(), value != 0))
                                          : Attribute(IntegerAttr::get(element, value));
  return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(type(shape, element), scalar));
}

Value TensorBuilder::splatLike(Value like, double value) { return splat(shapeOf(like), elementOf(like), value); }

//===----------------------------------------------------------------------===//
// Reshape
//===----------------------------------------------------------------------===//

SmallVector<ShapeGroup> groupShapes(ArrayRef<int64_t> from, ArrayRef<int64_t> to) {
  SmallVector<ShapeGroup> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    ShapeGroup group;
    int64_t a = 1, c = 1;
    // A dimension that both sides have stays alone.
    bool started = i < from.size() && j < to.size() && from[i] == to[j];
    if (started) {
      a = c = from[i];
      group.from.push_back(i++);
      group.to.push_back(j++);
    }
    while (!started || a != c) {
      bool takeFrom = j >= to.size() || (i < from.size() && a <= c);
      if (takeFrom) {
        a *= from[i];
        group.from.push_back(i++);
      } else {
        c *= to[j];
        group.to.push_back(j++);
      }
      started = a > 1 || c > 1 || (i == from.size() && j == to.size());
    }
    group.size = a;
    bool both = i < from.size() && j < to.size() && from[i] == 1 && to[j] == 1;
    while (!both && i < from.size() && from[i] == 1)
      group.from.push_back(i++);
    while (!both && j < to.size() && to[j] == 1)
      group.to.push_back(j++);
    groups.push_back(std::move(group));
  }
  return groups;
}

/// `transpose(collapse(x))` reshaped so that every collapsed dimension is split as it was in x: one transpose of x.
static Value reshapeOfTranspose(TensorBuilder &t, linalg::TransposeOp op, ArrayRef<int64_t> shape) {
  auto collapse = op.getInput().getDefiningOp<tensor::CollapseShapeOp>();
  if (!collapse)
    return nullptr;
  ArrayRef<int64_t> source = collapse.getSrcType().getShape();
  SmallVector<int64_t> permutation;
  Shape result;
  auto groups = collapse.getReassociationIndices();
  for (int64_t dim : op.getPermutation())
    for (int64_t axis : groups[dim]) {
      permutation.push_back(axis);
      result.push_back(source[axis]);
    }
  if (permutation.size() != source.size() || ArrayRef<int64_t>(result) != shape)
    return nullptr;
  return t.transpose(collapse.getSrc(), permutation);
}

Value TensorBuilder::reshape(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  if (auto transpose = value.getDefiningOp<linalg::TransposeOp>())
    if (Value direct = reshapeOfTranspose(*this, transpose, shape))
      return direct;
  // Reshapes of a reshape are one reshape.
  while (true) {
    if (auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>())
      value = collapse.getSrc();
    else if (auto expand = value.getDefiningOp<tensor::ExpandShapeOp>())
      value = expand.getSrc();
    else
      break;
  }
  if (shapeOf(value) == shape)
    return value;
  DenseElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return arith::ConstantOp::create(b, loc, constant.reshape(type(shape, elementOf(value))));

  SmallVector<ShapeGroup> groups = groupShapes(shapeOf(value), shape);
  SmallVector<ReassociationIndices> down, up;
  Shape middle;
  for (ShapeGroup &group : groups) {
    down.push_back(group.from);
    up.push_back(group.to);
    middle.push_back(group.size);
  }
  Type element = elementOf(value);
  // To and from rank 0 there is nothing to associate.
  if (shapeOf(value).empty())
    return tensor::ExpandShapeOp::create(b, loc, type(shape, element), value, ArrayRef<ReassociationIndices>());
  if (shape.empty())
    return tensor::CollapseShapeOp::create(b, loc, type(shape, element), value, ArrayRef<ReassociationIndices>());
  if (middle.size() != shapeOf(value).size())
    value = tensor::CollapseShapeOp::create(b, loc, type(middle, element), value, down);
  if (middle.size() != shape.size())
    value = tensor::ExpandShapeOp::create(b, loc, type(shape, element), value, up);
  return value;
}

Value TensorBuilder::transpose(Value value, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> perm(permutation);
  if (auto before = value.getDefiningOp<linalg::TransposeOp>()) {
    for (int64_t &axis : perm)
      axis = before.getPermutation()[axis];
    value = before.getInput();
  }
  if (llvm::equal(perm, llvm::seq<int64_t>(0, perm.size())))
    return value;
  Shape shape;
  for (int64_t axis : perm)
    shape.push_back(shapeOf(value)[axis]);
  return linalg::TransposeOp::create(b, loc, value, empty(shape, elementOf(value)), perm)->getResult(0);
}

//===----------------------------------------------------------------------===//
// Broadcast
//===----------------------------------------------------------------------===//

Core coreOf(Value value) {
  Core core{value, llvm::to_vector<4>(llvm::seq<int64_t>(0, shapeOf(value).size()))};
  while (true) {
    if (auto broadcast = core.value.getDefiningOp<linalg::BroadcastOp>()) {
      SmallVector<int64_t, 4> axes;
      for (auto [dim, axis] : llvm::enumerate(core.axes))
        if (!llvm::is_contained(broadcast.getDimensions(), int64_t(dim)))
          axes.push_back(axis);
      core = {broadcast.getInput(), axes};
    } else if (auto expand = core.value.getDefiningOp<tensor::ExpandShapeOp>()) {
      // Only where it adds dimensions of size 1.
      ArrayRef<int64_t> shape = shapeOf(core.value);
      SmallVector<int64_t, 4> axes;
      for (auto [dim, group] : llvm::enumerate(expand.getReassociationIndices())) {
        int64_t kept = -1;
        for (int64_t axis : group)
          if (shape[axis] == expand.getSrcType().getDimSize(dim) && (kept < 0 || shape[kept] == 1))
            kept = axis;
        if (kept < 0)
          return core;
        axes.push_back(core.axes[kept]);
      }
      core = {expand.getSrc(), axes};
    } else {
      return core;
    }
  }
}

Value TensorBuilder::broadcastAxes(Value value, ArrayRef<int64_t> axes, ArrayRef<int64_t> shape) {
  SmallVector<int64_t> added;
  bool repeats = false;
  for (auto [axis, size] : llvm::enumerate(shape))
    if (!llvm::is_contained(axes, int64_t(axis))) {
      added.push_back(axis);
      repeats |= size != 1;
    }
  if (!repeats)
    return reshape(value, shape);
  // A broadcast of a broadcast is one broadcast.
  Core core = coreOf(value);
  if (core.value != value) {
    SmallVector<int64_t, 4> outer;
    for (int64_t axis : core.axes)
      outer.push_back(axes[axis]);
    return broadcastAxes(core.value, outer, shape);
  }
  DenseElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)) && constant.isSplat())
    return arith::ConstantOp::create(b, loc, constant.resizeSplat(type(shape, elementOf(value))));
  return linalg::BroadcastOp::create(b, loc, value, empty(shape, elementOf(value)), added)->getResult(0);
}

Value TensorBuilder::broadcast(Value value, ArrayRef<int64_t> shape) {
  if (shapeOf(value) == shape)
    return value;
  ArrayRef<int64_t> from = shapeOf(value);
  assert(from.size() <= shape.size() && "a broadcast does not drop dimensions");
  int64_t shift = shape.size() - from.size();
  SmallVector<int64_t, 4> axes;
  Shape kept;
  for (auto [dim, size] : llvm::enumerate(from))
    if (size != 1) {
      assert(size == shape[dim + shift] && "shapes were checked");
      axes.push_back(dim + shift);
      kept.push_back(size);
    }
  // Where nothing is repeated only dimensions of size 1 are added.
  bool repeats = false;
  for (auto [axis, size] : llvm::enumerate(shape))
    repeats |= size != 1 && !llvm::is_contained(axes, int64_t(axis));
  return repeats ? broadcastAxes(reshape(value, kept), axes, shape) : reshape(value, shape);
}

//===----------------------------------------------------------------------===//
// Slices
//===----------------------------------------------------------------------===//

static SmallVector<OpFoldResult> attrs(OpBuilder &b, ArrayRef<int64_t> values) { return getAsIndexOpFoldResult(b.getContext(), values); }

Value TensorBuilder::slice(Value value, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes, ArrayRef<int64_t> strides) {
  if (sizes == shapeOf(value))
    return value;
  SmallVector<int64_t> steps(strides);
  for (auto [step, size] : llvm::zip_equal(steps, sizes))
    if (size == 1)
      step = 1;
  return tensor::ExtractSliceOp::create(b, loc, value, attrs(b, offsets), attrs(b, sizes), attrs(b, steps));
}

Value TensorBuilder::sliceAxis(Value value, int64_t axis, int64_t offset, int64_t size) {
  SmallVector<int64_t> offsets(shapeOf(value).size(), 0), strides(shapeOf(value).size(), 1), sizes(shapeOf(value));
  offsets[axis] = offset;
  sizes[axis] = size;
  return slice(value, offsets, sizes, strides);
}

Value TensorBuilder::concat(ArrayRef<Value> values, int64_t axis) {
  if (values.size() == 1)
    return values.front();
  return tensor::ConcatOp::create(b, loc, axis, ValueRange(values));
}

Value TensorBuilder::pad(Value value, ArrayRef<int64_t> low, ArrayRef<int64_t> high, TypedAttr fill) {
  SmallVector<int64_t> offsets, sizes, ones(low.size(), 1), l, h;
  Shape shape;
  for (auto [lo, hi, size] : llvm::zip_equal(low, high, shapeOf(value))) {
    offsets.push_back(std::max<int64_t>(-lo, 0));
    sizes.push_back(size - offsets.back() - std::max<int64_t>(-hi, 0));
    l.push_back(std::max<int64_t>(lo, 0));
    h.push_back(std::max<int64_t>(hi, 0));
    shape.push_back(size + lo + hi);
  }
  value = slice(value, offsets, sizes, ones);
  if (ArrayRef<int64_t>(shape) == shapeOf(value))
    return value;
  Value scalar = arith::ConstantOp::create(b, loc, fill);
  return tensor::PadOp::create(b, loc, type(shape, elementOf(value)), value, attrs(b, l), attrs(b, h), scalar);
}

//===----------------------------------------------------------------------===//
// Sums
//===----------------------------------------------------------------------===//

Value TensorBuilder::reduce(Reduction kind, Value value, ArrayRef<int64_t> axes) {
  if (axes.empty())
    return value;
  Type element = elementOf(value);
  Shape shape;
  for (auto [axis, size] : llvm::enumerate(shapeOf(value)))
    if (!llvm::is_contained(axes, int64_t(axis)))
      shape.push_back(size);
  bool isFloat = isa<FloatType>(element);
  Value init;
  if (isFloat) {
    double inf = std::numeric_limits<double>::infinity();
    init = filled(shape, element, kind == Reduction::Sum ? 0 : kind == Reduction::Prod ? 1 : kind == Reduction::Max ? -inf : inf);
  } else {
    unsigned width = element.getIntOrFloatBitWidth();
    APInt start = kind == Reduction::Sum    ? APInt(width, 0)
                  : kind == Reduction::Prod ? APInt(width, 1)
                  : kind == Reduction::Max  ? APInt::getSignedMinValue(width)
                                            : APInt::getSignedMaxValue(width);
    Value scalar = arith::ConstantOp::create(b, loc, IntegerAttr::get(element, start));
    init = linalg::FillOp::create(b, loc, scalar, empty(shape, element)).getResult(0);
  }
  auto combine = [&](OpBuilder &builder, Location at, ValueRange args) {
    Value a = args[0], acc = args[1], r;
    switch (kind) {
    case Reduction::Sum:
      r = isFloat ? Value(arith::AddFOp::create(builder, at, a, acc)) : Value(arith::AddIOp::create(builder, at, a, acc));
      break;
    case Reduction::Prod:
      r = isFloat ? Value(arith::MulFOp::create(builder, at, a, acc)) : Value(arith::MulIOp::create(builder, at, a, acc));
      break;
    case Reduction::Max:
      r = isFloat ? Value(arith::MaximumFOp::create(builder, at, a, acc)) : Value(arith::MaxSIOp::create(builder, at, a, acc));
      break;
    case Reduction::Min:
      r = isFloat ? Value(arith::MinimumFOp::create(builder, at, a, acc)) : Value(arith::MinSIOp::create(builder, at, a, acc));
      break;
    }
    linalg::YieldOp::create(builder, at, r);
  };
  return linalg::ReduceOp::create(b, loc, ValueRange(value), ValueRange(init), axes, combine)->getResult(0);
}

Value TensorBuilder::cumulativeSum(Value value, int64_t axis, bool exclusive, bool reverse) {
  Type element = elementOf(value);
  int64_t size = shapeOf(value)[axis];
  auto shifted = [&](Value of, int64_t by) {
    SmallVector<int64_t> low(shapeOf(of).size(), 0), high(low);
    low[axis] = reverse ? -by : by;
    high[axis] = -low[axis];
    return pad(of, low, high, cast<TypedAttr>(b.getZeroAttr(element)));
  };
  if (exclusive)
    value = shifted(value, 1);
  for (int64_t step = 1; step < size; step *= 2) {
    Value other = shifted(value, step);
    value = isa<FloatType>(element) ? Value(arith::AddFOp::create(b, loc, value, other))
                                    : Value(arith::AddIOp::create(b, loc, value, other));
  }
  return value;
}

Value TensorBuilder::contract(Value a, Value c, StringRef aDims, StringRef bDims, StringRef outDims) {
  // Dimensions of the iteration space: those of the result, then the others in order of their first use.
  std::string space(outDims);
  for (char dim : (aDims + bDims).str())
    if (space.find(dim) == std::string::npos)
      space += dim;
  auto map = [&](StringRef dims) {
    SmallVector<AffineExpr> results;
    for (char dim : dims)
      results.push_back(b.getAffineDimExpr(space.find(dim)));
    return AffineMap::get(space.size(), 0, results, b.getContext());
  };
  // A transposed operand is read where it lies.
  auto readThrough = [&](Value &value, StringRef dims) -> std::string {
    auto transpose = value.getDefiningOp<linalg::TransposeOp>();
    if (!transpose || dims.size() < 2)
      return dims.str();
    ArrayRef<int64_t> perm = transpose.getPermutation();
    size_t n = perm.size();
    for (size_t i = 0; i + 2 < n; ++i)
      if (perm[i] != int64_t(i))
        return dims.str();
    std::string moved(dims);
    std::swap(moved[n - 2], moved[n - 1]);
    value = transpose.getInput();
    return moved;
  };
  Shape shape;
  for (char dim : outDims) {
    size_t at = aDims.find(dim);
    shape.push_back(at != StringRef::npos ? shapeOf(a)[at] : shapeOf(c)[bDims.find(dim)]);
  }
  std::string left = readThrough(a, aDims), right = readThrough(c, bDims);
  ArrayAttr maps = b.getAffineMapArrayAttr({map(left), map(right), map(outDims)});
  Value init = filled(shape, elementOf(a), 0);
  return linalg::ContractOp::create(b, loc, TypeRange(init.getType()), ValueRange{a, c}, ValueRange(init), maps)->getResult(0);
}

Value TensorBuilder::matmul(Value a, Value c) {
  ArrayRef<int64_t> as = shapeOf(a), cs = shapeOf(c);
  size_t rank = std::max(as.size(), cs.size()), batch = rank - 2;
  std::string aDims, cDims, outDims;
  Shape aKept, cKept;
  for (size_t i = 0; i < batch; ++i) {
    char name = char('a' + i);
    int64_t ai = i + as.size() < rank ? 1 : as[i + as.size() - rank];
    int64_t ci = i + cs.size() < rank ? 1 : cs[i + cs.size() - rank];
    bool inA = ai != 1 || ci == 1, inC = ci != 1;
    // A dimension of size 1 on both sides stays with the left operand where that has it.
    if (ai == 1 && ci == 1)
      inA = i + as.size() >= rank, inC = !inA;
    if (inA) {
      aDims += name;
      aKept.push_back(ai);
    }
    if (inC) {
      cDims += name;
      cKept.push_back(ci);
    }
    outDims += name;
  }
  for (int64_t size : as.take_back(2))
    aKept.push_back(size);
  for (int64_t size : cs.take_back(2))
    cKept.push_back(size);
  return contract(reshape(a, aKept), reshape(c, cKept), aDims + "yz", cDims + "zx", outDims + "yx");
}

} // namespace forebay::import
