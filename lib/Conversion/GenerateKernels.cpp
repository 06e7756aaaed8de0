//===- GenerateKernels.cpp - Code of compiled kernels ---------------------===//
//
// One function of the kernel interface (runtime/include/forebay/kernel_abi.h) for each compiled dispatch function: a range of rows
// of its loop nest by tile, then plain loops. Every load and store of an innermost loop is in one access group
// that the loop names as parallel, so that it is vectorised without checks for overlap also where a result takes
// over the buffer of an operand.
//
//===----------------------------------------------------------------------===//

#include "forebay/Conversion/KernelBuilder.h"
#include "forebay/Conversion/LoopNest.h"
#include "forebay/Conversion/Passes.h"
#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Dialect/Train/IR/StepAttrs.h"
#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/StringSet.h"

using namespace mlir;

namespace forebay {
#define GEN_PASS_DEF_FOREBAYGENERATEKERNELS
#include "forebay/Conversion/Passes.h.inc"
} // namespace forebay

using namespace forebay;

namespace {

/// Emits one loop nest for one tile.
class NestEmitter {
public:
  NestEmitter(KernelBuilder &kernel, const LoopNest &nest, ArrayRef<Value> pointers)
      : kernel(kernel), b(kernel.b), nest(nest), tiling(nest.tiling()), pointers(pointers), values(nest.nodes.size()),
        indices(nest.sizes.size()) {}

  void emit(Value tile) {
    for (unsigned node = 0; node < nest.nodes.size(); ++node)
      levels.push_back(levelOf(node));
    emitNodes(-1);
    Value perTile = kernel.i64(tiling.rowsPerTile);
    Value first = kernel.mul(tile, perTile);
    Value last = kernel.min(kernel.add(first, perTile), kernel.i64(tiling.rows));
    auto loop = scf::ForOp::create(b, first, last, kernel.i64(1));
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    splitRow(loop.getInductionVar());
    emitLevel(0);
  }

private:
  /// Loop level of a dimension: 0 for the rows, then one a dimension.
  int level(unsigned dim) const { return dim < tiling.inner ? 0 : int(dim - tiling.inner) + 1; }

  /// The innermost loop that a node changes in; -1 for none.
  int levelOf(unsigned index) {
    const ScalarNode &node = nest.nodes[index];
    int result = -1;
    for (unsigned operand : node.operands)
      result = std::max(result, levels[operand]);
    for (auto [dim, stride] : llvm::enumerate(node.access.strides))
      if (stride != 0)
        result = std::max(result, level(dim));
    return result;
  }

  void splitRow(Value row) {
    if (tiling.chunk) {
      int64_t chunks = (nest.sizes.back() + tiling.chunk - 1) / tiling.chunk;
      Value outer = arith::DivUIOp::create(b, row, kernel.i64(chunks));
      Value chunk = arith::RemUIOp::create(b, row, kernel.i64(chunks));
      chunkFirst = kernel.mul(chunk, kernel.i64(tiling.chunk));
      chunkLast = kernel.min(kernel.add(chunkFirst, kernel.i64(tiling.chunk)), kernel.i64(nest.sizes.back()));
      row = outer;
    }
    for (unsigned dim = tiling.inner; dim-- > 0;) {
      if (dim == 0) {
        indices[dim] = row;
        break;
      }
      Value size = kernel.i64(nest.sizes[dim]);
      indices[dim] = arith::RemUIOp::create(b, row, size);
      row = arith::DivUIOp::create(b, row, size);
    }
  }

  /// What belongs into the loop of `current`, then the loops inside.
  void emitLevel(int current) {
    emitNodes(current);
    unsigned dim = tiling.inner + current;
    if (dim == nest.numParallel())
      return nest.reduced ? emitReduction() : emitStores();
    bool cut = tiling.chunk && dim + 1 == nest.sizes.size();
    Value first = cut ? chunkFirst : kernel.i64(0), last = cut ? chunkLast : kernel.i64(nest.sizes[dim]);
    auto loop = scf::ForOp::create(b, first, last, kernel.i64(1));
    if (dim + 1 == nest.sizes.size())
      kernel.annotateParallel(loop);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    indices[dim] = loop.getInductionVar();
    emitLevel(current + 1);
  }

