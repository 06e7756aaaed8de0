// RUN: forebay-opt %s --split-input-file --verify-diagnostics
// Every rule of the operations' verifiers, broken once.

func.func @layer_norm(%x: tensor<2x4xf32>, %w: tensor<3xf32>) {
  // expected-error @below {{weight must be a vector of the size of the input's last axis}}
  %0:3 = train.layer_norm %x weight(%w) {eps = 1.0e-5 : f64} : (tensor<2x4xf32>, tensor<3xf32>) -> (tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm(%x: tensor<2x4xf32>) {
  // expected-error @below {{mean must have the shape of the input without its last axis}}
  %0:3 = train.layer_norm %x {eps = 1.0e-5 : f64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<2xf32>)
  return
}

// -----

func.func @layer_norm(%x: tensor<f32>) {
  // expected-error @below {{needs an input of rank 1 or more}}
  %0:3 = train.layer_norm %x {eps = 1.0e-5 : f64} : (tensor<f32>) -> (tensor<f32>, tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @rms_norm(%x: tensor<f32>) {
  // expected-error @below {{needs an input of rank 1 or more}}
  %0:2 = train.rms_norm %x {eps = 1.0e-5 : f64} : (tensor<f32>) -> (tensor<f32>, tensor<f32>)
  return
}

// -----

func.func @rms_norm(%x: tensor<2x4xf32>) {
  // expected-error @below {{rstd must have the shape of the input without its last axis}}
  %0:2 = train.rms_norm %x {eps = 1.0e-5 : f64} : (tensor<2x4xf32>) -> (tensor<2x4xf32>, tensor<2x1xf32>)
  return
}

// -----

func.func @layer_norm_grad(%g: tensor<2x3xf32>, %x: tensor<2x4xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{gradients must have the type of the input}}
  %0:3 = train.layer_norm_grad %g, %x, %s, %s : (tensor<2x3xf32>, tensor<2x4xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<4xf32>, tensor<4xf32>)
  return
}

// -----

func.func @rms_norm_grad(%x: tensor<2x4xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{a gradient of weight or bias must be a vector of the size of the input's last axis}}
  %0:2 = train.rms_norm_grad %x, %x, %s : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
  return
}

// -----

func.func @attention(%q: tensor<2x3x4xf32>) {
  // expected-error @below {{query, key and value must have rank 4: [batch, heads, sequence, dimension]}}
  %0:2 = train.attention %q, %q, %q {scale = 1.0 : f64} : (tensor<2x3x4xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x6xf32>) {
  // expected-error @below {{query, key and value do not fit together}}
  %0:2 = train.attention %q, %k, %k {scale = 1.0 : f64} : (tensor<2x4x3x8xf32>, tensor<2x4x5x6xf32>, tensor<2x4x5x6xf32>) -> (tensor<2x4x3x6xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<2x4x3x8xf32>, %k: tensor<2x3x3x8xf32>) {
  // expected-error @below {{has 4 query heads, not a multiple of its 3 key heads}}
  %0:2 = train.attention %q, %k, %k {scale = 1.0 : f64} : (tensor<2x4x3x8xf32>, tensor<2x3x3x8xf32>, tensor<2x3x3x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<2x4x3x8xf32>) {
  // expected-error @below {{result must be [batch, heads, queries, value dimension] and lse [batch, heads, queries]}}
  %0:2 = train.attention %q, %q, %q {scale = 1.0 : f64} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x8xf32>)
  return
}

// -----

func.func @attention(%q: tensor<2x4x3x8xf32>, %k: tensor<2x4x5x8xf32>) {
  // expected-error @below {{a causal or window mask needs as many keys as queries}}
  %0:2 = train.attention %q, %k, %k {scale = 1.0 : f64, causal} : (tensor<2x4x3x8xf32>, tensor<2x4x5x8xf32>, tensor<2x4x5x8xf32>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<2x4x3x8xf32>, %m: tensor<2x2x3x3xi1>) {
  // expected-error @below {{mask must be [batch|1, heads|1, queries|1, keys]}}
  %0:2 = train.attention %q, %q, %q mask(%m) {scale = 1.0 : f64} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x2x3x3xi1>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention(%q: tensor<2x4x3x8xf32>, %m: tensor<3x2xi1>) {
  // expected-error @below {{key_padding must be [batch, keys]}}
  %0:2 = train.attention %q, %q, %q key_padding(%m) {scale = 1.0 : f64} : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<3x2xi1>) -> (tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
  return
}

// -----

func.func @attention_grad(%q: tensor<2x4x3x8xf32>, %k: tensor<2x2x3x8xf32>, %lse: tensor<2x4x3xf32>) {
  // expected-error @below {{gradients must have the types of result, query, key and value}}
  %0:3 = train.attention_grad %q, %q, %k, %k, %q, %lse {scale = 1.0 : f64}
    : (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x4x3xf32>)
    -> (tensor<2x4x3x8xf32>, tensor<2x4x3x8xf32>, tensor<2x2x3x8xf32>)
  return
}

// -----

func.func @rotary(%x: tensor<2x4x8xf32>, %c: tensor<4x4xf32>) {
  // expected-error @below {{input must be [batch, heads, sequence, dimension] and the result like it}}
  %0 = train.rotary %x, %c, %c : (tensor<2x4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4x8xf32>
  return
}

// -----

func.func @rotary(%x: tensor<2x1x4x8xf32>, %c: tensor<4x5xf32>) {
  // expected-error @below {{cos and sin must both be [sequence, half] or [batch, sequence, half], half <= dimension / 2}}
  %0 = train.rotary %x, %c, %c : (tensor<2x1x4x8xf32>, tensor<4x5xf32>, tensor<4x5xf32>) -> tensor<2x1x4x8xf32>
  return
}

// -----

func.func @embedding(%t: tensor<f32>, %i: tensor<2xi64>) {
  // expected-error @below {{needs a table of rank 1 or more}}
  %0 = train.embedding %t, %i : (tensor<f32>, tensor<2xi64>) -> tensor<2xf32>
  return
}

// -----

func.func @embedding(%t: tensor<5x3xf32>, %i: tensor<2xi64>) {
  // expected-error @below {{result must have the shape of ids followed by the shape of a row}}
  %0 = train.embedding %t, %i : (tensor<5x3xf32>, tensor<2xi64>) -> tensor<3x2xf32>
  return
}

// -----

func.func @embedding_grad(%g: tensor<2x4xf32>, %i: tensor<2xi64>) {
  // expected-error @below {{gradient must have the shape of ids followed by the shape of a row}}
  %0 = train.embedding_grad %g, %i : (tensor<2x4xf32>, tensor<2xi64>) -> tensor<5x3xf32>
  return
}

// -----

func.func @cross_entropy(%l: tensor<2x5xf32>, %i: tensor<3xi64>) {
  // expected-error @below {{takes logits [rows, classes] and labels [rows], gives a rank-0 loss and lse [rows]}}
  %0:2 = train.cross_entropy %l, %i : (tensor<2x5xf32>, tensor<3xi64>) -> (tensor<f32>, tensor<2xf32>)
  return
}

// -----

func.func @cross_entropy_grad(%g: tensor<1xf32>, %l: tensor<2x5xf32>, %i: tensor<2xi64>, %s: tensor<2xf32>) {
  // expected-error @below {{takes a rank-0 gradient, logits [rows, classes], labels and lse [rows], gives the type of the logits}}
  %0 = train.cross_entropy_grad %g, %l, %i, %s : (tensor<1xf32>, tensor<2x5xf32>, tensor<2xi64>, tensor<2xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @accumulate(%a: tensor<2x5xf32>, %g: tensor<5x2xf32>) {
  // expected-error @below {{failed to verify that all of {accumulator, grad, result} have same type}}
  %0 = train.accumulate %a, %g : (tensor<2x5xf32>, tensor<5x2xf32>) -> tensor<2x5xf32>
  return
}

// -----

func.func @norm_partials(%g: tensor<1025xf32>) {
  // expected-error @below {{must give one sum for each block of 1024 elements: 2}}
  %0 = train.norm_partials %g : (tensor<1025xf32>) -> tensor<1xf32>
  return
}

// -----

func.func @verdict(%p: tensor<1xf32>) {
  // expected-error @below {{must give 4 numbers}}
  %0 = train.verdict %p : (tensor<1xf32>) -> tensor<3xf32>
  return
}

// -----

func.func @update(%p: tensor<4xf32>, %g: tensor<2x2xf32>, %s: tensor<2xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{gradient, states and results must have the type of the parameter}}
  %0 = train.update @sgd parameter(%p) grad(%g) state() scalars(%s) verdict(%v) : (tensor<4xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @update(%p: tensor<4xf32>, %s: tensor<2xf32>, %v: tensor<4xf32>) {
  // expected-error @below {{must give as many states as it takes}}
  %0 = train.update @sgd parameter(%p) grad(%p) state(%p) scalars(%s) verdict(%v) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func @update(%p: tensor<4xf32>, %s: tensor<2xf32>) {
  // expected-error @below {{takes a vector of scalars and a verdict of 4 numbers}}
  %0 = train.update @sgd parameter(%p) grad(%p) state() scalars(%s) verdict(%s) : (tensor<4xf32>, tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>
  return
}

// -----

// expected-error @below {{needs two functions, @scalars and @update}}
train.optimizer @o hyper {} state [] {
  func.func @update(%p: f32, %g: f32) -> f32 {
    return %p : f32
  }
}

// -----

// expected-error @below {{@scalars takes t (i64) and one f64 for each of the 1 hyper-parameters}}
train.optimizer @o hyper {lr = 1.0} state [] {
  func.func @scalars(%t: i64) {
    return
  }
  func.func @update(%p: f32, %g: f32) -> f32 {
    return %p : f32
  }
}

// -----

// expected-error @below {{@scalars takes hyper-parameters as f64, not 'f32'}}
train.optimizer @o hyper {lr = 1.0} state [] {
  func.func @scalars(%t: i64, %lr: f32) {
    return
  }
  func.func @update(%p: f32, %g: f32) -> f32 {
    return %p : f32
  }
}

// -----

// expected-error @below {{@update returns the parameter and 1 states}}
train.optimizer @o hyper {} state ["m"] {
  func.func @scalars(%t: i64) {
    return
  }
  func.func @update(%p: f32, %g: f32, %m: f32) -> f32 {
    return %p : f32
  }
}

// -----

// expected-error @below {{@update works on f32, not 'f64'}}
train.optimizer @o hyper {} state [] {
  func.func @scalars(%t: i64) {
    return
  }
  func.func @update(%p: f64, %g: f64) -> f64 {
    return %p : f64
  }
}
