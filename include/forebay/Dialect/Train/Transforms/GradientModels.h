//===- GradientModels.h - Gradients of upstream operations ------*- C++ -*-===//
///
/// \file
/// External models of `GradientOpInterface` and `CostOpInterface` for the upstream operations that the
/// levels imported and raised consist of. Operations of `train` implement the interfaces themselves.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_DIALECT_TRAIN_TRANSFORMS_GRADIENTMODELS_H
#define FOREBAY_DIALECT_TRAIN_TRANSFORMS_GRADIENTMODELS_H

#include "mlir/IR/DialectRegistry.h"

namespace forebay::train {

/// Gradients of `arith`, `math`, `linalg` and `tensor` operations, and costs of matrix products.
void registerGradientModels(mlir::DialectRegistry &registry);

} // namespace forebay::train

#endif // FOREBAY_DIALECT_TRAIN_TRANSFORMS_GRADIENTMODELS_H
