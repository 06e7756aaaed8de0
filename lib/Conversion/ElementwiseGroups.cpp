//===- ElementwiseGroups.cpp - Which operations share a kernel ------------===//

#include "ElementwiseGroups.h"

#include "forebay/Conversion/LoopNest.h"
#include "forebay/Dialect/Train/IR/Train.h"

using namespace mlir;
using namespace forebay;

static RankedTensorType typeOf(Value value) { return cast<RankedTensorType>(value.getType()); }
static ArrayRef<int64_t> shapeOf(Value value) { return typeOf(value).getShape(); }
static Attribute phaseOf(Operation *op) { return op->getAttr(train::kPhaseAttr); }

void ElementwiseGroups::addAlone(Operation *op) {
  groupOf[op] = op;
  anchorsOf[op] = membersOf[op] = {op};
}

/// Elementwise operations whose only uses are in one group, in the same phase, join it.
void ElementwiseGroups::form(function_ref<bool(Operation *)> isExcluded) {
  for (Operation &op : llvm::reverse(step.front())) {
    if (!isElementwise(&op) || isExcluded(&op) || isIndexExpression(op.getResult(0)))
      continue;
    groupOf[&op] = findGroup(&op);
    membersOf[groupOf[&op]].push_back(&op);
    if (groupOf[&op] == &op)
      shapes[&op].push_back(shapeOf(op.getResult(0)));
  }
  mergeGroups();
}

/// Groups that read the same large operand, or of which one reads the other's result, become one with several results, if nothing
/// between the two needs the result of the first.
void ElementwiseGroups::mergeGroups() {
  SmallVector<Operation *> anchors;
  for (Operation &op : step.front()) {
    if (groupOf.lookup(&op) != &op)
      continue;
    anchorsOf[&op].push_back(&op);
    // Look back a little: groups far apart would keep values alive for long.
    SmallVector<Operation *> recent(ArrayRef(anchors).take_back(8)); // merging changes `anchors`
    for (Operation *earlier : llvm::reverse(recent)) {
      if (!canMergeGroups(earlier, &op))
        continue;
      for (Operation *member : membersOf[earlier])
        groupOf[member] = &op;
      llvm::append_range(membersOf[&op], membersOf[earlier]);
      membersOf.erase(earlier);
      SmallVector<Operation *> merged = std::move(anchorsOf[earlier]);
      llvm::append_range(merged, anchorsOf[&op]);
      anchorsOf.erase(earlier);
      anchorsOf[&op] = merged;
      llvm::append_range(shapes[&op], shapes[earlier]);
      llvm::erase(anchors, earlier);
    }
    anchors.push_back(&op);
  }
}

bool ElementwiseGroups::canMergeGroups(Operation *earlier, Operation *later) {
  if (phaseOf(earlier) != phaseOf(later) ||
      typeOf(earlier->getResult(0)).getNumElements() != typeOf(later->getResult(0)).getNumElements() ||
      typeOf(later->getResult(0)).getNumElements() < 1024)
    return false;
  SmallVector<ArrayRef<int64_t>> all = shapes[earlier];
  llvm::append_range(all, shapes[later]);
  if (!haveCommonRefinement(all))
    return false;
  bool reads = false;
  for (Operation *anchor : anchorsOf[earlier])
    if (!usedAfter(anchor->getResult(0), later, reads))
      return false;
  return reads || shareOperand(earlier, later);
}

/// Whether every use of `value` (through reshapes: in the nest of `later`) is in the group of `later` or behind it.
bool ElementwiseGroups::usedAfter(Value value, Operation *later, bool &reads) {
  for (Operation *user : value.getUsers()) {
    if (isReshapeOp(user)) {
      if (!usedAfter(user->getResult(0), later, reads))
        return false;
      continue;
    }
    if (groupOf.lookup(user) == later) {
      reads = true;
      continue;
    }
    if (isViewOp(user)) {
      // Another view of it: only what comes later may read the stored result.
      for (Operation *viewer : user->getResult(0).getUsers())
        if (isViewOp(viewer) || !later->isBeforeInBlock(viewer))
          return false;
      continue;
    }
    if (!later->isBeforeInBlock(user))
      return false;
  }
  return true;
}

bool ElementwiseGroups::shareOperand(Operation *a, Operation *b) {
  auto operandsOf = [&](Operation *anchor) {
    SmallPtrSet<Value, 8> operands;
    for (Operation *member : membersOf[anchor])
      for (Value operand : member->getOperands())
        if (auto type = dyn_cast<RankedTensorType>(operand.getType()))
          if (type.getNumElements() == typeOf(anchor->getResult(0)).getNumElements() && !isIndexExpression(operand))
            operands.insert(viewBase(operand));
    return operands;
  };
  SmallPtrSet<Value, 8> first = operandsOf(a), second = operandsOf(b);
  return llvm::any_of(first, [&](Value value) { return second.contains(value); });
}

/// The anchor (last operation) of the group that `op` joins: itself for a new one.
Operation *ElementwiseGroups::findGroup(Operation *op) {
  Operation *anchor = nullptr;
  SmallVector<ArrayRef<int64_t>> through{shapeOf(op->getResult(0))};
  if (layouts.outer(cast<OpResult>(op->getResult(0))) != op->getResult(0) || !collectUsers(op->getResult(0), anchor, through) || !anchor ||
      phaseOf(anchor) != phaseOf(op))
    return op;
  SmallVector<ArrayRef<int64_t>> all = shapes[anchor];
  llvm::append_range(all, through);
  if (!haveCommonRefinement(all))
    return op;
  shapes[anchor] = all;
  return anchor;
}

/// Whether all uses of `value`, through reshapes, are in one group.
bool ElementwiseGroups::collectUsers(Value value, Operation *&anchor, SmallVectorImpl<ArrayRef<int64_t>> &through) {
  for (Operation *user : value.getUsers()) {
    if (isReshapeOp(user)) {
      through.push_back(shapeOf(user->getResult(0)));
      if (!collectUsers(user->getResult(0), anchor, through))
        return false;
      continue;
    }
    Operation *group = groupOf.lookup(user);
    if (!group || (anchor && group != anchor))
      return false;
    anchor = group;
  }
  return true;
}
