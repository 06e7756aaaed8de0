//===- StepAttrs.h - Attributes of operations of the step -------*- C++ -*-===//
///
/// \file
/// Discardable attributes that passes leave on operations of @step. See docs/architecture.md, "Step".
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_DIALECT_TRAIN_IR_STEPATTRS_H
#define FOREBAY_DIALECT_TRAIN_IR_STEPATTRS_H

#include "llvm/ADT/StringRef.h"

namespace forebay::train {

/// On `train.update` of a group whose lr_scale is 0: the new parameter is the old one, bit for bit; the states follow the gradient.
inline constexpr llvm::StringLiteral kKeepParameterAttr = "train.keep_parameter";

} // namespace forebay::train

#endif // FOREBAY_DIALECT_TRAIN_IR_STEPATTRS_H
