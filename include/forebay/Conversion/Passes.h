//===- Passes.h - conversion passes ----------------------------------*- C++ -*-===//

#ifndef FOREBAY_CONVERSION_PASSES_H
#define FOREBAY_CONVERSION_PASSES_H

#include "mlir/Pass/Pass.h"

namespace forebay {

#define GEN_PASS_DECL
#include "forebay/Conversion/Passes.h.inc"
#define GEN_PASS_REGISTRATION
#include "forebay/Conversion/Passes.h.inc"

} // namespace forebay

#endif // FOREBAY_CONVERSION_PASSES_H
