//===- TrainOps.td - train operations ----------------------*- tablegen -*-===//

#ifndef FOREBAY_DIALECT_TRAIN_IR_TRAINOPS_TD
#define FOREBAY_DIALECT_TRAIN_IR_TRAINOPS_TD

include "forebay/Dialect/Train/IR/TrainAttrs.td"
include "forebay/Dialect/Train/IR/TrainInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"

class Train_Op<string mnemonic, list<Trait> traits = []> : Op<Train_Dialect, mnemonic, traits>;

// Floating-point tensors are f32 in programs that run and f64 in gradient tests.
def Train_FloatTensor : RankedTensorOf<[F32, F64, F16, BF16]>;
def Train_IdTensor : RankedTensorOf<[I64, I32]>;
def Train_MaskTensor : RankedTensorOf<[I1, F32, F64]>;
def Train_BoolTensor : RankedTensorOf<[I1]>;

defvar Gradient = DeclareOpInterfaceMethods<GradientOpInterface>;
defvar Cost = DeclareOpInterfaceMethods<CostOpInterface>;

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

class Train_UnaryOp<string mnemonic, list<Trait> traits = []>
    : Train_Op<mnemonic, [Pure, SameOperandsAndResultType, Elementwise] # traits> {
  let arguments = (ins Train_FloatTensor:$input);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

class Train_UnaryGradOp<string mnemonic> : Train_Op<mnemonic, [Pure, SameOperandsAndResultType, Elementwise]> {
  let arguments = (ins Train_FloatTensor:$grad, Train_FloatTensor:$input);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$grad `,` $input attr-dict `:` type($result)";
}

def Train_GeluOp : Train_UnaryOp<"gelu", [Gradient]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    Exact: `x * (1 + erf(x / sqrt(2))) / 2`. With `tanh`:
    `x * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3))) / 2` (Hendrycks and Gimpel, arXiv 1606.08415).
    `-train-lower-elementwise` expands it to `arith`/`math`.
  }];
  let arguments = (ins Train_FloatTensor:$input, UnitAttr:$tanh);
}
def Train_GeluGradOp : Train_UnaryGradOp<"gelu_grad"> {
  let summary = "grad * d gelu(input) / d input";
  let arguments = (ins Train_FloatTensor:$grad, Train_FloatTensor:$input, UnitAttr:$tanh);
}
def Train_SiluOp : Train_UnaryOp<"silu", [Gradient]> {
  let summary = "x * sigmoid(x)";
}
def Train_SiluGradOp : Train_UnaryGradOp<"silu_grad"> {
  let summary = "grad * sigmoid(x) * (1 + x * (1 - sigmoid(x)))";
}
def Train_SigmoidOp : Train_UnaryOp<"sigmoid", [Gradient]> {
  let summary = "1 / (1 + exp(-x))";
}
def Train_DetachOp : Train_Op<"detach", [Pure, SameOperandsAndResultType, Gradient]> {
  let summary = "The value, without a gradient";
  let description = [{
    PyTorch's `detach`. The exporter writes it as an Identity that only metadata marks. Folded away
    once the backward part has been built.
  }];
  let arguments = (ins AnyRankedTensor:$input);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}

def Train_CastOp : Train_Op<"cast", [Pure, SameOperandsAndResultShape, Gradient]> {
  let summary = "A tensor in another floating-point type, as a buffer of its own";
  let description = [{
    Boundary between the type of masters, moments and gradients (f32) and the type of compute: `train-mixed-precision` casts each
    parameter once, and the gradient of that cast brings the parameter's gradient back. Unlike `arith.truncf` and `extf`
    it is never part of another kernel, so that the planner may choose where it runs and what moves. Rounds to nearest, ties to even.
  }];
  let arguments = (ins Train_FloatTensor:$input);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
}

//===----------------------------------------------------------------------===//
// Index expressions
//===----------------------------------------------------------------------===//

