//===- LoopNest.cpp - Compiled kernels as loops over strides --------------===//

#include "forebay/Conversion/LoopNest.h"

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace forebay;

static ArrayRef<int64_t> shapeOf(Value value) { return cast<RankedTensorType>(value.getType()).getShape(); }

int64_t LoopNest::numElements() const {
  int64_t result = 1;
  for (int64_t size : sizes)
    result *= size;
  return result;
}

LoopNest::Tiling LoopNest::tiling() const {
  Tiling tiling;
  if (numElements() == 0 && reduced == 0) {
    tiling.rows = 0;
    return tiling;
  }
  int64_t block = 1;
  for (int64_t size : ArrayRef(sizes).take_back(reduced))
    block *= std::max<int64_t>(size, 1);
  unsigned inner = numParallel();
  while (inner > 0 && block * sizes[inner - 1] <= kTileElements)
    block *= sizes[--inner];
  tiling.inner = inner;
  for (int64_t size : ArrayRef(sizes).take_front(inner))
    tiling.rows *= size;
  if (inner == sizes.size() && reduced == 0 && inner > 0) {
    // The innermost dimension is longer than a tile: cut it.
    tiling.inner = inner - 1;
    tiling.chunk = kTileElements;
    tiling.rows = tiling.rows / sizes.back() * ((sizes.back() + kTileElements - 1) / kTileElements);
    return tiling;
  }
  tiling.rowsPerTile = std::max<int64_t>(1, kTileElements / block);
  return tiling;
}

bool forebay::isElementwise(Operation *op) {
  return op && op->hasTrait<OpTrait::Elementwise>() && op->getNumResults() == 1 && op->getNumRegions() == 0 &&
         isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) && isa<RankedTensorType>(op->getResult(0).getType());
}

DenseElementsAttr forebay::constantOf(Value value) {
  DenseElementsAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return constant;
  if (auto fill = value.getDefiningOp<linalg::FillOp>()) {
    Attribute scalar;
    if (matchPattern(fill.value(), m_Constant(&scalar)))
      return DenseElementsAttr::get(cast<ShapedType>(value.getType()), scalar);
  }
  return {};
}

bool forebay::isIndexExpression(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (isa<train::IotaOp>(op) || constantOf(value))
    return true;
  if (isViewOp(op))
    return isIndexExpression(viewSource(op));
  // Every kernel that needs it computes it again: not what costs more than reading it.
  return isElementwise(op) && !isa<math::MathDialect>(op->getDialect()) && llvm::all_of(op->getOperands(), isIndexExpression);
}

/// Products of the trailing sizes of `shape`, all but 1.
static void addSuffixProducts(ArrayRef<int64_t> shape, SmallVectorImpl<int64_t> &cuts) {
  int64_t product = 1;
  for (int64_t size : llvm::reverse(shape))
    cuts.push_back(product *= size);
}

/// The coarsest shape that refines all of `shapes`; none if there is none.
static std::optional<SmallVector<int64_t>> refine(ArrayRef<ArrayRef<int64_t>> shapes) {
  SmallVector<int64_t> cuts;
  for (ArrayRef<int64_t> shape : shapes) {
    if (llvm::is_contained(shape, 0))
      return SmallVector<int64_t>{0};
    addSuffixProducts(shape, cuts);
  }
  llvm::sort(cuts);
  SmallVector<int64_t> sizes;
  int64_t last = 1;
  for (int64_t cut : cuts) {
    if (cut == last)
      continue;
    if (cut % last)
      return std::nullopt;
    sizes.push_back(cut / last);
    last = cut;
  }
  std::reverse(sizes.begin(), sizes.end());
  return sizes;
}

bool forebay::haveCommonRefinement(ArrayRef<ArrayRef<int64_t>> shapes) { return refine(shapes).has_value(); }

/// The view of a leaf of shape `shape` after `views`, outermost last.
static std::optional<StridedView> viewLeaf(ArrayRef<int64_t> shape, ArrayRef<Operation *> views) {
  std::optional<StridedView> view = StridedView::contiguous(shape);
  for (Operation *op : views)
    if (!(view = view->apply(op)))
      return std::nullopt;
  return view;
}

