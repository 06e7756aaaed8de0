//===- FormDispatches.cpp - @step as a list of dispatches -----------------===//
//
// Order of work: layouts of results are decided (a transpose that follows attention becomes the place where it
// writes), elementwise operations are grouped, then each root becomes a function, in program order. Operands that a kernel cannot read in
// place are copied by dispatches of their own on the way.
//
//===----------------------------------------------------------------------===//

#include "DispatchLayouts.h"
#include "ElementwiseGroups.h"

#include "forebay/Conversion/LoopNest.h"
#include "forebay/Conversion/MatchContract.h"
#include "forebay/Conversion/Passes.h"
#include "forebay/Conversion/RootOps.h"
#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace forebay {
#define GEN_PASS_DEF_FOREBAYFORMDISPATCHES
#include "forebay/Conversion/Passes.h.inc"
} // namespace forebay

using namespace forebay;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
static ArrayRef<int64_t> shapeOf(Value value) { return typeOf(value).getShape(); }

namespace {

/// Makes dispatch functions; those with equal bodies are one.
class FunctionTable {
public:
  explicit FunctionTable(ModuleOp module) : module(module), symbols(module) {}

  /// A function of `inputs` that returns what `build` returns for its arguments.
  func::FuncOp get(StringRef name, ValueRange inputs, TypeRange results, Location loc,
                   function_ref<SmallVector<Value>(OpBuilder &, ValueRange)> build) {
    OpBuilder builder(module.getContext());
    auto function = func::FuncOp::create(loc, "f", builder.getFunctionType(inputs.getTypes(), results));
    function.setPrivate();
    Block *block = function.addEntryBlock();
    builder.setInsertionPointToStart(block);
    SmallVector<Value> values = build(builder, block->getArguments());
    func::ReturnOp::create(builder, loc, values);
    std::string key = (name + "\n").str();
    llvm::raw_string_ostream os(key);
    function.print(os, OpPrintingFlags().enableDebugInfo(false));
    auto [entry, isNew] = functions.try_emplace(key);
    if (!isNew) {
      function->destroy();
      return entry->second;
    }
    std::string unique = name.str();
    while (symbols.lookup(unique))
      unique = (name + "_" + Twine(++suffixes[name])).str();
    function.setName(unique);
    symbols.insert(function);
    return entry->second = function;
  }

private:
  ModuleOp module;
  SymbolTable symbols;
  llvm::StringMap<func::FuncOp> functions;
  llvm::StringMap<unsigned> suffixes;
};

class DispatchFormer {
public:
  DispatchFormer(ModuleOp module, func::FuncOp step)
      : step(step), table(module), builder(step.getContext()), layouts(step), groups(step, layouts) {}

  LogicalResult run() {
    removeDetached();
    eraseDead();
    layouts.assign();
    groups.form([&](Operation *op) { return layouts.isConsumed(op); });
    SmallVector<Operation *> ops;
    for (Operation &op : step.front())
      ops.push_back(&op);
    bool failedAny = false;
    for (Operation *op : ops)
      failedAny |= failed(visit(op));
    if (failedAny)
      return failure();
    formResults();
    eraseDead();
    return success();
  }

private:
  void removeDetached() {
    for (auto detach : llvm::make_early_inc_range(step.getOps<train::DetachOp>())) {
      detach.replaceAllUsesWith(detach.getInput());
      detach.erase();
    }
  }

  static Attribute phaseOf(Operation *op) { return op->getAttr(train::kPhaseAttr); }

