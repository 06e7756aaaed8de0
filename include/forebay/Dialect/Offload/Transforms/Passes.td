//===- Passes.td - offload passes -------------------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_TD
#define FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_PASSES_TD
