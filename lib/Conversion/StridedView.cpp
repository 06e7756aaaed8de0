//===- StridedView.cpp - Views of buffers as strides ----------------------===//

#include "forebay/Conversion/StridedView.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace forebay;

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

static int64_t product(ArrayRef<int64_t> values) {
  int64_t result = 1;
  for (int64_t value : values)
    result *= value;
  return result;
}

StridedView StridedView::contiguous(ArrayRef<int64_t> shape) {
  StridedView view;
  view.sizes.assign(shape.begin(), shape.end());
  view.strides.resize(shape.size());
  int64_t stride = 1;
  for (size_t i = shape.size(); i-- > 0; stride *= shape[i])
    view.strides[i] = stride;
  return view;
}

StridedView StridedView::whole(Value value) {
  StridedView view = contiguous(shapeOf(value));
  view.base = value;
  return view;
}

int64_t StridedView::numElements() const { return product(sizes); }

bool StridedView::isContiguous() const {
  if (numElements() == 0)
    return true;
  int64_t want = 1;
  for (unsigned i = rank(); i-- > 0; want *= sizes[i])
    if (sizes[i] != 1 && strides[i] != want)
      return false;
  return true;
}

StridedView StridedView::transpose(ArrayRef<int64_t> perm) const {
  StridedView result{base, offset, {}, {}};
  for (int64_t dim : perm) {
    result.sizes.push_back(sizes[dim]);
    result.strides.push_back(strides[dim]);
  }
  return result;
}

/// For each dimension of the coarser shape the range of dimensions of `fine` that make it up; trailing ones go to the last.
static SmallVector<std::pair<unsigned, unsigned>> groupDims(ArrayRef<int64_t> coarse, ArrayRef<int64_t> fine) {
  SmallVector<std::pair<unsigned, unsigned>> groups;
  unsigned next = 0;
  for (auto [i, size] : llvm::enumerate(coarse)) {
    unsigned first = next;
    int64_t have = 1;
    while (next < fine.size() && have != size)
      have *= fine[next++];
    assert(have == size && "shapes do not nest");
    if (i + 1 == coarse.size())
      next = fine.size();
    groups.push_back({first, next});
  }
  return groups;
}

StridedView StridedView::expand(ArrayRef<int64_t> shape) const {
  StridedView result{base, offset, SmallVector<int64_t>(shape), SmallVector<int64_t>(shape.size(), 0)};
  if (numElements() == 0) {
    result.strides = contiguous(shape).strides;
    return result;
  }
  for (auto [dim, group] : llvm::enumerate(groupDims(sizes, shape))) {
    int64_t stride = strides[dim];
    for (unsigned i = group.second; i-- > group.first; stride *= shape[i])
      result.strides[i] = stride;
  }
  return result;
}

std::optional<StridedView> StridedView::collapse(ArrayRef<int64_t> shape) const {
  StridedView result{base, offset, SmallVector<int64_t>(shape), SmallVector<int64_t>(shape.size(), 0)};
  if (numElements() == 0) {
    result.strides = contiguous(shape).strides;
    return result;
  }
  for (auto [dim, group] : llvm::enumerate(groupDims(shape, sizes))) {
    int64_t size = 1, stride = 0;
    for (unsigned i = group.second; i-- > group.first;) {
      if (sizes[i] == 1)
        continue;
      if (size == 1)
        stride = strides[i];
      else if (strides[i] != stride * size)
        return std::nullopt;
      size *= sizes[i];
    }
    result.strides[dim] = stride;
  }
  return result;
}

std::optional<StridedView> StridedView::reshape(ArrayRef<int64_t> shape) const {
  assert(product(shape) == numElements() && "not a reshape");
  if (isContiguous()) {
    StridedView result = contiguous(shape);
    result.base = base;
    result.offset = offset;
    return result;
  }
  // Join what can be joined, then split; anything else has no strides.
  SmallVector<int64_t> joinedSizes, joinedStrides;
  for (unsigned i = 0; i < rank(); ++i) {
    if (sizes[i] == 1)
      continue;
    if (!joinedSizes.empty() && joinedStrides.back() == strides[i] * sizes[i]) {
      joinedSizes.back() *= sizes[i];
      joinedStrides.back() = strides[i];
      continue;
    }
    joinedSizes.push_back(sizes[i]);
    joinedStrides.push_back(strides[i]);
  }
  StridedView result{base, offset, SmallVector<int64_t>(shape), SmallVector<int64_t>(shape.size(), 0)};
  unsigned next = shape.size();
  for (unsigned dim = joinedSizes.size(); dim-- > 0;) {
    int64_t have = 1, stride = joinedStrides[dim];
    while (have != joinedSizes[dim]) {
      if (next == 0 || joinedSizes[dim] % (have * shape[next - 1]) != 0)
        return std::nullopt;
      --next;
      result.strides[next] = stride;
      stride *= shape[next];
      have *= shape[next];
    }
  }
  return result;
}

