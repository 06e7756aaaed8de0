//===- EmitExpr.h - Operations that compute an expression -------*- C++ -*-===//

#ifndef FOREBAY_LIB_IMPORT_EMITEXPR_H
#define FOREBAY_LIB_IMPORT_EMITEXPR_H

#include "Emitter.h"

namespace forebay::import {

/// Every part of an expression becomes a tensor over just the coordinates that occur in it and is broadcast where it meets others:
/// a causal mask is `train.causal_mask`, positions are `train.iota`, key padding is a compare of the fed [batch, keys].
class ExprEmitter {
public:
  explicit ExprEmitter(Emitter &e, llvm::ArrayRef<int64_t> shape) : e(e), t(e.t), shape(shape) {}

  /// In the full shape, with the type of `dtype`.
  mlir::Value emit(expr::Ref node, int32_t dtype);

private:
  llvm::SmallVector<int64_t, 4> axesOf(uint64_t set);
  /// `node` over the axes of `set`, a superset of its own.
  mlir::Value over(expr::Ref node, uint64_t set);
  /// Over its own axes.
  mlir::Value tensor(expr::Ref node);
  mlir::Value build(expr::Ref node);
  mlir::Value linear(expr::Ref node);
  mlir::Value compare(expr::Ref node);
  mlir::Value conjunction(expr::Ref node);
  mlir::Value table(expr::Ref node);
  mlir::Value load(expr::Ref node);
  mlir::Value viewOfLoad(expr::Ref node);
  mlir::Value splitLoad(expr::Ref node);
  /// By `train.embedding` on the flat source.
  mlir::Value gather(expr::Ref node);
  /// An operation on values of equal shape.
  mlir::Value apply(expr::Ref node, llvm::ArrayRef<mlir::Value> args);

  Emitter &e;
  TensorBuilder &t;
  llvm::ArrayRef<int64_t> shape;
};

/// The factors of a mask: `k <= q`, `k > q - window`, and what is left.
struct MaskFactors {
  bool causal = false;
  std::optional<int64_t> window;
  llvm::SmallVector<expr::Ref, 4> rest;
};
/// Splits a boolean expression with queries and keys along the given axes.
MaskFactors splitMask(expr::Context &context, expr::Ref mask, unsigned queryAxis, unsigned keyAxis);

} // namespace forebay::import

#endif // FOREBAY_LIB_IMPORT_EMITEXPR_H
