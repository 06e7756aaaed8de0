//===- Machine.h - Machine descriptions in dlti -----------------*- C++ -*-===//

#ifndef FOREBAY_LIB_DIALECT_OFFLOAD_TRANSFORMS_MACHINE_H
#define FOREBAY_LIB_DIALECT_OFFLOAD_TRANSFORMS_MACHINE_H

#include "forebay/Planning/Machine.h"

#include "mlir/IR/BuiltinOps.h"

namespace forebay::offload {

/// The machine called `nameOrFile`: embedded, else a file with a module as in machines/*.mlir. Errors are emitted at `loc`.
mlir::FailureOr<planning::Machine> loadMachine(llvm::StringRef nameOrFile, mlir::Location loc);

/// Writes `machine` on `module` as `dlti.target_system_spec` and `offload.machine`, reads it back.
void setMachine(mlir::ModuleOp module, const planning::Machine &machine);
mlir::FailureOr<planning::Machine> getMachine(mlir::ModuleOp module);

} // namespace forebay::offload

#endif
