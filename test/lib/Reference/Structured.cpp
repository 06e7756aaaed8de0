//===- Structured.cpp - Reference interpreter: linalg and tensor ----------===//

#include "Evaluator.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>
#include <limits>

using namespace mlir;
using namespace forebay::reference;

static void copyElement(const Tensor &from, int64_t source, Tensor &to, int64_t target) {
  if (to.isFloat)
    to.floats[target] = from.floats[source];
  else
    to.ints[target] = from.ints[source];
}

//===----------------------------------------------------------------------===//
// linalg
//===----------------------------------------------------------------------===//

LogicalResult forebay::reference::evaluateLinalg(const Frame &f) {
  auto op = cast<linalg::LinalgOp>(f.op);
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  unsigned inputs = op.getNumDpsInputs(), inits = op.getNumDpsInits();
  Block &body = f.op->getRegion(0).front();
  for (unsigned i = 0; i < inits; ++i)
    f.out(i) = f.in(inputs + i);

  LogicalResult status = success();
  Scope scope = f.scope;
  forEachIndex(ranges, [&](ArrayRef<int64_t> point) {
    if (failed(status))
      return;
    SmallVector<int64_t> offsets;
    for (unsigned i = 0; i < inputs + inits; ++i) {
      const Tensor &whole = i < inputs ? f.in(i) : f.out(i - inputs);
      // A scalar operand has no dimensions and an empty map.
      offsets.push_back(whole.rank() == 0 ? 0 : offsetOf(maps[i].compose(point), whole.strides()));
      Tensor element({}, whole.isFloat);
      copyElement(whole, offsets.back(), element, 0);
      if (i < body.getNumArguments())
        scope[body.getArgument(i)] = std::make_shared<Tensor>(std::move(element));
    }
    // linalg.index reads the loop counter.
    for (auto index : body.getOps<linalg::IndexOp>())
      scope[index.getResult()] = std::make_shared<Tensor>(Tensor::scalar(point[index.getDim()]));
    auto results = f.evaluator.run(body, scope);
    if (failed(results)) {
      status = failure();
      return;
    }
    for (unsigned i = 0; i < inits; ++i)
      copyElement(*(*results)[i], 0, f.out(i), offsets[inputs + i]);
  });
  return status;
}

/// linalg.index has its value from the loop around it already.
static LogicalResult loopIndex(const Frame &f) {
  f.out() = *f.scope.lookup(f.op->getResult(0));
  return success();
}

static LogicalResult fill(const Frame &f) {
  for (int64_t i = 0, n = f.out().size(); i < n; ++i)
    copyElement(f.in(0), 0, f.out(), i);
  return success();
}

static LogicalResult broadcast(const Frame &f) {
  ArrayRef<int64_t> added = cast<linalg::BroadcastOp>(f.op).getDimensions();
  SmallVector<int64_t> from = f.in(0).strides(), strides;
  for (int64_t axis = 0, next = 0; axis < f.out().rank(); ++axis)
    strides.push_back(llvm::is_contained(added, axis) ? 0 : from[next++]);
  int64_t at = 0;
  forEachIndex(f.out().shape, [&](ArrayRef<int64_t> i) { copyElement(f.in(0), offsetOf(i, strides), f.out(), at++); });
  return success();
}

static LogicalResult transpose(const Frame &f) {
  SmallVector<int64_t> from = f.in(0).strides(), strides;
  for (int64_t axis : cast<linalg::TransposeOp>(f.op).getPermutation())
    strides.push_back(from[axis]);
  int64_t at = 0;
  forEachIndex(f.out().shape, [&](ArrayRef<int64_t> i) { copyElement(f.in(0), offsetOf(i, strides), f.out(), at++); });
  return success();
}

/// out[h] = init[h] + sum over the other loops of a * b.
static LogicalResult contract(const Frame &f) {
  auto op = cast<linalg::LinalgOp>(f.op);
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  SmallVector<int64_t> ranges = op.getStaticLoopRanges();
  if (!f.out().isFloat ||
      !llvm::all_of(maps, [](AffineMap map) { return map.isProjectedPermutation(); }))
    return evaluateLinalg(f);
  f.out() = f.in(2);
  SmallVector<int64_t> strides[3];
  for (unsigned i = 0; i < 3; ++i) {
    strides[i].assign(ranges.size(), 0);
    for (auto [axis, stride] : llvm::enumerate(f.in(i).strides()))
      strides[i][maps[i].getDimPosition(axis)] = stride;
  }
  forEachIndex(ranges, [&](ArrayRef<int64_t> i) {
    f.out().floats[offsetOf(i, strides[2])] +=
        f.in(0).floats[offsetOf(i, strides[0])] * f.in(1).floats[offsetOf(i, strides[1])];
  });
  return success();
}

//===----------------------------------------------------------------------===//
// tensor
//===----------------------------------------------------------------------===//