static bool canEvaluate(Value value, SmallVector<Operation *> views, function_ref<bool(Operation *)> isMember) {
  Operation *op = value.getDefiningOp();
  if (op && isMember(op) && llvm::all_of(views, isReshapeOp))
    return true; // Evaluated in its own right.
  if (op && isViewOp(op)) {
    views.insert(views.begin(), op);
    return canEvaluate(viewSource(op), std::move(views), isMember);
  }
  if (op && isIndexExpression(value) && !isa<train::IotaOp>(op) && !constantOf(value))
    return llvm::all_of(op->getOperands(), [&](Value operand) { return canEvaluate(operand, views, isMember); });
  if (DenseElementsAttr constant = constantOf(value); constant && constant.isSplat())
    return true;
  return viewLeaf(shapeOf(value), views).has_value();
}

bool forebay::canEvaluate(Value value, function_ref<bool(Operation *)> isMember) {
  return ::canEvaluate(value, {}, isMember);
}

namespace {

/// Builds the one nest of a function of elementwise operations.
class ElementwiseBuilder {
public:
  ElementwiseBuilder(func::FuncOp function, std::string &why) : function(function), why(why) {}

  /// `results`: the values that the function's results are views of.
  LogicalResult build(LoopNest &nest, unsigned firstResult, ArrayRef<Value> inner, ArrayRef<Value> outer) {
    SmallVector<ArrayRef<int64_t>> shapes;
    SmallPtrSet<Value, 16> seen;
    for (Value value : inner)
      collectShapes(value, shapes, seen);
    std::optional<SmallVector<int64_t>> refined = refine(shapes);
    if (!refined)
      return fail("its operations have shapes without a common refinement");
    nest.sizes = *refined;
    this->nest = &nest;
    for (auto [i, value] : llvm::enumerate(inner)) {
      FailureOr<unsigned> node = evaluate(value, {});
      if (failed(node))
        return failure();
      std::optional<StridedView> view = traceResult(value, outer[i]);
      if (!view)
        return fail("a result has no strides");
      nest.stores.push_back({*node, unsigned(firstResult + i), toAccess(*view)});
    }
    return success();
  }

private:
  LogicalResult fail(StringRef text) {
    why = text.str();
    return failure();
  }

  /// Shapes of what is computed point by point in the nest: elementwise operations reached through reshapes only.
  void collectShapes(Value value, SmallVectorImpl<ArrayRef<int64_t>> &shapes, SmallPtrSetImpl<Value> &seen) {
    if (!seen.insert(value).second)
      return;
    shapes.push_back(shapeOf(value));
    Operation *op = value.getDefiningOp();
    if (isReshapeOp(op) && isMemberBelow(viewSource(op)))
      return collectShapes(viewSource(op), shapes, seen);
    if (isElementwise(op))
      for (Value operand : op->getOperands())
        if (isa<RankedTensorType>(operand.getType()))
          collectShapes(operand, shapes, seen);
  }

  static bool isMemberBelow(Value value) {
    Operation *op = value.getDefiningOp();
    while (isReshapeOp(op))
      op = viewSource(op).getDefiningOp();
    return isElementwise(op);
  }

  Access toAccess(const StridedView &view) {
    if (nest->sizes.size() == 1 && nest->sizes[0] == 0)
      return Access{view.offset, {0}};
    StridedView expanded = view.expand(nest->sizes);
    return Access{expanded.offset, expanded.strides};
  }

  unsigned add(ScalarNode node) {
    nest->nodes.push_back(std::move(node));
    return nest->nodes.size() - 1;
  }

  /// The node of `value` after `views` (outermost last) at the nest's point.
  FailureOr<unsigned> evaluate(Value value, SmallVector<Operation *> views) {
    Operation *op = value.getDefiningOp();
    if (llvm::all_of(views, isReshapeOp) && isElementwise(op))
      views.clear(); // Reshapes keep the order of elements: the same point.
    auto key = std::make_pair(value, views);
    for (auto &entry : known)
      if (entry.first == key)
        return entry.second;
    FailureOr<unsigned> node = evaluateNew(value, op, views);
    if (succeeded(node))
      known.push_back({key, *node});
    return node;
  }

