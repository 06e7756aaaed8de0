//===- Pipelines.cpp - The compiler's named pipelines ---------------------===//

#include "forebay/Dialect/Train/Transforms/Passes.h"
#include "forebay/Pipelines/Pipelines.h"

#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"

using namespace mlir;

namespace {

struct TrainPipelineOptions : PassPipelineOptions<TrainPipelineOptions> {
  Option<int64_t> accumulate{*this, "accumulate", llvm::cl::desc("Micro-steps in a step"), llvm::cl::init(1)};
  Option<double> clipNorm{*this, "clip-norm", llvm::cl::desc("Limit of the global gradient norm; 0: no clipping"),
                          llvm::cl::init(0.0)};
};

/// Duplicates and leftovers of one stage would hide patterns from the next.
void addCleanup(OpPassManager &manager) {
  manager.addPass(createCanonicalizerPass());
  manager.addPass(createCSEPass());
}

} // namespace

/// Imported to raised: what `--forward` programs need, and where training starts.
static void addRaising(OpPassManager &manager) {
  forebay::buildTrainRaisePipeline(manager);
  addCleanup(manager);
}

void forebay::registerAllPipelines() {
  PassPipelineRegistration<>("forebay-forward", "From an imported module to a forward-only step", [](OpPassManager &manager) {
    addRaising(manager);
  });
  PassPipelineRegistration<TrainPipelineOptions>(
      "forebay-train", "From an imported module with an optimizer to a whole training step: raise, differentiate, build the step",
      [](OpPassManager &manager, const TrainPipelineOptions &options) {
        addRaising(manager);
        manager.addPass(createTrainDifferentiate());
        addCleanup(manager);
        manager.addPass(createTrainBuildStep({options.accumulate, options.clipNorm}));
      });
}
