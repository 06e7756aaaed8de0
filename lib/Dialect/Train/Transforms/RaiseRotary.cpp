//===- RaiseRotary.cpp - Rotary position embedding ------------------------===//

#include "RaiseUtils.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

namespace forebay {
#define GEN_PASS_DEF_TRAINRAISEROTARY
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;
using namespace forebay::raise;

static constexpr llvm::StringLiteral kPass = "train-raise-rotary";
/// [batch, heads, sequence, dimension] to [batch, sequence, heads, dimension] and back.
static constexpr std::array<int64_t, 4> kSwapHeads = {0, 2, 1, 3};

namespace {

/// A rotation found in the IR. `cos` and `sin` have the shape of the rotated part (`fullWidth`) or of half of it.
struct Rotation {
  LastSlice x; // what is rotated, perhaps a part of another tensor's rows
  Value like;  // a value of this shape apart from the last axis
  Value cos, sin;
  bool interleaved = false, fullWidth = false;
};

//===----------------------------------------------------------------------===//
// Recognising the rotation
//===----------------------------------------------------------------------===//

/// The value that `value` is the negation of.
Value negated(Value value) {
  if (auto neg = value.getDefiningOp<arith::NegFOp>())
    return neg.getOperand();
  Value x;
  double factor;
  return splitConstantFactor(value, x, factor) && factor == -1 ? x : Value();
}

/// If `first` and `second` are slices that hold the first and second elements of pairs, the slice that they make up.
std::optional<LastSlice> pairOf(Value first, Value second, bool interleaved) {
  LastSlice a = lastSliceOf(first), b = lastSliceOf(second);
  int64_t stride = interleaved ? 2 : 1, distance = interleaved ? 1 : a.size;
  // A slice of one element has any stride.
  if (a.source != b.source || a.size != b.size || (a.size != 1 && (a.stride != stride || b.stride != stride)) ||
      b.offset != a.offset + distance)
    return std::nullopt;
  return LastSlice{a.source, a.offset, 2 * a.size, 1};
}

bool isSlice(Value value, const LastSlice &slice) {
  LastSlice own = lastSliceOf(value);
  return own.source == slice.source && own.offset == slice.offset && own.size == slice.size && own.stride == slice.stride;
}

/// The slice as a value: an existing one that `part` was cut from, if there is one.
Value valueOf(OpBuilder &builder, Location loc, const LastSlice &slice, Value part) {
  for (Value value = part;;) {
    if (isSlice(value, slice))
      return value;
    auto cut = value.getDefiningOp<tensor::ExtractSliceOp>();
    if (!cut)
      break;
    value = cut.getSource();
  }
  SmallVector<int64_t> shape(shapeOf(slice.source));
  SmallVector<OpFoldResult> offsets(shape.size(), builder.getIndexAttr(0)), strides(shape.size(), builder.getIndexAttr(1)), sizes;
  offsets.back() = builder.getIndexAttr(slice.offset);
  shape.back() = slice.size;
  for (int64_t size : shape)
    sizes.push_back(builder.getIndexAttr(size));
  return tensor::ExtractSliceOp::create(builder, loc, slice.source, offsets, sizes, strides);
}

/// Drops a unit dimension at the end: the operand of a stack along a new last axis.
Value withoutTrailingUnit(Value value) {
  ArrayRef<int64_t> shape = shapeOf(value);
  if (shape.empty() || shape.back() != 1)
    return Value();
  if (auto expand = value.getDefiningOp<tensor::ExpandShapeOp>())
    if (shapeOf(expand.getSrc()) == shape.drop_back())
      return expand.getSrc();
  return Value();
}

/// If `value` joins two tensors of half its width pairwise, those. Either one after the other (a concatenation) or
/// alternating (a stack along a new axis that is then flattened).
bool matchJoin(Value value, Value &first, Value &second, bool &interleaved) {
  if (auto concat = value.getDefiningOp<tensor::ConcatOp>()) {
    int64_t last = concat.getResultType().getRank() - 1;
    if (concat.getInputs().size() != 2 || static_cast<int64_t>(concat.getDim()) != last ||
        concat.getInputs()[0].getType() != concat.getInputs()[1].getType())
      return false;
    first = concat.getInputs()[0];
    second = concat.getInputs()[1];
    interleaved = false;
    return true;
  }
  auto collapse = value.getDefiningOp<tensor::CollapseShapeOp>();
  auto concat = collapse ? collapse.getSrc().getDefiningOp<tensor::ConcatOp>() : nullptr;
  if (!concat || concat.getInputs().size() != 2)
    return false;
  ArrayRef<int64_t> shape = shapeOf(concat.getResult());
  if (static_cast<size_t>(concat.getDim()) + 1 != shape.size() || shape.back() != 2 ||
      shapeOf(value).drop_back() != shape.drop_back(2))
    return false;
  first = withoutTrailingUnit(concat.getInputs()[0]);
  second = withoutTrailingUnit(concat.getInputs()[1]);
  interleaved = true;
  return first && second && first.getType() == second.getType();
}

/// x * cos + join(-x2, x1) * sin
std::optional<Rotation> matchRotateHalf(Operation *op) {
  auto add = dyn_cast<arith::AddFOp>(op);
  if (!add)
    return std::nullopt;
  for (auto [plain, turned] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
    auto cosMul = plain.getDefiningOp<arith::MulFOp>(), sinMul = turned.getDefiningOp<arith::MulFOp>();
    if (!cosMul || !sinMul)
      continue;
    for (auto [rotated, sin] : {std::pair(sinMul.getLhs(), sinMul.getRhs()), std::pair(sinMul.getRhs(), sinMul.getLhs())}) {
      Value first, second;
      bool interleaved = false;
      if (!matchJoin(rotated, first, second, interleaved) || !(first = negated(first)))
        continue;
      std::optional<LastSlice> pair = pairOf(second, first, interleaved);
      if (!pair)
        continue;
      for (auto [x, cos] : {std::pair(cosMul.getLhs(), cosMul.getRhs()), std::pair(cosMul.getRhs(), cosMul.getLhs())})
        if (isSlice(x, *pair))
          return Rotation{*pair, x, cos, sin, interleaved, /*fullWidth=*/true};
    }
  }
  return std::nullopt;
}

/// The factors of `value` = a * c for the given `c`.
Value otherFactor(Value value, Value c) {
  auto mul = value.getDefiningOp<arith::MulFOp>();
  if (!mul)
    return Value();
  if (mul.getRhs() == c)
    return mul.getLhs();
  return mul.getLhs() == c ? mul.getRhs() : Value();
}

/// join(x1 * cos - x2 * sin, x2 * cos + x1 * sin)
std::optional<Rotation> matchHalves(Operation *op) {
  Value first, second;
  bool interleaved = false;
  if (!isa<tensor::ConcatOp, tensor::CollapseShapeOp>(op) || !matchJoin(op->getResult(0), first, second, interleaved))
    return std::nullopt;
  auto sub = first.getDefiningOp<arith::SubFOp>();
  auto add = second.getDefiningOp<arith::AddFOp>();
  auto x1cos = sub ? sub.getLhs().getDefiningOp<arith::MulFOp>() : nullptr;
  auto x2sin = sub ? sub.getRhs().getDefiningOp<arith::MulFOp>() : nullptr;
  if (!add || !x1cos || !x2sin)
    return std::nullopt;
  for (auto [x1, cos] : {std::pair(x1cos.getLhs(), x1cos.getRhs()), std::pair(x1cos.getRhs(), x1cos.getLhs())})
    for (auto [x2, sin] : {std::pair(x2sin.getLhs(), x2sin.getRhs()), std::pair(x2sin.getRhs(), x2sin.getLhs())})
      for (auto [left, right] : {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
        if (otherFactor(left, cos) != x2 || otherFactor(right, sin) != x1)
          continue;
        if (std::optional<LastSlice> pair = pairOf(x1, x2, interleaved))
          return Rotation{*pair, x1, cos, sin, interleaved, /*fullWidth=*/false};
      }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

/// Rebuilds a table whose row repeats each element of a half row (twice in a row, or the half row twice) as the table
/// of half rows. Null where the repetition cannot be proven.
class TableHalver {
public:
  explicit TableHalver(MLIRContext *context) : builder(context) {}

  Value halve(Value table, bool interleaved) {
    auto key = std::pair(table, static_cast<int>(interleaved));
    if (auto known = halves.find(key); known != halves.end())
      return known->second;
    Value half = compute(table, interleaved);
    halves[key] = half;
    return half;
  }

private:
  Value compute(Value table, bool interleaved) {
    auto type = cast<RankedTensorType>(table.getType());
    Operation *op = table.getDefiningOp();
    if (!op || type.getRank() == 0 || type.getDimSize(type.getRank() - 1) % 2 != 0)
      return Value();
    SmallVector<int64_t> shape(type.getShape());
    shape.back() /= 2;
    auto halfType = RankedTensorType::get(shape, type.getElementType());
    builder.setInsertionPointAfter(op);

    Value first, second;
    bool joinsAlternating = false;
    if (matchJoin(table, first, second, joinsAlternating))
      return joinsAlternating == interleaved && first == second ? first : Value();
    if (interleaved)
      if (Value repeated = repeatedElements(table))
        return repeated;
    if (auto constant = dyn_cast<arith::ConstantOp>(op))
      return halveConstant(constant, halfType, interleaved);
    if (auto broadcast = dyn_cast<linalg::BroadcastOp>(op)) {
      Value input = broadcast.getInput();
      if (!llvm::is_contained(broadcast.getDimensions(), type.getRank() - 1) && !(input = halve(input, interleaved)))
        return Value();
      builder.setInsertionPointAfter(op);
      Value empty = tensor::EmptyOp::create(builder, op->getLoc(), shape, type.getElementType());
      return linalg::BroadcastOp::create(builder, op->getLoc(), input, empty, broadcast.getDimensions())->getResult(0);
    }
    if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op)) {
      // Unit dimensions come and go; the last axis must stay as it is.
      Value source = op->getOperand(0);
      if (shapeOf(source).empty() || shapeOf(source).back() != type.getShape().back() || peeledAccess(table).base == table)
        return Value();
      Value half = halve(source, interleaved);
      builder.setInsertionPointAfter(op);
      return half ? reshapeUnits(builder, op->getLoc(), half, shape) : Value();
    }
    if (op->getNumResults() != 1 || !OpTrait::hasElementwiseMappableTraits(op))
      return Value();
    SmallVector<Value> operands;
    for (Value operand : op->getOperands()) {
      if (operand.getType() != table.getType() && shapeOf(operand) != type.getShape())
        return Value();
      operands.push_back(halve(operand, interleaved));
      if (!operands.back())
        return Value();
    }
    builder.setInsertionPointAfter(op);
    OperationState state(op->getLoc(), op->getName(), operands, halfType, op->getAttrDictionary().getValue());
    return builder.create(state)->getResult(0);
  }

  /// collapse([.., half, 2]) that does not depend on its last axis; unit dimensions may be anywhere.
  Value repeatedElements(Value table) {
    auto collapse = table.getDefiningOp<tensor::CollapseShapeOp>();
    if (!collapse)
      return Value();
    ArrayRef<int64_t> shape = shapeOf(collapse.getSrc());
    if (shape.back() != 2)
      return Value();
    // One axis for each dimension of the table: the only one of its group that is not 1, without the repetition.
    SmallVector<int> axes;
    SmallVector<int64_t> wanted(shapeOf(table));
    wanted.back() /= 2;
    for (const ReassociationIndices &group : collapse.getReassociationIndices()) {
      int axis = group.front();
      for (int64_t dim : group) {
        if (shape[dim] == 1 || dim == static_cast<int64_t>(shape.size()) - 1)
          continue;
        if (shape[dim] != wanted[axes.size()])
          return Value();
        axis = dim;
      }
      axes.push_back(axis);
    }
    Access access = peeledAccess(collapse.getSrc());
    if (access.usesAxis(shape.size() - 1))
      return Value();
    // The half row may itself be cut from a row that repeats in halves.
    if (!shapeOf(access.base).empty()) {
      LastSlice cut = lastSliceOf(access.base);
      if (cut.stride == 1 && cut.size * 2 == shapeOf(cut.source).back() && cut.offset % cut.size == 0)
        if (Value simple = halve(cut.source, /*interleaved=*/false))
          access.base = simple;
    }
    builder.setInsertionPointAfter(collapse);
    Value half = projectAccess(builder, table.getLoc(), access, axes);
    if (!half)
      return Value();
    return broadcastTo(builder, table.getLoc(), half, wanted);
  }

  Value halveConstant(arith::ConstantOp constant, RankedTensorType halfType, bool interleaved) {
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!elements)
      return Value();
    if (elements.isSplat())
      return arith::ConstantOp::create(builder, constant.getLoc(), elements.resizeSplat(halfType));
    if (!isa<FloatType>(halfType.getElementType()))
      return Value();
    SmallVector<APFloat> values(elements.value_begin<APFloat>(), elements.value_end<APFloat>()), kept;
    int64_t half = halfType.getShape().back();
    for (int64_t i = 0, e = values.size(); i < e; ++i) {
      int64_t row = i / (2 * half), column = i % (2 * half);
      bool isCopy = interleaved ? column % 2 == 1 : column >= half;
      if (!isCopy)
        kept.push_back(values[i]);
      else if (!values[i].bitwiseIsEqual(values[interleaved ? i - 1 : row * 2 * half + column - half]))
        return Value();
    }
    return arith::ConstantOp::create(builder, constant.getLoc(), DenseElementsAttr::get(halfType, kept));
  }

