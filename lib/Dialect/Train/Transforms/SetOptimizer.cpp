//===- SetOptimizer.cpp - Pass that chooses the optimizer -----------------===//

#include "forebay/Dialect/Train/Transforms/Optimizers.h"
#include "forebay/Dialect/Train/Transforms/Passes.h"
#include "forebay/Support/Diagnostics.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace forebay {
#define GEN_PASS_DEF_TRAINSETOPTIMIZER
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
} // namespace forebay

using namespace mlir;
using namespace forebay;

namespace {
struct TrainSetOptimizer : forebay::impl::TrainSetOptimizerBase<TrainSetOptimizer> {
  using TrainSetOptimizerBase::TrainSetOptimizerBase;

  void runOnOperation() override {
    OptimizerOptions options;
    options.optimizer = optimizer;
    options.hyper.assign(hyper.begin(), hyper.end());
    options.groups.assign(group.begin(), group.end());
    Diagnostics diags;
    if (failed(configureOptimizer(getOperation(), options, diags)))
      signalPassFailure();
  }
};
} // namespace
