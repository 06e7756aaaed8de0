//===- ProblemBuilder.h - A step at level dispatch as a Problem -*- C++ -*-===//

#ifndef FOREBAY_LIB_DIALECT_OFFLOAD_TRANSFORMS_PROBLEMBUILDER_H
#define FOREBAY_LIB_DIALECT_OFFLOAD_TRANSFORMS_PROBLEMBUILDER_H

#include "forebay/Dialect/Offload/IR/Offload.h"
#include "forebay/Planning/Problem.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace forebay::offload {

/// A problem and where its parts come from.
struct StepProblem {
  planning::Problem problem;
  mlir::func::FuncOp function;
  llvm::SmallVector<mlir::RankedTensorType> types;  ///< by value
  llvm::SmallVector<mlir::Operation *> operations;  ///< by operation of the problem
  llvm::SmallVector<mlir::func::FuncOp> kernels;    ///< by kernel number
  int64_t verdictOutput = -1;                       ///< function result that is the verdict
};

/// Reads `@step` of a module at level "dispatch". Errors are emitted where they are.
mlir::FailureOr<StepProblem> buildProblem(mlir::ModuleOp module);

/// "scope/node" of a location that the import made, "" if it has no name.
std::string labelOf(mlir::Location loc);

/// The module has reached `phase` (attribute offload.phase), else one error that names the pass to run first or says that it is too late.
mlir::LogicalResult expectPhase(mlir::ModuleOp module, llvm::StringRef pass, llvm::StringRef phase);

/// Bytes of a contiguous tensor; an i1 takes one.
uint64_t bytesOf(mlir::RankedTensorType type);

std::optional<DType> dtypeOf(mlir::Type type);

/// What one execution of `kernel` on buffers (or parts) of these sizes costs: inputs, results, whatever follows.
Cost costOf(mlir::func::FuncOp function, KernelAttr kernel, llvm::ArrayRef<uint64_t> bytes);

/// Sizes of ranges, for costOf.
template <typename Ranges> llvm::SmallVector<uint64_t> sizesOf(const Ranges &ranges) {
  return llvm::map_to_vector(ranges, [](auto &range) { return range.bytes; });
}

} // namespace forebay::offload

#endif
