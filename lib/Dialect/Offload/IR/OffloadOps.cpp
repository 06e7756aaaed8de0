//===- OffloadOps.cpp - offload operations --------------------------------===//

#include "forebay/Dialect/Offload/IR/Offload.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace forebay::offload;

/// Types in parentheses, also none: a kernel may have no inputs.
static ParseResult parseBufferTypes(OpAsmParser &parser, SmallVectorImpl<Type> &types) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&] { return parser.parseType(types.emplace_back()); });
}
static void printBufferTypes(OpAsmPrinter &printer, Operation *, TypeRange types) {
  printer << '(' << types << ')';
}

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

//===----------------------------------------------------------------------===//
// offload.async
//===----------------------------------------------------------------------===//

uint64_t BufferType::getBytes() const {
  RankedTensorType type = getTensor();
  return static_cast<uint64_t>(type.getNumElements()) * llvm::divideCeil(type.getElementTypeBitWidth(), 8u);
}

/// `slices` has an offset and a size inside each buffer.
static LogicalResult verifySlices(Operation *op, std::optional<ArrayRef<int64_t>> slices, ValueRange first, ValueRange second) {
  if (!slices)
    return success();
  if (slices->size() != 2 * (first.size() + second.size()))
    return op->emitOpError() << "needs an offset and a size in 'slices' for each of its " << first.size() + second.size() << " buffers";
  size_t i = 0;
  for (ValueRange range : {first, second})
    for (Value value : range) {
      int64_t offset = (*slices)[i++], bytes = (*slices)[i++], size = cast<BufferType>(value.getType()).getBytes();
      if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset)
        return op->emitOpError() << "has a slice [" << offset << ", " << offset + bytes << ") outside a buffer of " << size << " bytes";
    }
  return success();
}

LogicalResult AsyncDispatchOp::verify() { return verifySlices(*this, getSlices(), getInputs(), getOutputs()); }

LogicalResult AsyncDispatchOp::verifySymbolUses(SymbolTableCollection &symbols) {
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(*this, getKernelAttr());
  auto kernel = function ? function->getAttrOfType<KernelAttr>(kKernelAttr) : KernelAttr();
  if (!kernel)
    return emitOpError() << "names no kernel: " << getKernelAttr();
  FunctionType type = function.getFunctionType();
  // An update in mixed precision also writes the weight in the compute type.
  bool isUpdate = kernel.getOpClass() == OpClass::Optimizer;
  if (isUpdate && getInputs().size() == type.getNumInputs() && getOutputs().size() >= type.getNumResults() &&
      getOutputs().size() <= type.getNumResults() + 1)
    return success();
  if (getInputs().size() != type.getNumInputs() || getOutputs().size() != type.getNumResults() + (kernel.getWorkspace() > 0))
    return emitOpError() << "has " << getInputs().size() << " inputs and " << getOutputs().size() << " outputs; " << getKernelAttr() << " has the type "
                         << type << (kernel.getWorkspace() > 0 ? " and a workspace" : "");
  return success();
}

LogicalResult AsyncTransferOp::verify() {
  if (getSources().size() != getTargets().size())
    return emitOpError() << "has " << getSources().size() << " sources and " << getTargets().size() << " targets";
  return verifySlices(*this, getSlices(), getSources(), getTargets());
}
