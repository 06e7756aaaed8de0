// RUN: forebay-opt %s --split-input-file --verify-diagnostics --train-differentiate

// expected-error@below {{has no function @forward to differentiate}}
module {
}

// -----

// expected-error@below {{needs one result with the role loss, has 0}}
func.func @forward(%w: tensor<f32> {train.trainable}) -> tensor<f32> {
  return %w : tensor<f32>
}

// -----

// expected-error@below {{the loss must be one floating-point number, not 'tensor<2xf32>'}}
func.func @forward(%w: tensor<2xf32> {train.trainable}) -> (tensor<2xf32> {train.role = #train.role<loss>}) {
  return %w : tensor<2xf32>
}

// -----

// expected-error@below {{must have one block to be differentiated}}
func.func @forward(%w: tensor<f32> {train.trainable}) -> (tensor<f32> {train.role = #train.role<loss>}) {
  cf.br ^next
^next:
  return %w : tensor<f32>
}

// -----

// expected-error@below {{no parameter is trainable}}
func.func @forward(%w: tensor<f32>) -> (tensor<f32> {train.role = #train.role<loss>}) {
  return %w : tensor<f32>
}

// -----

// expected-error@below {{no differentiable path joins any of the 2 trainable parameters to the loss}}
func.func @forward(%w: tensor<f32> {train.trainable}, %v: tensor<f32> {train.trainable})
    -> (tensor<f32> {train.role = #train.role<loss>}) {
  %d = train.detach %w : tensor<f32>
  return %d : tensor<f32>
}

// -----

// Every kind at once; operations that no gradient passes are no errors.
func.func @forward(%w: tensor<f32> {train.trainable}, %c: tensor<f32>) -> (tensor<f32> {train.role = #train.role<loss>}) {
  // expected-error@below {{'math.atan2' has no gradient, but lies on a path from a trainable parameter to the loss (2 operations)}}
  // expected-note@below {{freeze the parameters before it, stop the gradient with train.detach, or give 'math.atan2' an external model of GradientOpInterface}}
  %a = math.atan2 %w, %c : tensor<f32>
  // expected-note@below {{also here}}
  %b = math.atan2 %a, %c : tensor<f32>
  // expected-error@below {{'math.copysign' has no gradient, but lies on a path from a trainable parameter to the loss}}
  // expected-note@below {{freeze the parameters}}
  %s = math.copysign %b, %c : tensor<f32>
  %fine = math.copysign %c, %c : tensor<f32>
  %l = arith.addf %s, %fine : tensor<f32>
  return %l : tensor<f32>
}

// -----

// A value that a region captures counts as an operand.
func.func @forward(%w: tensor<f32> {train.trainable}, %c: i1) -> (tensor<f32> {train.role = #train.role<loss>}) {
  // expected-error@below {{'scf.if' has no gradient}}
  // expected-note@below {{freeze the parameters}}
  %l = scf.if %c -> tensor<f32> {
    scf.yield %w : tensor<f32>
  } else {
    scf.yield %w : tensor<f32>
  }
  return %l : tensor<f32>
}

// -----

func.func @forward(%w: tensor<3xf32> {train.trainable}) -> (tensor<f32> {train.role = #train.role<loss>}) {
  %z = arith.constant dense<0.0> : tensor<f32>
  // expected-error@below {{has no gradient for the combiner 'arith.subf'}}
  %l = linalg.reduce {arith.subf} ins(%w : tensor<3xf32>) outs(%z : tensor<f32>) dimensions = [0]
  return %l : tensor<f32>
}

// -----

func.func @forward(%w: tensor<3xf32> {train.trainable}, %i: index) -> (tensor<f32> {train.role = #train.role<loss>}) {
  // expected-error@below {{has a gradient only with static offsets, sizes and strides}}
  %l = tensor.extract_slice %w[%i] [1] [1] : tensor<3xf32> to tensor<f32>
  return %l : tensor<f32>
}

// -----

// Statistics have no gradient of their own.
func.func @forward(%w: tensor<1x3xf32> {train.trainable}) -> (tensor<1xf32> {train.role = #train.role<loss>}) {
  // expected-error@below {{has no gradient with respect to its statistics}}
  %y, %rstd = train.rms_norm %w {eps = 1.0e-6} : (tensor<1x3xf32>) -> (tensor<1x3xf32>, tensor<1xf32>)
  return %rstd : tensor<1xf32>
}

// -----

func.func @forward(%w: tensor<3xf32> {train.trainable}) -> (tensor<f32> {train.role = #train.role<loss>}) {
  %z = arith.constant dense<0.0> : tensor<f32>
  // expected-error@below {{has a gradient only with one operation as its combiner}}
  %l = linalg.reduce ins(%w : tensor<3xf32>) outs(%z : tensor<f32>) dimensions = [0]
    (%in: f32, %init: f32) {
      %square = arith.mulf %in, %in : f32
      %sum = arith.addf %init, %square : f32
      linalg.yield %sum : f32
    }
  return %l : tensor<f32>
}

// -----

func.func @forward(%w: f32 {train.trainable}) -> (tensor<f32> {train.role = #train.role<loss>}) {
  %e = tensor.empty() : tensor<f32>
  // expected-error@below {{has no gradient with respect to a scalar}}
  %l = linalg.fill ins(%w : f32) outs(%e : tensor<f32>) -> tensor<f32>
  return %l : tensor<f32>
}

// -----

func.func @forward(%w: tensor<1xf32> {train.trainable}) -> (tensor<1xf32> {train.role = #train.role<loss>}) {
  // expected-error@below {{has a gradient only with a constant padding value}}
  %p = tensor.pad %w low[1] high[1] {
  ^bb0(%i: index):
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    tensor.yield %f : f32
  } : tensor<1xf32> to tensor<3xf32>
  %l = tensor.extract_slice %p[1] [1] [1] : tensor<3xf32> to tensor<1xf32>
  return %l : tensor<1xf32>
}

// -----

// An additive mask that is learned (a relative position bias) must be left decomposed by raising.
func.func @forward(%q: tensor<1x1x1x1xf32>, %m: tensor<1x1x1x1xf32> {train.trainable})
    -> (tensor<1x1x1x1xf32> {train.role = #train.role<loss>}) {
  // expected-error@below {{has no gradient with respect to its mask}}
  %o, %lse = train.attention %q, %q, %q mask(%m) {scale = 1.0}
      : (tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>, tensor<1x1x1x1xf32>) -> (tensor<1x1x1x1xf32>, tensor<1x1x1xf32>)
  return %o : tensor<1x1x1x1xf32>
}

// -----

func.func @forward(%x: tensor<1x1x1x2xf32>, %c: tensor<1x1xf32> {train.trainable})
    -> (tensor<f32> {train.role = #train.role<loss>}) {
  // expected-error@below {{has no gradient with respect to cos and sin}}
  %r = train.rotary %x, %c, %c : (tensor<1x1x1x2xf32>, tensor<1x1xf32>, tensor<1x1xf32>) -> tensor<1x1x1x2xf32>
  %z = arith.constant dense<0.0> : tensor<f32>
  %l = linalg.reduce {arith.addf} ins(%r : tensor<1x1x1x2xf32>) outs(%z : tensor<f32>) dimensions = [0, 1, 2, 3]
  return %l : tensor<f32>
}
