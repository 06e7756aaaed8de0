//===- RaiseMasks.h - What an attention mask is made of ---------*- C++ -*-===//
///
/// \file
/// Takes a mask apart: a conjunction of causal, window, key padding and other bool parts, and a sum of float parts.
///
//===----------------------------------------------------------------------===//

#ifndef FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_RAISEMASKS_H
#define FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_RAISEMASKS_H

#include "RaiseUtils.h"

namespace forebay::raise {

/// Parts of the masks of one attention whose scores have `shape` [batch, heads, queries, keys]; axes 0 to 3.
class MaskParts {
public:
  explicit MaskParts(llvm::ArrayRef<int64_t> shape) : shape(shape) {}

  /// Adds a bool mask (true shows a key; `negated`: false does).
  void addBool(Access access, bool negated = false);
  /// Adds a mask that is added to the scores. A select between 0 and a number that hides (-1e9 or less) is a bool mask.
  void addFloat(Access access);

  bool isCausal() const { return causal; }
  std::optional<int64_t> getWindow() const { return window; }
  /// Says why the masks cannot be operands of train.attention; empty if they can.
  std::string problem() const;
  /// The operands, null where there is none.
  mlir::Value keyPadding(mlir::OpBuilder &builder, mlir::Location loc) const;
  mlir::Value mask(mlir::OpBuilder &builder, mlir::Location loc) const;

private:
  struct Part {
    Access access;
    bool negated;
  };
  mlir::Value build(mlir::OpBuilder &builder, mlir::Location loc, const Part &part, llvm::ArrayRef<int> axes) const;
  bool addComparison(Access access, bool negated);
  bool addConstant(const Access &access, bool negated);

  llvm::SmallVector<int64_t> shape;
  bool causal = false;
  std::optional<int64_t> window;
  llvm::SmallVector<Part> paddings, others;
  llvm::SmallVector<Access> floats;
};

/// True for numbers that, added to a score, hide it: exp of it is 0 beside any other score.
bool hides(std::optional<double> number);

} // namespace forebay::raise

#endif // FOREBAY_LIB_DIALECT_TRAIN_TRANSFORMS_RAISEMASKS_H
