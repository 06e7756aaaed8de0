//===- StridedView.h - Views of buffers as strides --------------*- C++ -*-===//
///
/// \file
/// What a chain of reshapes, slices, transposes and broadcasts means for memory: element (i0, .., in) of the view is at
/// `offset + sum(i * stride)` of the contiguous row-major buffer of `base`. Kernels follow views by their strides; a
/// view without strides has to be copied first.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_CONVERSION_STRIDEDVIEW_H
#define FOREBAY_CONVERSION_STRIDEDVIEW_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"

#include <optional>

namespace forebay {

struct StridedView {
  mlir::Value base;
  int64_t offset = 0;
  llvm::SmallVector<int64_t> sizes, strides;

  /// All of `value`, contiguous.
  static StridedView whole(mlir::Value value);
  /// All of a contiguous buffer of `shape`, with no base.
  static StridedView contiguous(llvm::ArrayRef<int64_t> shape);

  unsigned rank() const { return sizes.size(); }
  int64_t numElements() const;
  /// Row-major without gaps; the offset may be anything.
  bool isContiguous() const;
  /// Whether the elements along `dim` are next to each other (or there is only one).
  bool isUnitStride(unsigned dim) const { return sizes[dim] <= 1 || strides[dim] == 1; }

  /// Dimension i of the result is dimension perm[i] of this.
  StridedView transpose(llvm::ArrayRef<int64_t> perm) const;
  /// Splits each dimension into the given sizes; always possible.
  StridedView expand(llvm::ArrayRef<int64_t> shape) const;
  /// Joins groups of adjacent dimensions; none if the strides do not allow it.
  std::optional<StridedView> collapse(llvm::ArrayRef<int64_t> shape) const;
  /// The same elements in the same order under another shape, if the strides allow it.
  std::optional<StridedView> reshape(llvm::ArrayRef<int64_t> shape) const;
  /// The view of `op`'s result if this is the view of its (only view) operand.
  std::optional<StridedView> apply(mlir::Operation *op) const;
};

/// tensor.collapse_shape, expand_shape, extract_slice (static), linalg.transpose, linalg.broadcast.
bool isViewOp(mlir::Operation *op);
/// A reshape: same elements in the same order.
bool isReshapeOp(mlir::Operation *op);
/// A view that neither drops nor repeats elements: reshapes and transposes.
bool isBijectiveViewOp(mlir::Operation *op);
/// What a view operation views.
mlir::Value viewSource(mlir::Operation *op);

/// The first value up the chain of views of `value` that is no view.
mlir::Value viewBase(mlir::Value value);
/// Follows `value` up through view operations to the first value that is none. None if the chain has no strides.
std::optional<StridedView> traceView(mlir::Value value);

/// Where the elements of `inner` lie in the contiguous buffer of `outer`, which is a bijective view of it; the base of the
/// result is `outer`. None if there are no such strides.
std::optional<StridedView> traceResult(mlir::Value inner, mlir::Value outer);

/// Whether two adjacent dimensions can be one: (size, stride) pairs, outer first.
inline bool canMerge(int64_t outerSize, int64_t outerStride, int64_t innerSize, int64_t innerStride) {
  return outerSize == 1 || innerSize == 1 || outerStride == innerStride * innerSize;
}

} // namespace forebay

#endif // FOREBAY_CONVERSION_STRIDEDVIEW_H