  OpBuilder builder;
  llvm::DenseMap<std::pair<Value, int>, Value> halves;
};

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

struct RotaryRaiser {
  OpBuilder builder;
  TableHalver halver;
  /// Tables made so far, so that all layers share one.
  llvm::DenseMap<std::pair<Value, int64_t>, Value> tables;

  explicit RotaryRaiser(MLIRContext *context) : builder(context), halver(context) {}

  void raise(Operation *op) {
    std::optional<Rotation> rotation = matchRotateHalf(op);
    if (!rotation)
      rotation = matchHalves(op);
    if (!rotation)
      return;
    if (std::string why = replace(op, *rotation); !why.empty())
      remarkNearMiss(op->getLoc(), kPass, "rotary", why);
  }

  /// Returns why the rotation cannot be expressed; empty if it was replaced.
  std::string replace(Operation *op, const Rotation &rotation) {
    ArrayRef<int64_t> shape = shapeOf(rotation.like);
    if (shape.size() != 4)
      return "the rotated tensor has rank " + std::to_string(shape.size()) + ", not 4";
    if (needsGradient(rotation.cos) || needsGradient(rotation.sin))
      return "the tables need a gradient";
    // Which axis counts positions? Tables depend on it and not on the heads.
    Access cos = peeledAccess(rotation.cos), sin = peeledAccess(rotation.sin);
    int sequence = 2, heads = 1;
    auto fits = [&] {
      return !cos.usesAxis(heads) && !sin.usesAxis(heads) &&
             (shape[sequence] == 1 || (cos.usesAxis(sequence) && sin.usesAxis(sequence)));
    };
    if (!fits()) {
      std::swap(sequence, heads);
      if (!fits())
        return "the tables do not depend on the position alone";
    }
    builder.setInsertionPoint(op);
    Location loc = op->getLoc();
    int64_t half = rotation.x.size / 2;
    Value cosTable = tableOf(cos, rotation, sequence, half, loc), sinTable = tableOf(sin, rotation, sequence, half, loc);
    if (!cosTable || !sinTable)
      return "the two halves of the tables are not provably equal";
    if (shapeOf(cosTable).size() != shapeOf(sinTable).size())
      return "one table depends on the batch and the other does not";
    Value x = valueOf(builder, loc, rotation.x, rotation.like);
    if (sequence == 1)
      x = transposeTo(builder, loc, x, kSwapHeads);
    Value result = train::RotaryOp::create(builder, loc, x.getType(), x, cosTable, sinTable, rotation.interleaved, false);
    if (sequence == 1)
      result = transposeTo(builder, loc, result, kSwapHeads);
    remarkRaised(loc, kPass, rotation.interleaved ? "rotary (interleaved)" : "rotary");
    op->getResult(0).replaceAllUsesWith(result);
    return "";
  }

