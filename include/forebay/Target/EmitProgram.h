//===- EmitProgram.h - From dispatches to step.so ---------------*- C++ -*-===//
///
/// \file
/// Compiles the kernels of a module at the level `dispatch` (or later: only functions with a compiled `offload.kernel` and
/// `train.optimizer` are read) and links them with the serialized program into one shared object.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_TARGET_EMITPROGRAM_H
#define FOREBAY_TARGET_EMITPROGRAM_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/PassManager.h"

#include <string>

namespace forebay {

/// The best instruction set level of this machine that kernels are compiled for: "x86-64", "x86-64-v3", "x86-64-v4", "aarch64".
std::string hostIsa();

/// Dispatch functions to functions of the LLVM dialect (`forebay-opt --forebay-lower-kernels`).
void buildLowerKernelsPipeline(mlir::OpPassManager &pm);
void registerTargetPipelines();

/// Compiles for `isa` (one of those above) and writes an object file's bytes to `object`. Same module, same bytes.
mlir::LogicalResult compileKernels(mlir::ModuleOp module, const std::string &program, llvm::StringRef isa,
                                   llvm::SmallVectorImpl<char> &object);

/// Writes step.so: kernels, their table (kKernelTableSymbol) and `program` (the bytes of serialize(Program), in
/// kProgramSection). The file appears under `path` whole or not at all; errors are diagnostics at the module.
mlir::LogicalResult emitProgramFile(mlir::ModuleOp module, const std::string &program, const std::string &path,
                                    llvm::StringRef isa);

} // namespace forebay

#endif // FOREBAY_TARGET_EMITPROGRAM_H
