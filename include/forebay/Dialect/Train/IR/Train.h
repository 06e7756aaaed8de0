//===- Train.h - The train dialect ------------------------------*- C++ -*-===//
///
/// \file
/// Dialect, attributes, interfaces and operations of `train`: what a training step needs and
/// upstream dialects lack. Reference: docs/dialects/train.md.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_DIALECT_TRAIN_IR_TRAIN_H
#define FOREBAY_DIALECT_TRAIN_IR_TRAIN_H

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/InferTypeOpInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include "forebay/Dialect/Train/IR/TrainDialect.h.inc"
#include "forebay/Dialect/Train/IR/TrainEnums.h.inc"
#define GET_ATTRDEF_CLASSES
#include "forebay/Dialect/Train/IR/TrainAttrs.h.inc"
#include "forebay/Dialect/Train/IR/TrainInterfaces.h.inc"
#define GET_OP_CLASSES
#include "forebay/Dialect/Train/IR/TrainOps.h.inc"

namespace forebay::train {

/// Names of the discardable attributes on the entry function's arguments and results; their meaning
/// is in the dialect's description.
inline constexpr llvm::StringLiteral kNameAttr = "train.name";
inline constexpr llvm::StringLiteral kRoleAttr = "train.role";
inline constexpr llvm::StringLiteral kSourceAttr = "train.source";
inline constexpr llvm::StringLiteral kTrainableAttr = "train.trainable";
inline constexpr llvm::StringLiteral kNoGradientAttr = "train.no_gradient";
inline constexpr llvm::StringLiteral kHyperAttr = "train.hyper";
inline constexpr llvm::StringLiteral kDonateAttr = "train.donate";
inline constexpr llvm::StringLiteral kRangeAttr = "train.range";
/// On operations of the step after differentiation: `#train.phase<...>`.
inline constexpr llvm::StringLiteral kPhaseAttr = "train.phase";

} // namespace forebay::train

#endif // FOREBAY_DIALECT_TRAIN_IR_TRAIN_H
