//===- Differentiate.cpp - Derives the backward part of a step ------------===//
//
// Reverse mode over the one block of @forward. Three walks:
//  1. forward: which values depend on a trainable parameter (`active`);
//  2. backward: which active operations lead to the loss; those without GradientOpInterface are errors, all at once;
//  3. backward: gradients, built behind the forward operations and summed at each value in the order of its uses.
//
//===----------------------------------------------------------------------===//

#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/MapVector.h"

namespace forebay {
#define GEN_PASS_DEF_TRAINDIFFERENTIATE
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;
using namespace forebay::train;

namespace {

/// `"node.grad"("scope")` for an operation at `"node"("scope")`: reports on gradients still name node and scope.
Location gradientLoc(Location loc) {
  if (auto name = dyn_cast<NameLoc>(loc))
    return NameLoc::get(StringAttr::get(loc.getContext(), name.getName().getValue() + ".grad"), name.getChildLoc());
  return NameLoc::get(StringAttr::get(loc.getContext(), "grad"), loc);
}

bool isFloatTensor(Value value) { return isa<FloatType>(getElementTypeOrSelf(value.getType())); }

class Differentiator {
public:
  Differentiator(func::FuncOp func)
      : func(func), block(func.getBody().front()), builder(block.getTerminator()), loc(func.getLoc()) {}

  /// Builds the backward part for the loss, result `lossIndex`.
  LogicalResult run(unsigned lossIndex);

  /// The gradient of an argument, or null.
  Value gradientOf(BlockArgument argument) const { return argumentGradients.lookup(argument); }

private:
  /// A gradient that is zero outside of a window of its value: what the gradient of a slice is.
  struct Piece {
    Value value;
    SmallVector<int64_t> offsets;
    ArrayRef<int64_t> sizes() const { return cast<RankedTensorType>(value.getType()).getShape(); }
  };
  struct Gradient {
    Value dense;
    SmallVector<Piece> pieces;
  };

  void findActive();
  LogicalResult checkInterfaces(Value loss);
  LogicalResult visit(Operation *op);
  void addGradient(Value value, Value gradient);
  /// The sum of what has reached `value`; consumes it.
  Value sum(Value value);
  /// All pieces as one tensor of type `type`.
  Value assemble(RankedTensorType type, SmallVectorImpl<Piece> &pieces);
  Value zeros(ArrayRef<int64_t> shape, Type element);
  Value padded(RankedTensorType type, const Piece &piece);

