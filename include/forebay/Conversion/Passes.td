//===- Passes.td - conversion passes -------------------------*- tablegen -*-===//

#ifndef FOREBAY_CONVERSION_PASSES_TD
#define FOREBAY_CONVERSION_PASSES_TD

include "mlir/Pass/PassBase.td"

#endif // FOREBAY_CONVERSION_PASSES_TD
