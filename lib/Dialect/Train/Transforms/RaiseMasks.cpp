//===- RaiseMasks.cpp - What an attention mask is made of -----------------===//

#include "RaiseMasks.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <limits>

using namespace mlir;
using namespace forebay;
using namespace forebay::raise;

bool raise::hides(std::optional<double> number) { return number && *number <= -1e9; }

//===----------------------------------------------------------------------===//
// Accesses through elementwise operations
//===----------------------------------------------------------------------===//

static constexpr unsigned kMaxDepth = 16;

/// True for an elementwise operation on tensors of one shape (no scalar condition among the operands).
static bool isElementwise(Operation *op) {
  if (!op || op->getNumResults() != 1 || !OpTrait::hasElementwiseMappableTraits(op))
    return false;
  auto type = dyn_cast<RankedTensorType>(op->getResult(0).getType());
  return type && llvm::all_of(op->getOperandTypes(), [&](Type operand) {
           auto tensor = dyn_cast<RankedTensorType>(operand);
           return tensor && tensor.getShape() == type.getShape();
         });
}

/// Adds the axes that the element depends on, also where an elementwise operation was done on broadcast operands.
static void collectAxes(const Access &access, SmallVectorImpl<bool> &axes, unsigned depth = 0) {
  Operation *op = access.base.getDefiningOp();
  if (depth < kMaxDepth && isElementwise(op)) {
    for (Value operand : op->getOperands())
      collectAxes(access.into(operand), axes, depth + 1);
    return;
  }
  if (splatOf(access.base) || intSplatOf(access.base))
    return;
  for (int axis : access.dims)
    if (axis >= 0)
      axes[axis] = true;
}

/// Rebuilds the access as a tensor with one dimension for each of `axes`, of size 1 where it does not depend on the
/// axis, with elementwise operations done at that shape.
static Value rebuild(OpBuilder &builder, Location loc, const Access &access, ArrayRef<int> axes, ArrayRef<int64_t> sizes) {
  SmallVector<bool> used(8, false);
  collectAxes(access, used);
  SmallVector<int64_t> shape;
  for (auto [axis, size] : llvm::zip_equal(axes, sizes))
    shape.push_back(used[axis] ? size : 1);
  auto type = RankedTensorType::get(shape, elementTypeOf(access.base));
  if (std::optional<double> splat = splatOf(access.base))
    return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), *splat)));
  if (std::optional<int64_t> splat = intSplatOf(access.base))
    return arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, builder.getIntegerAttr(type.getElementType(), *splat)));
  // An operation at a larger shape than needed is done again at the smaller one.
  bool tooLarge = llvm::any_of(access.dims, [&](int axis) { return axis >= 0 && !used[axis]; });
  if (!tooLarge)
    return projectAccess(builder, loc, access, axes);
  Operation *op = access.base.getDefiningOp();
  assert(isElementwise(op) && "every other operation uses all its axes");
  SmallVector<Value> operands;
  for (Value operand : op->getOperands())
    operands.push_back(broadcastTo(builder, loc, rebuild(builder, loc, access.into(operand), axes, sizes), shape));
  OperationState state(loc, op->getName(), operands, type, op->getAttrDictionary().getValue());
  return builder.create(state)->getResult(0);
}

//===----------------------------------------------------------------------===//
// Index expressions
//===----------------------------------------------------------------------===//

namespace {
/// query * q + key * k + constant.
struct Linear {
  int64_t query = 0, key = 0, constant = 0;
};
} // namespace

static std::optional<Linear> linearOf(const Access &access, unsigned depth = 0) {
  if (std::optional<int64_t> splat = intSplatOf(access.base))
    return Linear{0, 0, *splat};
  Operation *op = access.base.getDefiningOp();
  if (!op || depth > kMaxDepth)
    return std::nullopt;
  if (auto iota = dyn_cast<train::IotaOp>(op)) {
    Linear linear{0, 0, static_cast<int64_t>(iota.getStart())};
    int axis = access.dims.front(), step = iota.getStep();
    if (axis == 2)
      linear.query = step;
    else if (axis == 3)
      linear.key = step;
    else if (axis >= 0)
      return std::nullopt;
    return linear;
  }
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op)) {
    // Only of an iota: another start.
    auto iota = slice.getSource().getDefiningOp<train::IotaOp>();
    if (!iota || slice.getType().getRank() != 1 || ShapedType::isDynamicShape(slice.getStaticOffsets()) ||
        ShapedType::isDynamicShape(slice.getStaticStrides()))
      return std::nullopt;
    int64_t step = iota.getStep() * slice.getStaticStrides()[0];
    Linear linear{0, 0, static_cast<int64_t>(iota.getStart() + iota.getStep() * slice.getStaticOffsets()[0])};
    int axis = access.dims.front();
    if (axis == 2)
      linear.query = step;
    else if (axis == 3)
      linear.key = step;
    else if (axis >= 0)
      return std::nullopt;
    return linear;
  }
  if (isa<arith::ExtSIOp, arith::TruncIOp, arith::ExtUIOp>(op)) // positions are small and not negative
    return linearOf(access.into(op->getOperand(0)), depth + 1);
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp>(op))
    return std::nullopt;
  std::optional<Linear> a = linearOf(access.into(op->getOperand(0)), depth + 1);
  std::optional<Linear> b = linearOf(access.into(op->getOperand(1)), depth + 1);
  if (!a || !b)
    return std::nullopt;
  if (isa<arith::AddIOp>(op))
    return Linear{a->query + b->query, a->key + b->key, a->constant + b->constant};
  if (isa<arith::SubIOp>(op))
    return Linear{a->query - b->query, a->key - b->key, a->constant - b->constant};
  if (a->query != 0 || a->key != 0)
    std::swap(a, b);
  if (a->query != 0 || a->key != 0)
    return std::nullopt;
  return Linear{b->query * a->constant, b->key * a->constant, b->constant * a->constant};
}

