//===- RaiseUtils.cpp - What the raising passes share ---------------------===//

#include "RaiseUtils.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Transforms/RegionUtils.h"

#include <cmath>

using namespace mlir;
using namespace forebay;
using namespace forebay::raise;

ArrayRef<int64_t> raise::shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }
Type raise::elementTypeOf(Value value) { return cast<RankedTensorType>(value.getType()).getElementType(); }

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// Restores the invariant of unit dimensions.
static void normalise(Access &access) {
  for (auto [size, axis] : llvm::zip_equal(shapeOf(access.base), access.dims))
    if (size == 1)
      axis = -1;
}

Access raise::identityAccess(Value value) {
  Access access{value, {}};
  llvm::append_range(access.dims, llvm::seq<int>(0, shapeOf(value).size()));
  normalise(access);
  return access;
}

Access Access::into(Value operand) const {
  assert(shapeOf(operand) == shapeOf(base) && "an elementwise operand has the shape of the result");
  Access access{operand, dims};
  peelViews(access);
  return access;
}

Access raise::peeledAccess(Value value) {
  Access access = identityAccess(value);
  peelViews(access);
  return access;
}

/// The only dimension of a reassociation group that is not 1: its position, -1 if all are 1, nothing if there are more.
static std::optional<int> onlyNonUnit(ArrayRef<int64_t> group, ArrayRef<int64_t> shape) {
  int found = -1;
  for (int64_t dim : group) {
    if (shape[dim] == 1)
      continue;
    if (found >= 0)
      return std::nullopt;
    found = dim;
  }
  return found;
}

static bool peelOne(Access &access) {
  Operation *op = access.base.getDefiningOp();
  if (!op)
    return false;
  if (auto broadcast = dyn_cast<linalg::BroadcastOp>(op)) {
    SmallVector<int> dims;
    for (auto [dim, axis] : llvm::enumerate(access.dims))
      if (!llvm::is_contained(broadcast.getDimensions(), static_cast<int64_t>(dim)))
        dims.push_back(axis);
    access = {broadcast.getInput(), dims};
    return true;
  }
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
    SmallVector<int> dims(access.dims.size());
    for (auto [dim, from] : llvm::enumerate(transpose.getPermutation()))
      dims[from] = access.dims[dim];
    access = {transpose.getInput(), dims};
    return true;
  }
  if (auto expand = dyn_cast<tensor::ExpandShapeOp>(op)) {
    SmallVector<int> dims;
    for (const ReassociationIndices &group : expand.getReassociationIndices()) {
      std::optional<int> dim = onlyNonUnit(group, shapeOf(expand.getResult()));
      if (!dim)
        return false;
      dims.push_back(*dim < 0 ? -1 : access.dims[*dim]);
    }
    access = {expand.getSrc(), dims};
    return true;
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op)) {
    SmallVector<int> dims(shapeOf(collapse.getSrc()).size(), -1);
    for (auto [result, group] : llvm::enumerate(collapse.getReassociationIndices())) {
      std::optional<int> dim = onlyNonUnit(group, shapeOf(collapse.getSrc()));
      if (!dim)
        return false;
      if (*dim >= 0)
        dims[*dim] = access.dims[result];
    }
    access = {collapse.getSrc(), dims};
    return true;
  }
  return false;
}

bool raise::peelView(Access &access) {
  normalise(access);
  if (!peelOne(access))
    return false;
  normalise(access);
  return true;
}

void raise::peelViews(Access &access) {
  while (peelView(access))
    ;
}

Value raise::transposeTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return value;
  SmallVector<int64_t> shape;
  for (int64_t dim : permutation)
    shape.push_back(shapeOf(value)[dim]);
  Value empty = tensor::EmptyOp::create(builder, loc, shape, elementTypeOf(value));
  return linalg::TransposeOp::create(builder, loc, value, empty, permutation)->getResult(0);
}

Value raise::reshapeUnits(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  auto type = cast<RankedTensorType>(value.getType());
  if (type.getShape() == shape)
    return value;
  auto wanted = RankedTensorType::get(shape, type.getElementType());
  // One reshape if that is enough, else without unit dimensions first.
  if (auto groups = getReassociationIndicesForReshape(type, wanted)) {
    if (type.getRank() > wanted.getRank())
      return tensor::CollapseShapeOp::create(builder, loc, wanted, value, *groups);
    if (type.getRank() < wanted.getRank())
      return tensor::ExpandShapeOp::create(builder, loc, wanted, value, *groups);
  }
  SmallVector<int64_t> dense;
  for (int64_t size : type.getShape())
    if (size != 1)
      dense.push_back(size);
  auto denseType = RankedTensorType::get(dense, type.getElementType());
  auto groups = getReassociationIndicesForReshape(type, denseType);
  assert(groups && "dropping unit dimensions is a collapse");
  Value collapsed = tensor::CollapseShapeOp::create(builder, loc, denseType, value, *groups);
  groups = getReassociationIndicesForReshape(denseType, wanted);
  assert(groups && "the shapes differ in unit dimensions only");
  return tensor::ExpandShapeOp::create(builder, loc, wanted, collapsed, *groups);
}

