//===- Pipelines.cpp - The compiler's named pipelines ---------------------===//

#include "forebay/Pipelines/Pipelines.h"

#include "forebay/Conversion/Passes.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;
using namespace forebay;

/// Duplicates and leftovers of one stage would hide patterns from the next.
static void addCleanup(OpPassManager &manager) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

void forebay::buildForwardPipeline(OpPassManager &manager, StringRef precision) {
  buildTrainRaisePipeline(manager);
  addCleanup(manager);
  if (precision == "fp32")
    return;
  TrainMixedPrecisionOptions options;
  options.type = precision == "fp16" ? "f16" : precision.str();
  manager.addPass(createTrainMixedPrecision(options));
  addCleanup(manager);
}

void forebay::buildTrainPipeline(OpPassManager &manager, const TrainPipelineOptions &options) {
  buildForwardPipeline(manager, options.precision);
  manager.addPass(createTrainDifferentiate());
  addCleanup(manager);
  manager.addPass(createTrainBuildStep({options.accumulate, options.clipNorm}));
}

void forebay::buildDispatchPipeline(OpPassManager &manager) {
  manager.addPass(createTrainLowerElementwise());
  manager.addPass(createForebayFormDispatches());
  manager.addPass(createForebaySelectKernels());
}

void forebay::registerAllPipelines() {
  PassPipelineRegistration<>("forebay-forward", "Imported to raised: all that a forward program needs",
                                 [](OpPassManager &manager) { buildForwardPipeline(manager); });
  PassPipelineRegistration<TrainPipelineOptions>(
      "forebay-train", "Imported, with an optimizer, to step: raise, differentiate, build the step", buildTrainPipeline);
  PassPipelineRegistration<>("forebay-dispatch", "Step to dispatch: expand activations, form dispatches, select kernels", buildDispatchPipeline);
}