  /// Sequential loops over the reduced dimensions, the accumulator passed along.
  void emitReduction() {
    Value init = arith::ConstantOp::create(b, nest.init);
    Value result = emitReduced(nest.numParallel(), init);
    const LoopNest::Store &store = nest.stores.front();
    kernel.store(result, pointers[store.operand], linear(store.access), /*parallel=*/false);
  }

  Value emitReduced(unsigned dim, Value accumulator) {
    if (dim == nest.sizes.size()) {
      Value value = values[nest.stores.front().node];
      if (!nest.combiner)
        return isa<FloatType>(value.getType()) ? Value(arith::AddFOp::create(b, accumulator, value))
                                               : Value(arith::AddIOp::create(b, accumulator, value));
      Block *block = nest.combiner->getBlock();
      IRMapping mapping;
      mapping.map(block->getArgument(0), value);
      mapping.map(block->getArgument(1), accumulator);
      return b.clone(*nest.combiner, mapping)->getResult(0);
    }
    auto loop = scf::ForOp::create(b, kernel.i64(0), kernel.i64(nest.sizes[dim]), kernel.i64(1), accumulator);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(loop.getBody());
    indices[dim] = loop.getInductionVar();
    emitNodes(level(dim));
    Value result = emitReduced(dim + 1, loop.getRegionIterArg(0));
    scf::YieldOp::create(b, result);
    return loop.getResult(0);
  }

  void emitStores() {
    bool parallel = tiling.inner < nest.sizes.size();
    for (const LoopNest::Store &store : nest.stores)
      kernel.store(values[store.node], pointers[store.operand], linear(store.access), parallel);
  }

  /// offset + sum(index * stride)
  Value linear(const Access &access) {
    Value result = kernel.i64(access.offset);
    for (auto [dim, stride] : llvm::enumerate(access.strides))
      if (stride != 0)
        result = kernel.add(result, kernel.mul(indices[dim], kernel.i64(stride)));
    return result;
  }

  void emitNodes(int current) {
    for (unsigned index = 0; index < nest.nodes.size(); ++index)
      if (levels[index] == current)
        values[index] = emitNode(nest.nodes[index], current);
  }

  Value emitNode(const ScalarNode &node, int current) {
    bool innermost = current == level(nest.sizes.size() - 1) && nest.reduced == 0 && current > 0;
    switch (node.kind) {
    case ScalarNode::Load:
      return kernel.load(node.type, pointers[node.operand], linear(node.access), innermost);
    case ScalarNode::Table:
      return kernel.load(node.type, kernel.table(node.table), linear(node.access), innermost);
    case ScalarNode::Index:
      return kernel.add(kernel.i64(node.start), kernel.mul(kernel.i64(node.step), linear(node.access)));
    case ScalarNode::Constant:
      return arith::ConstantOp::create(b, node.constant);
    case ScalarNode::Product: {
      Value x = values[node.operands[0]], y = values[node.operands[1]];
      return isa<FloatType>(node.type) ? Value(arith::MulFOp::create(b, x, y)) : Value(arith::MulIOp::create(b, x, y));
    }
    case ScalarNode::Op:
      break;
    }
    SmallVector<Value> operands;
    for (unsigned operand : node.operands)
      operands.push_back(values[operand]);
    return kernel.scalarOp(node.op, operands, node.type);
  }