Value raise::broadcastTo(OpBuilder &builder, Location loc, Value value, ArrayRef<int64_t> shape) {
  assert(shapeOf(value).size() == shape.size() && "ranks must be equal");
  SmallVector<int64_t> added, kept;
  for (auto [dim, from, to] : llvm::enumerate(shapeOf(value), shape)) {
    if (from != to)
      added.push_back(dim);
    else
      kept.push_back(from);
  }
  if (added.empty())
    return value;
  Value narrow = reshapeUnits(builder, loc, value, kept);
  Value empty = tensor::EmptyOp::create(builder, loc, shape, elementTypeOf(value));
  return linalg::BroadcastOp::create(builder, loc, narrow, empty, added)->getResult(0);
}

Value raise::projectAccess(OpBuilder &builder, Location loc, const Access &access, ArrayRef<int> axes) {
  ArrayRef<int64_t> baseShape = shapeOf(access.base);
  SmallVector<int64_t> shape, permutation, units;
  for (auto [dim, axis] : llvm::enumerate(access.dims)) {
    if (axis < 0)
      units.push_back(dim);
    else if (!llvm::is_contained(axes, axis) || llvm::count(access.dims, axis) > 1)
      return Value();
  }
  // The base's dimension for each axis; a unit dimension, while there are some, for an axis that it does not use.
  auto unit = units.begin();
  for (int axis : axes) {
    auto used = llvm::find(access.dims, axis);
    shape.push_back(used == access.dims.end() ? 1 : baseShape[used - access.dims.begin()]);
    if (used != access.dims.end())
      permutation.push_back(used - access.dims.begin());
    else if (unit != units.end())
      permutation.push_back(*unit++);
  }
  permutation.append(unit, units.end());
  // Where the order is right already a reshape is enough.
  SmallVector<int64_t> nonUnit(llvm::make_filter_range(permutation, [&](int64_t dim) { return baseShape[dim] != 1; }));
  Value value = access.base;
  if (!llvm::is_sorted(nonUnit))
    value = transposeTo(builder, loc, value, permutation);
  return reshapeUnits(builder, loc, value, shape);
}

//===----------------------------------------------------------------------===//
// Constants and small formulas
//===----------------------------------------------------------------------===//

std::optional<double> raise::splatOf(Value value) {
  if (!isa<RankedTensorType>(value.getType()))
    return std::nullopt;
  Value base = peeledAccess(value).base;
  if (auto fill = base.getDefiningOp<linalg::FillOp>()) {
    FloatAttr attr;
    if (matchPattern(fill.getInputs().front(), m_Constant(&attr)))
      return attr.getValueAsDouble();
    return std::nullopt;
  }
  DenseElementsAttr attr;
  if (!isa<FloatType>(elementTypeOf(base)) || !matchPattern(base, m_Constant(&attr)) || !attr.isSplat())
    return std::nullopt;
  return attr.getSplatValue<FloatAttr>().getValueAsDouble();
}

std::optional<int64_t> raise::intSplatOf(Value value) {
  if (!isa<RankedTensorType>(value.getType()))
    return std::nullopt;
  Value base = peeledAccess(value).base;
  DenseElementsAttr attr;
  if (!elementTypeOf(base).isInteger() || !matchPattern(base, m_Constant(&attr)) || !attr.isSplat())
    return std::nullopt;
  APInt bits = attr.getSplatValue<APInt>();
  return bits.getBitWidth() == 1 ? bits.getZExtValue() : bits.getSExtValue();
}

bool raise::nearly(double value, double want) { return std::abs(value - want) <= 1e-6 * std::abs(want); }

bool raise::splitConstantFactor(Value value, Value &x, double &factor) {
  if (auto mul = value.getDefiningOp<arith::MulFOp>()) {
    for (auto [constant, other] : {std::pair(mul.getRhs(), mul.getLhs()), std::pair(mul.getLhs(), mul.getRhs())})
      if (std::optional<double> splat = splatOf(constant)) {
        x = other;
        factor = *splat;
        return true;
      }
    return false;
  }
  if (auto div = value.getDefiningOp<arith::DivFOp>())
    if (std::optional<double> splat = splatOf(div.getRhs()); splat && *splat != 0) {
      x = div.getLhs();
      factor = 1 / *splat;
      return true;
    }
  return false;
}

void raise::flattenProduct(Value value, SmallVectorImpl<Value> &factors, unsigned limit) {
  auto mul = value.getDefiningOp<arith::MulFOp>();
  if (!mul || factors.size() >= limit) {
    factors.push_back(value);
    return;
  }
  flattenProduct(mul.getLhs(), factors, limit);
  flattenProduct(mul.getRhs(), factors, limit);
}

static std::optional<Polynomial> multiply(const Polynomial &a, const Polynomial &b) {
  Polynomial product{};
  for (unsigned i = 0; i < a.size(); ++i)
    for (unsigned j = 0; j < b.size(); ++j) {
      if (a[i] == 0 || b[j] == 0)
        continue;
      if (i + j >= product.size())
        return std::nullopt;
      product[i + j] += a[i] * b[j];
    }
  return product;
}

