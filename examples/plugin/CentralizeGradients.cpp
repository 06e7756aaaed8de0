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

/// Where the gradient of the parameter of `update` enters the step: at its accumulator, else at the update.
OpOperand &gradientOperand(train::UpdateOp update) {
  if (auto accumulate = update.getGrad().getDefiningOp<train::AccumulateOp>())
    return accumulate.getGradMutable();
  return update.getGradMutable();
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
    for (auto [i, update] : llvm::enumerate(updates))
      visit(step, update, i, *regex);
  }

private:
  /// `index`: number of the parameter among those that are updated; the verdict takes their partial sums in the same order.
  void visit(func::FuncOp step, train::UpdateOp update, unsigned index, const forebay::Regex &regex) {
    auto argument = dyn_cast<BlockArgument>(update.getParameter());
    auto name = argument ? step.getArgAttrOfType<StringAttr>(argument.getArgNumber(), train::kNameAttr) : StringAttr();
    if (!name || !regex.search(name.getValue()))
      return;
    OpOperand &use = gradientOperand(update);
    Value gradient = use.get();
    if (cast<RankedTensorType>(gradient.getType()).getRank() <= axis) {
      emitRemark(update.getLoc()) << "'" << name.getValue() << "' has no axis " << int64_t(axis) << ": its gradient is not centralised";
      return;
    }
    Value centralized = centralize(gradient, axis);
    use.set(centralized);
    // Whatever else reads the gradient keeps what it had: an output, or a parameter with an equal gradient, which shares its partial sums.
    auto verdict = update.getVerdict().getDefiningOp<train::VerdictOp>();
    OpOperand &partials = verdict.getPartialsMutable()[index];
    auto norm = partials.get().getDefiningOp<train::NormPartialsOp>();
    if (norm.getGrad() == gradient) {
      OpBuilder b(norm);
      auto own = cast<train::NormPartialsOp>(b.clone(*norm));
      own.getGradMutable().set(centralized);
      partials.set(own.getResult());
      if (norm->use_empty())
        norm.erase();
    }
    emitRemark(update.getLoc()) << "the gradient of '" << name.getValue() << "' is centralised over axis " << int64_t(axis);
  }
};

} // namespace
