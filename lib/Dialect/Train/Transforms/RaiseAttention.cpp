//===- RaiseAttention.cpp - Attention -------------------------------------===//

#include "RaiseMasks.h"
#include "RaiseUtils.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

#include <cmath>

namespace forebay {
#define GEN_PASS_DEF_TRAINRAISEATTENTION
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;
using namespace forebay::raise;

static constexpr llvm::StringLiteral kPass = "train-raise-attention";

namespace {

//===----------------------------------------------------------------------===//
// Operands of the products
//===----------------------------------------------------------------------===//

/// A product over batch and heads with its iteration dimensions. One operand has rank 4; the other may lack the batch, if that is 1,
/// and heads, if it serves them all.
struct Product {
  Value lhs, rhs;
  SmallVector<int> lhsDims, rhsDims, resultDims;
};

std::optional<SmallVector<int>> dimsOf(AffineMap map) {
  SmallVector<int> dims;
  for (AffineExpr expr : map.getResults()) {
    auto dim = dyn_cast<AffineDimExpr>(expr);
    if (!dim)
      return std::nullopt;
    dims.push_back(dim.getPosition());
  }
  return dims;
}

std::optional<Product> matchProduct(Operation *op) {
  auto contract = dyn_cast_or_null<linalg::ContractOp>(op);
  if (!contract || contract->getNumResults() != 1 || shapeOf(contract->getResult(0)).size() != 4 ||
      splatOf(contract.getOutputs().front()) != 0.0)
    return std::nullopt;
  auto maps = contract.getIndexingMapsArray();
  std::optional<SmallVector<int>> lhs = dimsOf(maps[0]), rhs = dimsOf(maps[1]), result = dimsOf(maps[2]);
  if (!lhs || !rhs || !result || std::min(lhs->size(), rhs->size()) < 2 || lhs->size() > 4 || rhs->size() > 4)
    return std::nullopt;
  return Product{contract.getInputs()[0], contract.getInputs()[1], *lhs, *rhs, *result};
}

/// An operand of a product followed backwards through transposes, reshapes (also those that join batch and heads for a
/// while), repetitions of heads and constant factors.
class OperandWalk {
public:
  /// `dims` are the iteration dimensions that index `value`, `heads` is the one that counts heads.
  OperandWalk(Value value, ArrayRef<int> dims, int heads) : value(value), heads(heads) {
    for (auto [dim, size] : llvm::zip_equal(dims, shapeOf(value))) {
      order.push_back(size == 1 ? SmallVector<int>{} : SmallVector<int>{dim});
      sizes[dim] = size;
    }
    // An operand without heads serves them all.
    repeated = !llvm::is_contained(dims, heads);
  }

  /// The nearest value indexed by `want`, in this order, beyond all constant factors that follow it directly; it may have fewer
  /// heads, if they were repeated. If none has this order, the farthest that has these indices in another, transposed. Null if
  /// there is neither. `scales` get the factors that were passed.
  Value find(OpBuilder &builder, Location loc, ArrayRef<int> want, SmallVectorImpl<double> &scales) {
    SmallVector<double> passed;
    Value other;
    SmallVector<int64_t> otherOrder;
    size_t otherPassed = 0;
    while (true) {
      Value inner;
      double factor;
      if (splitConstantFactor(value, inner, factor)) {
        passed.push_back(factor);
        value = inner;
        continue;
      }
      if (std::optional<SmallVector<int64_t>> permutation = permutationTo(want)) {
        if (llvm::is_sorted(*permutation)) {
          scales.append(passed);
          return value;
        }
        other = value;
        otherOrder = *permutation;
        otherPassed = passed.size();
      }
      if (!step())
        break;
    }
    if (!other)
      return Value();
    scales.append(passed.begin(), passed.begin() + otherPassed);
    // Where the graph would have it, so that exports with and without a detour give the same program.
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointAfterValue(other);
    return transposeTo(builder, loc, other, otherOrder);
  }

private:
  /// Where in `value` the dimensions of `want` are; nothing if it is indexed otherwise.
  std::optional<SmallVector<int64_t>> permutationTo(ArrayRef<int> want) {
    if (order.size() != want.size())
      return std::nullopt;
    SmallVector<int64_t> permutation;
    for (auto [position, dim] : llvm::enumerate(want)) {
      SmallVector<int> indices{dim};
      if (dim == heads && outer >= 0)
        indices = {outer, inner};
      if (dim == heads && repeated)
        indices.pop_back();
      int64_t size = 1;
      for (int index : indices)
        size *= sizes.contains(index) ? sizes.lookup(index) : 1; // an operand without a batch
      if (size == 1)
        indices.clear();
      // Unit dimensions all look alike: take the one in place if there is a choice.
      auto fits = [&](int64_t at) {
        return order[at] == indices && shapeOf(value)[at] == size && !llvm::is_contained(permutation, at);
      };
      int64_t at = position;
      if (!fits(at))
        at = *llvm::find_if(llvm::seq<int64_t>(0, order.size() + 1),
                            [&](int64_t i) { return i == static_cast<int64_t>(order.size()) || fits(i); });
      if (at == static_cast<int64_t>(order.size()))
        return std::nullopt;
      permutation.push_back(at);
    }
    return permutation;
  }

