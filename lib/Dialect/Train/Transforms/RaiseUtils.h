//===- RaiseUtils.h - What the raising passes share ---------*- C++ -*-===//
///
/// \file
/// Raising recognises a formula whatever views (broadcasts, transposes, unit dimensions, slices) the exporter has put
/// between its operations. `Access` is how: a value together with the axes of an anchor operation that index it.
/// Walking from the anchor towards the leaves keeps the map up to date, so that in the end two leaves can be
/// compared, or a leaf be rebuilt with just the axes it depends on.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_RAISEUTILS_H
#define FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_RAISEUTILS_H

#include "forebay/Dialect/Train/IR/Train.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/Remarks.h"

#include <optional>

namespace forebay::raise {

//===----------------------------------------------------------------------===//
// Accesses
//===----------------------------------------------------------------------===//

/// `base` indexed by axes of an anchor, one entry a dimension. Dimensions of size 1 always have axis -1, others never.
struct Access {
  mlir::Value base;
  llvm::SmallVector<int> dims;

  bool usesAxis(int axis) const { return llvm::is_contained(dims, axis); }
  /// The same index into an operand of `base`'s elementwise definition (equal shapes), views peeled.
  Access into(mlir::Value operand) const;
  bool operator==(const Access &other) const { return base == other.base && dims == other.dims; }
};

llvm::ArrayRef<int64_t> shapeOf(mlir::Value value);
mlir::Type elementTypeOf(mlir::Value value);

/// `value` indexed by its own axes, no view peeled.
Access identityAccess(mlir::Value value);
/// Walks through one view: a broadcast, a transpose or a reshape that only adds or drops unit dimensions. False if
/// `access.base` is none.
bool peelView(Access &access);
/// Walks through all of them.
void peelViews(Access &access);
Access peeledAccess(mlir::Value value);

/// Emits views of `access.base` that make a tensor with one dimension for each of `axes`; an axis that the access does
/// not use gets size 1. Null if the access uses other axes or an axis twice.
mlir::Value projectAccess(mlir::OpBuilder &builder, mlir::Location loc, const Access &access, llvm::ArrayRef<int> axes);

/// Reshapes to `shape`, which differs from the value's shape in unit dimensions only.
mlir::Value reshapeUnits(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, llvm::ArrayRef<int64_t> shape);

/// Broadcasts dimensions of size 1 to `shape` (equal rank).
mlir::Value broadcastTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, llvm::ArrayRef<int64_t> shape);

mlir::Value transposeTo(mlir::OpBuilder &builder, mlir::Location loc, mlir::Value value, llvm::ArrayRef<int64_t> permutation);

//===----------------------------------------------------------------------===//
// Constants and small formulas
//===----------------------------------------------------------------------===//

/// The value of a tensor whose elements are all one known number, looking through views.
std::optional<double> splatOf(mlir::Value value);
std::optional<int64_t> intSplatOf(mlir::Value value);

/// True if the two numbers are the same up to rounding to fp32 of one of them or of what made it.
bool nearly(double value, double want);

/// If `value` is x times a known number (product or quotient), splits it.
bool splitConstantFactor(mlir::Value value, mlir::Value &x, double &factor);

/// The factors of a product, with nested products opened.
void flattenProduct(mlir::Value value, llvm::SmallVectorImpl<mlir::Value> &factors, unsigned limit = 6);

/// The coefficients of `value` as a polynomial of degree at most 3 in `x`.
using Polynomial = std::array<double, 4>;
std::optional<Polynomial> polynomialIn(mlir::Value value, mlir::Value x, unsigned depth = 12);

/// If `value` is the square of something, that.
mlir::Value squareRoot(mlir::Value value);

/// A slice of the last dimension, nested slices resolved; a value that is no slice is a slice of itself.
struct LastSlice {
  mlir::Value source;
  int64_t offset = 0, size = 0, stride = 1;
};
LastSlice lastSliceOf(mlir::Value value);

/// True if a gradient could flow through `value` to a trainable argument of the function.
bool needsGradient(mlir::Value value);

//===----------------------------------------------------------------------===//
// Passes
//===----------------------------------------------------------------------===//

/// Says what was raised, at `loc`, in category `pass`.
void remarkRaised(mlir::Location loc, llvm::StringRef pass, llvm::StringRef what);
/// Says which pattern nearly matched at `loc`, and why it did not.
void remarkNearMiss(mlir::Location loc, llvm::StringRef pass, llvm::StringRef what, const llvm::Twine &why);

/// The operations of kinds `OpTys` in program order, without those inside the regions of others.
template <typename... OpTys>
llvm::SmallVector<mlir::Operation *> collect(mlir::func::FuncOp function) {
  llvm::SmallVector<mlir::Operation *> found;
  for (mlir::Operation &op : function.getOps())
    if (llvm::isa<OpTys...>(op))
      found.push_back(&op);
  return found;
}

/// Erases what is dead after a pass has replaced uses.
void eraseDeadOps(mlir::func::FuncOp function);

} // namespace forebay::raise

#endif // FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_RAISEUTILS_H
