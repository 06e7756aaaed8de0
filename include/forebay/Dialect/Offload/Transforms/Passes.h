//===- Passes.h - offload passes ----------------------------------*- C++ -*-===//

#ifndef FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_H
#define FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_H

#include "mlir/Pass/Pass.h"

#include <string>

namespace forebay {

#define GEN_PASS_DECL
#include "forebay/Dialect/Offload/Transforms/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "forebay/Dialect/Offload/Transforms/Passes.h.inc"

} // namespace forebay

#endif // FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_H
