//===- ElementwiseGroups.h - Which operations share a kernel ----*- C++ -*-===//

#ifndef FOREBAY_LIB_CONVERSION_ELEMENTWISEGROUPS_H
#define FOREBAY_LIB_CONVERSION_ELEMENTWISEGROUPS_H

#include "DispatchLayouts.h"

namespace forebay {

/// Elementwise operations in groups, each of which becomes one loop nest at the place of its last operation, its anchor.
class ElementwiseGroups {
public:
  ElementwiseGroups(mlir::func::FuncOp step, const DispatchLayouts &layouts) : step(step), layouts(layouts) {}

  /// Groups all elementwise operations of the function but the excluded ones.
  void form(llvm::function_ref<bool(mlir::Operation *)> isExcluded);

  /// The anchor of the operation's group, or null.
  mlir::Operation *of(mlir::Operation *op) const { return groupOf.lookup(op); }
  /// The operations whose results the group stores, in order.
  llvm::ArrayRef<mlir::Operation *> anchors(mlir::Operation *anchor) { return anchorsOf[anchor]; }
  /// Makes a group of one operation.
  void addAlone(mlir::Operation *op);

private:
  void mergeGroups();
  bool canMergeGroups(mlir::Operation *earlier, mlir::Operation *later);
  bool usedAfter(mlir::Value value, mlir::Operation *later, bool &reads);
  bool shareOperand(mlir::Operation *a, mlir::Operation *b);
  mlir::Operation *findGroup(mlir::Operation *op);
  bool collectUsers(mlir::Value value, mlir::Operation *&anchor, llvm::SmallVectorImpl<llvm::ArrayRef<int64_t>> &through);

  mlir::func::FuncOp step;
  const DispatchLayouts &layouts;
  llvm::DenseMap<mlir::Operation *, mlir::Operation *> groupOf; ///< operation -> anchor
  // By anchor:
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<mlir::Operation *>> membersOf, anchorsOf;
  llvm::DenseMap<mlir::Operation *, llvm::SmallVector<llvm::ArrayRef<int64_t>>> shapes;
};

} // namespace forebay

#endif // FOREBAY_LIB_CONVERSION_ELEMENTWISEGROUPS_H