  func::FuncOp func;
  Block &block;
  OpBuilder builder;
  Location loc;
  DenseSet<Value> active;
  DenseMap<Value, Gradient> gradients;
  DenseMap<Value, Value> argumentGradients;
};

void Differentiator::findActive() {
  for (BlockArgument argument : block.getArguments())
    if (func.getArgAttr(argument.getArgNumber(), kTrainableAttr) && isFloatTensor(argument))
      active.insert(argument);
  auto isActive = [&](Value value) { return active.contains(value); };
  for (Operation &op : block.without_terminator()) {
    if (isa<DetachOp>(op))
      continue;
    // Regions may read values from outside: such an operation depends on them too.
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op.getRegions(), captured);
    if (llvm::any_of(op.getOperands(), isActive) || llvm::any_of(captured, isActive))
      for (Value result : op.getResults())
        if (isFloatTensor(result))
          active.insert(result);
  }
}

LogicalResult Differentiator::checkInterfaces(Value loss) {
  DenseSet<Value> wanted{loss};
  llvm::MapVector<OperationName, SmallVector<Operation *>> missing;
  for (Operation &op : llvm::reverse(block.without_terminator())) {
    if (llvm::none_of(op.getResults(), [&](Value v) { return wanted.contains(v) && active.contains(v); }))
      continue;
    for (Value operand : op.getOperands())
      wanted.insert(operand);
    llvm::SetVector<Value> captured;
    getUsedValuesDefinedAbove(op.getRegions(), captured);
    wanted.insert(captured.begin(), captured.end());
    if (!isa<GradientOpInterface>(op) || llvm::any_of(captured, [&](Value v) { return active.contains(v); }))
      missing[op.getName()].push_back(&op);
  }
  for (auto &[name, ops] : missing) {
    Operation *first = ops.back();
    InFlightDiagnostic diag = first->emitError()
                              << "'" << name << "' has no gradient, but lies on a path from a trainable parameter to "
                              << "the loss";
    if (ops.size() > 1)
      diag << " (" << ops.size() << " operations)";
    constexpr size_t kShown = 8;
    for (Operation *op : llvm::reverse(ArrayRef(ops).drop_back().take_back(kShown)))
      diag.attachNote(op->getLoc()) << "also here";
    diag.attachNote() << "freeze the parameters before it, stop the gradient with train.detach, or give '" << name
                      << "' an external model of GradientOpInterface";
  }
  return success(missing.empty());
}

Value Differentiator::zeros(ArrayRef<int64_t> shape, Type element) {
  auto type = RankedTensorType::get(shape, element);
  return arith::ConstantOp::create(builder, loc, type, builder.getZeroAttr(type));
}

Value Differentiator::padded(RankedTensorType type, const Piece &piece) {
  SmallVector<OpFoldResult> low, high;
  for (auto [size, offset, length] : llvm::zip(type.getShape(), piece.offsets, piece.sizes())) {
    low.push_back(builder.getIndexAttr(offset));
    high.push_back(builder.getIndexAttr(size - offset - length));
  }
  Value zero = arith::ConstantOp::create(builder, loc, builder.getZeroAttr(type.getElementType()));
  return tensor::PadOp::create(builder, loc, type, piece.value, low, high, zero);
}

Value Differentiator::assemble(RankedTensorType type, SmallVectorImpl<Piece> &pieces) {
  // Equal windows first: their sum is no larger than they are.
  SmallVector<Piece> distinct;
  for (Piece &piece : pieces) {
    auto *same = llvm::find_if(distinct, [&](const Piece &other) {
      return other.offsets == piece.offsets && other.sizes() == piece.sizes();
    });
    if (same == distinct.end())
      distinct.push_back(std::move(piece));
    else
      same->value = arith::AddFOp::create(builder, loc, same->value, piece.value);
  }

  // Disjoint windows that are cut along one axis become a concatenation, with zeros in the gaps.
  std::optional<int64_t> axis;
  bool oneAxis = distinct.size() > 1;
  for (const Piece &piece : distinct)
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      if (piece.sizes()[dim] != type.getDimSize(dim)) {
        oneAxis &= !axis || *axis == dim;
        axis = dim;
      }
  if (oneAxis && axis) {
    llvm::sort(distinct, [&](const Piece &a, const Piece &b) {
      return std::pair(a.offsets[*axis], a.sizes()[*axis]) < std::pair(b.offsets[*axis], b.sizes()[*axis]);
    });
    SmallVector<Value> parts;
    SmallVector<int64_t> shape(type.getShape());
    int64_t end = 0;
    bool disjoint = true;
    auto fillUpTo = [&](int64_t offset) {
      if (offset == end)
        return;
      shape[*axis] = offset - end;
      parts.push_back(zeros(shape, type.getElementType()));
    };
    for (const Piece &piece : distinct) {
      disjoint &= piece.offsets[*axis] >= end;
      if (!disjoint)
        break;
      fillUpTo(piece.offsets[*axis]);
      parts.push_back(piece.value);
      end = piece.offsets[*axis] + piece.sizes()[*axis];
    }
    if (disjoint) {
      fillUpTo(type.getDimSize(*axis));
      return tensor::ConcatOp::create(builder, loc, type, *axis, parts);
    }
  }

  Value total;
  for (const Piece &piece : distinct) {
    Value whole = padded(type, piece);
    total = total ? arith::AddFOp::create(builder, loc, total, whole).getResult() : whole;
  }
  return total;
}

Value Differentiator::sum(Value value) {
  auto it = gradients.find(value);
  if (it == gradients.end())
    return {};
  Gradient gradient = std::move(it->second);
  gradients.erase(it);
  loc = gradientLoc(value.getLoc());
  if (gradient.pieces.empty())
    return gradient.dense;
  Value whole = assemble(cast<RankedTensorType>(value.getType()), gradient.pieces);
  return gradient.dense ? arith::AddFOp::create(builder, loc, gradient.dense, whole).getResult() : whole;
}

void Differentiator::addGradient(Value value, Value gradient) {
  assert(gradient.getType() == value.getType() && "a gradient has the type of its value");
  Gradient &entry = gradients[value];
  auto pad = gradient.getDefiningOp<tensor::PadOp>();
  // A pad that the model has just made is kept as a window; its operation is dead and goes at the end.
  if (pad && pad->use_empty() && pad.getConstantPaddingValue() &&
      matchPattern(pad.getConstantPaddingValue(), m_AnyZeroFloat()) &&
      llvm::all_of(llvm::concat<const int64_t>(pad.getStaticLow(), pad.getStaticHigh()),
                   [](int64_t size) { return size >= 0; })) {
    entry.pieces.push_back({pad.getSource(), SmallVector<int64_t>(pad.getStaticLow())});
    return;
  }
  // Summed at once, so that at most one gradient of a value is alive.
  if (entry.dense)
    gradient = arith::AddFOp::create(builder, gradientLoc(value.getLoc()), entry.dense, gradient);
  entry.dense = gradient;
}

LogicalResult Differentiator::visit(Operation *op) {
  SmallVector<Value> resultGrads;
  bool reached = false;
  for (Value result : op->getResults()) {
    resultGrads.push_back(sum(result));
    reached |= bool(resultGrads.back());
  }
  SmallVector<bool> needs;
  for (Value operand : op->getOperands())
    needs.push_back(active.contains(operand));
  if (!reached || !llvm::is_contained(needs, true))
    return success();

  Operation *before = block.getTerminator()->getPrevNode();
  SmallVector<Value> operandGrads(op->getNumOperands());
  if (failed(cast<GradientOpInterface>(op).buildGradient(builder, resultGrads, needs, operandGrads)))
    return failure();
  Location gradLoc = gradientLoc(op->getLoc());
  for (Operation *made = before->getNextNode(); made != block.getTerminator(); made = made->getNextNode())
    made->walk([&](Operation *inner) { inner->setLoc(gradLoc); });
  for (auto [operand, gradient, needed] : llvm::zip(op->getOperands(), operandGrads, needs))
    if (needed && gradient)
      addGradient(operand, gradient);
  return success();
}

LogicalResult Differentiator::run(unsigned lossIndex) {
  Value loss = block.getTerminator()->getOperand(lossIndex);
  findActive();
  if (failed(checkInterfaces(loss)))
    return failure();
  SmallVector<Operation *> forward;
  for (Operation &op : block.without_terminator())
    forward.push_back(&op);
  if (!active.contains(loss))
    return success();

  auto type = cast<RankedTensorType>(loss.getType());
  loc = gradientLoc(loss.getLoc());
  Value seed = arith::ConstantOp::create(
      builder, loc, DenseElementsAttr::get(type, builder.getFloatAttr(type.getElementType(), 1.0)));
  addGradient(loss, seed);
  bool ok = true;
  for (Operation *op : llvm::reverse(forward))
    ok &= succeeded(visit(op));
  for (BlockArgument argument : block.getArguments())
    if (Value gradient = sum(argument))
      argumentGradients[argument] = gradient;

  MLIRContext *context = func.getContext();
  auto tag = [&](Operation *op, Phase phase) {
    if (!op->hasTrait<OpTrait::ConstantLike>())
      op->setAttr(kPhaseAttr, PhaseAttr::get(context, phase));
  };
  for (Operation *op : forward)
    tag(op, Phase::Forward);
  for (Operation *op = forward.empty() ? &block.front() : forward.back()->getNextNode(); op != block.getTerminator();
       op = op->getNextNode())
    tag(op, Phase::Backward);
  return success(ok);
}

//===----------------------------------------------------------------------===//
// The pass
//===----------------------------------------------------------------------===//

/// The result that is the loss, after an error if there is not exactly one that fits.
FailureOr<unsigned> findLoss(func::FuncOp func) {
  SmallVector<unsigned> found;
  for (unsigned i = 0; i < func.getNumResults(); ++i)
    if (auto role = func.getResultAttrOfType<RoleAttr>(i, kRoleAttr); role && role.getValue() == Role::Loss)
      found.push_back(i);
  if (found.size() != 1) {
    emitError(func.getLoc()) << "needs one result with the role loss, has " << found.size();
    return failure();
  }
  auto type = dyn_cast<RankedTensorType>(func.getResultTypes()[found.front()]);
  if (!type || !isa<FloatType>(type.getElementType()) || !type.hasStaticShape() || type.getNumElements() != 1) {
    emitError(func.getLoc()) << "the loss must be one floating-point number, not " << func.getResultTypes()[found.front()];
    return failure();
  }
  return found.front();
}

StringRef argumentName(func::FuncOp func, unsigned index) {
  auto name = func.getArgAttrOfType<StringAttr>(index, kNameAttr);
  return name ? name.getValue() : "";
}

/// Replaces detached values and erases operations without uses.
void cleanUp(Block &block) {
  for (Operation *op = block.getTerminator()->getPrevNode(); op;) {
    Operation *previous = op->getPrevNode();
    if (auto detach = dyn_cast<DetachOp>(op))
      detach.getResult().replaceAllUsesWith(detach.getInput());
    if (isOpTriviallyDead(op))
      op->erase();
    op = previous;
  }
}

struct TrainDifferentiatePass : forebay::impl::TrainDifferentiateBase<TrainDifferentiatePass> {
  void runOnOperation() override {
    auto func = getOperation().lookupSymbol<func::FuncOp>("forward");
    if (!func || func.isExternal()) {
      getOperation().emitError() << "has no function @forward to differentiate";
      return signalPassFailure();
    }
    if (!func.getBody().hasOneBlock()) {
      emitError(func.getLoc()) << "must have one block to be differentiated";
      return signalPassFailure();
    }
    FailureOr<unsigned> loss = findLoss(func);
    if (failed(loss) || failed(differentiate(func, *loss)))
      return signalPassFailure();
    func.setName("step");
  }

