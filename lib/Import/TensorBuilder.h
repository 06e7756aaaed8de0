//===- TensorBuilder.h - Tensor operations in canonical form ----*- C++ -*-===//
///
/// \file
/// Emits the tensor operations of the imported level (docs/architecture.md) at one insertion point. Trivial operations are
/// not emitted: identity reshapes, transposes, slices and broadcasts return their operand, reshapes and transposes are composed with
/// the ones that made their operand.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_IMPORT_TENSORBUILDER_H
#define FOREBAY_LIB_IMPORT_TENSORBUILDER_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

namespace forebay::import {

using Shape = llvm::SmallVector<int64_t, 4>;

inline llvm::ArrayRef<int64_t> shapeOf(mlir::Value value) {
  return mlir::cast<mlir::RankedTensorType>(value.getType()).getShape();
}
inline mlir::Type elementOf(mlir::Value value) { return mlir::getElementTypeOrSelf(value.getType()); }

/// A part of two shapes with the same number of elements: dimensions `from` of one, `to` of the other.
struct ShapeGroup {
  llvm::SmallVector<int64_t, 2> from, to;
  int64_t size = 1;
};
/// Splits two shapes with the same number of elements (not 0) into the smallest such parts; dimensions of size 1 join the part
/// before them.
llvm::SmallVector<ShapeGroup> groupShapes(llvm::ArrayRef<int64_t> from, llvm::ArrayRef<int64_t> to);

enum class Reduction { Sum, Prod, Max, Min };

class TensorBuilder {
public:
  explicit TensorBuilder(mlir::OpBuilder &builder) : b(builder), loc(builder.getUnknownLoc()) {}

  mlir::RankedTensorType type(llvm::ArrayRef<int64_t> shape, mlir::Type element) {
    return mlir::RankedTensorType::get(shape, element);
  }
  mlir::Value empty(llvm::ArrayRef<int64_t> shape, mlir::Type element);
  /// `tensor.empty` filled with `value`.
  mlir::Value filled(llvm::ArrayRef<int64_t> shape, mlir::Type element, double value);
  /// A splat `arith.constant`. `value` must be exact in `element`.
  mlir::Value splat(llvm::ArrayRef<int64_t> shape, mlir::Type element, double value);
  mlir::Value splatInt(llvm::ArrayRef<int64_t> shape, mlir::Type element, int64_t value);
  /// Splat constant of the shape and type of `like`.
  mlir::Value splatLike(mlir::Value like, double value);

  /// Collapses and expands; both shapes have the same number of elements.
  mlir::Value reshape(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  mlir::Value transpose(mlir::Value value, llvm::ArrayRef<int64_t> permutation);
  /// numpy's broadcast: dimensions are aligned at the right, those of size 1 are repeated.
  mlir::Value broadcast(mlir::Value value, llvm::ArrayRef<int64_t> shape);
  /// Dimension i of `value` is dimension `axes[i]` (ascending) of `shape`; the others are repeated.
  mlir::Value broadcastAxes(mlir::Value value, llvm::ArrayRef<int64_t> axes, llvm::ArrayRef<int64_t> shape);
  mlir::Value slice(mlir::Value value, llvm::ArrayRef<int64_t> offsets, llvm::ArrayRef<int64_t> sizes,
                    llvm::ArrayRef<int64_t> strides);
  /// One axis, stride 1.
  mlir::Value sliceAxis(mlir::Value value, int64_t axis, int64_t offset, int64_t size);
  mlir::Value concat(llvm::ArrayRef<mlir::Value> values, int64_t axis);
  /// Negative amounts cut elements off.
  mlir::Value pad(mlir::Value value, llvm::ArrayRef<int64_t> low, llvm::ArrayRef<int64_t> high, mlir::TypedAttr fill);
  /// Reduced axes (ascending) are dropped.
  mlir::Value reduce(Reduction kind, mlir::Value value, llvm::ArrayRef<int64_t> axes);
  /// Running sum, by log2(size) sums of the tensor and itself shifted by 1, 2, 4, ... elements.
  mlir::Value cumulativeSum(mlir::Value value, int64_t axis, bool exclusive, bool reverse);
  /// numpy's matmul of operands of rank 2 or more.
  mlir::Value matmul(mlir::Value a, mlir::Value b);
  /// Sum of products; one letter a dimension, e.g. {"bmk", "nk", "bmn"}.
  mlir::Value contract(mlir::Value a, mlir::Value b, llvm::StringRef aDims, llvm::StringRef bDims, llvm::StringRef outDims);

  mlir::OpBuilder &b;
  mlir::Location loc;
};

/// An operand without its broadcast: `value` has dimension i at `axes[i]` (ascending) of the operand.
struct Core {
  mlir::Value value;
  llvm::SmallVector<int64_t, 4> axes;
};
/// Looks through broadcasts and reshapes that add dimensions of size 1.
Core coreOf(mlir::Value value);

} // namespace forebay::import

#endif // FOREBAY_LIB_IMPORT_TENSORBUILDER_H