  bool step() {
    Operation *op = value.getDefiningOp();
    if (auto transpose = dyn_cast_or_null<linalg::TransposeOp>(op)) {
      SmallVector<SmallVector<int>> before(order.size());
      for (auto [dim, from] : llvm::enumerate(transpose.getPermutation()))
        before[from] = order[dim];
      order = before;
      value = transpose.getInput();
      return true;
    }
    if (auto broadcast = dyn_cast_or_null<linalg::BroadcastOp>(op)) {
      // Of heads alone: all of them, or those of a group.
      int repetition = outer >= 0 ? inner : heads;
      SmallVector<SmallVector<int>> before;
      for (auto [dim, indices] : llvm::enumerate(order)) {
        if (!llvm::is_contained(broadcast.getDimensions(), static_cast<int64_t>(dim)))
          before.push_back(indices);
        else if (indices == ArrayRef<int>{repetition})
          repeated = true;
        else if (!indices.empty())
          return false;
      }
      order = before;
      value = broadcast.getInput();
      return true;
    }
    if (auto expand = dyn_cast_or_null<tensor::ExpandShapeOp>(op)) {
      SmallVector<SmallVector<int>> before;
      for (const ReassociationIndices &group : expand.getReassociationIndices()) {
        before.emplace_back();
        for (int64_t dim : group)
          before.back().append(order[dim]);
      }
      order = before;
      value = expand.getSrc();
      return true;
    }
    auto collapse = dyn_cast_or_null<tensor::CollapseShapeOp>(op);
    if (!collapse)
      return false;
    SmallVector<SmallVector<int>> before(shapeOf(collapse.getSrc()).size());
    for (auto [joined, group] : llvm::zip_equal(order, collapse.getReassociationIndices())) {
      SmallVector<int> rest = joined;
      for (int64_t dim : group) {
        // Take indices until they fill this dimension.
        int64_t size = 1, wanted = shapeOf(collapse.getSrc())[dim];
        while (size < wanted && !rest.empty()) {
          if (size * sizes.lookup(rest.front()) > wanted && !splitHeads(rest, wanted / size))
            return false;
          size *= sizes.lookup(rest.front());
          before[dim].push_back(rest.front());
          rest.erase(rest.begin());
        }
        if (size != wanted)
          return false;
      }
      if (!rest.empty())
        return false;
    }
    order = before;
    value = collapse.getSrc();
    return true;
  }

  /// Splits heads, at the front of `indices`, into `groups` key heads and their repetitions.
  bool splitHeads(SmallVectorImpl<int> &indices, int64_t groups) {
    if (indices.front() != heads || outer >= 0 || sizes[heads] % groups != 0)
      return false;
    outer = kOuter;
    inner = kInner;
    sizes[outer] = groups;
    sizes[inner] = sizes[heads] / groups;
    indices.front() = inner;
    indices.insert(indices.begin(), outer);
    return true;
  }

  static constexpr int kOuter = 100, kInner = 101; // no iteration dimensions

