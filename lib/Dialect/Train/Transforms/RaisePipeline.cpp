//===- RaisePipeline.cpp - The pipeline `train-raise` ---------------------===//

#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

void forebay::buildTrainRaisePipeline(OpPassManager &manager) {
  OpPassManager &nested = manager.nest<func::FuncOp>();
  // Equal subexpressions must be one value before patterns compare values.
  nested.addPass(createCanonicalizerPass());
  nested.addPass(createCSEPass());
  nested.addPass(createTrainRaiseActivations());
  nested.addPass(createTrainRaiseNorms());
  nested.addPass(createTrainRaiseRotary());
  nested.addPass(createTrainRaiseAttention());
  nested.addPass(createTrainRaiseLoss());
  nested.addPass(createCanonicalizerPass());
  nested.addPass(createCSEPass());
}

void forebay::registerTrainRaisePipeline() {
  PassPipelineRegistration<>("train-raise", "Raise decomposed graphs to train operations, all patterns",
                             buildTrainRaisePipeline);
}