  FailureOr<unsigned> evaluateNew(Value value, Operation *op, SmallVector<Operation *> views) {
    Type type = getElementTypeOrSelf(value.getType());
    if (!isa<RankedTensorType>(value.getType())) {
      TypedAttr scalar;
      if (!matchPattern(value, m_Constant(&scalar)))
        return fail("a scalar operand is not constant");
      ScalarNode node(ScalarNode::Constant);
      node.constant = scalar;
      node.type = type;
      return add(std::move(node));
    }
    if (op && isViewOp(op)) {
      views.insert(views.begin(), op);
      return evaluate(viewSource(op), views);
    }
    if (DenseElementsAttr constant = constantOf(value); constant && constant.isSplat()) {
      ScalarNode node(ScalarNode::Constant);
      node.constant = constant.getSplatValue<TypedAttr>();
      node.type = type;
      return add(std::move(node));
    }
    if (isElementwise(op) && !constantOf(value)) {
      ScalarNode node(ScalarNode::Op);
      for (Value operand : op->getOperands()) {
        FailureOr<unsigned> index = evaluate(operand, views);
        if (failed(index))
          return failure();
        node.operands.push_back(*index);
      }
      node.op = op;
      node.type = type;
      return add(std::move(node));
    }
    std::optional<StridedView> view = viewLeaf(shapeOf(value), views);
    if (!view)
      return fail("a view of an operand has no strides");
    ScalarNode node(ScalarNode::Load);
    node.access = toAccess(*view);
    node.type = type;
    if (auto argument = dyn_cast<BlockArgument>(value)) {
      node.operand = argument.getArgNumber();
    } else if (DenseElementsAttr constant = constantOf(value)) {
      node.kind = ScalarNode::Table;
      node.table = constant;
    } else if (auto iota = dyn_cast_or_null<train::IotaOp>(op)) {
      node.kind = ScalarNode::Index;
      node.start = iota.getStart();
      node.step = iota.getStep();
    } else {
      why = ("'" + op->getName().getStringRef() + "' cannot be part of an elementwise kernel").str();
      return failure();
    }
    return add(std::move(node));
  }

  func::FuncOp function;
  std::string &why;
  LoopNest *nest = nullptr;
  SmallVector<std::pair<std::pair<Value, SmallVector<Operation *>>, unsigned>> known;
};

} // namespace

static void forEachAccess(LoopNest &nest, function_ref<void(Access &)> callback) {
  for (ScalarNode &node : nest.nodes)
    if (node.kind == ScalarNode::Load || node.kind == ScalarNode::Table || node.kind == ScalarNode::Index)
      callback(node.access);
  for (LoopNest::Store &store : nest.stores)
    callback(store.access);
}

/// Orders parallel dimensions so that the first store runs through memory, and merges what every access allows.
static void simplify(LoopNest &nest) {
  if (nest.numElements() == 0 || nest.stores.empty())
    return;
  unsigned parallel = nest.numParallel();
  SmallVector<unsigned> order;
  ArrayRef<int64_t> key = nest.stores.front().access.strides;
  auto pad = [&](Access &access) { access.strides.resize(nest.sizes.size(), 0); };
  forEachAccess(nest, pad);
  for (unsigned dim = 0; dim < parallel; ++dim)
    if (nest.sizes[dim] != 1)
      order.push_back(dim);
  SmallVector<int64_t> keys(key);
  llvm::sort(order, [&](unsigned a, unsigned b) { return keys[a] != keys[b] ? keys[a] > keys[b] : a < b; });
  for (unsigned dim = parallel; dim < nest.sizes.size(); ++dim)
    order.push_back(dim);

  SmallVector<Access *> accesses;
  forEachAccess(nest, [&](Access &access) { accesses.push_back(&access); });
  SmallVector<int64_t> sizes;
  SmallVector<SmallVector<int64_t>> strides(accesses.size());
  unsigned reduced = 0;
  for (unsigned dim : order) {
    bool isReduced = dim >= parallel;
    bool merge = !sizes.empty() && (isReduced ? reduced > 0 : true);
    for (unsigned i = 0; merge && i < accesses.size(); ++i)
      merge = strides[i].back() == accesses[i]->strides[dim] * nest.sizes[dim];
    if (merge) {
      sizes.back() *= nest.sizes[dim];
      for (unsigned i = 0; i < accesses.size(); ++i)
        strides[i].back() = accesses[i]->strides[dim];
      continue;
    }
    reduced += isReduced;
    sizes.push_back(nest.sizes[dim]);
    for (unsigned i = 0; i < accesses.size(); ++i)
      strides[i].push_back(accesses[i]->strides[dim]);
  }
  nest.sizes = sizes;
  nest.reduced = reduced;
  for (unsigned i = 0; i < accesses.size(); ++i)
    accesses[i]->strides = strides[i];
}

static unsigned addNode(LoopNest &nest, ScalarNode node) {
  nest.nodes.push_back(std::move(node));
  return nest.nodes.size() - 1;
}