  Value value;
  int heads, outer = -1, inner = -1;
  bool repeated = false;
  SmallVector<SmallVector<int>> order;
  llvm::DenseMap<int, int64_t> sizes;
};

/// `value`, indexed by `dims`, in the order `want`. Where it lacks batch or heads it gets a unit dimension.
Value transposedOperand(OpBuilder &builder, Location loc, Value value, ArrayRef<int> dims, ArrayRef<int> want) {
  SmallVector<int64_t> permutation;
  for (int dim : want)
    if (llvm::is_contained(dims, dim))
      permutation.push_back(llvm::find(dims, dim) - dims.begin());
  Value result = transposeTo(builder, loc, value, permutation);
  SmallVector<int64_t> shape(shapeOf(result));
  for (auto [position, dim] : llvm::enumerate(want))
    if (!llvm::is_contained(dims, dim))
      shape.insert(shape.begin() + position, 1);
  return reshapeUnits(builder, loc, result, shape);
}

/// The operand in the order `want` (the second counts heads) and the constants it was multiplied by. An operand that is nowhere in
/// this order is transposed.
Value findOperand(OpBuilder &builder, Location loc, Value value, ArrayRef<int> dims, ArrayRef<int> want,
                  SmallVectorImpl<double> &scales) {
  if (Value found = OperandWalk(value, dims, want[1]).find(builder, loc, want, scales))
    return found;
  return transposedOperand(builder, loc, value, dims, want);
}

/// The keys or values [batch, key heads, sequence, dimension] that `value` [batch, heads, sequence, dimension] repeats
/// `heads / key heads` times each; `value` itself if it repeats none.
Value withoutRepeatedHeads(OpBuilder &builder, Location loc, Value value) {
  if (shapeOf(value)[1] <= 1)
    return value;
  // Axes: 0 batch, 1 key head, 2 sequence, 3 dimension, 4 repetition (after the reshape that joins it with the key head).
  Access access = identityAccess(value);
  bool split = false, single = false;
  while (true) {
    // As far as the repetition goes, and no farther than to where the order is [batch, heads, sequence, dimension].
    single |= !access.usesAxis(1);
    SmallVector<int> used(llvm::make_filter_range(access.dims, [](int axis) { return axis >= 0; }));
    if ((split || single) && !access.usesAxis(4) && llvm::is_sorted(used))
      break;
    if (peelView(access))
      continue;
    auto collapse = access.base.getDefiningOp<tensor::CollapseShapeOp>();
    if (!collapse || split || single)
      break;
    Access inner{collapse.getSrc(), SmallVector<int>(shapeOf(collapse.getSrc()).size(), -1)};
    for (auto [axis, group] : llvm::zip_equal(access.dims, collapse.getReassociationIndices())) {
      SmallVector<int64_t> nonUnit(
          llvm::make_filter_range(group, [&](int64_t dim) { return shapeOf(inner.base)[dim] != 1; }));
      if (axis == 1 && nonUnit.size() == 2) {
        inner.dims[nonUnit[0]] = 1;
        inner.dims[nonUnit[1]] = 4;
      } else if (nonUnit.size() > 1) {
        return value;
      } else if (!nonUnit.empty()) {
        inner.dims[nonUnit[0]] = axis;
      }
    }
    access = inner;
    split = true;
  }
  if ((!split && !single) || access.usesAxis(4))
    return value;
  Value few = projectAccess(builder, loc, access, {0, 1, 2, 3});
  SmallVector<int64_t> shape(shapeOf(value));
  shape[1] = shapeOf(few)[1];
  return broadcastTo(builder, loc, few, shape);
}

//===----------------------------------------------------------------------===//
// Scale
//===----------------------------------------------------------------------===//

float roundedRoot(double scale) { return std::sqrt(static_cast<float>(scale)); }

/// The number whose square root, rounded to fp32, multiplies both queries and keys. Several fp32 numbers share a
/// rounded root: 1/sqrt(head dimension), then 1/sqrt(n) for some other n, then the shortest decimal is what was written.
double scaleOfRoot(double root, int64_t headDim) {
  auto inverseRoot = [](int64_t n) { return static_cast<double>(static_cast<float>(1 / std::sqrt(static_cast<double>(n)))); };
  auto fits = [&](double scale) { return static_cast<double>(roundedRoot(scale)) == root; };
  double square = root * root;
  if (static_cast<double>(static_cast<float>(root)) != root) // not an fp32 graph
    return square;
  if (double usual = inverseRoot(headDim); fits(usual))
    return usual;
  if (double n = std::round(1 / (square * square)); n >= 1 && n <= 1 << 20 && fits(inverseRoot(n)))
    return inverseRoot(n);
  for (int digits = 1; digits <= 8; ++digits) {
    char text[32];
    std::snprintf(text, sizeof text, "%.*e", digits - 1, square);
    if (float shortest = std::strtof(text, nullptr); fits(shortest))
      return shortest;
  }
  return static_cast<float>(square);
}

/// Product of all factors; an equal pair from queries and keys is a split square root.
double combineScales(ArrayRef<double> query, ArrayRef<double> key, ArrayRef<double> scores, int64_t headDim) {
  SmallVector<double> queries(query), keys(key);
  double scale = 1;
  for (double factor : keys) {
    if (auto *same = llvm::find(queries, factor); same != queries.end() && factor > 0) {
      queries.erase(same);
      scale *= scaleOfRoot(factor, headDim);
    } else {
      scale *= factor;
    }
  }
  for (double factor : llvm::concat<const double>(ArrayRef<double>(queries), scores))
    scale *= factor;
  return scale;
}

//===----------------------------------------------------------------------===//
// From the second product back to the first
//===----------------------------------------------------------------------===//

/// What lies between the two products.
struct Scores {
  Value raw; // result of the first product
  SmallVector<double> scales;
  std::optional<double> softcap;
};

/// Drops what replaces NaN by 0 (rows without a visible key).
Value withoutNanGuard(Value value) {
  auto select = value.getDefiningOp<arith::SelectOp>();
  auto isNan = select ? select.getCondition().getDefiningOp<arith::CmpFOp>() : nullptr;
  if (!isNan || splatOf(select.getTrueValue()) != 0.0 || isNan.getPredicate() != arith::CmpFPredicate::UNO ||
      isNan.getLhs() != select.getFalseValue())
    return value;
  return isNan.getRhs() == isNan.getLhs() || splatOf(isNan.getRhs()) ? select.getFalseValue() : value;
}

class AttentionRaiser {
public:
  explicit AttentionRaiser(MLIRContext *context) : builder(context) {}

