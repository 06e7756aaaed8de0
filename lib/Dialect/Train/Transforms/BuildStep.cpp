//===- BuildStep.cpp - Gradients to a whole training step -----------------===//
//
// Adds accumulation, norm, verdict and updates to a differentiated @step, and makes its state donated arguments.
//
//===----------------------------------------------------------------------===//

#include "forebay/Dialect/Train/IR/StepAttrs.h"
#include "forebay/Dialect/Train/IR/Train.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

namespace forebay {
#define GEN_PASS_DEF_TRAINBUILDSTEP
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;
using namespace forebay::train;

namespace {

/// One parameter that is updated.
struct Trained {
  unsigned argument;            ///< of the parameter
  StringAttr name;
  Value grad;                   ///< summed over the micro-steps
  Location loc;
  SmallVector<Value> state;     ///< moments, as arguments
  Value newParameter;
  SmallVector<Value> newState;
  Value accumulator, newAccumulator;
};

class StepBuilder {
public:
  StepBuilder(func::FuncOp step, OptimizerOp optimizer, int64_t accumulate, std::optional<double> clip)
      : step(step), optimizer(optimizer), accumulate(accumulate), clip(clip), builder(step.getContext()),
        terminator(cast<func::ReturnOp>(step.front().getTerminator())) {}

  LogicalResult run() {
    collectGradients();
    if (trained.empty())
      return step.emitError() << "no parameter has a gradient: nothing would be trained";
    addStateArguments();
    builder.setInsertionPoint(terminator);
    accumulateGradients();
    Value verdict = buildVerdict();
    buildUpdates(verdict);
    setResults(verdict);
    return success();
  }

private:
  RoleAttr role(Role value) { return RoleAttr::get(builder.getContext(), value); }

  template <typename OpTy> OpTy inPhase(OpTy op, Phase phase) {
    op->setAttr(train::kPhaseAttr, PhaseAttr::get(builder.getContext(), phase));
    return op;
  }

  /// Splits the results of the differentiated function into outputs and gradients.
  void collectGradients() {
    llvm::DenseMap<StringAttr, unsigned> parameters;
    for (unsigned i = 0; i < step.getNumArguments(); ++i)
      if (step.getArgAttr(i, kTrainableAttr))
        parameters[step.getArgAttrOfType<StringAttr>(i, kNameAttr)] = i;
    for (unsigned i = 0; i < step.getNumResults(); ++i) {
      Value value = terminator.getOperand(i);
      DictionaryAttr attrs = DictionaryAttr::get(builder.getContext(), step.getResultAttrs(i));
      auto resultRole = attrs.getAs<RoleAttr>(kRoleAttr);
      if (!resultRole || resultRole.getValue() != Role::Gradient) {
        outputs.push_back(value);
        outputAttrs.push_back(attrs);
        continue;
      }
      auto name = attrs.getAs<StringAttr>(kNameAttr);
      auto found = parameters.find(name);
      assert(found != parameters.end() && "a gradient is named after a trainable parameter");
      trained.push_back({found->second, name, value, value.getLoc(), {}, {}, {}, {}, {}});
    }
    // Initializer order fixes the tree of the norm and which bad gradient is named first.
    llvm::sort(trained, [](const Trained &a, const Trained &b) { return a.argument < b.argument; });
  }

  Value addArgument(const Trained &parameter, StringRef suffix, Role argumentRole) {
    Type type = step.getArgumentTypes()[parameter.argument];
    auto attrs = builder.getDictionaryAttr(
        {builder.getNamedAttr(kNameAttr, builder.getStringAttr(parameter.name.getValue() + "/" + suffix)),
         builder.getNamedAttr(kRoleAttr, role(argumentRole))});
    [[maybe_unused]] LogicalResult inserted =
        step.insertArgument(step.getNumArguments(), type, attrs, step.getArgument(parameter.argument).getLoc());
    assert(succeeded(inserted) && "an argument can be appended");
    return step.getArguments().back();
  }

  void addStateArguments() {
    for (Trained &parameter : trained)
      for (Attribute state : optimizer.getState())
        parameter.state.push_back(addArgument(parameter, cast<StringAttr>(state), Role::Moment));
    if (accumulate > 1)
      for (Trained &parameter : trained)
        parameter.accumulator = addArgument(parameter, "grad", Role::Accumulator);
  }

  void accumulateGradients() {
    if (accumulate == 1)
      return;
    for (Trained &parameter : trained) {
      auto sum = inPhase(AccumulateOp::create(builder, parameter.loc, parameter.grad.getType(), parameter.accumulator,
                                              parameter.grad),
                         Phase::Accumulate);
      parameter.grad = parameter.newAccumulator = sum.getResult();
    }
  }

  Value buildVerdict() {
    SmallVector<Value> partials;
    for (Trained &parameter : trained) {
      int64_t blocks = llvm::divideCeil(cast<RankedTensorType>(parameter.grad.getType()).getNumElements(), 1024);
      auto type = RankedTensorType::get({blocks}, builder.getF32Type());
      partials.push_back(inPhase(NormPartialsOp::create(builder, parameter.loc, type, parameter.grad,
                                                        builder.getI64IntegerAttr(accumulate)),
                                 Phase::Verdict));
    }
    auto type = RankedTensorType::get({4}, builder.getF32Type());
    FloatAttr limit = clip ? builder.getF64FloatAttr(*clip) : FloatAttr();
    return inPhase(VerdictOp::create(builder, step.getLoc(), type, partials, limit), Phase::Verdict);
  }