/// A node that reads `value`, a view of an argument or constant, over its own shape.
static FailureOr<ScalarNode> readNode(Value value, std::string &why) {
  std::optional<StridedView> view = traceView(value);
  ScalarNode node(ScalarNode::Load);
  node.type = getElementTypeOrSelf(value.getType());
  if (!view)
    return why = "a view of an operand has no strides", failure();
  node.access = Access{view->offset, view->strides};
  if (auto argument = dyn_cast<BlockArgument>(view->base)) {
    node.operand = argument.getArgNumber();
    return node;
  }
  DenseElementsAttr constant = constantOf(view->base);
  if (!constant)
    return why = "an operand is computed inside", failure();
  if (constant.isSplat()) {
    node.kind = ScalarNode::Constant;
    node.constant = constant.getSplatValue<TypedAttr>();
    node.access = {};
  } else {
    node.kind = ScalarNode::Table;
    node.table = constant;
  }
  return node;
}

/// A nest that copies `value` (whole, or the box at `from` of size `sizes`) to the box at `to` of `result`.
static LogicalResult addCopy(SmallVectorImpl<LoopNest> &nests, Value value, ArrayRef<int64_t> from, ArrayRef<int64_t> sizes,
                             const StridedView &result, ArrayRef<int64_t> to, ArrayRef<int64_t> steps, unsigned operand,
                             std::string &why) {
  FailureOr<ScalarNode> node = readNode(value, why);
  if (failed(node))
    return failure();
  LoopNest nest;
  nest.sizes.assign(sizes.begin(), sizes.end());
  Access store{result.offset, {}};
  for (unsigned dim = 0; dim < sizes.size(); ++dim) {
    store.offset += to[dim] * result.strides[dim];
    store.strides.push_back(result.strides[dim] * (steps.empty() ? 1 : steps[dim]));
    if (!node->access.strides.empty() && !from.empty())
      node->access.offset += from[dim] * node->access.strides[dim];
  }
  addNode(nest, *node);
  nest.stores.push_back({0, operand, store});
  if (nest.numElements() != 0)
    nests.push_back(std::move(nest));
  return success();
}

/// The part of a box of `shape` outside the box [low, high), as disjoint boxes.
static void forEachOutside(ArrayRef<int64_t> shape, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
                           function_ref<void(ArrayRef<int64_t> from, ArrayRef<int64_t> sizes)> callback) {
  SmallVector<int64_t> from(shape.size(), 0), to(shape);
  for (unsigned dim = 0; dim < shape.size(); ++dim) {
    for (auto [first, last] : {std::pair(int64_t(0), low[dim]), std::pair(high[dim], shape[dim])}) {
      if (first >= last)
        continue;
      SmallVector<int64_t> boxFrom(from), boxSizes;
      boxFrom[dim] = first;
      for (unsigned i = 0; i < shape.size(); ++i)
        boxSizes.push_back(i == dim ? last - first : to[i] - from[i]);
      callback(boxFrom, boxSizes);
    }
    from[dim] = low[dim];
    to[dim] = high[dim];
  }
}

static LogicalResult buildConcat(tensor::ConcatOp op, const StridedView &result, unsigned operand,
                                 SmallVectorImpl<LoopNest> &nests, std::string &why) {
  SmallVector<int64_t> to(op.getRank(), 0);
  for (Value input : op.getInputs()) {
    if (failed(addCopy(nests, input, {}, shapeOf(input), result, to, {}, operand, why)))
      return failure();
    to[op.getDim()] += shapeOf(input)[op.getDim()];
  }
  return success();
}

static LogicalResult buildPad(tensor::PadOp op, const StridedView &result, unsigned operand,
                              SmallVectorImpl<LoopNest> &nests, std::string &why) {
  TypedAttr scalar;
  Value padding = op.getConstantPaddingValue();
  if (!padding || !matchPattern(padding, m_Constant(&scalar)) || !op.getLow().empty() || !op.getHigh().empty())
    return why = "its padding is not constant", failure();
  ArrayRef<int64_t> source = op.getSourceType().getShape();
  SmallVector<int64_t> low(op.getStaticLow()), high;
  for (unsigned dim = 0; dim < source.size(); ++dim) {
    if (low[dim] < 0 || op.getStaticHigh()[dim] < 0)
      return why = "its padding is negative", failure();
    high.push_back(low[dim] + source[dim]);
  }
  forEachOutside(op.getResultType().getShape(), low, high, [&](ArrayRef<int64_t> from, ArrayRef<int64_t> sizes) {
    LoopNest nest;
    nest.sizes.assign(sizes.begin(), sizes.end());
    ScalarNode node(ScalarNode::Constant);
    node.constant = scalar;
    node.type = scalar.getType();
    Access store{result.offset, result.strides};
    for (unsigned dim = 0; dim < sizes.size(); ++dim)
      store.offset += from[dim] * result.strides[dim];
    addNode(nest, node);
    nest.stores.push_back({0, operand, store});
    if (nest.numElements() != 0)
      nests.push_back(std::move(nest));
  });
  return addCopy(nests, op.getSource(), {}, source, result, low, {}, operand, why);
}

