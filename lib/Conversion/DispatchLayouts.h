//===- DispatchLayouts.h - In which layout results are stored ---*- C++ -*-===//

#ifndef FOREBAY_LIB_CONVERSION_DISPATCHLAYOUTS_H
#define FOREBAY_LIB_CONVERSION_DISPATCHLAYOUTS_H

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"

namespace forebay {

/// Decides which views that follow a result become part of its dispatch: its layout in memory, and the bias of a product.
class DispatchLayouts {
public:
  explicit DispatchLayouts(mlir::func::FuncOp step) : step(step), builder(step.getContext()) {}

  /// Rewrites uses of results whose layout changes; to be called once.
  void assign();

  /// The value in whose layout `result` is stored, a bijective view of it or itself.
  mlir::Value outer(mlir::OpResult result) const;
  /// The addition of a bias that the product `op` does itself, or null.
  mlir::arith::AddFOp biasOf(mlir::Operation *op) const { return biases.lookup(op); }
  /// After this the product does not add it.
  void releaseBias(mlir::Operation *op);
  /// Part of another operation's dispatch.
  bool isConsumed(mlir::Operation *op) const { return consumed.contains(op); }

private:
  mlir::Value invert(mlir::Operation *op, mlir::Value value);
  void absorb(mlir::OpResult result, llvm::ArrayRef<mlir::Operation *> chain);
  void absorbLayouts();
  void absorbContract(mlir::linalg::ContractOp op);
  void absorbReturned();
  void absorbBiases();

  mlir::func::FuncOp step;
  mlir::OpBuilder builder;
  llvm::DenseMap<mlir::Value, mlir::Value> outerOf;
  llvm::DenseMap<mlir::Operation *, mlir::arith::AddFOp> biases;
  llvm::SmallPtrSet<mlir::Operation *, 16> consumed;
};

} // namespace forebay

#endif // FOREBAY_LIB_CONVERSION_DISPATCHLAYOUTS_H