  /// Raises `op`, the product of probabilities and values.
  void raiseDecomposed(Operation *op) {
    std::optional<Product> product = matchProduct(op);
    if (!product)
      return;
    for (bool swapped : {false, true}) {
      if (swapped) {
        std::swap(product->lhs, product->rhs);
        std::swap(product->lhsDims, product->rhsDims);
      }
      auto softmax = withoutNanGuard(product->lhs).getDefiningOp<train::SoftmaxOp>();
      if (!softmax)
        continue;
      handled.insert(softmax);
      if (std::string why = replace(op, *product, softmax); !why.empty())
        remarkNearMiss(op->getLoc(), kPass, "attention", why);
      return;
    }
  }

  /// Scores of a product whose probabilities no pattern looked at.
  void remarkOthers(func::FuncOp function) {
    for (Operation *op : collect<train::SoftmaxOp>(function)) {
      auto softmax = cast<train::SoftmaxOp>(op);
      ArrayRef<int64_t> shape = shapeOf(softmax.getInput());
      if (handled.contains(op) || op->use_empty() || shape.size() < 3 || !leadsToProduct(softmax.getInput()))
        continue;
      remarkNearMiss(op->getLoc(), kPass, "attention",
                     "the probabilities are not multiplied by values [batch, heads, keys, dimension]");
    }
  }