  LogicalResult visit(Operation *op) {
    if (op->hasTrait<OpTrait::IsTerminator>() || isa<train::ScalarsOp, tensor::EmptyOp, linalg::FillOp>(op) ||
        op->hasTrait<OpTrait::ConstantLike>() || isViewOp(op) || layouts.isConsumed(op))
      return success();
    if (op->getNumResults() == 1 && isIndexExpression(op->getResult(0)))
      return success();
    builder.setInsertionPoint(op);
    if (isElementwise(op)) {
      if (groups.of(op) == op)
        formElementwise(op);
      return success();
    }
    if (auto contract = dyn_cast<linalg::ContractOp>(op))
      return formContract(contract);
    if (isCompiledRoot(op) || isBuiltinRoot(op)) {
      formRoot(op);
      return success();
    }
    InFlightDiagnostic error = op->emitError() << "no kernel computes '" << op->getName() << "'";
    error.attachNote() << "elementwise arith and math, linalg.contract and reduce, tensor.concat, pad and insert_slice, and train "
                          "operations have kernels";
    return failure();
  }

  /// Makes a dispatch at the insertion point.
  offload::DispatchOp dispatch(Operation *root, StringRef name, ValueRange inputs, TypeRange results,
                               function_ref<SmallVector<Value>(OpBuilder &, ValueRange)> build) {
    Location loc = root->getLoc();
    func::FuncOp function = table.get(name, inputs, results, loc, build);
    auto op = offload::DispatchOp::create(builder, loc, results, FlatSymbolRefAttr::get(function), inputs);
    if (Attribute phase = phaseOf(root))
      op->setAttr(train::kPhaseAttr, phase);
    return op;
  }

  /// Clones what computes `value` until mapped values, without the phase (it is the dispatch's).
  static Value cloneValue(OpBuilder &builder, Value value, IRMapping &mapping) {
    if (Value known = mapping.lookupOrNull(value))
      return known;
    Operation *op = value.getDefiningOp();
    assert(op && "a value from outside is no input of the dispatch");
    for (Value operand : op->getOperands())
      cloneValue(builder, operand, mapping);
    Operation *clone = builder.clone(*op, mapping);
    clone->removeAttr(train::kPhaseAttr);
    return mapping.lookup(value);
  }

  static std::string dims(ArrayRef<int64_t> shape) {
    std::string text;
    for (int64_t size : shape)
      text += (text.empty() ? "" : "x") + std::to_string(size);
    return text.empty() ? "1" : text;
  }

  /// A dispatch that stores `value`, a strided view or an index expression, contiguously.
  Value store(Value value, Operation *root) {
    if (Value known = stored.lookup(value))
      return known;
    SmallVector<Value> inputs;
    bool expression = isIndexExpression(value);
    DenseElementsAttr constant = constantOf(viewBase(value));
    std::string name = (!expression ? "copy_" : constant && constant.isSplat() ? "fill_" : "index_") + dims(shapeOf(value));
    if (!expression)
      inputs.push_back(viewBase(value));
    auto op = dispatch(root, name, inputs, value.getType(), [&](OpBuilder &inside, ValueRange arguments) {
      IRMapping mapping;
      mapping.map(inputs, arguments);
      return SmallVector<Value>{cloneValue(inside, value, mapping)};
    });
    return stored[value] = op->getResult(0);
  }

  /// Copies where the chain of views of `value` has no strides, so that afterwards it has.
  void makeStrided(Value value, Operation *root) {
    SmallVector<Operation *> chain;
    for (Value v = value; isViewOp(v.getDefiningOp()); v = viewSource(v.getDefiningOp()))
      chain.push_back(v.getDefiningOp());
    if (isIndexExpression(value))
      return;
    for (Operation *op : llvm::reverse(chain))
      if (!traceView(op->getResult(0)))
        op->setOperand(0, store(viewSource(op), root));
  }

  /// `value`, or a contiguous copy of it where it is not whole rows from the start of a buffer.
  Value contiguous(Value value, Operation *root) {
    if (isIndexExpression(value))
      return store(value, root);
    makeStrided(value, root);
    std::optional<StridedView> view = traceView(value);
    return view->isContiguous() && view->offset == 0 ? value : store(value, root);
  }