std::optional<StridedView> StridedView::apply(Operation *op) const {
  return llvm::TypeSwitch<Operation *, std::optional<StridedView>>(op)
      .Case([&](tensor::CollapseShapeOp op) { return collapse(op.getResultType().getShape()); })
      .Case([&](tensor::ExpandShapeOp op) { return expand(op.getResultType().getShape()); })
      .Case([&](linalg::TransposeOp op) { return transpose(op.getPermutation()); })
      .Case([&](linalg::BroadcastOp op) {
        ArrayRef<int64_t> shape = shapeOf(op.getInit());
        StridedView result{base, offset, SmallVector<int64_t>(shape), {}};
        unsigned next = 0;
        for (unsigned dim = 0; dim < shape.size(); ++dim)
          result.strides.push_back(llvm::is_contained(op.getDimensions(), int64_t(dim)) ? 0 : strides[next++]);
        return std::optional<StridedView>(result);
      })
      .Case([&](tensor::ExtractSliceOp op) {
        StridedView result{base, offset, {}, {}};
        llvm::SmallBitVector dropped = op.getDroppedDims();
        for (unsigned dim = 0; dim < rank(); ++dim) {
          result.offset += op.getStaticOffsets()[dim] * strides[dim];
          if (dropped.test(dim))
            continue;
          result.sizes.push_back(op.getStaticSizes()[dim]);
          result.strides.push_back(op.getStaticStrides()[dim] * strides[dim]);
        }
        return std::optional<StridedView>(result);
      })
      .Default([](Operation *) { return std::nullopt; });
}

bool forebay::isViewOp(Operation *op) {
  if (auto slice = dyn_cast_or_null<tensor::ExtractSliceOp>(op))
    return slice.getOffsets().empty() && slice.getSizes().empty() && slice.getStrides().empty();
  return isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp, linalg::TransposeOp, linalg::BroadcastOp>(op);
}

bool forebay::isReshapeOp(Operation *op) {
  return isa_and_nonnull<tensor::CollapseShapeOp, tensor::ExpandShapeOp>(op);
}

bool forebay::isBijectiveViewOp(Operation *op) { return isReshapeOp(op) || isa_and_nonnull<linalg::TransposeOp>(op); }

Value forebay::viewSource(Operation *op) {
  assert(isViewOp(op) && "not a view");
  return op->getOperand(0);
}

Value forebay::viewBase(Value value) {
  while (isViewOp(value.getDefiningOp()))
    value = viewSource(value.getDefiningOp());
  return value;
}

std::optional<StridedView> forebay::traceView(Value value) {
  SmallVector<Operation *> chain;
  Value base = viewBase(value);
  for (Value view = value; view != base; view = viewSource(view.getDefiningOp()))
    chain.push_back(view.getDefiningOp());
  std::optional<StridedView> view = StridedView::whole(base);
  for (Operation *op : llvm::reverse(chain))
    if (!(view = view->apply(op)))
      return std::nullopt;
  return view;
}

std::optional<StridedView> forebay::traceResult(Value inner, Value outer) {
  std::optional<StridedView> view = StridedView::whole(outer);
  for (Value value = outer; value != inner;) {
    Operation *op = value.getDefiningOp();
    assert(isBijectiveViewOp(op) && "outer is no bijective view of inner");
    value = viewSource(op);
    if (auto transpose = dyn_cast<linalg::TransposeOp>(op))
      view = view->transpose(invertPermutationVector(transpose.getPermutation()));
    else if (isa<tensor::CollapseShapeOp>(op))
      view = view->expand(shapeOf(value));
    else
      view = view->collapse(shapeOf(value));
    if (!view)
      return std::nullopt;
  }
  return view;
}