static LogicalResult empty(const Frame &f) {
  std::fill(f.out().floats.begin(), f.out().floats.end(), NAN);
  std::fill(f.out().ints.begin(), f.out().ints.end(), std::numeric_limits<int64_t>::min() / 2);
  return success();
}

/// Reshapes and casts: the same elements in the same order.
static LogicalResult reshape(const Frame &f) {
  f.out().floats = f.in(0).floats;
  f.out().ints = f.in(0).ints;
  return success();
}

/// Calls `fn(offset in the whole, number of the element)` for each element of a slice of `whole`.
static void forEachInSlice(const Tensor &whole, ArrayRef<int64_t> offsets, ArrayRef<int64_t> sizes,
                           ArrayRef<int64_t> steps, function_ref<void(int64_t, int64_t)> fn) {
  SmallVector<int64_t> strides = whole.strides();
  int64_t base = offsetOf(offsets, strides), number = 0;
  for (auto [stride, step] : llvm::zip_equal(strides, steps))
    stride *= step;
  forEachIndex(sizes, [&](ArrayRef<int64_t> i) { fn(base + offsetOf(i, strides), number++); });
}

static LogicalResult extractSlice(const Frame &f) {
  auto op = cast<tensor::ExtractSliceOp>(f.op);
  if (f.operands.size() != 1)
    return f.op->emitError() << "has dynamic offsets";
  forEachInSlice(f.in(0), op.getStaticOffsets(), op.getStaticSizes(), op.getStaticStrides(),
                 [&](int64_t offset, int64_t number) { copyElement(f.in(0), offset, f.out(), number); });
  return success();
}

static LogicalResult insertSlice(const Frame &f) {
  auto op = cast<tensor::InsertSliceOp>(f.op);
  if (f.operands.size() != 2)
    return f.op->emitError() << "has dynamic offsets";
  f.out() = f.in(1);
  forEachInSlice(f.out(), op.getStaticOffsets(), op.getStaticSizes(), op.getStaticStrides(),
                 [&](int64_t offset, int64_t number) { copyElement(f.in(0), number, f.out(), offset); });
  return success();
}

static LogicalResult concat(const Frame &f) {
  int64_t axis = cast<tensor::ConcatOp>(f.op).getDim();
  SmallVector<int64_t> offsets(f.out().rank(), 0), steps(f.out().rank(), 1);
  for (const TensorRef &part : f.operands) {
    forEachInSlice(f.out(), offsets, part->shape, steps,
                   [&](int64_t offset, int64_t number) { copyElement(*part, number, f.out(), offset); });
    offsets[axis] += part->shape[axis];
  }
  return success();
}

static LogicalResult pad(const Frame &f) {
  auto op = cast<tensor::PadOp>(f.op);
  Value padding = op.getConstantPaddingValue();
  if (f.operands.size() != 1 || !padding)
    return f.op->emitError() << "needs static sizes and one padding value";
  // The value may be defined in the region.
  Scope scope = f.scope;
  auto value = f.evaluator.run(op.getRegion().front(), scope);
  if (failed(value))
    return failure();
  SmallVector<int64_t> from = f.in(0).strides();
  int64_t at = 0;
  forEachIndex(f.out().shape, [&](ArrayRef<int64_t> index) {
    int64_t offset = 0;
    bool inside = true;
    for (auto [axis, i] : llvm::enumerate(index)) {
      int64_t source = i - op.getStaticLow()[axis];
      inside &= source >= 0 && source < f.in(0).shape[axis];
      offset += source * from[axis];
    }
    copyElement(inside ? f.in(0) : *value->front(), inside ? offset : 0, f.out(), at++);
  });
  return success();
}

static LogicalResult extract(const Frame &f) {
  int64_t offset = 0;
  for (auto [axis, stride] : llvm::enumerate(f.in(0).strides()))
    offset += f.in(axis + 1).ints[0] * stride;
  copyElement(f.in(0), offset, f.out(), 0);
  return success();
}

static LogicalResult fromElements(const Frame &f) {
  for (auto [i, element] : llvm::enumerate(f.operands))
    copyElement(*element, 0, f.out(), i);
  return success();
}

void forebay::reference::addStructuredHandlers(Handlers &h) {
  h["linalg.index"] = loopIndex;
  h["linalg.fill"] = fill;
  h["linalg.broadcast"] = broadcast;
  h["linalg.transpose"] = transpose;
  h["linalg.contract"] = contract;
  h["linalg.matmul"] = contract;
  h["linalg.batch_matmul"] = contract;
}

void forebay::reference::addTensorHandlers(Handlers &h) {
  h["tensor.empty"] = empty;
  h["tensor.expand_shape"] = reshape;
  h["tensor.collapse_shape"] = reshape;
  h["tensor.cast"] = reshape;
  h["tensor.extract_slice"] = extractSlice;
  h["tensor.insert_slice"] = insertSlice;
  h["tensor.concat"] = concat;
  h["tensor.pad"] = pad;
  h["tensor.extract"] = extract;
  h["tensor.from_elements"] = fromElements;
  h["tensor.splat"] = fill;
}