  /// Brings an attention of the import to the same form as one that was raised.
  void refine(train::AttentionOp attention) {
    builder.setInsertionPoint(attention);
    Location loc = attention.getLoc();
    ArrayRef<int64_t> q = shapeOf(attention.getQuery());
    Value key = withoutRepeatedHeads(builder, loc, attention.getKey());
    Value value = withoutRepeatedHeads(builder, loc, attention.getValue());
    if (shapeOf(key)[1] != shapeOf(value)[1]) {
      key = attention.getKey();
      value = attention.getValue();
    }
    MaskParts masks({q[0], q[1], q[2], shapeOf(key)[2]});
    if (Value mask = attention.getMask()) {
      if (elementTypeOf(mask).isInteger(1))
        masks.addBool(identityAccess(mask));
      else
        masks.addFloat(identityAccess(mask));
    }
    if (std::string why = masks.problem(); !why.empty()) {
      remarkNearMiss(loc, kPass, "attention", why);
      return;
    }
    Value padding = masks.keyPadding(builder, loc);
    if (Value given = attention.getKeyPadding())
      padding = padding ? arith::AndIOp::create(builder, loc, padding, given).getResult() : given;
    std::optional<int64_t> window = masks.getWindow();
    if (std::optional<uint64_t> given = attention.getWindow())
      window = window ? std::min<int64_t>(*window, *given) : *given;
    std::optional<double> softcap;
    if (std::optional<APFloat> given = attention.getSoftcap())
      softcap = given->convertToDouble();
    create(attention, attention.getQuery(), key, value, masks.mask(builder, loc), padding,
           attention.getScale().convertToDouble(), attention.getCausal() || masks.isCausal(), window, softcap);
  }

private:
  std::string replace(Operation *op, const Product &outer, train::SoftmaxOp softmax) {
    // outer: probabilities [b, h, q, k] x values [b, h, k, d] -> [b, h, q, d]
    ArrayRef<int> p = outer.lhsDims;
    int valueDim = -1;
    for (int dim : outer.rhsDims)
      if (!llvm::is_contained(p, dim))
        valueDim = dim;
    if (p.size() != 4 || valueDim < 0 || !llvm::is_contained(outer.rhsDims, p[3]) ||
        (!llvm::is_contained(outer.rhsDims, p[0]) && shapeOf(softmax.getInput())[0] != 1) || outer.resultDims != ArrayRef<int>{p[0], p[1], p[2], valueDim})
      return "the second product does not contract the softmax's axis";
    MaskParts masks(shapeOf(softmax.getInput()));
    Scores scores;
    if (std::string why = walkScores(softmax.getInput(), masks, scores); !why.empty())
      return why;
    std::optional<Product> inner = matchProduct(scores.raw.getDefiningOp());
    if (!inner)
      return "the scores are not a batched product of queries and keys";
    if (std::string why = masks.problem(); !why.empty())
      return why;
    // inner: queries [b, h, q, d] x keys [b, h, k, d] -> [b, h, q, k], in any layout of the operands.
    ArrayRef<int> s = inner->resultDims;
    if (!llvm::is_contained(inner->lhsDims, s[2])) {
      std::swap(inner->lhs, inner->rhs);
      std::swap(inner->lhsDims, inner->rhsDims);
    }
    int headDim = -1;
    for (int dim : inner->lhsDims)
      if (!llvm::is_contained(s, dim))
        headDim = dim;
    int64_t batch = shapeOf(softmax.getInput())[0];
    auto covers = [&](ArrayRef<int> dims, int position) {
      return llvm::all_of(ArrayRef<int>{s[0], s[1], s[position], headDim}, [&](int dim) {
        return llvm::is_contained(dims, dim) || (position == 3 && (dim == s[1] || (dim == s[0] && batch == 1)));
      });
    };
    if (inner->lhsDims.size() != 4 || headDim < 0 || !covers(inner->lhsDims, 2) || !covers(inner->rhsDims, 3))
      return "the first product is not one of queries and keys over heads";

    builder.setInsertionPoint(op);
    Location loc = op->getLoc();
    SmallVector<double> queryScales, keyScales, valueScales;
    Value query = findOperand(builder, loc, inner->lhs, inner->lhsDims, {s[0], s[1], s[2], headDim}, queryScales);
    Value key = findOperand(builder, loc, inner->rhs, inner->rhsDims, {s[0], s[1], s[3], headDim}, keyScales);
    SmallVector<int> valueOrder{p[0], p[1], p[3], valueDim};
    Value value = findOperand(builder, loc, outer.rhs, outer.rhsDims, valueOrder, valueScales);
    if (!valueScales.empty()) // a factor on the values stays where it is
      value = transposedOperand(builder, loc, outer.rhs, outer.rhsDims, valueOrder);
    key = withoutRepeatedHeads(builder, loc, key);
    value = withoutRepeatedHeads(builder, loc, value);
    // Keys and values must have the same heads; queries all of them.
    if (shapeOf(key)[1] != shapeOf(value)[1]) {
      int64_t heads = shapeOf(softmax.getInput())[1];
      key = withHeads(transposedOperand(builder, loc, inner->rhs, inner->rhsDims, {s[0], s[1], s[3], headDim}), heads, loc);
      value = withHeads(transposedOperand(builder, loc, outer.rhs, outer.rhsDims, valueOrder), heads, loc);
      keyScales.clear();
    }
    if (shapeOf(query)[1] != shapeOf(op->getResult(0))[1]) {
      query = transposedOperand(builder, loc, inner->lhs, inner->lhsDims, {s[0], s[1], s[2], headDim});
      queryScales.clear();
    }
    double scale = combineScales(queryScales, keyScales, scores.scales, shapeOf(query)[3]);
    create(op, query, key, value, masks.mask(builder, loc), masks.keyPadding(builder, loc), scale, masks.isCausal(),
           masks.getWindow(), scores.softcap);
    return "";
  }

  Value withHeads(Value value, int64_t heads, Location loc) {
    SmallVector<int64_t> shape(shapeOf(value));
    shape[1] = heads;
    return broadcastTo(builder, loc, value, shape);
  }

