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

def TrainMixedPrecision : Pass<"train-mixed-precision", "::mlir::ModuleOp"> {
  let summary = "Forward, and with it backward, in bf16 or f16; masters, statistics and the loss in f32";
  let description = [{
    Runs on `@forward`, raised, before `train-differentiate`. Each f32 parameter, trained or frozen, is cast once (`train.cast`), in front of its first
    reader; whatever is computed from a parameter is of the type `type`:

    ```mlir
    %0 = linalg.contract ... ins(%x, %w : tensor<8x4xf32>, tensor<3x4xf32>) outs(%zero : tensor<8x3xf32>) -> tensor<8x3xf32>
    // becomes
    %c = train.cast %w : tensor<3x4xf32> to tensor<3x4xbf16>
    %t = arith.truncf %x : tensor<8x4xf32> to tensor<8x4xbf16>
    %0 = linalg.contract ... ins(%t, %c : tensor<8x4xbf16>, tensor<3x4xbf16>) outs(%zero : tensor<8x3xbf16>) -> tensor<8x3xbf16>
    ```

    * Products, elementwise operations, views, softmax, norms, attention, rotary and embedding give the compute type. Norms keep mean and
      rstd, attention and cross entropy lse, in f32; so are tables of rotary and float masks that no parameter reaches. Kernels of the
      compute type keep their sums in f32 and round once.
    * Cross entropy takes logits of the compute type and gives an f32 loss. Sums (`linalg.reduce`), operations that the pass does not know, and the
      function's results go on in f32; an elementwise operation with an operand of the compute type comes back to it.
    * Constants that are finite stay finite.
    * Differentiation gives gradients the type of their value: a parameter's comes out in the compute type and goes through `train.cast` to f32
      before it is accumulated, measured and applied.

    Errors: no `@forward`; another type than bf16 and f16.
  }];
  let options = [Option<"type", "type", "std::string", "\"bf16\"", "Compute type: bf16 or f16">];
  let dependentDialects = ["::forebay::train::TrainDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

//===----------------------------------------------------------------------===//
// Raising: `train-raise` runs these in the order below, between canonicalize and cse
//===----------------------------------------------------------------------===//

class TrainRaisePass<string name> : Pass<name, "::mlir::func::FuncOp"> {
  let dependentDialects = ["::forebay::train::TrainDialect", "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def TrainRaiseActivations : TrainRaisePass<"train-raise-activations"> {
  let summary = "Raises written-out softmax, sigmoid, GELU and SiLU";
  let description = [{
    | before | after |
    |---|---|
    | `1 / (1 + exp(-x))` | `train.sigmoid` |
    | `x * sigmoid(x)`, `x / (1 + exp(-x))` | `train.silu` |
    | `x (1 + erf(x / sqrt(2))) / 2` | `train.gelu` |
    | `x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2` | `train.gelu {tanh}` |
    | `exp(x - max(x)) / sum(exp(x - max(x)))` over the last axis | `train.softmax` |

    Constants may stand anywhere in the products and the polynomial inside tanh or erf may be written in any way; they are compared up to
    the rounding of fp32 (relative 1e-6).

    Assumes that equal subexpressions are one value (run canonicalize and cse before). Guarantees the same
    function up to rounding. Remarks (category `train-raise-activations`): `Raised`, and `NotRaised` with the reason for a
    near miss (other constants).
  }];
}

def TrainRaiseNorms : TrainRaisePass<"train-raise-norms"> {
  let summary = "Raises written-out RMS norm and layer norm";
  let description = [{
    | before, everything over the last axis | after |
    |---|---|
    | `w * (x * r)`, `(x * w) * r`, `x * r`, `x / sqrt(..)`; `r = 1 / sqrt(mean(x^2) + eps)` or rsqrt | `train.rms_norm` |
    | the same with `1 + w` | `train.rms_norm {unit_offset}` |
    | the same with `x - mean(x)` for `x`, then `+ b` | `train.layer_norm` |

    The weight is a vector along the last axis however it was broadcast; a factor that is none stays a product. A weight is taken in
    if the normalised value has no other use. Squares may be powers or products; the mean a sum that is divided or multiplied.

    Assumes that equal subexpressions are one value. Guarantees the same function up to rounding. `NotRaised` says, for a root of a
    mean square, what did not fit: another axis, a sum that is no mean, a scaled value that is not the squared one.
  }];
}

def TrainRaiseRotary : TrainRaisePass<"train-raise-rotary"> {
  let summary = "Raises rotary position embedding";
  let description = [{
    | before | after |
    |---|---|
    | `x * cos + concat(-x2, x1) * sin`, `x1`, `x2` the halves of `x` | `train.rotary` |
    | the same with even and odd elements, stacked and flattened | `train.rotary {interleaved}` |
    | `concat(x1 * cos - x2 * sin, x2 * cos + x1 * sin)` (tables of half width) | `train.rotary` |
    | `concat(train.rotary(slice(x)), rest of x)` | `train.rotary` with narrower tables |

    Tables of full width are rebuilt at half width: through elementwise operations, broadcasts and constants down to the
    concatenation (or repetition) of one value with itself. Tables that do not provably repeat are a near miss. They become
    [sequence, half], or [batch, sequence, half] if they depend on the batch. A rotation in the layout [batch, sequence, heads,
    dimension] is put between two transposes, which cancel with those of the graph. Empty parts of concatenations are
    dropped.

    Assumes that equal subexpressions are one value. Guarantees the same function, bit for bit (x * cos - y * sin for x * cos + (-y) * sin).
  }];
}

def TrainRaiseAttention : TrainRaisePass<"train-raise-attention"> {
  let summary = "Raises attention, removes repeated heads, turns masks into attributes";
  let description = [{
    `softmax(mask(softcap(scale * q k^T))) v`, written with two `linalg.contract`, becomes `train.attention`; an attention of the
    import (ONNX Attention) is brought to the same form.

    * **Scale**: constants on queries, keys and scores are multiplied. Equal factors on queries and keys are the rounded square root of a
      scale; the number that was rooted is recovered: 1/sqrt(head dimension), else 1/sqrt(n), else the shortest decimal,
      whichever has this root in fp32.
    * **Layout**: transposes and reshapes between queries, keys, values and the products are followed until the value is [batch,
      heads, sequence, dimension]; what is beyond stays outside.
    * **Repeated heads** (expand, broadcast, collapse) are dropped from keys and values.
    * **Masks** are taken apart: conjunctions of bool parts, sums of float parts, selects between 0 and a number that hides
      (-1e9 or less; also the lowest finite one). `train.causal_mask` and comparisons of positions become `causal` and `window`; what is
      always true is dropped; a part that depends on batch and keys only becomes `key_padding`; the rest is the operand `mask` at its
      smallest shape.
    * The guard that replaces NaN by 0 after the softmax is dropped: it is what `train.attention` does for a row without keys.

    Assumes that softmaxes were raised. Guarantees the same function up to rounding, except in rows whose keys a *select* between 0 and a
    finite number hides all: they give 0 as in PyTorch's scaled_dot_product_attention. Not raised, with a remark: a float mask that
    needs a gradient, probabilities that are used otherwise (sinks, dropout), masks inside the scale.
  }];
}

def TrainRaiseLoss : TrainRaisePass<"train-raise-loss"> {
  let summary = "Brings shifted labels to one form";
  let description = [{
    Integer `slice(pad(labels))`, the exporter's form of labels shifted by one with the ignored value at the end, becomes
    `pad(slice(labels))`: no tensor of another length exists on the way.
  }];
}

def TrainLowerElementwise : Pass<"train-lower-elementwise"> {
  let summary = "Activations and masks of the train dialect as arith and math";
  let description = [{
    Rewrites gelu, silu, sigmoid and their gradients by their definitions (docs/dialects/train.md), causal_mask as comparisons of
    broadcast `train.iota`, and removes detach. `train.iota` stays: kernels compute it from the loop index. The phase of an operation
    goes to what replaces it.

    ```mlir
    %1 = train.sigmoid %0 : tensor<8xf32>
    // becomes
    %n = arith.negf %0 : tensor<8xf32>
    %e = math.exp %n : tensor<8xf32>
    %s = arith.addf %one, %e : tensor<8xf32>
    %1 = arith.divf %one, %s : tensor<8xf32>
    ```

    Assumes that the backward part has been built. Runs before `-forebay-form-dispatches`.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect", "::mlir::linalg::LinalgDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect", "::forebay::train::TrainDialect"];
}

//===----------------------------------------------------------------------===//
// The step
//===----------------------------------------------------------------------===//

def TrainSetOptimizer : Pass<"train-set-optimizer", "::mlir::ModuleOp"> {
  let summary = "Put an optimizer into the module and assign parameter groups";
  let description = [{
    Adds the `train.optimizer` definition named by `optimizer` (`adamw`, `adam`, `sgd`, `lion`, or a file that ends in
    `.mlir`), changes its defaults as `hyper` says, and attaches `train.hyper` to the trainable arguments of `@forward` or `@step` that a
    `group` matches. Runs at any level before `train-build-step`. Problems are reported all at once.
  }];
  let options = [
    Option<"optimizer", "optimizer", "std::string", "\"adamw\"", "Built-in optimizer or FILE.mlir">,
    ListOption<"hyper", "hyper", "std::string", "KEY=VALUE: a default of the optimizer">,
    ListOption<"group", "group", "std::string", "REGEX:KEY=VALUE,...: values for the parameters whose name matches">
  ];
  let dependentDialects = ["::forebay::train::TrainDialect", "::mlir::func::FuncDialect"];
}

def TrainBuildStep : Pass<"train-build-step", "::mlir::ModuleOp"> {
  let summary = "Make a whole training step out of a differentiated function";
  let description = [{
    Before: `@step(inputs, initializers) -> (outputs, gradients)`, as `train-differentiate` leaves it, and one
    `train.optimizer`.

    After: `@step(inputs, initializers, moments, accumulators) -> (outputs, verdict, new parameters, new moments, new
    accumulators)`, each state argument donated to its result (`train.donate`). Gradients are accumulated over the micro-steps
    (`accumulate` > 1), their norm gives the verdict, each parameter gets one `train.update`. Parameters with equal
    `train.hyper` share one `train.scalars`.

    Guarantees: gradients enter the norm in initializer order; a parameter that is frozen or has no gradient is neither
    donated nor updated.
  }];
  let options = [
    Option<"accumulate", "accumulate", "int64_t", "1", "Micro-steps in a step">,
    Option<"clipNorm", "clip-norm", "double", "0.0", "Limit of the global gradient norm; 0: no clipping">
  ];
  let dependentDialects = ["::forebay::train::TrainDialect", "::mlir::func::FuncDialect"];
}

#endif // FOREBAY_DIALECT_TRAIN_TRANSFORMS_PASSES_TD