  void replace(Operation *root, ValueRange results, ValueRange replacements) {
    for (auto [result, replacement] : llvm::zip(results, replacements))
      result.replaceAllUsesWith(replacement);
  }

  void formElementwise(Operation *anchor) {
    auto isMember = [&](Operation *op) { return groups.of(op) == anchor; };
    // What the nest cannot reach is stored first.
    SmallVector<Operation *> members(groups.anchors(anchor));
    SmallPtrSet<Operation *, 16> seen(members.begin(), members.end());
    for (unsigned i = 0; i < members.size(); ++i) {
      for (OpOperand &use : members[i]->getOpOperands()) {
        if (!isa<RankedTensorType>(use.get().getType()))
          continue;
        if (!canEvaluate(use.get(), isMember)) {
          if (isIndexExpression(use.get()))
            use.set(store(use.get(), anchor));
          else
            makeStrided(use.get(), anchor);
        }
        Value base = use.get();
        while (isReshapeOp(base.getDefiningOp()))
          base = viewSource(base.getDefiningOp());
        if (base.getDefiningOp() && isMember(base.getDefiningOp()) && seen.insert(base.getDefiningOp()).second)
          members.push_back(base.getDefiningOp());
      }
    }
    llvm::sort(members, [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });
    SetVector<Value> inputs;
    for (Operation *op : members)
      for (Value operand : op->getOperands())
        collectInputs(operand, isMember, inputs);
    SmallVector<Value> results;
    for (Operation *op : groups.anchors(anchor))
      results.push_back(layouts.outer(cast<OpResult>(op->getResult(0))));
    SmallVector<Type> types(ValueRange(results).getTypes());
    auto op = dispatch(anchor, elementwiseName(members), inputs.getArrayRef(), types,
                       [&](OpBuilder &inside, ValueRange arguments) {
                         IRMapping mapping;
                         mapping.map(inputs.getArrayRef(), arguments);
                         for (Operation *member : members)
                           cloneValue(inside, member->getResult(0), mapping);
                         SmallVector<Value> values;
                         for (Value result : results)
                           values.push_back(cloneValue(inside, result, mapping));
                         return values;
                       });
    replace(anchor, results, op->getResults());
  }

  /// Buffers that `value` is computed from.
  static void collectInputs(Value value, function_ref<bool(Operation *)> isMember, SetVector<Value> &inputs) {
    Operation *op = value.getDefiningOp();
    if (op && (isMember(op) || isIndexExpression(value)))
      return;
    if (op && op->hasTrait<OpTrait::ConstantLike>())
      return;
    if (op && isViewOp(op))
      return collectInputs(viewSource(op), isMember, inputs);
    inputs.insert(value);
  }

  static std::string elementwiseName(ArrayRef<Operation *> members) {
    std::string name;
    for (Operation *op : ArrayRef(members).take_back(4))
      name = name + op->getName().stripDialect().str() + "_";
    return name + dims(shapeOf(members.back()->getResult(0)));
  }

  /// Roots other than elementwise groups and contractions.
  void formRoot(Operation *root) {
    if (auto reduce = dyn_cast<linalg::ReduceOp>(root))
      root = prepareReduce(reduce);
    builder.setInsertionPoint(root);
    bool compiled = (isCompiledRoot(root) && !isa<train::UpdateOp>(root)) || isa<linalg::ContractOp>(root); // Loops over strides.
    SmallVector<Value> inputs;
    for (OpOperand &use : root->getOpOperands()) {
      if (isDestination(use))
        continue;
      Value value = use.get();
      if (compiled && constantOf(viewBase(value)))
        continue;
      if (compiled || acceptsStridedOperand(use)) {
        if (isIndexExpression(value))
          use.set(store(value, root));
        makeStrided(use.get(), root);
        if (!compiled && !acceptsView(use, *traceView(use.get())))
          use.set(store(use.get(), root));
      } else {
        use.set(contiguous(value, root));
      }
      inputs.push_back(viewBase(use.get()));
    }
    SmallVector<Value> results;
    for (OpResult result : root->getResults())
      results.push_back(layouts.outer(result));
    SmallVector<Type> types(ValueRange(results).getTypes());
    auto op = dispatch(root, rootName(root), inputs, types, [&](OpBuilder &inside, ValueRange arguments) {
      IRMapping operands;
      unsigned next = 0;
      for (OpOperand &use : root->getOpOperands()) {
        // Each operand has an argument of its own, also where two are views of one buffer.
        IRMapping mapping;
        if (!isDestination(use) && !(compiled && constantOf(viewBase(use.get()))))
          mapping.map(viewBase(use.get()), arguments[next++]);
        operandValues.push_back(cloneValue(inside, use.get(), mapping));
      }
      return cloneRoot(inside, root, results);
    });
    replace(root, results, op->getResults());
  }