  /// Follows the softmax's input back to the first product. Order of what is done to the scores: scale, soft cap, masks.
  std::string walkScores(Value value, MaskParts &masks, Scores &scores) {
    // Masks: added, or selected.
    while (true) {
      if (auto select = value.getDefiningOp<arith::SelectOp>();
          select && isa<RankedTensorType>(select.getCondition().getType())) {
        if (hides(splatOf(select.getFalseValue()))) {
          masks.addBool(identityAccess(select.getCondition()));
          value = select.getTrueValue();
          continue;
        }
        if (hides(splatOf(select.getTrueValue()))) {
          masks.addBool(identityAccess(select.getCondition()), /*negated=*/true);
          value = select.getFalseValue();
          continue;
        }
        return "a select among the scores does not hide keys";
      }
      auto add = value.getDefiningOp<arith::AddFOp>();
      if (!add)
        break;
      bool left = leadsToProduct(add.getLhs());
      if (!left && !leadsToProduct(add.getRhs()))
        return "the scores are not a batched product of queries and keys";
      masks.addFloat(identityAccess(left ? add.getRhs() : add.getLhs()));
      value = left ? add.getLhs() : add.getRhs();
    }
    // Soft cap: c * tanh(s / c).
    Value inner;
    double factor;
    if (splitConstantFactor(value, inner, factor))
      if (auto tanh = inner.getDefiningOp<math::TanhOp>()) {
        double inverse = 1;
        Value capped;
        if (!splitConstantFactor(tanh.getOperand(), capped, inverse) || !nearly(factor * inverse, 1))
          return "tanh of the scores is not a soft cap";
        scores.softcap = factor;
        value = capped;
      }
    while (splitConstantFactor(value, inner, factor)) {
      scores.scales.push_back(factor);
      value = inner;
    }
    scores.raw = value;
    return "";
  }

  /// True if the product of queries and keys is on this side of a sum.
  bool leadsToProduct(Value value, unsigned depth = 8) {
    Operation *op = value.getDefiningOp();
    if (!op || depth == 0)
      return false;
    if (isa<linalg::ContractOp>(op))
      return true;
    if (!isa<arith::AddFOp, arith::SubFOp, arith::MulFOp, arith::DivFOp, math::TanhOp, arith::SelectOp, tensor::ConcatOp,
             tensor::ExpandShapeOp>(op))
      return false;
    return llvm::any_of(op->getOperands(), [&](Value operand) {
      return isa<RankedTensorType>(operand.getType()) && leadsToProduct(operand, depth - 1);
    });
  }

  void create(Operation *op, Value query, Value key, Value value, Value mask, Value padding, double scale, bool causal,
              std::optional<int64_t> window, std::optional<double> softcap) {
    if (window && *window >= shapeOf(key)[2])
      window.reset();
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    auto lse = RankedTensorType::get(type.getShape().drop_back(), type.getElementType());
    auto attention = train::AttentionOp::create(
        builder, op->getLoc(), TypeRange{type, lse}, query, key, value, mask, padding, builder.getF64FloatAttr(scale),
        causal ? builder.getUnitAttr() : UnitAttr(), window ? builder.getI64IntegerAttr(*window) : IntegerAttr(),
        softcap ? builder.getF64FloatAttr(*softcap) : FloatAttr());
    std::string what = "attention";
    if (causal)
      what += ", causal";
    if (window)
      what += ", window " + std::to_string(*window);
    if (padding)
      what += ", key padding";
    if (mask)
      what += ", mask";
    if (shapeOf(key)[1] != shapeOf(query)[1])
      what += ", " + std::to_string(shapeOf(key)[1]) + " key heads";
    remarkRaised(op->getLoc(), kPass, what);
    op->getResult(0).replaceAllUsesWith(attention.getResult());
    if (op->getNumResults() == 2)
      op->getResult(1).replaceAllUsesWith(attention.getLse());
  }

  OpBuilder builder;
  llvm::DenseSet<Operation *> handled; // softmaxes
};

struct TrainRaiseAttention : forebay::impl::TrainRaiseAttentionBase<TrainRaiseAttention> {
  void runOnOperation() override {
    AttentionRaiser raiser(&getContext());
    for (Operation *op : collect<linalg::ContractOp, train::AttentionOp>(getOperation())) {
      if (auto attention = dyn_cast<train::AttentionOp>(op))
        raiser.refine(attention);
      else
        raiser.raiseDecomposed(op);
    }
    raiser.remarkOthers(getOperation());
    eraseDeadOps(getOperation());
  }
};

} // namespace