  /// The table as [sequence, half] or [batch, sequence, half].
  Value tableOf(const Access &access, const Rotation &rotation, int sequence, int64_t half, Location loc) {
    bool perBatch = access.usesAxis(0);
    int64_t key = sequence * 4 + perBatch * 2 + rotation.interleaved;
    Value &table = tables[{access.base, rotation.fullWidth ? key : key + 64}];
    if (table)
      return table;
    OpBuilder::InsertionGuard guard(builder);
    Access narrow = access;
    if (rotation.fullWidth) {
      if (!access.usesAxis(3) || access.dims.back() != 3)
        return Value();
      narrow.base = halver.halve(access.base, rotation.interleaved);
      if (!narrow.base)
        return Value();
      if (half == 1)
        narrow.dims.back() = -1;
    }
    if (Operation *def = narrow.base.getDefiningOp())
      builder.setInsertionPointAfter(def);
    else
      builder.setInsertionPointToStart(cast<BlockArgument>(narrow.base).getOwner());
    SmallVector<int> axes{sequence, 3};
    if (perBatch)
      axes.insert(axes.begin(), 0);
    Value projected = projectAccess(builder, loc, narrow, axes);
    if (!projected || shapeOf(projected).back() != half)
      return Value();
    return table = projected;
  }
};

/// Drops empty parts of a concatenation.
void dropEmptyParts(tensor::ConcatOp concat) {
  int64_t dim = concat.getDim();
  SmallVector<Value> parts(
      llvm::make_filter_range(concat.getInputs(), [&](Value part) { return shapeOf(part)[dim] != 0; }));
  if (parts.empty() || parts.size() == concat.getInputs().size())
    return;
  OpBuilder builder(concat);
  Value joined = parts.front();
  if (parts.size() > 1)
    joined = tensor::ConcatOp::create(builder, concat.getLoc(), concat.getResultType(), dim, parts);
  concat.getResult().replaceAllUsesWith(joined);
}

/// concat(rotary(first R elements of each row of x), the rest of x) -> rotary(x), whose tables have R/2 columns.
void foldPartial(tensor::ConcatOp concat) {
  if (concat.getInputs().size() != 2 || static_cast<int64_t>(concat.getDim()) != concat.getResultType().getRank() - 1)
    return;
  // The rotation may stand between two transposes of heads and positions.
  auto swappedHeads = [](Value value) {
    auto transpose = value.getDefiningOp<linalg::TransposeOp>();
    return transpose && transpose.getPermutation() == ArrayRef<int64_t>(kSwapHeads) ? transpose.getInput() : Value();
  };
  Value swapped = swappedHeads(concat.getInputs()[0]);
  auto rotary = (swapped ? swapped : concat.getInputs()[0]).getDefiningOp<train::RotaryOp>();
  if (!rotary)
    return;
  Value input = swapped ? swappedHeads(rotary.getInput()) : rotary.getInput();
  if (!input)
    return;
  LastSlice turned = lastSliceOf(input), rest = lastSliceOf(concat.getInputs()[1]);
  if (turned.source != rest.source || turned.stride != 1 || rest.stride != 1 || rest.offset != turned.offset + turned.size)
    return;
  OpBuilder builder(concat);
  Location loc = concat.getLoc();
  remarkRaised(loc, kPass, "rotary (partial)");
  Value x = valueOf(builder, loc, {turned.source, turned.offset, turned.size + rest.size, 1}, input);
  if (swapped)
    x = transposeTo(builder, loc, x, kSwapHeads);
  Value result = train::RotaryOp::create(builder, loc, x.getType(), x, rotary.getCos(), rotary.getSin(),
                                         rotary.getInterleaved(), rotary.getInverse());
  concat.getResult().replaceAllUsesWith(swapped ? transposeTo(builder, loc, result, kSwapHeads) : result);
}

struct TrainRaiseRotary : forebay::impl::TrainRaiseRotaryBase<TrainRaiseRotary> {
  void runOnOperation() override {
    RotaryRaiser raiser(&getContext());
    for (Operation *op : collect<arith::AddFOp, tensor::ConcatOp, tensor::CollapseShapeOp>(getOperation()))
      raiser.raise(op);
    for (Operation *op : collect<tensor::ConcatOp>(getOperation()))
      dropEmptyParts(cast<tensor::ConcatOp>(op));
    for (Operation *op : collect<tensor::ConcatOp>(getOperation()))
      foldPartial(cast<tensor::ConcatOp>(op));
    eraseDeadOps(getOperation());
  }
};

} // namespace
