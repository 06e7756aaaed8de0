// RUN: forebay-eval %s --function=arithmetic | FileCheck %s --check-prefix=ARITH
// RUN: forebay-eval %s --function=shapes | FileCheck %s --check-prefix=SHAPES
// RUN: forebay-eval %s --function=rows | FileCheck %s --check-prefix=ROWS
// RUN: forebay-eval %s --function=generic | FileCheck %s --check-prefix=GENERIC
// RUN: forebay-eval %s --function=rounded --round | FileCheck %s --check-prefix=ROUND
// RUN: forebay-eval %s --function=attend | FileCheck %s --check-prefix=ATTEND
// RUN: not forebay-eval %s --function=unknown 2>&1 | FileCheck %s --check-prefix=UNKNOWN
// RUN: not forebay-eval %s --function=needs 2>&1 | FileCheck %s --check-prefix=NEEDS
// RUN: not forebay-eval %s --function=nothing 2>&1 | FileCheck %s --check-prefix=NOTHING

// The values below were worked out by hand.

// ARITH: sum (gradient) : tensor<3xf32> = 1.5 4 -1
// ARITH: result1 : tensor<3xi1> = 0 1 0
// ARITH: result2 : f32 = 6
// ARITH: gradient norm = 4.38748219369606
func.func @arithmetic() -> (tensor<3xf32> {train.name = "sum", train.role = #train.role<gradient>}, tensor<3xi1>, f32) {
  %a = arith.constant dense<[0.5, 3.0, -2.0]> : tensor<3xf32>
  %b = arith.constant dense<1.0> : tensor<3xf32>
  %c = arith.addf %a, %b : tensor<3xf32>
  %m = arith.cmpf ogt, %a, %b : tensor<3xf32>
  %s = arith.constant 2.0 : f32
  %t = arith.constant 3.0 : f32
  %p = arith.mulf %s, %t : f32
  return %c, %m, %p : tensor<3xf32>, tensor<3xi1>, f32
}

// SHAPES: result0 : tensor<2x3xf32> = 9 1 2 9 3 4
// SHAPES: result1 : tensor<2x2xf32> = 1 3 2 4
// SHAPES: result2 : tensor<2xf32> = 3 7
// SHAPES: result3 : tensor<2x2xf32> = 7 10 15 22
// SHAPES: result4 : tensor<2xf32> = 2 4
// SHAPES: result5 : tensor<4xf32> = 1 0 4 0
// SHAPES: result6 : tensor<2xf32> = nan nan
func.func @shapes() -> (tensor<2x3xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>) {
  %x = arith.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %nine = arith.constant 9.0 : f32
  %pad = tensor.pad %x low[0, 1] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %nine : f32
  } : tensor<2x2xf32> to tensor<2x3xf32>
  %e = tensor.empty() : tensor<2x2xf32>
  %t = linalg.transpose ins(%x : tensor<2x2xf32>) outs(%e : tensor<2x2xf32>) permutation = [1, 0]
  %z = arith.constant dense<0.0> : tensor<2xf32>
  %r = linalg.reduce {arith.addf} ins(%x : tensor<2x2xf32>) outs(%z : tensor<2xf32>) dimensions = [1]
  %zz = arith.constant dense<0.0> : tensor<2x2xf32>
  %mm = linalg.matmul ins(%x, %x : tensor<2x2xf32>, tensor<2x2xf32>) outs(%zz : tensor<2x2xf32>) -> tensor<2x2xf32>
  %col = tensor.extract_slice %x[0, 1] [2, 1] [1, 1] : tensor<2x2xf32> to tensor<2xf32>
  %z4 = arith.constant dense<0.0> : tensor<4xf32>
  %diag = arith.constant dense<[1.0, 4.0]> : tensor<2xf32>
  %ins = tensor.insert_slice %diag into %z4[0] [2] [2] : tensor<2xf32> into tensor<4xf32>
  %undefined = tensor.empty() : tensor<2xf32>
  return %pad, %t, %r, %mm, %col, %ins, %undefined : tensor<2x3xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<2x2xf32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>
}

