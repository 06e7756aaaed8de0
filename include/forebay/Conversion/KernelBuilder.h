//===- KernelBuilder.h - Building one kernel function -----------*- C++ -*-===//

#ifndef FOREBAY_CONVERSION_KERNELBUILDER_H
#define FOREBAY_CONVERSION_KERNELBUILDER_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace forebay {

/// A function with a signature of kernel_abi.h, and shorthands for its body; the insertion point is before its return.
class KernelBuilder {
public:
  enum class Signature {
    Kernel, ///< (operands, params, phase, tile, scratch)
    Scalars ///< (t, hyper, results): here `tile`, `operands`, `params`
  };
  KernelBuilder(mlir::ModuleOp module, llvm::StringRef name, mlir::Location loc, Signature signature = Signature::Kernel);

  mlir::ImplicitLocOpBuilder b;
  mlir::Value operands, params, tile;

  mlir::Value i64(int64_t value);
  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value min(mlir::Value a, mlir::Value b);
  /// Address of operand `index`.
  mlir::Value operand(unsigned index);
  /// Element `index` of the parameter block.
  mlir::Value param(unsigned index);
  /// Element `index` of an array of `type`; i1 is stored as a byte. `parallel`: in an innermost loop whose iterations are
  /// independent (`annotateParallel`).
  mlir::Value load(mlir::Type type, mlir::Value pointer, mlir::Value index, bool parallel);
  void store(mlir::Value value, mlir::Value pointer, mlir::Value index, bool parallel);
  /// Address of a constant array.
  mlir::Value table(mlir::DenseElementsAttr values);
  /// The operation that `op` applies to each element.
  mlir::Value scalarOp(mlir::Operation *op, mlir::ValueRange operands, mlir::Type type);
  /// Tells LLVM that iterations are independent, and to vectorise. `interleave` 0 leaves that to LLVM.
  void annotateParallel(mlir::scf::ForOp loop, int interleave = 0);

private:
  mlir::Value address(mlir::Type type, mlir::Value pointer, mlir::Value index);
  mlir::ModuleOp module;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Attribute group;
  unsigned tables = 0;
};

} // namespace forebay

#endif // FOREBAY_CONVERSION_KERNELBUILDER_H
