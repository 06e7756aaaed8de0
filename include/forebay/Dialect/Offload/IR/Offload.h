//===- Offload.h - The offload dialect --------------------------*- C++ -*-===//
///
/// \file
/// Dialect, attributes, types and operations of `offload`: what runs where, what moves when.
/// Reference: docs/dialects/offload.md.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_DIALECT_OFFLOAD_IR_OFFLOAD_H
#define FOREBAY_DIALECT_OFFLOAD_IR_OFFLOAD_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "forebay/Dialect/Offload/IR/OffloadDialect.h.inc"
#include "forebay/Dialect/Offload/IR/OffloadEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "forebay/Dialect/Offload/IR/OffloadAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "forebay/Dialect/Offload/IR/OffloadTypes.h.inc"
#define GET_OP_CLASSES
#include "forebay/Dialect/Offload/IR/OffloadOps.h.inc"

namespace forebay::offload {

/// On dispatch functions: `#offload.kernel<...>`.
inline constexpr llvm::StringLiteral kKernelAttr = "offload.kernel";
/// On the module: "dispatch", "async" or "cmd".
inline constexpr llvm::StringLiteral kPhaseAttr = "offload.phase";

} // namespace forebay::offload

#endif // FOREBAY_DIALECT_OFFLOAD_IR_OFFLOAD_H
