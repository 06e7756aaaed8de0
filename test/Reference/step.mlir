// RUN: forebay-eval %s --function=step --step=2 | FileCheck %s
// RUN: forebay-eval %s --function=skipped | FileCheck %s --check-prefix=SKIP

// An optimizer whose rate grows with t; the group doubles the rate and has a momentum of its own.
train.optimizer @toy hyper {lr = 0.5, momentum = 0.5, nesterov = false} state ["buf"] {
  func.func @scalars(%t: i64, %lr: f64, %momentum: f64, %nesterov: f64) -> (f32, f32) {
    %tf = arith.sitofp %t : i64 to f64
    %rate = arith.mulf %lr, %tf : f64
    %a = arith.truncf %rate : f64 to f32
    %b = arith.truncf %momentum : f64 to f32
    return %a, %b : f32, f32
  }
  func.func @update(%p: f32, %g: f32, %buf: f32, %lr: f32, %mu: f32) -> (f32, f32) {
    %m = arith.mulf %buf, %mu : f32
    %b = arith.addf %m, %g : f32
    %d = arith.mulf %b, %lr : f32
    %n = arith.subf %p, %d : f32
    return %n, %b : f32, f32
  }
}

// Gradients 6 and 8 over two micro-steps: halves 3 and 4, norm 5, clipped to 2.5: coefficient 0.5, so 1.5 and 2.
// Buffer: 0.25 * 4 + g. Rate: 0.5 * 2 (lr_scale) * 2 (t) = 2.
// CHECK: result0 : tensor<4xf32> = 5 0.5 1 -1
// CHECK: result1 : tensor<2xf32> = 2 0.25
// CHECK: result2 : tensor<2xf32> = -4 -4
// CHECK: result3 : tensor<2xf32> = 2.5 3
// CHECK: result4 : tensor<2xf32> = 6 8
func.func @step() -> (tensor<4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) {
  %grad = arith.constant dense<[6.0, 8.0]> : tensor<2xf32>
  %acc = arith.constant dense<[100.0, 100.0]> : tensor<2xf32>
  %g = train.accumulate %acc, %grad : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %np = train.norm_partials %g {accumulate = 2 : i64} : (tensor<2xf32>) -> tensor<1xf32>
  %verdict = train.verdict %np {clip = 2.5} : (tensor<1xf32>) -> tensor<4xf32>
  %s = train.scalars @toy {hyper = {lr_scale = 2.0, momentum = 0.25}, group = 0 : i64} : tensor<2xf32>
  %mu = arith.constant dense<0.5> : tensor<2xf32>
  %p = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %b = arith.constant dense<[4.0, 4.0]> : tensor<2xf32>
  %np2, %nb = train.update @toy parameter(%p) grad(%g) state(%b) scalars(%s) verdict(%verdict) {accumulate = 2 : i64}
      : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<2xf32>, tensor<2xf32>)
  return %verdict, %s, %np2, %nb, %g : tensor<4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
}

// The second gradient is infinite: the verdict names it and nothing moves. The first one fills a block and a bit.
// SKIP: result0 : tensor<4xf32> = inf 0 0 1
// SKIP: result1 : tensor<1xf32> = 7
// SKIP: result2 : tensor<1xf32> = 3
// SKIP: result3 : tensor<2xf32> = 4096 4
func.func @skipped() -> (tensor<4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<2xf32>) {
  %a = arith.constant dense<2.0> : tensor<5x205xf32>
  %b = arith.constant dense<0x7F800000> : tensor<1xf32>
  %pa = train.norm_partials %a : (tensor<5x205xf32>) -> tensor<2xf32>
  %pb = train.norm_partials %b : (tensor<1xf32>) -> tensor<1xf32>
  %verdict = train.verdict %pa, %pb {clip = 1.0} : (tensor<2xf32>, tensor<1xf32>) -> tensor<4xf32>
  %s = train.scalars @toy {hyper = {}, group = 0 : i64} : tensor<2xf32>
  %p = arith.constant dense<7.0> : tensor<1xf32>
  %m = arith.constant dense<3.0> : tensor<1xf32>
  %np, %nm = train.update @toy parameter(%p) grad(%b) state(%m) scalars(%s) verdict(%verdict)
      : (tensor<1xf32>, tensor<1xf32>, tensor<1xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<1xf32>, tensor<1xf32>)
  return %verdict, %np, %nm, %pa : tensor<4xf32>, tensor<1xf32>, tensor<1xf32>, tensor<2xf32>
}