  /// One update a parameter; parameters with the same hyper-parameters share a group and its scalars.
  void buildUpdates(Value verdict) {
    auto scalarFunction = cast<func::FuncOp>(SymbolTable::lookupSymbolIn(optimizer, "scalars"));
    auto scalarType = RankedTensorType::get({scalarFunction.getNumResults()}, builder.getF32Type());
    auto symbol = FlatSymbolRefAttr::get(optimizer.getSymNameAttr());
    llvm::MapVector<Attribute, Value> groups;
    for (Trained &parameter : trained) {
      auto hyper = step.getArgAttrOfType<DictionaryAttr>(parameter.argument, kHyperAttr);
      if (!hyper)
        hyper = builder.getDictionaryAttr({});
      Value &scalars = groups[hyper];
      if (!scalars)
        scalars = inPhase(ScalarsOp::create(builder, step.getLoc(), scalarType, symbol, hyper,
                                            builder.getI64IntegerAttr(groups.size() - 1)),
                          Phase::Update);
      Value weight = step.getArgument(parameter.argument);
      // p - 0 * x is not always p: -0 - -0 is 0, and 0 * inf is NaN.
      auto scale = hyper.getAs<FloatAttr>("lr_scale");
      auto update = inPhase(UpdateOp::create(builder, parameter.loc, weight.getType(),
                                             llvm::to_vector(ValueRange(parameter.state).getTypes()), symbol, weight,
                                             parameter.grad, parameter.state, scalars, verdict,
                                             builder.getI64IntegerAttr(accumulate)),
                            Phase::Update);
      if (scale && scale.getValueAsDouble() == 0)
        update->setAttr(kKeepParameterAttr, builder.getUnitAttr());
      parameter.newParameter = update.getNewParameter();
      llvm::append_range(parameter.newState, update.getNewState());
    }
  }

  void addResult(Value value, DictionaryAttr attrs) {
    results.push_back(value);
    resultAttrs.push_back(attrs);
  }

  void donate(unsigned argument, Value value) {
    step.setArgAttr(argument, kDonateAttr, builder.getI64IntegerAttr(results.size()));
    addResult(value, builder.getDictionaryAttr({builder.getNamedAttr(kNameAttr, step.getArgAttr(argument, kNameAttr)),
                                                builder.getNamedAttr(kRoleAttr, step.getArgAttr(argument, kRoleAttr))}));
  }

  void setResults(Value verdict) {
    for (auto [value, attrs] : llvm::zip(outputs, outputAttrs))
      addResult(value, attrs);
    addResult(verdict, builder.getDictionaryAttr({builder.getNamedAttr(kNameAttr, builder.getStringAttr("verdict")),
                                                  builder.getNamedAttr(kRoleAttr, role(Role::Control))}));
    for (Trained &parameter : trained)
      donate(parameter.argument, parameter.newParameter);
    for (Trained &parameter : trained)
      for (auto [state, value] : llvm::zip(parameter.state, parameter.newState))
        donate(cast<BlockArgument>(state).getArgNumber(), value);
    if (accumulate > 1)
      for (Trained &parameter : trained)
        donate(cast<BlockArgument>(parameter.accumulator).getArgNumber(), parameter.newAccumulator);

    terminator->setOperands(results);
    step.setFunctionType(builder.getFunctionType(step.front().getArgumentTypes(), ValueRange(results).getTypes()));
    step.setAllResultAttrs(resultAttrs);
  }

  func::FuncOp step;
  OptimizerOp optimizer;
  int64_t accumulate;
  std::optional<double> clip;
  OpBuilder builder;
  func::ReturnOp terminator;
  SmallVector<Trained> trained;
  SmallVector<Value> outputs, results;
  SmallVector<DictionaryAttr> outputAttrs, resultAttrs;
};

struct TrainBuildStep : forebay::impl::TrainBuildStepBase<TrainBuildStep> {
  using TrainBuildStepBase::TrainBuildStepBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    auto step = module.lookupSymbol<func::FuncOp>("step");
    if (!step) {
      module.emitError() << "has no @step: run train-differentiate before train-build-step";
      return signalPassFailure();
    }
    auto optimizers = module.getOps<OptimizerOp>();
    if (optimizers.empty()) {
      module.emitError() << "has no optimizer: run train-set-optimizer before train-build-step";
      return signalPassFailure();
    }
    if (accumulate < 1) {
      module.emitError() << "accumulate must be at least 1, not " << static_cast<int64_t>(accumulate);
      return signalPassFailure();
    }
    std::optional<double> clip;
    if (clipNorm > 0)
      clip = clipNorm;
    if (failed(StepBuilder(step, *optimizers.begin(), accumulate, clip).run()))
      signalPassFailure();
  }
};
} // namespace
