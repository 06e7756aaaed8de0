//===- OffloadOps.cpp - offload operations --------------------------------===//

#include "forebay/Dialect/Offload/IR/Offload.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace forebay::offload;

#define GET_OP_CLASSES
#include "forebay/Dialect/Offload/IR/OffloadOps.cpp.inc"

LogicalResult DispatchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  if (!function)
    return emitOpError() << "names no function: " << getKernelAttr();
  FunctionType type = function.getFunctionType();
  if (!llvm::equal(type.getInputs(), getOperands().getTypes()) || !llvm::equal(type.getResults(), getResultTypes()))
    return emitOpError() << "has another type than " << getKernelAttr() << ": " << type;
  return success();
}