/// Handles comparisons of positions: `k <= q`, `k > q - w`, and what is always true.
bool MaskParts::addComparison(Access access, bool negated) {
  auto compare = access.base.getDefiningOp<arith::CmpIOp>();
  if (!compare)
    return false;
  std::optional<Linear> left = linearOf(access.into(compare.getLhs())), right = linearOf(access.into(compare.getRhs()));
  if (!left || !right)
    return false;
  arith::CmpIPredicate predicate = negated ? arith::invertPredicate(compare.getPredicate()) : compare.getPredicate();
  // difference <= 0 for every predicate but eq and ne.
  Linear d{left->query - right->query, left->key - right->key, left->constant - right->constant};
  switch (predicate) {
  case arith::CmpIPredicate::slt:
    d.constant += 1;
    break;
  case arith::CmpIPredicate::sle:
    break;
  case arith::CmpIPredicate::sgt:
    d = {-d.query, -d.key, -d.constant + 1};
    break;
  case arith::CmpIPredicate::sge:
    d = {-d.query, -d.key, -d.constant};
    break;
  case arith::CmpIPredicate::eq:
    return d.query == 0 && d.key == 0 && d.constant == 0;
  case arith::CmpIPredicate::ne:
    return d.query == 0 && d.key == 0 && d.constant != 0;
  default:
    return false;
  }
  int64_t lastQuery = std::max<int64_t>(shape[2] - 1, 0), lastKey = std::max<int64_t>(shape[3] - 1, 0);
  int64_t largest = d.constant + std::max<int64_t>(d.query * lastQuery, 0) + std::max<int64_t>(d.key * lastKey, 0);
  if (largest <= 0)
    return true; // shows every key
  if (shape[2] != shape[3])
    return false; // positions of queries and keys are not the same then
  if (d.query == -1 && d.key == 1 && d.constant == 0) {
    causal = true;
    return true;
  }
  if (d.query == 1 && d.key == -1) { // q - k + c <= 0: k > q - w with w = 1 - c
    int64_t size = 1 - d.constant;
    if (size < 1)
      return false;
    window = window ? std::min(*window, size) : size;
    return true;
  }
  return false;
}

/// Handles a constant over queries and keys that is causal, with or without a window: buffers of older models.
bool MaskParts::addConstant(const Access &access, bool negated) {
  DenseElementsAttr elements;
  int64_t size = shape[2];
  SmallVector<int> used(llvm::make_filter_range(access.dims, [](int axis) { return axis >= 0; }));
  if (used != ArrayRef<int>{2, 3} || shape[3] != size || !elementTypeOf(access.base).isInteger(1) ||
      !matchPattern(access.base, m_Constant(&elements)))
    return false;
  SmallVector<bool> shown(elements.getValues<bool>());
  // The last query has the widest window.
  int64_t found = 0;
  while (found < size && shown[(size - 1) * size + (size - 1 - found)] != negated)
    ++found;
  for (int64_t query = 0; query < size; ++query)
    for (int64_t key = 0; key < size; ++key)
      if ((shown[query * size + key] != negated) != (key <= query && key > query - found))
        return false;
  if (found == 0)
    return false;
  causal = true;
  if (found < size)
    window = window ? std::min(*window, found) : found;
  return true;
}

//===----------------------------------------------------------------------===//
// Parts
//===----------------------------------------------------------------------===//

