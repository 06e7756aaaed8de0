//===- CentralizeGradients.cpp - g - mean(g) for chosen parameters --------===//

#include "Passes.h"

#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Support/Regex.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
namespace train = forebay::train;

namespace example {
#define GEN_PASS_DEF_CENTRALIZEGRADIENTS
#include "Passes.h.inc"
} // namespace example

namespace {

/// What backward computed for the parameter of `update`: before it was accumulated.
Value microStepGradient(train::UpdateOp update) {
  Value gradient = update.getGrad();
  if (auto accumulate = gradient.getDefiningOp<train::AccumulateOp>())
    return accumulate.getGrad();
  return gradient;
}

/// `gradient - mean(gradient, axis)`, behind the operation that makes `gradient`.
Value centralize(Value gradient, int64_t axis) {
  auto type = cast<RankedTensorType>(gradient.getType());
  OpBuilder b(gradient.getContext());
  b.setInsertionPointAfterValue(gradient);
  Location loc = gradient.getLoc();
  SmallVector<int64_t> shape(type.getShape());
  int64_t size = shape[axis];
  shape.erase(shape.begin() + axis);

  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(type.getElementType()));
  Value empty = tensor::EmptyOp::create(b, loc, shape, type.getElementType());
  Value start = linalg::FillOp::create(b, loc, zero, empty).getResult(0);
  auto sum = linalg::ReduceOp::create(b, loc, gradient, start, axis, [](OpBuilder &b, Location loc, ValueRange args) {
    linalg::YieldOp::create(b, loc, arith::AddFOp::create(b, loc, args[0], args[1]).getResult());
  });
  auto meanType = cast<RankedTensorType>(sum->getResult(0).getType());
  auto scale = DenseElementsAttr::get(meanType, b.getFloatAttr(type.getElementType(), 1.0 / size));
  Value mean = arith::MulFOp::create(b, loc, sum->getResult(0), arith::ConstantOp::create(b, loc, scale));
  Value whole = tensor::EmptyOp::create(b, loc, type.getShape(), type.getElementType());
  Value everywhere = linalg::BroadcastOp::create(b, loc, mean, whole, axis)->getResult(0);
  Value result = arith::SubFOp::create(b, loc, gradient, everywhere);

  // All of it belongs to backward, as the gradient does.
  Attribute phase = train::PhaseAttr::get(b.getContext(), train::Phase::Backward);
  for (Operation *op = result.getDefiningOp(); op != gradient.getDefiningOp() && op; op = op->getPrevNode())
    if (!op->hasTrait<OpTrait::ConstantLike>())
      op->setAttr(train::kPhaseAttr, phase);
  return result;
}

struct CentralizeGradients : example::impl::CentralizeGradientsBase<CentralizeGradients> {
  using Base::Base;

  void runOnOperation() override {
    std::string problem;
    auto regex = forebay::Regex::compile(parameters, problem);
    if (!regex) {
      getOperation().emitError() << "parameters=" << parameters << " is not a regular expression: " << problem;
      return signalPassFailure();
    }
    auto step = getOperation().lookupSymbol<func::FuncOp>("step");
    SmallVector<train::UpdateOp> updates;
    if (step)
      llvm::append_range(updates, step.getOps<train::UpdateOp>());
    if (updates.empty()) {
      getOperation().emitError("has no @step with updates: run this pass at the end of phase train");
      return signalPassFailure();
    }
    for (train::UpdateOp update : updates)
      visit(step, update, *regex);
  }

private:
  void visit(func::FuncOp step, train::UpdateOp update, const forebay::Regex &regex) {
    auto argument = dyn_cast<BlockArgument>(update.getParameter());
    auto name = argument ? step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), train::kNameAttr) : StringAttr();
    if (!name || !regex.search(name.getValue()))
      return;
    Value gradient = microStepGradient(update);
    if (cast<RankedTensorType>(gradient.getType()).getRank() <= axis) {
      emitRemark(update.getLoc()) << "'" << name.getValue() << "' has no axis " << int64_t(axis) << ": its gradient is not centralised";
      return;
    }
    Value centralized = centralize(gradient, axis);
    // Whatever else reads the gradient (another gradient, an output) keeps what it had.
    gradient.replaceUsesWithIf(centralized, [](OpOperand &use) {
      return isa<train::AccumulateOp, train::NormPartialsOp, train::UpdateOp>(use.getOwner());
    });
    emitRemark(update.getLoc()) << "the gradient of '" << name.getValue() << "' is centralised over axis " << int64_t(axis);
  }
};

} // namespace
