//===- Pipelines.h - The compiler's pipelines -------------------*- C++ -*-===//
///
/// \file
/// Registration of everything Forebay adds to MLIR, for tools and plug-ins.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_PIPELINES_PIPELINES_H
#define FOREBAY_PIPELINES_PIPELINES_H

#include "mlir/IR/DialectRegistry.h"

namespace forebay {

/// Our dialects, the upstream dialects they use, and external models (gradients, costs).
void registerAllDialects(mlir::DialectRegistry &registry);

/// Every pass and pipeline, for the textual pass pipeline.
void registerAllPasses();

/// The named pipelines (`forebay-train`, ...); called by registerAllPasses.
void registerAllPipelines();

} // namespace forebay

#endif // FOREBAY_PIPELINES_PIPELINES_H
