//===- Passes.h - train passes ----------------------------------*- C++ -*-===//

#ifndef FOREBAY_DIALECT_TRAIN_TRANSFORMS_PASSES_H
#define FOREBAY_DIALECT_TRAIN_TRANSFORMS_PASSES_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Pass/Pass.h"

namespace forebay {

#define GEN_PASS_DECL
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "forebay/Dialect/Train/Transforms/Passes.h.inc"

/// `train-raise`: every raising pass, between canonicalize and cse. For modules.
void buildTrainRaisePipeline(mlir::OpPassManager &manager);
void registerTrainRaisePipeline();

} // namespace forebay

#endif // FOREBAY_DIALECT_TRAIN_TRANSFORMS_PASSES_H