def Train_IotaOp : Train_Op<"iota", [Pure]> {
  let summary = "start + step * i, an integer vector";
  let description = [{ Stays an expression: no bytes are stored; elementwise kernels compute it from the loop index. }];
  let arguments = (ins DefaultValuedAttr<I64Attr, "0">:$start, DefaultValuedAttr<I64Attr, "1">:$step);
  let results = (outs RankedTensorOf<[I64]>:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

def Train_CausalMaskOp : Train_Op<"causal_mask", [Pure]> {
  let summary = "True where query q may see key k";
  let description = [{
    Element (..., q, k) of the last two axes is `k <= q`, and with `window = w` also `k > q - w`. Leading
    axes have size 1. No [seq, seq] tensor exists as long as every use is a `train.attention` after raising.
  }];
  let arguments = (ins OptionalAttr<I64Attr>:$window);
  let results = (outs Train_BoolTensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Normalisation and softmax: all over the last axis
//===----------------------------------------------------------------------===//

def Train_SoftmaxOp : Train_Op<"softmax", [Pure, SameOperandsAndResultType, Gradient]> {
  let summary = "Softmax over the last axis";
  let description = [{ A row whose every element is -inf gives NaN, as in PyTorch. }];
  let arguments = (ins Train_FloatTensor:$input);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($result)";
}
def Train_SoftmaxGradOp : Train_Op<"softmax_grad", [Pure, SameOperandsAndResultType]> {
  let summary = "y * (dy - sum(y * dy)) over the last axis";
  let arguments = (ins Train_FloatTensor:$grad, Train_FloatTensor:$output);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$grad `,` $output attr-dict `:` type($result)";
}

// Operations with optional operands print `name(operand)` for each that is there, then one function type.
def Train_LayerNormOp : Train_Op<"layer_norm", [Pure, AttrSizedOperandSegments, Gradient]> {
  let summary = "(x - mean) * rstd * weight + bias over the last axis";
  let description = [{
    rstd = 1 / sqrt(mean((x - mean)^2) + eps). `mean` and `rstd` have the shape of x without its last axis and
    are kept for the gradient. weight and bias have the size of the last axis.
  }];
  let arguments = (ins Train_FloatTensor:$input, Optional<Train_FloatTensor>:$weight,
                   Optional<Train_FloatTensor>:$bias, F64Attr:$eps);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$mean, Train_FloatTensor:$rstd);
  let assemblyFormat = [{ $input (`weight` `(` $weight^ `)`)? (`bias` `(` $bias^ `)`)? attr-dict
    `:` functional-type(operands, results) }];
  let hasVerifier = 1;
}
def Train_LayerNormGradOp : Train_Op<"layer_norm_grad", [Pure]> {
  let summary = "Gradient of layer_norm";
  let description = [{
    dinput like input; dweight = sum over rows of grad * (x - mean) * rstd and dbias = sum over rows of grad, both of
    the size of the last axis, summed in a fixed tree. Without a weight the factor is 1.
  }];
  let arguments = (ins Train_FloatTensor:$grad, Train_FloatTensor:$input, Train_FloatTensor:$mean,
                   Train_FloatTensor:$rstd, Optional<Train_FloatTensor>:$weight);
  let results = (outs Train_FloatTensor:$dinput, Train_FloatTensor:$dweight, Train_FloatTensor:$dbias);
  let assemblyFormat = [{ $grad `,` $input `,` $mean `,` $rstd (`weight` `(` $weight^ `)`)? attr-dict
    `:` functional-type(operands, results) }];
  let hasVerifier = 1;
}

def Train_RMSNormOp : Train_Op<"rms_norm", [Pure, Gradient]> {
  let summary = "x * rstd * weight over the last axis";
  let description = [{
    rstd = 1 / sqrt(mean(x^2) + eps); with `unit_offset` the factor is (1 + weight) (Gemma). `rstd` has the shape of x
    without its last axis.
  }];
  let arguments = (ins Train_FloatTensor:$input, Optional<Train_FloatTensor>:$weight, F64Attr:$eps,
                   UnitAttr:$unit_offset);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$rstd);
  let assemblyFormat = [{ $input (`weight` `(` $weight^ `)`)? attr-dict `:` functional-type(operands, results) }];
  let hasVerifier = 1;
}
def Train_RMSNormGradOp : Train_Op<"rms_norm_grad", [Pure]> {
  let summary = "Gradient of rms_norm";
  let description = [{ dinput like input; dweight of the size of the last axis, summed over rows in a fixed tree. }];
  let arguments = (ins Train_FloatTensor:$grad, Train_FloatTensor:$input, Train_FloatTensor:$rstd,
                   Optional<Train_FloatTensor>:$weight, UnitAttr:$unit_offset);
  let results = (outs Train_FloatTensor:$dinput, Train_FloatTensor:$dweight);
  let assemblyFormat = [{ $grad `,` $input `,` $rstd (`weight` `(` $weight^ `)`)? attr-dict
    `:` functional-type(operands, results) }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Attention, rotary positions
//===----------------------------------------------------------------------===//

def Train_AttentionOp : Train_Op<"attention", [Pure, AttrSizedOperandSegments, Gradient, Cost]> {
  let summary = "softmax(mask(softcap(scale * q k^T))) v";
  let description = [{
    q [B, H, Sq, D], k [B, Hk, Sk, D], v [B, Hk, Sk, Dv], result [B, H, Sq, Dv], lse [B, H, Sq] (natural logarithm of the
    sum of exponentials of a row's scores, kept for the gradient). Hk divides H: query head h reads key head
    h / (H / Hk), so repeated heads are never materialised.

    Score s = scale * (q . k); with `softcap = c`: s = c * tanh(s / c). A key is hidden by: `causal` (k > q),
    `window = w` (k <= q - w), `key_padding` [B, Sk] i1 (false hides), `mask` [B|1, H|1, Sq|1, Sk] (i1: false hides; float:
    added to s after the soft cap). A row whose keys are all hidden by bool masks gives 0 and no gradient; its lse is -inf.
    Masks carry no gradient: an attention whose float mask needs one is left decomposed.
    Memory is linear in tokens: no [Sq, Sk] tensor exists.
  }];
  let arguments = (ins Train_FloatTensor:$query, Train_FloatTensor:$key, Train_FloatTensor:$value,
                   Optional<Train_MaskTensor>:$mask, Optional<Train_BoolTensor>:$key_padding,
                   F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$softcap);
  let results = (outs Train_FloatTensor:$result, Train_FloatTensor:$lse);
  let assemblyFormat = [{ $query `,` $key `,` $value (`mask` `(` $mask^ `)`)? (`key_padding` `(` $key_padding^ `)`)?
    attr-dict `:` functional-type(operands, results) }];
  let hasVerifier = 1;
}
def Train_AttentionGradOp : Train_Op<"attention_grad", [Pure, AttrSizedOperandSegments, Cost]> {
  let summary = "Gradient of attention";
  let description = [{ dquery, dkey, dvalue of the types of query, key, value; scores are recomputed from lse. }];
  let arguments = (ins Train_FloatTensor:$grad, Train_FloatTensor:$query, Train_FloatTensor:$key,
                   Train_FloatTensor:$value, Train_FloatTensor:$output, Train_FloatTensor:$lse,
                   Optional<Train_MaskTensor>:$mask, Optional<Train_BoolTensor>:$key_padding,
                   F64Attr:$scale, UnitAttr:$causal, OptionalAttr<I64Attr>:$window, OptionalAttr<F64Attr>:$softcap);
  let results = (outs Train_FloatTensor:$dquery, Train_FloatTensor:$dkey, Train_FloatTensor:$dvalue);
  let assemblyFormat = [{ $grad `,` $query `,` $key `,` $value `,` $output `,` $lse (`mask` `(` $mask^ `)`)?
    (`key_padding` `(` $key_padding^ `)`)? attr-dict `:` functional-type(operands, results) }];
  let hasVerifier = 1;
}

def Train_RotaryOp : Train_Op<"rotary", [Pure, Gradient]> {
  let summary = "Rotary position embedding";
  let description = [{
    input [B, H, S, D]; cos, sin [S, R/2] or [B, S, R/2] with R <= D even. Pairs of the first R elements of each row are
    rotated, the rest passes through: (a, b) -> (a cos - b sin, b cos + a sin), with (a, b) = (x[i], x[i + R/2]), or
    (x[2i], x[2i + 1]) with `interleaved`. `inverse` negates sin: the gradient is the inverse rotation. cos and sin carry
    no gradient.
  }];
  let arguments = (ins Train_FloatTensor:$input, Train_FloatTensor:$cos, Train_FloatTensor:$sin,
                   UnitAttr:$interleaved, UnitAttr:$inverse);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$input `,` $cos `,` $sin attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Embedding and loss
//===----------------------------------------------------------------------===//

def Train_EmbeddingOp : Train_Op<"embedding", [Pure, Gradient]> {
  let summary = "Rows of a table";
  let description = [{
    table [V, rest...], ids [...] -> [..., rest...]. An id in [-V, 0) counts from the end (ONNX Gather); ids that come from an
    input are checked when the row is fed, computed ones as `train.range` says. The table gets no gradient from rows whose id is `padding` (PyTorch's
    `padding_idx`).
  }];
  let arguments = (ins AnyRankedTensor:$table, Train_IdTensor:$ids, OptionalAttr<I64Attr>:$padding);
  let builders = [OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$table, "::mlir::Value":$ids), [{
    build($_builder, $_state, result, table, ids, ::mlir::IntegerAttr());
  }]>];
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$table `,` $ids attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Train_EmbeddingGradOp : Train_Op<"embedding_grad", [Pure]> {
  let summary = "dtable[id] += grad row, in the order of the ids";
  let description = "A row whose id lies outside [-V, V) is dropped.";
  let arguments = (ins Train_FloatTensor:$grad, Train_IdTensor:$ids);
  let results = (outs Train_FloatTensor:$dtable);
  let assemblyFormat = "$grad `,` $ids attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Train_CrossEntropyOp : Train_Op<"cross_entropy", [Pure, Gradient]> {
  let summary = "Mean (or sum) of lse(logits) - logits[label] over rows whose label is not ignored";
  let description = [{
    logits [N, C], labels [N] -> loss [] (rank 0), lse [N]. With no row left the mean is NaN and its gradient 0 (PyTorch).
  }];
  let arguments = (ins Train_FloatTensor:$logits, Train_IdTensor:$labels,
                   DefaultValuedAttr<I64Attr, "-100">:$ignore_index, UnitAttr:$sum);
  let results = (outs Train_FloatTensor:$loss, Train_FloatTensor:$lse);
  let assemblyFormat = "$logits `,` $labels attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Train_CrossEntropyGradOp : Train_Op<"cross_entropy_grad", [Pure]> {
  let summary = "dloss / count * (softmax(logits) - onehot(label)); 0 for ignored rows";
  let arguments = (ins Train_FloatTensor:$grad, Train_FloatTensor:$logits, Train_IdTensor:$labels,
                   Train_FloatTensor:$lse, DefaultValuedAttr<I64Attr, "-100">:$ignore_index, UnitAttr:$sum);
  let results = (outs Train_FloatTensor:$dlogits);
  let assemblyFormat = "$grad `,` $logits `,` $labels `,` $lse attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// The step: accumulation, verdict, update
//===----------------------------------------------------------------------===//

def Train_AccumulateOp : Train_Op<"accumulate", [Pure, AllTypesMatch<["accumulator", "grad", "result"]>]> {
  let summary = "Sum of a gradient over micro-steps";
  let description = [{
    At the first micro-step of a step the result is `grad`, later `accumulator + grad` (fp32). Only in programs with K > 1.
  }];
  let arguments = (ins Train_FloatTensor:$accumulator, Train_FloatTensor:$grad);
  let results = (outs Train_FloatTensor:$result);
  let assemblyFormat = "$accumulator `,` $grad attr-dict `:` functional-type(operands, results)";
}

def Train_NormPartialsOp : Train_Op<"norm_partials", [Pure]> {
  let summary = "Sums of squares of fixed blocks of a gradient";
  let description = [{
    First level of the tree of the global norm: element b is the sum of squares of elements [1024 b, 1024 (b + 1)) of
    `grad / accumulate` in row-major order (16 interleaved fp32 lanes, combined pairwise), so the result has ceil(size / 1024)
    elements. Independent of buckets, placement and threads. A parameter that is split over buckets is split at multiples of 1024
    elements.
  }];
  let arguments = (ins Train_FloatTensor:$grad, DefaultValuedAttr<I64Attr, "1">:$accumulate);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let assemblyFormat = "$grad attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Train_VerdictOp : Train_Op<"verdict", [Pure]> {
  let summary = "Global norm, clip coefficient and finiteness of a step";
  let description = [{
    Operands: the partials of each gradient, gradients in initializer order. Second level of the tree: partials of a gradient, then
    gradients, both in order, in fp64; square root in fp64, rounded to fp32.

    Result: 4 f32: [norm, coefficient, finite (1 or 0), index of the first gradient that is not finite or -1].
    coefficient = min(1, clip / norm), exactly 1 when norm <= clip or without `clip`; nothing is added to the norm.
  }];
  let arguments = (ins Variadic<RankedTensorOf<[F32]>>:$partials, OptionalAttr<F64Attr>:$clip);
  let results = (outs RankedTensorOf<[F32]>:$verdict);
  let assemblyFormat = "$partials attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Train_ScalarsOp : Train_Op<"scalars", []> {
  let summary = "Per-step scalars of a parameter group";
  let description = [{
    Evaluates `@optimizer`'s scalar function at the step number t that this step has if it is applied, the scheduled learning
    rate times `lr_scale`, and the hyper-parameters of the group: the optimizer's defaults, overridden by the entries of `hyper`
    (f64 or bool; its entry `lr_scale`, default 1, is not a hyper-parameter). Groups are numbered from 0. Result: one f32 for each
    result of the scalar function. Side effect: reads the runtime's schedule, so it is never hoisted or merged.
  }];
  let arguments = (ins FlatSymbolRefAttr:$optimizer, DictionaryAttr:$hyper, I64Attr:$group);
  let results = (outs RankedTensorOf<[F32]>:$result);
  let assemblyFormat = "$optimizer attr-dict `:` type($result)";
}

def Train_UpdateOp : Train_Op<"update", [Pure]> {
  let summary = "One optimizer update of one parameter";
  let description = [{
    Applies `@optimizer`'s elementwise update function. The gradient it sees is `grad / accumulate * coefficient` (in this
    order, each rounded to fp32; a division by 1 and a multiplication by 1 are exact), all in one pass over memory. Where
    the verdict is not finite the results are the inputs, bit for bit.
  }];
  let arguments = (ins FlatSymbolRefAttr:$optimizer, Train_FloatTensor:$parameter, Train_FloatTensor:$grad,
                   Variadic<Train_FloatTensor>:$state, RankedTensorOf<[F32]>:$scalars, RankedTensorOf<[F32]>:$verdict,
                   DefaultValuedAttr<I64Attr, "1">:$accumulate);
  let results = (outs Train_FloatTensor:$new_parameter, Variadic<Train_FloatTensor>:$new_state);
  let assemblyFormat = [{ $optimizer `parameter` `(` $parameter `)` `grad` `(` $grad `)` `state` `(` $state `)`
    `scalars` `(` $scalars `)` `verdict` `(` $verdict `)` attr-dict `:` functional-type(operands, results) }];
  let hasVerifier = 1;
}

def Train_OptimizerOp : Train_Op<"optimizer", [Symbol, IsolatedFromAbove, NoTerminator, NoRegionArguments, SymbolTable]> {
  let summary = "Definition of an optimizer";
  let description = [{
    ```mlir
    train.optimizer @sgd hyper {lr = 1.0e-3, momentum = 0.0, weight_decay = 0.0} state ["momentum_buffer"] {
      // Scalars of a step, in fp64: t (from 1), then the hyper-parameters in alphabetical order, `lr` being
      // the scheduled rate times lr_scale. Booleans are 0.0 and 1.0. Evaluated once a step and group.
      func.func @scalars(%t: i64, %lr: f64, %momentum: f64, %wd: f64) -> (f32, f32) { ... }
      // Elementwise: parameter, gradient, each state, each scalar -> new parameter, each new state.
      // Allowed: + - * / sqrt fma compare select and constants (the same bits on every engine).
      func.func @update(%p: f32, %g: f32, %buf: f32, %lr: f32, %mu: f32) -> (f32, f32) { ... }
    }
    ```
    State starts as zeros.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, DictionaryAttr:$hyper, StrArrayAttr:$state);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `hyper` $hyper `state` $state attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

#endif // FOREBAY_DIALECT_TRAIN_IR_TRAINOPS_TD