// ROWS: result0 : tensor<1x2xf64> = 0.25 0.75
// ROWS: result1 : tensor<f64> = 1.38629436111989
// ROWS: result2 : tensor<1x4xf64> = -1 1 -1 1
// ROWS: result3 : tensor<2x1xf64> = 30 10
func.func @rows() -> (tensor<1x2xf64>, tensor<f64>, tensor<1x4xf64>, tensor<2x1xf64>) {
  // Logits 0 and log 3: probabilities 1/4 and 3/4, so the loss of label 0 is log 4.
  %x = arith.constant dense<[[0.0, 1.0986122886681098]]> : tensor<1x2xf64>
  %s = train.softmax %x : tensor<1x2xf64>
  %label = arith.constant dense<0> : tensor<1xi64>
  %loss, %lse = train.cross_entropy %x, %label : (tensor<1x2xf64>, tensor<1xi64>) -> (tensor<f64>, tensor<1xf64>)
  %y = arith.constant dense<[[3.0, 5.0, 3.0, 5.0]]> : tensor<1x4xf64>
  %n, %mean, %rstd = train.layer_norm %y {eps = 0.0} : (tensor<1x4xf64>) -> (tensor<1x4xf64>, tensor<1xf64>, tensor<1xf64>)
  %table = arith.constant dense<[[10.0], [20.0], [30.0]]> : tensor<3x1xf64>
  %ids = arith.constant dense<[-1, 0]> : tensor<2xi64>
  %rows = train.embedding %table, %ids : (tensor<3x1xf64>, tensor<2xi64>) -> tensor<2x1xf64>
  return %s, %loss, %n, %rows : tensor<1x2xf64>, tensor<f64>, tensor<1x4xf64>, tensor<2x1xf64>
}

// A structured operation point by point: x[i] * i + call of a function.
// GENERIC: result0 : tensor<3xf32> = 0 5 14
// GENERIC: result1 : tensor<3xf32> = 8 10 14
func.func @generic() -> (tensor<3xf32>, tensor<3xf32>) {
  %x = arith.constant dense<[4.0, 5.0, 7.0]> : tensor<3xf32>
  %e = tensor.empty() : tensor<3xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<3xf32>) outs(%e : tensor<3xf32>) {
  ^bb0(%in: f32, %out: f32):
    %i = linalg.index 0 : index
    %n = arith.index_cast %i : index to i32
    %f = arith.sitofp %n : i32 to f32
    %m = arith.mulf %in, %f : f32
    linalg.yield %m : f32
  } -> tensor<3xf32>
  %z = func.call @twice(%x) : (tensor<3xf32>) -> tensor<3xf32>
  return %y, %z : tensor<3xf32>, tensor<3xf32>
}
func.func @twice(%x: tensor<3xf32>) -> tensor<3xf32> {
  %y = arith.addf %x, %x : tensor<3xf32>
  return %y : tensor<3xf32>
}

// 1 + 2^-30 is 1 in f32; 257 is 256 in bf16.
// ROUND: result0 : tensor<f32> = 1{{$}}
// ROUND: result1 : tensor<bf16> = 256{{$}}
func.func @rounded() -> (tensor<f32>, tensor<bf16>) {
  %one = arith.constant dense<1.0> : tensor<f32>
  %small = arith.constant dense<9.31322574615478515625e-10> : tensor<f32>
  %sum = arith.addf %one, %small : tensor<f32>
  %odd = arith.constant dense<257.0> : tensor<f32>
  %low = arith.truncf %odd : tensor<f32> to tensor<bf16>
  return %sum, %low : tensor<f32>, tensor<bf16>
}

// Causal: row 0 sees key 0 only; row 1 sees both with equal scores. The padded batch sees nothing: 0.
// ATTEND: result0 : tensor<2x1x2x1xf32> = 2 3 0 0
// ATTEND: result1 : tensor<2x1x2xf32> = 0 0.69314718055994{{.*}} -inf -inf
func.func @attend() -> (tensor<2x1x2x1xf32>, tensor<2x1x2xf32>) {
  %q = arith.constant dense<0.0> : tensor<2x1x2x1xf32>
  %v = arith.constant dense<[[[[2.0], [4.0]]], [[[2.0], [4.0]]]]> : tensor<2x1x2x1xf32>
  %p = arith.constant dense<[[true, true], [false, false]]> : tensor<2x2xi1>
  %o, %lse = train.attention %q, %q, %v key_padding(%p) {scale = 1.0, causal}
      : (tensor<2x1x2x1xf32>, tensor<2x1x2x1xf32>, tensor<2x1x2x1xf32>, tensor<2x2xi1>) -> (tensor<2x1x2x1xf32>, tensor<2x1x2xf32>)
  return %o, %lse : tensor<2x1x2x1xf32>, tensor<2x1x2xf32>
}

// UNKNOWN: error: 'math.ctlz' is not known to the reference interpreter
func.func @unknown() -> i32 {
  %a = arith.constant 1 : i32
  %b = math.ctlz %a : i32
  return %b : i32
}

// NEEDS: error: no value for argument 'w'
func.func @needs(%w: tensor<2xf32> {train.name = "w"}) {
  return
}

// NOTHING: error: no function @nothing
