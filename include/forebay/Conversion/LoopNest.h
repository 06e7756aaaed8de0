//===- LoopNest.h - Compiled kernels as loops over strides ------*- C++ -*-===//
///
/// \file
/// What a compiled dispatch function computes, as loop nests over contiguous buffers: `-forebay-select-kernels` takes tiles and
/// in-place results from it, `-forebay-generate-kernels` the code. All accesses are affine, so nothing is allocated or copied.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_CONVERSION_LOOPNEST_H
#define FOREBAY_CONVERSION_LOOPNEST_H

#include "forebay/Conversion/StridedView.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"

namespace forebay {

/// Element (i0, .., in) of a nest's iteration space is at offset + sum(i * stride).
struct Access {
  int64_t offset = 0;
  llvm::SmallVector<int64_t> strides;
  bool operator==(const Access &other) const { return offset == other.offset && strides == other.strides; }
};

/// One scalar value of the body.
struct ScalarNode {
  enum Kind {
    Load,     ///< element of operand `operand` (arguments, then results) at `access`
    Table,    ///< element of the constant `table` at `access`
    Index,    ///< start + step * access
    Constant, ///< `constant`
    Product,  ///< of two `operands`, float or integer
    Op        ///< `op` (an elementwise operation on tensors) applied to `operands`
  };
  explicit ScalarNode(Kind kind) : kind(kind) {}

  Kind kind;
  Access access;
  unsigned operand = 0;
  mlir::DenseElementsAttr table;
  int64_t start = 0, step = 1;
  mlir::TypedAttr constant;
  mlir::Operation *op = nullptr;
  llvm::SmallVector<unsigned> operands;
  mlir::Type type; ///< of one element
};

/// for each point of sizes (and, in order, of the reduced ones): evaluate the nodes, store or combine.
struct LoopNest {
  llvm::SmallVector<int64_t> sizes; ///< parallel dimensions, outermost first
  llvm::SmallVector<ScalarNode> nodes; ///< operands before users
  struct Store {
    unsigned node, operand;
    Access access;
  };
  llvm::SmallVector<Store> stores;
  /// The last `reduced` dimensions are sequential: the (one) store happens after them, of `init` combined with the node in order.
  unsigned reduced = 0;
  mlir::Operation *combiner = nullptr; ///< scalar operation (value, accumulator) -> result; null: addition
  mlir::TypedAttr init;

  unsigned numParallel() const { return sizes.size() - reduced; }
  int64_t numElements() const;
  /// How the nest is cut into tiles: the dimensions before `inner` are one flat range of rows, `rowsPerTile` of them a
  /// tile. `chunk` is not 0 where the innermost dimension alone is longer than a tile: then it is cut, and the number
  /// of its chunks is the last factor of the rows.
  struct Tiling {
    unsigned inner = 0;
    int64_t rows = 1, rowsPerTile = 1, chunk = 0;
    int64_t tiles() const { return (rows + rowsPerTile - 1) / rowsPerTile; }
  };
  Tiling tiling() const;
};

/// Elements of one tile of a compiled kernel.
inline constexpr int64_t kTileElements = 32768;

/// The loop nests of a dispatch function (phase 0; they write disjoint elements). Failure, with `why` set, where the function's
/// body has no such form.
mlir::LogicalResult buildLoopNests(mlir::func::FuncOp function, llvm::SmallVectorImpl<LoopNest> &nests, std::string &why);

/// An arith or math operation on tensors, element by element.
bool isElementwise(mlir::Operation *op);
/// A value that kernels compute from indices and constants alone: nothing is read.
bool isIndexExpression(mlir::Value value);
/// The splat or small dense constant, if `value` is one (also a filled destination).
mlir::DenseElementsAttr constantOf(mlir::Value value);
/// Whether elementwise operations of these shapes can share one loop nest (their row-major orders have a common refinement).
bool haveCommonRefinement(llvm::ArrayRef<llvm::ArrayRef<int64_t>> shapes);
/// Whether every leaf of `value`, an operand of an elementwise operation, has strides (`members` are computed in the same nest).
bool canEvaluate(mlir::Value value, llvm::function_ref<bool(mlir::Operation *)> isMember);

} // namespace forebay

#endif // FOREBAY_CONVERSION_LOOPNEST_H