std::optional<Polynomial> raise::polynomialIn(Value value, Value x, unsigned depth) {
  if (value == x)
    return Polynomial{0, 1, 0, 0};
  if (std::optional<double> splat = splatOf(value))
    return Polynomial{*splat, 0, 0, 0};
  Operation *op = value.getDefiningOp();
  if (!op || depth == 0)
    return std::nullopt;
  auto operand = [&](unsigned index) { return polynomialIn(op->getOperand(index), x, depth - 1); };
  if (isa<arith::AddFOp, arith::SubFOp>(op)) {
    std::optional<Polynomial> a = operand(0), b = operand(1);
    if (!a || !b)
      return std::nullopt;
    for (auto [left, right] : llvm::zip_equal(*a, *b))
      left += isa<arith::AddFOp>(op) ? right : -right;
    return a;
  }
  if (isa<arith::MulFOp>(op)) {
    std::optional<Polynomial> a = operand(0), b = operand(1);
    return a && b ? multiply(*a, *b) : std::nullopt;
  }
  if (isa<arith::DivFOp>(op)) {
    std::optional<double> divisor = splatOf(op->getOperand(1));
    std::optional<Polynomial> a = divisor && *divisor != 0 ? operand(0) : std::nullopt;
    return a ? multiply(*a, {1 / *divisor, 0, 0, 0}) : std::nullopt;
  }
  if (isa<arith::NegFOp>(op)) {
    std::optional<Polynomial> a = operand(0);
    return a ? multiply(*a, {-1, 0, 0, 0}) : std::nullopt;
  }
  std::optional<double> power;
  if (isa<math::PowFOp>(op))
    power = splatOf(op->getOperand(1));
  else if (isa<math::FPowIOp>(op))
    power = intSplatOf(op->getOperand(1));
  if (!power || (*power != 1 && *power != 2 && *power != 3))
    return std::nullopt;
  std::optional<Polynomial> base = operand(0), result = base;
  for (int i = 1; i < static_cast<int>(*power) && result; ++i)
    result = multiply(*result, *base);
  return result;
}

Value raise::squareRoot(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return Value();
  if (isa<arith::MulFOp>(op) && op->getOperand(0) == op->getOperand(1))
    return op->getOperand(0);
  if (isa<math::PowFOp>(op) && splatOf(op->getOperand(1)) == 2.0)
    return op->getOperand(0);
  if (isa<math::FPowIOp>(op) && intSplatOf(op->getOperand(1)) == 2)
    return op->getOperand(0);
  return Value();
}

LastSlice raise::lastSliceOf(Value value) {
  auto slice = value.getDefiningOp<tensor::ExtractSliceOp>();
  LastSlice whole{value, 0, shapeOf(value).back(), 1};
  if (!slice || slice.getSourceType().getRank() != slice.getType().getRank() || !slice.getSourceType().hasStaticShape() ||
      ShapedType::isDynamicShape(slice.getStaticOffsets()) || ShapedType::isDynamicShape(slice.getStaticStrides()))
    return whole;
  ArrayRef<int64_t> offsets = slice.getStaticOffsets(), strides = slice.getStaticStrides();
  if (shapeOf(slice.getSource()).drop_back() != shapeOf(value).drop_back() ||
      llvm::any_of(offsets.drop_back(), [](int64_t offset) { return offset != 0; }) ||
      llvm::any_of(strides.drop_back(), [](int64_t stride) { return stride != 1; }))
    return whole;
  LastSlice outer = lastSliceOf(slice.getSource());
  return {outer.source, outer.offset + offsets.back() * outer.stride, shapeOf(value).back(), outer.stride * strides.back()};
}

bool raise::needsGradient(Value value) {
  SmallVector<Value> worklist{value};
  llvm::DenseSet<Value> seen;
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    auto type = dyn_cast<RankedTensorType>(next.getType());
    if (!type || !isa<FloatType>(type.getElementType()) || !seen.insert(next).second)
      continue;
    if (auto argument = dyn_cast<BlockArgument>(next)) {
      auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp());
      if (function && function.getArgAttr(argument.getArgNumber(), train::kTrainableAttr))
        return true;
      continue;
    }
    if (!isa<train::DetachOp>(next.getDefiningOp()))
      llvm::append_range(worklist, next.getDefiningOp()->getOperands());
  }
  return false;
}

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

void raise::remarkRaised(Location loc, StringRef pass, StringRef what) {
  remark::passed(loc, remark::RemarkOpts::name("Raised").category(pass)) << what;
}

void raise::remarkNearMiss(Location loc, StringRef pass, StringRef what, const Twine &why) {
  remark::missed(loc, remark::RemarkOpts::name("NotRaised").category(pass)) << what << remark::reason("{0}", why.str());
}

void raise::eraseDeadOps(func::FuncOp function) {
  IRRewriter rewriter(function.getContext());
  (void)runRegionDCE(rewriter, function->getRegions());
}
