//===- TrainBase.td - train dialect definition -------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_TRAIN_IR_TRAINBASE_TD
#define FOREBAY_DIALECT_TRAIN_IR_TRAINBASE_TD

include "mlir/IR/OpBase.td"

def Train_Dialect : Dialect {
  let name = "train";
  let summary = "What a training step needs and upstream dialects lack";
  let description = [{
    Fused forward operations with their gradients (norms, attention, cross entropy, ...), the
    optimizer, and the bookkeeping of a step (accumulation, global norm, verdict). Everything
    elementwise is `arith`/`math` on ranked tensors, matrix products are `linalg.contract`, shape
    changes are `tensor`, transposes, broadcasts and reductions are `linalg`.

    All tensors are ranked and static once `--dim` has been bound; a dimension may be 0.

    Discardable attributes on the arguments of the entry function:

    | attribute | on | meaning |
    |---|---|---|
    | `train.name` | every argument and result | name in the ONNX file (string) |
    | `train.role` | every argument and result | `#train.role<...>` |
    | `train.source` | parameters, buffers | `#train.source<...>`: where the initial bytes are; absent: no bytes known |
    | `train.trainable` | parameters | unit; absent on frozen parameters |
    | `train.no_gradient` | parameters | unit; was trainable, but no differentiable path joins it to the loss: it is never touched |
    | `train.hyper` | trainable parameters | dictionary of `f64`/`bool`: values of its group, only those that differ from the defaults |
    | `train.donate` | state arguments | index of the function result that replaces the argument after a step |
    | `train.range` | integer inputs | `{lo, hi[, ignore]}`, i64: every element keeps `lo <= v < hi` or is `ignore`; checked when a row is fed |
  }];
  let cppNamespace = "::forebay::train";
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect", "::mlir::linalg::LinalgDialect"];
  let useDefaultAttributePrinterParser = 1;
}

#endif // FOREBAY_DIALECT_TRAIN_IR_TRAINBASE_TD
