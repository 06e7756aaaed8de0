//===- Passes.h - The passes of this plug-in --------------------*- C++ -*-===//

#ifndef EXAMPLE_PASSES_H
#define EXAMPLE_PASSES_H

#include "mlir/Pass/Pass.h"

namespace example {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "Passes.h.inc"
} // namespace example

#endif // EXAMPLE_PASSES_H