static LogicalResult buildInsertSlice(tensor::InsertSliceOp op, const StridedView &result, unsigned operand,
                                      SmallVectorImpl<LoopNest> &nests, std::string &why) {
  if (!op.getOffsets().empty() || !op.getSizes().empty() || !op.getStrides().empty())
    return why = "its slice is not static", failure();
  for (int64_t stride : op.getStaticStrides())
    if (stride != 1)
      return why = "its slice has steps", failure();
  // The source may lack dimensions of size 1: read it in the shape of the slice.
  SmallVector<int64_t> from(op.getStaticOffsets()), sizes(op.getStaticSizes()), to;
  for (auto [offset, size] : llvm::zip(from, sizes))
    to.push_back(offset + size);
  LogicalResult status = success();
  forEachOutside(op.getDestType().getShape(), from, to, [&](ArrayRef<int64_t> boxFrom, ArrayRef<int64_t> boxSizes) {
    if (succeeded(status))
      status = addCopy(nests, op.getDest(), boxFrom, boxSizes, result, boxFrom, {}, operand, why);
  });
  if (failed(status))
    return failure();
  FailureOr<ScalarNode> node = readNode(op.getSource(), why);
  if (failed(node))
    return failure();
  if (node->kind != ScalarNode::Constant) {
    StridedView view{{}, node->access.offset, SmallVector<int64_t>(shapeOf(op.getSource())), node->access.strides};
    node->access.strides = view.expand(sizes).strides;
  }
  LoopNest nest;
  nest.sizes = sizes;
  Access store{result.offset, result.strides};
  for (unsigned dim = 0; dim < sizes.size(); ++dim)
    store.offset += from[dim] * result.strides[dim];
  addNode(nest, *node);
  nest.stores.push_back({0, operand, store});
  if (nest.numElements() != 0)
    nests.push_back(std::move(nest));
  return success();
}

static LogicalResult buildReduce(linalg::ReduceOp op, const StridedView &result, unsigned operand,
                                 SmallVectorImpl<LoopNest> &nests, std::string &why) {
  DenseElementsAttr init = constantOf(op.getInits().front());
  if (op.getInputs().size() != 1 || !init || !init.isSplat())
    return why = "its initial value is not a constant", failure();
  FailureOr<ScalarNode> node = readNode(op.getInputs().front(), why);
  if (failed(node))
    return failure();
  LoopNest nest;
  ArrayRef<int64_t> shape = shapeOf(op.getInputs().front()), reduced = op.getDimensions();
  SmallVector<int64_t> order;
  Access store{result.offset, {}};
  for (unsigned dim = 0; dim < shape.size(); ++dim)
    if (!llvm::is_contained(reduced, int64_t(dim))) {
      store.strides.push_back(result.strides[order.size()]);
      order.push_back(dim);
    }
  llvm::append_range(order, reduced);
  Access access{node->access.offset, {}};
  for (int64_t dim : order) {
    nest.sizes.push_back(shape[dim]);
    if (node->kind != ScalarNode::Constant)
      access.strides.push_back(node->access.strides[dim]);
  }
  node->access = access;
  store.strides.resize(nest.sizes.size(), 0);
  nest.reduced = reduced.size();
  nest.combiner = &op.getCombiner().front().front();
  if (nest.combiner->getNumOperands() != 2 || op.getCombiner().front().getOperations().size() != 2)
    return why = "its combiner is more than one operation", failure();
  nest.init = init.getSplatValue<TypedAttr>();
  addNode(nest, *node);
  nest.stores.push_back({0, operand, store});
  nests.push_back(std::move(nest));
  return success();
}