  /// Clones `root` with `operandValues` and the views that follow it.
  SmallVector<Value> cloneRoot(OpBuilder &inside, Operation *root, ArrayRef<Value> results) {
    IRMapping captured;
    SetVector<Value> above;
    getUsedValuesDefinedAbove(root->getRegions(), above); // The padding of tensor.pad.
    for (Value value : above)
      cloneValue(inside, value, captured);
    Operation *clone = inside.clone(*root, captured);
    clone->removeAttr(train::kPhaseAttr);
    clone->setOperands(operandValues);
    operandValues.clear();
    IRMapping mapping;
    mapping.map(root->getResults(), clone->getResults());
    SmallVector<Value> values;
    for (Value result : results)
      values.push_back(cloneValue(inside, result, mapping));
    return values;
  }

  static std::string rootName(Operation *root) {
    StringRef name = root->getName().stripDialect();
    Value shaped = root->getNumResults() && !isa<linalg::ReduceOp, train::CrossEntropyOp, train::NormPartialsOp>(root)
                       ? root->getResult(0)
                       : root->getOperand(0);
    if (auto update = dyn_cast<train::UpdateOp>(root))
      return ("update_" + update.getOptimizer() + "_" + dims(shapeOf(update.getParameter()))).str();
    if (isa<train::VerdictOp>(root))
      return "verdict";
    return (name + "_" + dims(shapeOf(shaped))).str();
  }

  /// The reduced dimensions must be next to each other in a contiguous buffer; else the operand is transposed.
  Operation *prepareReduce(linalg::ReduceOp op) {
    if (!reduceKind(op) || reducedRange(op))
      return op;
    Value input = op.getInputs()[0];
    RankedTensorType type = typeOf(input);
    SmallVector<int64_t> kept, reduced(op.getDimensions()), perm, shape, dims;
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (!llvm::is_contained(reduced, dim))
        kept.push_back(dim);
    // Rows of the innermost dimension stay whole where it is kept.
    bool reducedFirst = !kept.empty() && kept.back() == type.getRank() - 1;
    perm = reducedFirst ? reduced : kept;
    llvm::append_range(perm, reducedFirst ? kept : reduced);
    for (int64_t dim : perm)
      shape.push_back(type.getDimSize(dim));
    for (size_t i = 0; i < reduced.size(); ++i)
      dims.push_back(reducedFirst ? i : kept.size() + i);
    Value empty = tensor::EmptyOp::create(builder, op.getLoc(), shape, type.getElementType());
    Value transposed = linalg::TransposeOp::create(builder, op.getLoc(), input, empty, perm)->getResult(0);
    op.getInputsMutable().assign(transposed);
    op.setDimensions(dims);
    return op;
  }

  static bool isZero(Value value) {
    DenseElementsAttr constant = constantOf(value);
    return constant && constant.isSplat() && isa<FloatType>(constant.getElementType()) &&
           constant.getSplatValue<APFloat>().isZero();
  }

