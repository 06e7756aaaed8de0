//===- Passes.td - train passes -------------------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_TRAIN_TRANSFORMS_PASSES_TD
#define FOREBAY_DIALECT_TRAIN_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

def TrainDifferentiate : Pass<"train-differentiate", "::mlir::ModuleOp"> {
  let summary = "Derives the backward part: @forward becomes @step";
  let description = [{
    Reverse-mode differentiation of the loss (the result with `train.role = #train.role<loss>`) with respect to the
    arguments with `train.trainable`, through `GradientOpInterface`.

    Before: `@forward(inputs, initializers) -> (outputs)` of the level imported or raised; one block.
    After: `@step` with the same arguments; results are those of `@forward`, then one gradient for each trainable argument that
    a differentiable path joins to the loss, in argument order, with `train.name` (the parameter's) and the role gradient.

    ```mlir
    func.func @forward(%x: tensor<4xf32>, %w: tensor<4xf32> {train.name = "w", train.trainable, ...})
        -> (tensor<f32> {train.role = #train.role<loss>})
    // becomes
    func.func @step(%x: tensor<4xf32>, %w: tensor<4xf32> {...})
        -> (tensor<f32> {...}, tensor<4xf32> {train.name = "w", train.role = #train.role<gradient>})
    ```

    * Operations carry `train.phase` forward or backward, except constants, which both phases share. (The attribute also
      keeps CSE from joining equal operations of the two phases, which would keep their results alive in between.)
    * Backward operations follow the forward ones, in reverse order. Their location is `"node.grad"("scope")` for the forward
      operation's `"node"("scope")`.
    * Gradients of a value with several uses are added from the last use to the first, as they appear. Slices that together
      make up a value give one `tensor.concat` of their gradients.
    * Each trainable argument without a path loses `train.trainable` and gets `train.no_gradient`; one warning names them.
    * `train.detach` is folded away, operations without uses are erased. Outputs of `@forward` stay, also those that no
      gradient needs.

    Errors: no loss or one that is not a number; no trainable argument, or none with a path; operations without
    `GradientOpInterface` on a path, all at once.
  }];
  let dependentDialects = ["::forebay::train::TrainDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // FOREBAY_DIALECT_TRAIN_TRANSFORMS_PASSES_TD