/// A contraction that is no matrix product of the built-in kernel: sums in the order of the iteration space.
static LogicalResult buildContract(linalg::ContractOp op, const StridedView &result, unsigned operand,
                                   SmallVectorImpl<LoopNest> &nests, std::string &why) {
  SmallVector<AffineMap> maps = op.getIndexingMapsArray();
  DenseElementsAttr init = constantOf(op->getOperand(2));
  Type type = getElementTypeOrSelf(op->getResult(0).getType());
  if (!init || !init.isSplat())
    return why = "its initial value is not a constant", failure();
  LoopNest nest;
  SmallVector<unsigned> order;
  for (bool reduced : {false, true})
    for (unsigned dim = 0; dim < maps[0].getNumDims(); ++dim)
      if (bool(maps[2].getResultPosition(getAffineDimExpr(dim, op.getContext()))) != reduced)
        order.push_back(dim);
  nest.reduced = order.size() - maps[2].getNumResults();
  auto stridesOf = [&](AffineMap map, ArrayRef<int64_t> strides) {
    SmallVector<int64_t> mapped;
    for (unsigned dim : order) {
      auto position = map.getResultPosition(getAffineDimExpr(dim, op.getContext()));
      mapped.push_back(position && !strides.empty() ? strides[*position] : 0);
    }
    return mapped;
  };
  nest.sizes.assign(order.size(), 1);
  ScalarNode product(ScalarNode::Product);
  product.type = type;
  for (unsigned i = 0; i < 2; ++i) {
    FailureOr<ScalarNode> node = readNode(op->getOperand(i), why);
    if (failed(node))
      return failure();
    if (node->type != type)
      return why = "its operands have another type than its result", failure();
    for (auto [at, dim] : llvm::enumerate(order))
      if (auto position = maps[i].getResultPosition(getAffineDimExpr(dim, op.getContext())))
        nest.sizes[at] = shapeOf(op->getOperand(i))[*position];
    if (node->kind != ScalarNode::Constant)
      node->access.strides = stridesOf(maps[i], node->access.strides);
    product.operands.push_back(addNode(nest, *node));
  }
  unsigned value = addNode(nest, product);
  nest.init = init.getSplatValue<TypedAttr>();
  nest.stores.push_back({value, operand, Access{result.offset, stridesOf(maps[2], result.strides)}});
  nests.push_back(std::move(nest));
  return success();
}

LogicalResult forebay::buildLoopNests(func::FuncOp function, SmallVectorImpl<LoopNest> &nests, std::string &why) {
  unsigned firstResult = function.getNumArguments();
  SmallVector<Value> inner, outer;
  for (Value value : function.front().getTerminator()->getOperands()) {
    outer.push_back(value);
    // Views after the root are the layout of the result; the root of a pure copy is an argument or constant.
    Value root = value;
    while (isBijectiveViewOp(root.getDefiningOp()) && !isa<BlockArgument>(viewSource(root.getDefiningOp())))
      root = viewSource(root.getDefiningOp());
    Operation *op = root.getDefiningOp();
    inner.push_back(op && (isElementwise(op) || isa<tensor::ConcatOp, tensor::PadOp, tensor::InsertSliceOp, linalg::ReduceOp, linalg::ContractOp>(op))
                        ? root
                        : value);
  }
  if (inner.size() == 1) {
    std::optional<StridedView> result = traceResult(inner[0], outer[0]);
    if (!result)
      return why = "a result has no strides", failure();
    Operation *op = inner[0].getDefiningOp();
    LogicalResult status = failure();
    bool handled = true;
    if (auto concat = dyn_cast_or_null<tensor::ConcatOp>(op))
      status = buildConcat(concat, *result, firstResult, nests, why);
    else if (auto pad = dyn_cast_or_null<tensor::PadOp>(op))
      status = buildPad(pad, *result, firstResult, nests, why);
    else if (auto insert = dyn_cast_or_null<tensor::InsertSliceOp>(op))
      status = buildInsertSlice(insert, *result, firstResult, nests, why);
    else if (auto reduce = dyn_cast_or_null<linalg::ReduceOp>(op))
      status = buildReduce(reduce, *result, firstResult, nests, why);
    else if (auto contract = dyn_cast_or_null<linalg::ContractOp>(op))
      status = buildContract(contract, *result, firstResult, nests, why);
    else
      handled = false;
    if (handled) {
      if (succeeded(status))
        llvm::for_each(nests, simplify);
      return status;
    }
  }
  LoopNest nest;
  if (failed(ElementwiseBuilder(function, why).build(nest, firstResult, inner, outer)))
    return failure();
  simplify(nest);
  nests.push_back(std::move(nest));
  return success();
}