  LogicalResult differentiate(func::FuncOp func, unsigned lossIndex) {
    Block &block = func.getBody().front();
    SmallVector<unsigned> trainable, reached, unreached;
    for (unsigned i = 0; i < func.getNumArguments(); ++i)
      if (func.getArgAttr(i, kTrainableAttr))
        trainable.push_back(i);
    if (trainable.empty())
      return emitError(func.getLoc()) << "no parameter is trainable";

    Differentiator differentiator(func);
    if (failed(differentiator.run(lossIndex)))
      return failure();
    SmallVector<Value> gradients;
    for (unsigned i : trainable) {
      Value gradient = differentiator.gradientOf(block.getArgument(i));
      (gradient ? reached : unreached).push_back(i);
      if (gradient)
        gradients.push_back(gradient);
    }
    if (reached.empty())
      return emitError(func.getLoc()) << "no differentiable path joins any of the " << trainable.size()
                              << " trainable parameters to the loss";
    reportUnreached(func, unreached);

    MLIRContext *context = &getContext();
    Operation *terminator = block.getTerminator();
    unsigned first = func.getNumResults();
    terminator->insertOperands(first, gradients);
    SmallVector<Type> results(func.getResultTypes());
    llvm::append_range(results, ValueRange(gradients).getTypes());
    func.setType(FunctionType::get(context, func.getArgumentTypes(), results));
    for (auto [offset, index] : llvm::enumerate(reached)) {
      func.setResultAttr(first + offset, kNameAttr, StringAttr::get(context, argumentName(func, index)));
      func.setResultAttr(first + offset, kRoleAttr, RoleAttr::get(context, Role::Gradient));
    }
    cleanUp(block);
    return success();
  }

  /// Such a parameter is left alone for good: not even weight decay touches it.
  void reportUnreached(func::FuncOp func, ArrayRef<unsigned> unreached) {
    if (unreached.empty())
      return;
    InFlightDiagnostic diag = emitWarning(func.getLoc())
                              << unreached.size() << " trainable parameter(s) without a differentiable path to the "
                              << "loss stay as they are";
    for (unsigned index : unreached) {
      diag.attachNote(func.getArgument(index).getLoc()) << "'" << argumentName(func, index) << "'";
      func.removeArgAttr(index, kTrainableAttr);
      func.setArgAttr(index, kNoGradientAttr, UnitAttr::get(&getContext()));
    }
  }
};

} // namespace