  KernelBuilder &kernel;
  ImplicitLocOpBuilder &b;
  const LoopNest &nest;
  LoopNest::Tiling tiling;
  ArrayRef<Value> pointers;
  SmallVector<Value> values;
  SmallVector<Value> indices;
  SmallVector<int> levels;
  Value chunkFirst, chunkLast;
};

struct GenerateKernels : forebay::impl::ForebayGenerateKernelsBase<GenerateKernels> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    OwningOpRef<ModuleOp> result = ModuleOp::create(module.getLoc());
    StringSet<> done;
    bool failedAny = false;
    for (auto function : module.getOps<func::FuncOp>()) {
      auto attr = function->getAttrOfType<offload::KernelAttr>(offload::kKernelAttr);
      if (attr && attr.getCompiled() && done.insert(attr.getName()).second)
        failedAny |= failed(generate(function, attr, *result));
    }
    for (auto optimizer : module.getOps<train::OptimizerOp>())
      failedAny |= failed(generateScalars(optimizer, *result));
    if (failedAny)
      return signalPassFailure();
    module.getBodyRegion().takeBody(result->getBodyRegion());
  }

private:
  LogicalResult generate(func::FuncOp function, offload::KernelAttr attr, ModuleOp result) {
    KernelBuilder kernel(result, attr.getName(), function.getLoc());
    for (train::UpdateOp update : function.getOps<train::UpdateOp>())
      return generateUpdate(kernel, update);
    SmallVector<LoopNest, 1> nests;
    std::string why;
    if (failed(buildLoopNests(function, nests, why)))
      return function.emitError() << "no code for kernel '" << attr.getName() << "': " << why;
    SmallVector<Value> pointers;
    unsigned operands = function.getNumArguments() + function.getNumResults();
    for (unsigned i = 0; i < operands; ++i)
      pointers.push_back(kernel.operand(i));
    // Tiles of the nests one after another.
    int64_t first = 0;
    for (const LoopNest &nest : nests) {
      int64_t tiles = nest.tiling().tiles();
      Value local = kernel.sub(kernel.tile, kernel.i64(first));
      OpBuilder::InsertionGuard guard(kernel.b);
      if (nests.size() > 1) {
        Value here = arith::CmpIOp::create(kernel.b, arith::CmpIPredicate::ult, local, kernel.i64(tiles));
        auto branch = scf::IfOp::create(kernel.b, here, /*withElseRegion=*/false);
        kernel.b.setInsertionPointToStart(branch.thenBlock());
        NestEmitter(kernel, nest, pointers).emit(local);
      } else {
        NestEmitter(kernel, nest, pointers).emit(local);
      }
      first += tiles;
    }
    return success();
  }

  /// Clones the straight-line body of `function` with `arguments`; returns what it returns.
  static FailureOr<SmallVector<Value>> inlineBody(KernelBuilder &kernel, func::FuncOp function, ValueRange arguments) {
    if (!function.getBody().hasOneBlock())
      return function.emitError() << "must have one block", failure();
    IRMapping mapping;
    mapping.map(function.getArguments(), arguments);
    for (Operation &op : function.front().without_terminator())
      kernel.b.clone(op, mapping);
    SmallVector<Value> results;
    for (Value value : function.front().getTerminator()->getOperands())
      results.push_back(mapping.lookupOrDefault(value));
    return results;
  }

  /// One loop over elements [first + tile * perTile, ...): operands parameter, gradient, states, scalars, verdict, then the new
  /// parameter and states. Where the verdict is not finite the results are the inputs.
  LogicalResult generateUpdate(KernelBuilder &kernel, train::UpdateOp update) {
    auto optimizer = cast<train::OptimizerOp>(SymbolTable::lookupNearestSymbolFrom(update, update.getOptimizerAttr()));
    auto definition = SymbolTable(optimizer).lookup<func::FuncOp>("update");
    unsigned states = update.getState().size(), scalars = definition.getNumArguments() - 2 - states;
    unsigned scalarsAt = 2 + states, verdictAt = 3 + states, resultsAt = 4 + states;
    Type f32 = kernel.b.getF32Type();
    SmallVector<Value> pointers, scalarValues;
    for (unsigned i = 0; i < resultsAt + 1 + states; ++i)
      pointers.push_back(kernel.operand(i));
    for (unsigned i = 0; i < scalars; ++i)
      scalarValues.push_back(kernel.load(f32, pointers[scalarsAt], kernel.i64(i), false));
    Value coefficient = kernel.load(f32, pointers[verdictAt], kernel.i64(1), false);
    Value finite = kernel.load(f32, pointers[verdictAt], kernel.i64(2), false);
    Value begin = kernel.param(0), count = kernel.param(1), perTile = kernel.param(2);
    Value first = kernel.add(begin, kernel.mul(kernel.tile, perTile));
    Value last = kernel.min(kernel.add(first, perTile), kernel.add(begin, count));
    auto &b = kernel.b;
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0));
    Value apply = arith::CmpFOp::create(b, arith::CmpFPredicate::UNE, finite, zero);
    auto branch = scf::IfOp::create(b, apply, /*withElseRegion=*/true);
    OpBuilder::InsertionGuard guard(b);

    b.setInsertionPointToStart(branch.thenBlock());
    auto loop = scf::ForOp::create(b, first, last, kernel.i64(1));
    kernel.annotateParallel(loop, /*interleave=*/2);
    b.setInsertionPointToStart(loop.getBody());
    Value index = loop.getInductionVar();
    SmallVector<Value> arguments;
    for (unsigned i = 0; i < 2 + states; ++i)
      arguments.push_back(kernel.load(f32, pointers[i], index, true));
    if (update.getAccumulate() != 1) {
      Value divisor = arith::ConstantOp::create(b, b.getF32FloatAttr(update.getAccumulate()));
      arguments[1] = arith::DivFOp::create(b, arguments[1], divisor);
    }
    arguments[1] = arith::MulFOp::create(b, arguments[1], coefficient);
    llvm::append_range(arguments, scalarValues);
    FailureOr<SmallVector<Value>> results = inlineBody(kernel, definition, arguments);
    if (failed(results))
      return failure();
    if (update->hasAttr(train::kKeepParameterAttr))
      results->front() = arguments.front();
    for (auto [i, value] : llvm::enumerate(*results))
      kernel.store(value, pointers[resultsAt + i], index, true);

    b.setInsertionPointToStart(branch.elseBlock());
    auto copy = scf::ForOp::create(b, first, last, kernel.i64(1));
    kernel.annotateParallel(copy);
    b.setInsertionPointToStart(copy.getBody());
    for (unsigned i = 0; i < 1 + states; ++i) {
      Value value = kernel.load(f32, pointers[i == 0 ? 0 : 1 + i], copy.getInductionVar(), true);
      kernel.store(value, pointers[resultsAt + i], copy.getInductionVar(), true);
    }
    return success();
  }

  /// `<optimizer>_scalars`, an fb_scalars_fn.
  LogicalResult generateScalars(train::OptimizerOp optimizer, ModuleOp result) {
    auto definition = SymbolTable(optimizer).lookup<func::FuncOp>("scalars");
    KernelBuilder kernel(result, (optimizer.getSymName() + "_scalars").str(), optimizer.getLoc(),
                         KernelBuilder::Signature::Scalars);
    SmallVector<Value> arguments{kernel.tile};
    for (unsigned i = 1; i < definition.getNumArguments(); ++i)
      arguments.push_back(kernel.load(kernel.b.getF64Type(), kernel.operands, kernel.i64(i - 1), false));
    FailureOr<SmallVector<Value>> results = inlineBody(kernel, definition, arguments);
    if (failed(results))
      return failure();
    for (auto [i, value] : llvm::enumerate(*results))
      kernel.store(value, kernel.params, kernel.i64(i), false);
    return success();
  }
};

} // namespace
