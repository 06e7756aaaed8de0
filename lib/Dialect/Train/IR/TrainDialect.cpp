//===- TrainDialect.cpp - train dialect and attributes --------------------===//

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace forebay::train;

#include "forebay/Dialect/Train/IR/TrainDialect.cpp.inc"
#include "forebay/Dialect/Train/IR/TrainEnums.cpp.inc"
#define GET_ATTRDEF_CLASSES
#include "forebay/Dialect/Train/IR/TrainAttrs.cpp.inc"
#include "forebay/Dialect/Train/IR/TrainInterfaces.cpp.inc"

void TrainDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "forebay/Dialect/Train/IR/TrainAttrs.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "forebay/Dialect/Train/IR/TrainOps.cpp.inc"
      >();
}