  LogicalResult formContract(linalg::ContractOp op) {
    arith::AddFOp sum = layouts.biasOf(op);
    OpResult result = cast<OpResult>(sum ? sum.getResult() : op->getResult(0));
    Value bias;
    if (sum)
      bias = sum.getLhs() == op->getResult(0) ? sum.getRhs() : sum.getLhs();
    if (!isZero(op->getOperand(2)))
      return formContractLoops(op, sum);
    for (unsigned i = 0; i < 2; ++i) {
      if (isIndexExpression(op->getOperand(i)))
        op->setOperand(i, store(op->getOperand(i), op));
      makeStrided(op->getOperand(i), op);
    }
    std::optional<GemmMatch> found = matchWithCopies(op, result, bias);
    if (!found)
      return formContractLoops(op, sum);
    builder.setInsertionPoint(sum ? sum.getOperation() : op.getOperation());
    SmallVector<Value> inputs{viewBase(op->getOperand(0)), viewBase(op->getOperand(1))};
    if (found->swapped)
      std::swap(inputs[0], inputs[1]);
    if (bias)
      inputs.push_back(viewBase(bias));
    Value stored = layouts.outer(result);
    std::string name = "gemm_" + dims({found->params.m, found->params.n, found->params.k});
    auto dispatched = dispatch(op, name, inputs, stored.getType(), [&](OpBuilder &inside, ValueRange arguments) {
      for (unsigned i = 0; i < 2; ++i) {
        IRMapping mapping;
        mapping.map(viewBase(op->getOperand(i)), arguments[found->swapped ? 1 - i : i]);
        operandValues.push_back(cloneValue(inside, op->getOperand(i), mapping));
      }
      IRMapping mapping;
      operandValues.push_back(cloneValue(inside, op->getOperand(2), mapping));
      if (!sum)
        return cloneRoot(inside, op, stored);
      SmallVector<Value> product = cloneRoot(inside, op, op->getResult(0));
      IRMapping after;
      after.map(op->getResult(0), product[0]);
      after.map(viewBase(bias), arguments[2]);
      return SmallVector<Value>{cloneValue(inside, stored, after)};
    });
    replace(op, stored, dispatched->getResults());
    return success();
  }

  /// Matches `op` as it is, else with a copy of A, of B, or of both in an order of dimensions that fits.
  std::optional<GemmMatch> matchWithCopies(linalg::ContractOp op, OpResult result, Value bias) {
    std::optional<StridedView> biasView, c = traceResult(result, layouts.outer(result));
    if (bias)
      biasView = traceView(bias);
    if (!c)
      return std::nullopt;
    const Value operands[] = {op->getOperand(0), op->getOperand(1)};
    const ArrayAttr maps = op.getIndexingMaps();
    for (unsigned copies = 0; copies < 4; ++copies) {
      StridedView views[2];
      for (unsigned i = 0; i < 2; ++i) {
        if (copies & (1 << i))
          permuteOperand(op, i, copies == 3);
        views[i] = copies & (1 << i) ? StridedView::whole(op->getOperand(i)) : *traceView(op->getOperand(i));
      }
      auto match = matchContract(op, views[0], views[1], *c, bias ? &*biasView : nullptr);
      if (match) {
        for (unsigned i = 0; i < 2; ++i)
          if (copies & (1 << i))
            op->setOperand(i, store(op->getOperand(i), op));
        return match;
      }
      op->setOperand(0, operands[0]);
      op->setOperand(1, operands[1]);
      op.setIndexingMapsAttr(maps);
    }
    return std::nullopt;
  }

