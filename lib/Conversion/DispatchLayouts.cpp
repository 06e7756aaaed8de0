//===- DispatchLayouts.cpp - In which layout results are stored -----------===//

#include "DispatchLayouts.h"

#include "forebay/Conversion/LoopNest.h"
#include "forebay/Conversion/MatchContract.h"
#include "forebay/Conversion/RootOps.h"

#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Dialect/Utils/IndexingUtils.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace forebay;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }

void DispatchLayouts::assign() {
  absorbLayouts();
  absorbBiases();
}

Value DispatchLayouts::outer(OpResult result) const {
  Value value = outerOf.lookup(result);
  return value ? value : Value(result);
}

void DispatchLayouts::releaseBias(Operation *op) {
  consumed.erase(biases.lookup(op));
  biases.erase(op);
}

/// The view that undoes `op`, applied to `value`.
Value DispatchLayouts::invert(Operation *op, Value value) {
  Type type = viewSource(op).getType();
  if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
    Value empty = tensor::EmptyOp::create(builder, op->getLoc(), cast<RankedTensorType>(type).getShape(),
                                          cast<RankedTensorType>(type).getElementType());
    auto perm = invertPermutationVector(transpose.getPermutation());
    return linalg::TransposeOp::create(builder, op->getLoc(), value, empty, perm)->getResult(0);
  }
  if (auto collapse = dyn_cast<tensor::CollapseShapeOp>(op))
    return tensor::ExpandShapeOp::create(builder, op->getLoc(), type, value, collapse.getReassociationIndices());
  auto expand = cast<tensor::ExpandShapeOp>(op);
  return tensor::CollapseShapeOp::create(builder, op->getLoc(), type, value, expand.getReassociationIndices());
}

/// Makes `chain`, bijective views one after another of `result`, the layout in which `result` is stored; every other use
/// reads it through the inverse views.
void DispatchLayouts::absorb(OpResult result, ArrayRef<Operation *> chain) {
  builder.setInsertionPointAfter(result.getOwner());
  SmallVector<Value> stages{result};
  SmallVector<Operation *> clones;
  for (Operation *op : chain) {
    IRMapping mapping;
    mapping.map(viewSource(op), stages.back());
    if (auto transpose = dyn_cast<linalg::TransposeOp>(op)) {
      RankedTensorType type = typeOf(op->getResult(0));
      mapping.map(transpose.getInit(),
                  tensor::EmptyOp::create(builder, op->getLoc(), type.getShape(), type.getElementType()).getResult());
    }
    clones.push_back(builder.clone(*op, mapping));
    stages.push_back(clones.back()->getResult(0));
  }
  Value outer = stages.back();
  chain.back()->getResult(0).replaceAllUsesWith(outer);
  Value inverse = outer;
  for (unsigned i = chain.size(); i-- > 0;) {
    Value old = i == 0 ? Value(result) : chain[i - 1]->getResult(0);
    bool used = llvm::any_of(old.getUsers(), [&](Operation *user) { return user != chain[i] && user != clones[i]; });
    if (!used && i == 0)
      break;
    inverse = invert(clones[i], inverse);
    old.replaceUsesWithIf(inverse,
                          [&](OpOperand &use) { return use.getOwner() != chain[i] && use.getOwner() != clones[i]; });
  }
  for (Operation *op : llvm::reverse(chain))
    op->erase();
  outerOf[result] = outer;
}

/// The only use of `value` if it is a bijective view, and so on.
static SmallVector<Operation *> singleUseChain(Value value) {
  SmallVector<Operation *> chain;
  while (value.hasOneUse() && isBijectiveViewOp(*value.user_begin()) &&
         viewSource(*value.user_begin()) == value) {
    chain.push_back(*value.user_begin());
    value = chain.back()->getResult(0);
  }
  return chain;
}

void DispatchLayouts::absorbLayouts() {
  SmallVector<Operation *> ops;
  for (Operation &op : step.front())
    if (!isViewOp(&op)) // Views are erased on the way.
      ops.push_back(&op);
  for (Operation *op : ops) {
    if (auto contract = dyn_cast<linalg::ContractOp>(op)) {
      absorbContract(contract);
      continue;
    }
    for (OpResult result : op->getResults()) {
      if (!acceptsStridedResult(result))
        continue;
      for (Operation *user : result.getUsers()) {
        auto transpose = dyn_cast<linalg::TransposeOp>(user);
        if (transpose && transpose.getInput() == result && transpose.getPermutation().back() + 1 == typeOf(result).getRank()) {
          absorb(result, {user});
          break;
        }
      }
    }
  }
  absorbReturned();
}

/// A transposed weight gradient is computed transposed.
void DispatchLayouts::absorbContract(linalg::ContractOp op) {
  OpResult result = op->getResult(0);
  SmallVector<Operation *> chain = singleUseChain(result);
  while (!chain.empty() && !isa<linalg::TransposeOp>(chain.back()))
    chain.pop_back();
  if (chain.empty())
    return;
  std::optional<StridedView> a = traceView(op->getOperand(0)), b = traceView(op->getOperand(1)),
                             c = traceResult(result, chain.back()->getResult(0));
  if (!a || !b || !c)
    return;
  auto plain = matchContract(op, *a, *b, StridedView::whole(result)), strided = matchContract(op, *a, *b, *c);
  if (strided && (!plain || plain->batches() == strided->batches()))
    absorb(result, chain);
}

/// Results of the function that are reshapes of an operation's result are stored in that shape.
void DispatchLayouts::absorbReturned() {
  Operation *end = step.front().getTerminator();
  for (unsigned i = 0; i < end->getNumOperands(); ++i) {
    Value value = end->getOperand(i);
    SmallVector<Operation *> chain;
    Value root = value;
    bool reshapesOnly = true;
    while (isBijectiveViewOp(root.getDefiningOp())) {
      chain.push_back(root.getDefiningOp());
      reshapesOnly &= isReshapeOp(root.getDefiningOp());
      root = viewSource(root.getDefiningOp());
    }
    auto result = dyn_cast<OpResult>(root);
    if (chain.empty() || !result || outerOf.contains(result) || isIndexExpression(root))
      continue;
    if (isViewOp(result.getOwner()) || (!reshapesOnly && !isElementwise(result.getOwner())))
      continue;
    std::reverse(chain.begin(), chain.end());
    absorb(result, chain);
  }
}

/// x w^T + b: the sum is rounded, then b is added, in one kernel.
void DispatchLayouts::absorbBiases() {
  for (auto op : step.getOps<linalg::ContractOp>()) {
    Value result = op->getResult(0);
    if (!result.hasOneUse() || outerOf.contains(result))
      continue;
    auto sum = dyn_cast<arith::AddFOp>(*result.user_begin());
    // Two products of one row each are each other's bias: the first takes the sum.
    if (!sum || consumed.contains(sum))
      continue;
    Value other = sum.getLhs() == result ? sum.getRhs() : sum.getLhs();
    std::optional<StridedView> bias = traceView(other), a = traceView(op->getOperand(0)), b = traceView(op->getOperand(1));
    if (!bias || !a || !b || isIndexExpression(bias->base) || bias->offset != 0 || other == result)
      continue;
    // The whole bias is one row: else it is a matrix of its own, which a fused elementwise kernel adds as well.
    StridedView c = StridedView::whole(result);
    if (auto view = traceResult(sum.getResult(), outer(sum->getResult(0))))
      c = *view;
    auto match = matchContract(op, *a, *b, c, &*bias);
    if (!match || typeOf(bias->base).getNumElements() != match->params.n)
      continue;
    biases[op] = sum;
    consumed.insert(sum);
  }
}
