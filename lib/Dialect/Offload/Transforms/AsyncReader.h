//===- AsyncReader.h - A step at level async as a Schedule ------*- C++ -*-===//

#ifndef FOREBAY_LIB_DIALECT_OFFLOAD_TRANSFORMS_ASYNCREADER_H
#define FOREBAY_LIB_DIALECT_OFFLOAD_TRANSFORMS_ASYNCREADER_H

#include "forebay/Planning/Schedule.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"

namespace forebay::offload {

struct StepSchedule {
  planning::Schedule schedule;                      ///< buffers: arguments of the function first, by number
  llvm::SmallVector<mlir::Operation *> operations;  ///< by operation of the schedule
};

/// Reads a function of `offload.async` operations. Errors are emitted where they are.
mlir::FailureOr<StepSchedule> readSchedule(mlir::func::FuncOp function, const planning::Machine &machine);

} // namespace forebay::offload

#endif
