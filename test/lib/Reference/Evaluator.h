//===- Evaluator.h - Parts of the reference interpreter ---------*- C++ -*-===//
///
/// \file
/// Private to test/lib/Reference. An operation is evaluated by a handler, found by its name.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_TEST_LIB_REFERENCE_EVALUATOR_H
#define FOREBAY_TEST_LIB_REFERENCE_EVALUATOR_H

#include "Reference.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringMap.h"

#include <memory>

namespace forebay::reference {

using TensorRef = std::shared_ptr<const Tensor>;
/// Values by SSA value; tensors are never changed once they are in.
using Scope = llvm::DenseMap<mlir::Value, TensorRef>;

class Evaluator {
public:
  explicit Evaluator(const EvaluateOptions &options) : options(options) {}

  llvm::FailureOr<std::vector<Tensor>> call(mlir::func::FuncOp func, llvm::ArrayRef<TensorRef> arguments);
  /// Runs the operations of `block` and returns the operands of its terminator.
  llvm::FailureOr<std::vector<TensorRef>> run(mlir::Block &block, Scope &scope);

  const EvaluateOptions &options;

private:
  mlir::LogicalResult evaluate(mlir::Operation *op, Scope &scope);
};

/// What a handler sees: operands in order, results as zeros of their types, to be filled.
struct Frame {
  Evaluator &evaluator;
  Scope &scope;
  mlir::Operation *op;
  llvm::ArrayRef<TensorRef> operands;
  llvm::MutableArrayRef<Tensor> results;

  const Tensor &in(unsigned index) const { return *operands[index]; }
  Tensor &out(unsigned index = 0) const { return results[index]; }
};
using Handler = mlir::LogicalResult (*)(const Frame &);
using Handlers = llvm::StringMap<Handler>;

void addElementwiseHandlers(Handlers &handlers);
void addStructuredHandlers(Handlers &handlers);
void addTensorHandlers(Handlers &handlers);
void addTrainHandlers(Handlers &handlers);
void addAttentionHandlers(Handlers &handlers);
void addStepHandlers(Handlers &handlers);
/// Any structured operation, point by point through its maps and its region.
mlir::LogicalResult evaluateLinalg(const Frame &frame);

/// Calls `fn` with every index of `shape`, in row-major order.
void forEachIndex(llvm::ArrayRef<int64_t> shape, llvm::function_ref<void(llvm::ArrayRef<int64_t>)> fn);
int64_t offsetOf(llvm::ArrayRef<int64_t> index, llvm::ArrayRef<int64_t> strides);

} // namespace forebay::reference

#endif // FOREBAY_TEST_LIB_REFERENCE_EVALUATOR_H
