//===- StepRunner.h - Runs a step's dispatches natively ---------*- C++ -*-===//
///
/// \file
/// Compiles a module at the level `step` to dispatches and a shared object, loads it, and runs the dispatches one after another
/// on buffers of their own: what planner and runtime do, without either. Values are compared with the reference interpreter's.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_TEST_UNIT_CONVERSION_STEPRUNNER_H
#define FOREBAY_TEST_UNIT_CONVERSION_STEPRUNNER_H

#include "Reference/Reference.h"

#include "forebay/kernel_abi.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <memory>
#include <string>

namespace forebay::test {

struct RunOptions {
  bool inplace = false;    ///< results take over operands where the kernel allows it and the operand has no later use
  bool reverse = false;    ///< tiles in reverse order
  int64_t step = 1;        ///< of train.scalars
};

class StepRunner {
public:
  /// `text`: a module with @step (and optimizers). Passes that fail are test failures.
  explicit StepRunner(llvm::StringRef text);
  ~StepRunner();

  std::vector<reference::Tensor> run(llvm::ArrayRef<reference::Tensor> arguments, const RunOptions &options = {});
  /// The same module before dispatches, by the reference interpreter.
  std::vector<reference::Tensor> reference(llvm::ArrayRef<reference::Tensor> arguments, bool roundToType = false);
  /// Normal random arguments (small integers, random bits) for @step.
  std::vector<reference::Tensor> randomArguments(unsigned seed);
  /// Runs both and compares: |ours - reference| <= tolerance * (1 + |reference|), NaN equals NaN.
  void compare(unsigned seed, double tolerance);
  void compareTensors(llvm::ArrayRef<reference::Tensor> ours, llvm::ArrayRef<reference::Tensor> wanted, double tolerance);

  mlir::MLIRContext &context();
  mlir::ModuleOp dispatches();
  mlir::func::FuncOp step();
  bool valid() const;
  /// Kernel names of the dispatches in order ("gemm", "copy", compiled ones as "compiled").
  std::vector<std::string> kernels();
  /// Entry of the table of compiled kernels, or null.
  void *symbol(llvm::StringRef name);

private:
  struct Impl;
  std::unique_ptr<Impl> impl;
};

/// Little-endian elements of `type` (i1 as bytes).
std::vector<char> toBytes(mlir::Type type, const reference::Tensor &tensor);

} // namespace forebay::test

#endif // FOREBAY_TEST_UNIT_CONVERSION_STEPRUNNER_H