  /// Transposes operand `index`: first the dimensions of the result in its order, then the reduced ones in the order of the other
  /// operand's strides (`both`: in that of the iteration space).
  void permuteOperand(linalg::ContractOp op, unsigned index, bool both) {
    SmallVector<AffineMap> maps = op.getIndexingMapsArray();
    AffineMap map = maps[index], other = maps[1 - index], result = maps[2];
    std::optional<StridedView> otherView = traceView(op->getOperand(1 - index));
    auto key = [&](int64_t position) -> std::pair<int, int64_t> {
      AffineExpr dim = map.getResult(position);
      if (auto at = result.getResultPosition(dim))
        return {0, *at};
      auto at = other.getResultPosition(dim);
      if (both || !at || !otherView)
        return {1, map.getDimPosition(position)};
      return {1, -otherView->strides[*at]};
    };
    SmallVector<int64_t> perm = llvm::to_vector(llvm::seq<int64_t>(0, map.getNumResults()));
    llvm::sort(perm, [&](int64_t a, int64_t b) { return key(a) != key(b) ? key(a) < key(b) : a < b; });
    Value value = op->getOperand(index);
    RankedTensorType type = typeOf(value);
    SmallVector<int64_t> shape;
    SmallVector<AffineExpr> results;
    for (int64_t position : perm) {
      shape.push_back(type.getDimSize(position));
      results.push_back(map.getResult(position));
    }
    Value empty = tensor::EmptyOp::create(builder, op.getLoc(), shape, type.getElementType());
    op->setOperand(index, linalg::TransposeOp::create(builder, op.getLoc(), value, empty, perm)->getResult(0));
    maps[index] = AffineMap::get(map.getNumDims(), 0, results, op.getContext());
    op.setIndexingMapsAttr(builder.getAffineMapArrayAttr(maps));
  }

  /// What is no matrix product (other types, sums over one operand alone) runs as compiled loops; its bias is a dispatch of its own.
  LogicalResult formContractLoops(linalg::ContractOp op, arith::AddFOp sum) {
    if (sum) {
      layouts.releaseBias(op);
      groups.addAlone(sum);
    }
    formRoot(op);
    return success();
  }

  /// What the function returns becomes buffers of its own.
  void formResults() {
    Operation *end = step.front().getTerminator();
    builder.setInsertionPoint(end);
    SmallPtrSet<Value, 16> seen;
    for (OpOperand &use : end->getOpOperands()) {
      Value value = use.get();
      if (!isa<RankedTensorType>(value.getType()))
        continue;
      auto argument = dyn_cast<BlockArgument>(value);
      bool donated = false;
      if (argument)
        if (auto donate = step.getArgAttrOfType<IntegerAttr>(argument.getArgNumber(), train::kDonateAttr))
          donated = donate.getInt() == int64_t(use.getOperandNumber());
      bool own = value.getDefiningOp<offload::DispatchOp>() || value.getDefiningOp<train::ScalarsOp>() || donated;
      if (own && seen.insert(value).second)
        continue;
      makeStrided(value, end);
      stored.erase(value); // Two results are two buffers.
      use.set(store(value, end));
      seen.insert(use.get());
    }
  }

  void eraseDead() {
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(step.front())))
      if (!op.hasTrait<OpTrait::IsTerminator>() && !isa<offload::DispatchOp, train::ScalarsOp>(op) && op.use_empty())
        op.erase();
  }

  func::FuncOp step;
  FunctionTable table;
  OpBuilder builder;
  DispatchLayouts layouts;
  ElementwiseGroups groups;
  DenseMap<Value, Value> stored;                        ///< view -> its contiguous copy
  SmallVector<Value> operandValues;
};

struct FormDispatches : forebay::impl::ForebayFormDispatchesBase<FormDispatches> {
  using Base::Base;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>(function);
    if (!step) {
      module.emitError() << "has no function '" << function << "'";
      return signalPassFailure();
    }
    if (!step.getBody().hasOneBlock()) {
      step.emitError() << "must have one block";
      return signalPassFailure();
    }
    if (failed(DispatchFormer(module, step).run()))
      return signalPassFailure();
    module->setAttr(offload::kPhaseAttr, StringAttr::get(&getContext(), "dispatch"));
  }
};

} // namespace