void MaskParts::addBool(Access access, bool negated) {
  peelViews(access);
  if (std::optional<int64_t> splat = intSplatOf(access.base); splat && (*splat != 0) != negated)
    return;
  Operation *op = access.base.getDefiningOp();
  if ((isa_and_nonnull<arith::AndIOp>(op) && !negated) || (isa_and_nonnull<arith::OrIOp>(op) && negated)) {
    addBool(access.into(op->getOperand(0)), negated);
    addBool(access.into(op->getOperand(1)), negated);
    return;
  }
  if (auto xorOp = dyn_cast_or_null<arith::XOrIOp>(op)) {
    std::optional<int64_t> right = intSplatOf(xorOp.getRhs()), left = intSplatOf(xorOp.getLhs());
    if (right || left)
      return addBool(access.into(right ? xorOp.getLhs() : xorOp.getRhs()), negated != ((right ? *right : *left) != 0));
  }
  if (auto select = dyn_cast_or_null<arith::SelectOp>(op); select && select.getCondition().getType() == select.getType()) {
    std::optional<int64_t> ifTrue = intSplatOf(select.getTrueValue()), ifFalse = intSplatOf(select.getFalseValue());
    if (ifTrue && ifFalse && (*ifTrue != 0) != (*ifFalse != 0))
      return addBool(access.into(select.getCondition()), negated != (*ifTrue == 0));
  }
  // A bool that was made a number and is compared with one: Trilu(1) == 0, cast(mask) != 0.
  if (isa_and_nonnull<arith::CmpFOp, arith::CmpIOp>(op)) {
    auto numberOf = [](Value value) -> std::optional<double> {
      if (std::optional<double> splat = splatOf(value))
        return splat;
      if (std::optional<int64_t> splat = intSplatOf(value))
        return static_cast<double>(*splat);
      return std::nullopt;
    };
    Access left = access.into(op->getOperand(0));
    std::optional<double> with = numberOf(op->getOperand(1)), ifTrue, ifFalse;
    Value condition;
    Operation *made = left.base.getDefiningOp();
    if (auto select = dyn_cast_or_null<arith::SelectOp>(made)) {
      ifTrue = numberOf(select.getTrueValue());
      ifFalse = numberOf(select.getFalseValue());
      condition = select.getCondition();
    } else if (isa_and_nonnull<arith::ExtUIOp, arith::UIToFPOp>(made) && elementTypeOf(made->getOperand(0)).isInteger(1)) {
      ifTrue = 1;
      ifFalse = 0;
      condition = made->getOperand(0);
    }
    auto holds = [&](double number) -> std::optional<bool> {
      if (auto compare = dyn_cast<arith::CmpFOp>(op)) {
        switch (compare.getPredicate()) {
        case arith::CmpFPredicate::OEQ:
        case arith::CmpFPredicate::UEQ:
          return number == *with;
        case arith::CmpFPredicate::ONE:
        case arith::CmpFPredicate::UNE:
          return number != *with;
        case arith::CmpFPredicate::OGT:
        case arith::CmpFPredicate::UGT:
          return number > *with;
        default:
          return std::nullopt;
        }
      }
      switch (cast<arith::CmpIOp>(op).getPredicate()) {
      case arith::CmpIPredicate::eq:
        return number == *with;
      case arith::CmpIPredicate::ne:
        return number != *with;
      case arith::CmpIPredicate::sgt:
        return number > *with;
      default:
        return std::nullopt;
      }
    };
    if (with && ifTrue && ifFalse && condition && shapeOf(condition) == shapeOf(left.base)) {
      std::optional<bool> shown = holds(*ifTrue), hidden = holds(*ifFalse);
      if (shown && hidden && *shown != *hidden)
        return addBool(left.into(condition), negated != !*shown);
    }
  }
  if (auto mask = dyn_cast_or_null<train::CausalMaskOp>(op); mask && !negated && shape[2] == shape[3]) {
    // Leading dimensions are 1; a mask of one position shows it.
    ArrayRef<int> axes = ArrayRef<int>(access.dims).take_back(2);
    if (axes[0] == 2 && axes[1] == 3) {
      causal = true;
      if (std::optional<uint64_t> size = mask.getWindow(); size && static_cast<int64_t>(*size) < shape[3])
        window = window ? std::min<int64_t>(*window, *size) : *size;
      return;
    }
    if (axes[0] == -1 && axes[1] == -1 && shapeOf(access.base).back() == 1)
      return;
  }
  if (addComparison(access, negated) || addConstant(access, negated))
    return;
  SmallVector<bool> axes(4, false);
  collectAxes(access, axes);
  (axes[1] || axes[2] ? others : paddings).push_back({access, negated});
}

