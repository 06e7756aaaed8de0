//===- Step.cpp - Reference interpreter: accumulation, verdict, update ----===//

#include "Evaluator.h"

#include "forebay/Dialect/Train/IR/StepAttrs.h"
#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/IR/SymbolTable.h"

#include <cmath>

using namespace mlir;
using namespace forebay;
using namespace forebay::reference;

static LogicalResult accumulate(const Frame &f) {
  for (int64_t i = 0, n = f.out().size(); i < n; ++i)
    f.out().floats[i] =
        f.evaluator.options.firstMicroStep ? f.in(1).floats[i] : f.in(0).floats[i] + f.in(1).floats[i];
  return success();
}

static LogicalResult normPartials(const Frame &f) {
  double count = cast<train::NormPartialsOp>(f.op).getAccumulate();
  for (int64_t i = 0, n = f.in(0).size(); i < n; ++i) {
    double g = f.in(0).floats[i] / count;
    f.out().floats[i / 1024] += g * g;
  }
  return success();
}

static LogicalResult verdict(const Frame &f) {
  double total = 0.0, bad = -1.0;
  for (auto [index, partials] : llvm::enumerate(f.operands))
    for (double partial : partials->floats) {
      total += partial;
      if (!std::isfinite(partial) && bad < 0.0)
        bad = index;
    }
  double norm = std::sqrt(total), coefficient = 1.0;
  auto clip = cast<train::VerdictOp>(f.op).getClip();
  if (clip && norm > clip->convertToDouble())
    coefficient = clip->convertToDouble() / norm;
  f.out().floats = {norm, coefficient, std::isfinite(norm) ? 1.0 : 0.0, bad};
  return success();
}

static func::FuncOp optimizerFunction(Operation *op, StringRef optimizer, StringRef name) {
  auto definition = SymbolTable::lookupNearestSymbolFrom<train::OptimizerOp>(
      op, StringAttr::get(op->getContext(), optimizer));
  return definition ? SymbolTable(definition).lookup<func::FuncOp>(name) : func::FuncOp();
}

static double hyperValue(Attribute value) {
  if (auto flag = dyn_cast<BoolAttr>(value))
    return flag.getValue();
  return cast<FloatAttr>(value).getValueAsDouble();
}

static LogicalResult scalars(const Frame &f) {
  auto op = cast<train::ScalarsOp>(f.op);
  func::FuncOp function = optimizerFunction(op, op.getOptimizer(), "scalars");
  if (!function)
    return op.emitError() << "knows no optimizer @" << op.getOptimizer();
  auto definition = function->getParentOfType<train::OptimizerOp>();
  SmallVector<TensorRef> arguments{std::make_shared<Tensor>(Tensor::scalar(f.evaluator.options.step))};
  // Attributes of a dictionary are in alphabetical order.
  for (NamedAttribute entry : definition.getHyper()) {
    Attribute own = op.getHyper().get(entry.getName());
    double value = hyperValue(own ? own : entry.getValue());
    if (entry.getName() == "lr") {
      if (f.evaluator.options.learningRate)
        value = *f.evaluator.options.learningRate;
      if (Attribute scale = op.getHyper().get("lr_scale"))
        value *= hyperValue(scale);
    }
    arguments.push_back(std::make_shared<Tensor>(Tensor::scalar(value)));
  }
  auto results = f.evaluator.call(function, arguments);
  if (failed(results))
    return failure();
  for (auto [i, result] : llvm::enumerate(*results))
    f.out().floats[i] = result.floats[0];
  return success();
}

/// The optimizer's update function on whole tensors, one call for all elements.
static LogicalResult update(const Frame &f) {
  auto op = cast<train::UpdateOp>(f.op);
  func::FuncOp function = optimizerFunction(op, op.getOptimizer(), "update");
  if (!function)
    return op.emitError() << "knows no optimizer @" << op.getOptimizer();
  unsigned states = op.getState().size();
  const Tensor &scalars = f.in(2 + states), &verdict = f.in(3 + states);
  f.out(0) = f.in(0);
  for (unsigned i = 0; i < states; ++i)
    f.out(1 + i) = f.in(2 + i);
  if (verdict.floats[2] == 0.0)
    return success();

  Type element = cast<RankedTensorType>(op.getGrad().getType()).getElementType();
  auto round = [&](double value) { return f.evaluator.options.roundToType ? roundTo(element, value) : value; };
  auto grad = std::make_shared<Tensor>(f.in(1));
  for (double &g : grad->floats)
    g = round(round(g / double(op.getAccumulate())) * verdict.floats[1]);
  SmallVector<TensorRef> arguments{f.operands[0], grad};
  for (unsigned i = 0; i < states; ++i)
    arguments.push_back(f.operands[2 + i]);
  for (double scalar : scalars.floats)
    arguments.push_back(std::make_shared<Tensor>(Tensor::scalar(scalar)));
  auto results = f.evaluator.call(function, arguments);
  if (failed(results))
    return failure();
  for (auto [i, result] : llvm::enumerate(*results)) {
    if (i == 0 && op->hasAttr(train::kKeepParameterAttr))
      continue;
    // A result that does not depend on any element is the same everywhere.
    if (result.rank() == 0 && f.out(i).rank() != 0)
      std::fill(f.out(i).floats.begin(), f.out(i).floats.end(), result.floats[0]);
    else
      f.out(i).floats = std::move(result.floats);
  }
  return success();
}

void forebay::reference::addStepHandlers(Handlers &h) {
  h["train.accumulate"] = accumulate;
  h["train.norm_partials"] = normPartials;
  h["train.verdict"] = verdict;
  h["train.scalars"] = scalars;
  h["train.update"] = update;
}
