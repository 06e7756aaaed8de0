//===- ToProgram.h - A module at level cmd as a program ---------*- C++ -*-===//

#ifndef FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_TOPROGRAM_H
#define FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_TOPROGRAM_H

#include "forebay/program.h"

#include "mlir/IR/BuiltinOps.h"

namespace forebay::offload {

/// The program that a module at level "cmd" describes. Left to the caller: producer, isa, modelRelative, and modelPath where the
/// module has none. Errors are emitted where they are.
mlir::FailureOr<Program> toProgram(mlir::ModuleOp module);

} // namespace forebay::offload

#endif // FOREBAY_DIALECT_OFFLOAD_TRANSFORMS_TOPROGRAM_H