void MaskParts::addFloat(Access access) {
  peelViews(access);
  if (splatOf(access.base) == 0.0)
    return;
  Operation *op = access.base.getDefiningOp();
  if (isa_and_nonnull<arith::AddFOp>(op)) {
    addFloat(access.into(op->getOperand(0)));
    addFloat(access.into(op->getOperand(1)));
    return;
  }
  if (auto select = dyn_cast_or_null<arith::SelectOp>(op);
      select && isa<RankedTensorType>(select.getCondition().getType())) {
    std::optional<double> ifTrue = splatOf(select.getTrueValue()), ifFalse = splatOf(select.getFalseValue());
    if (ifTrue == 0.0 && hides(ifFalse))
      return addBool(access.into(select.getCondition()));
    if (ifFalse == 0.0 && hides(ifTrue))
      return addBool(access.into(select.getCondition()), /*negated=*/true);
    // One mask inside another: hide where the condition says so, else what the inner mask adds.
    if (hides(ifFalse)) {
      addBool(access.into(select.getCondition()));
      return addFloat(access.into(select.getTrueValue()));
    }
    if (hides(ifTrue)) {
      addBool(access.into(select.getCondition()), /*negated=*/true);
      return addFloat(access.into(select.getFalseValue()));
    }
  }
  // (1 - float(mask)) * lowest
  Value factor;
  double number;
  if (splitConstantFactor(access.base, factor, number) && hides(number)) {
    Access inverse = access.into(factor);
    if (auto sub = inverse.base.getDefiningOp<arith::SubFOp>(); sub && splatOf(sub.getLhs()) == 1.0) {
      Access shown = inverse.into(sub.getRhs());
      auto number = shown.base.getDefiningOp<arith::UIToFPOp>();
      if (number && elementTypeOf(number.getIn()).isInteger(1))
        return addBool(shown.into(number.getIn()));
    }
  }
  floats.push_back(access);
}

std::string MaskParts::problem() const {
  for (const Access &access : floats)
    if (needsGradient(access.base))
      return "a float mask needs a gradient";
  return "";
}

Value MaskParts::build(OpBuilder &builder, Location loc, const Part &part, ArrayRef<int> axes) const {
  SmallVector<int64_t> sizes;
  for (int axis : axes)
    sizes.push_back(shape[axis]);
  Value value = rebuild(builder, loc, part.access, axes, sizes);
  if (!part.negated)
    return value;
  if (auto compare = value.getDefiningOp<arith::CmpIOp>())
    return arith::CmpIOp::create(builder, loc, arith::invertPredicate(compare.getPredicate()), compare.getLhs(), compare.getRhs());
  auto type = cast<RankedTensorType>(value.getType());
  Value yes = arith::ConstantOp::create(builder, loc, DenseElementsAttr::get(type, true));
  return arith::XOrIOp::create(builder, loc, value, yes);
}

/// Brings two tensors of rank 4 to their common shape.
static void unify(OpBuilder &builder, Location loc, Value &a, Value &b) {
  SmallVector<int64_t> common;
  for (auto [left, right] : llvm::zip_equal(shapeOf(a), shapeOf(b)))
    common.push_back(left == 1 ? right : left);
  a = broadcastTo(builder, loc, a, common);
  b = broadcastTo(builder, loc, b, common);
}

Value MaskParts::keyPadding(OpBuilder &builder, Location loc) const {
  Value all;
  for (const Part &part : paddings) {
    Value value = broadcastTo(builder, loc, build(builder, loc, part, {0, 3}), {shape[0], shape[3]});
    all = all ? arith::AndIOp::create(builder, loc, all, value).getResult() : value;
  }
  return all;
}

Value MaskParts::mask(OpBuilder &builder, Location loc) const {
  Value shown, added;
  for (const Part &part : others) {
    Value value = build(builder, loc, part, {0, 1, 2, 3});
    if (shown) {
      unify(builder, loc, shown, value);
      value = arith::AndIOp::create(builder, loc, shown, value);
    }
    shown = value;
  }
  for (const Access &access : floats) {
    Value value = build(builder, loc, {access, false}, {0, 1, 2, 3});
    if (added) {
      unify(builder, loc, added, value);
      value = arith::AddFOp::create(builder, loc, added, value);
    }
    added = value;
  }
  Value result = shown ? shown : added;
  if (shown && added) {
    unify(builder, loc, shown, added);
    auto type = cast<RankedTensorType>(added.getType());
    auto element = cast<FloatType>(type.getElementType());
    Value lowest = arith::ConstantOp::create(
        builder, loc,
        DenseElementsAttr::get(type, APFloat::getLargest(element.getFloatSemantics(), /*Negative=*/true)));
    result = arith::SelectOp::create(builder, loc, shown, added, lowest);
  }
  if (!result)
    return result;
  SmallVector<int64_t> wanted(shapeOf(result));
  wanted[3] = shape[3];
  return broadcastTo(builder, loc, result, wanted);
}
