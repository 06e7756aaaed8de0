//===- Pipelines.h - The compiler's pipelines -------------------*- C++ -*-===//
///
/// \file
/// Registration of everything Forebay adds to MLIR, for tools and plug-ins.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PIPELINES_PIPELINES_H
#define FOREBAY_PIPELINES_PIPELINES_H

#include "mlir/IR/DialectRegistry.h"
#include "mlir/Pass/PassOptions.h"

namespace forebay {

/// Our dialects, the upstream dialects they use, and external models (gradients, costs).
void registerAllDialects(mlir::DialectRegistry &registry);

/// Every pass and pipeline, for the textual pass pipeline.
void registerAllPasses();

struct TrainPipelineOptions : mlir::PassPipelineOptions<TrainPipelineOptions> {
  Option<int64_t> accumulate{*this, "accumulate", llvm::cl::desc("Micro-steps in a step"), llvm::cl::init(1)};
  Option<double> clipNorm{*this, "clip-norm", llvm::cl::desc("Limit of the global gradient norm; 0: no clipping"),
                          llvm::cl::init(0.0)};
  Option<std::string> precision{*this, "precision", llvm::cl::desc("Type of compute: fp32, bf16 or fp16"), llvm::cl::init("fp32")};
};

/// `forebay-forward`: imported to raised, and to the type of compute if that is bf16 or fp16.
void buildForwardPipeline(mlir::OpPassManager &manager, llvm::StringRef precision = "fp32");
/// `forebay-train`: imported, with an optimizer (train-set-optimizer), to step.
void buildTrainPipeline(mlir::OpPassManager &manager, const TrainPipelineOptions &options);
/// `forebay-dispatch`: step to dispatch.
void buildDispatchPipeline(mlir::OpPassManager &manager);

/// Registers them by these names; called by registerAllPasses.
void registerAllPipelines();

} // namespace forebay

#endif // FOREBAY_PIPELINES_PIPELINES_H
