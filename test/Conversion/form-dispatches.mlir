// RUN: forebay-opt %s --forebay-form-dispatches --split-input-file --verify-diagnostics | FileCheck %s

// Elementwise operations that feed each other are one function; another phase is another function. Constants and
// broadcasts are inside.
// CHECK: offload.phase = "dispatch"
// CHECK-LABEL: func.func @step
//  CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8xf32>)
//  CHECK-NEXT:   %[[F:.*]] = offload.dispatch @mulf_addf_4x8(%[[A]], %[[B]]) {train.phase = #train.phase<forward>}
//  CHECK-NEXT:   %[[G:.*]] = offload.dispatch @negf_4x8(%[[F]]) {train.phase = #train.phase<backward>}
//  CHECK-NEXT:   return %[[F]], %[[G]]
// CHECK-LABEL: func.func private @mulf_addf_4x8
//       CHECK:   arith.constant dense<2.000000e+00>
//       CHECK:   arith.mulf
//   CHECK-NOT:   train.phase
//       CHECK:   linalg.broadcast
//       CHECK:   arith.addf
func.func @step(%a: tensor<4x8xf32>, %b: tensor<8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %two = arith.constant dense<2.0> : tensor<4x8xf32>
  %0 = arith.mulf %a, %two {train.phase = #train.phase<forward>} : tensor<4x8xf32>
  %e = tensor.empty() : tensor<4x8xf32>
  %bb = linalg.broadcast ins(%b : tensor<8xf32>) outs(%e : tensor<4x8xf32>) dimensions = [0] {train.phase = #train.phase<forward>}
  %1 = arith.addf %0, %bb {train.phase = #train.phase<forward>} : tensor<4x8xf32>
  %2 = arith.negf %1 {train.phase = #train.phase<backward>} : tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

// Functions with equal bodies are one, whatever their locations.
// CHECK-LABEL: func.func @step
//       CHECK:   offload.dispatch @softmax_4x8(
//       CHECK:   offload.dispatch @softmax_4x8(
//       CHECK:   offload.dispatch @softmax_2x3(
// CHECK-COUNT-2: func.func private @softmax
//   CHECK-NOT: func.func private
func.func @step(%a: tensor<4x8xf32>, %b: tensor<4x8xf32>, %c: tensor<2x3xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<2x3xf32>) {
  %0 = train.softmax %a : tensor<4x8xf32> loc("one")
  %1 = train.softmax %b : tensor<4x8xf32> loc("two")
  %2 = train.softmax %c : tensor<2x3xf32>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<2x3xf32>
}

// -----

// The transpose of a weight is a stride of the product, and the bias is added by it.
// CHECK-LABEL: func.func @step
//  CHECK-SAME: (%[[X:.*]]: tensor<5x7xf32>, %[[W:.*]]: tensor<3x7xf32>, %[[B:.*]]: tensor<3xf32>)
//  CHECK-NEXT:   %[[Y:.*]] = offload.dispatch @gemm_5x3x7(%[[X]], %[[W]], %[[B]])
//  CHECK-NEXT:   return %[[Y]]
// CHECK-LABEL: func.func private @gemm_5x3x7
//       CHECK:   linalg.transpose
//       CHECK:   linalg.contract
//       CHECK:   arith.addf
func.func @step(%x: tensor<5x7xf32>, %w: tensor<3x7xf32>, %b: tensor<3xf32>) -> tensor<5x3xf32> {
  %zero = arith.constant 0.0 : f32
  %ew = tensor.empty() : tensor<7x3xf32>
  %wt = linalg.transpose ins(%w : tensor<3x7xf32>) outs(%ew : tensor<7x3xf32>) permutation = [1, 0]
  %e = tensor.empty() : tensor<5x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x3xf32>) -> tensor<5x3xf32>
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%x, %wt : tensor<5x7xf32>, tensor<7x3xf32>) outs(%f : tensor<5x3xf32>) -> tensor<5x3xf32>
  %bb = linalg.broadcast ins(%b : tensor<3xf32>) outs(%e : tensor<5x3xf32>) dimensions = [0]
  %1 = arith.addf %0, %bb : tensor<5x3xf32>
  return %1 : tensor<5x3xf32>
}

// -----

// Attention writes where its transpose would: [B, S, H, D]. Its other use reads that through the inverse transpose.
// CHECK-LABEL: func.func @step
//       CHECK:   %[[O:.*]]:2 = offload.dispatch @attention_1x2x3x4({{.*}}) : ({{.*}}) -> (tensor<1x3x2x4xf32>, tensor<1x2x3xf32>)
//       CHECK:   %[[G:.*]]:3 = offload.dispatch @attention_grad_1x2x3x4({{.*}}, %[[O]]#0, %[[O]]#1)
//       CHECK:   return %[[O]]#0, %[[G]]#0, %[[G]]#1, %[[G]]#2
func.func @step(%q: tensor<1x2x3x4xf32>, %do: tensor<1x2x3x4xf32>) -> (tensor<1x3x2x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) {
  %o, %lse = train.attention %q, %q, %q {scale = 0.5 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
    -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  %e = tensor.empty() : tensor<1x3x2x4xf32>
  %t = linalg.transpose ins(%o : tensor<1x2x3x4xf32>) outs(%e : tensor<1x3x2x4xf32>) permutation = [0, 2, 1, 3]
  %dq, %dk, %dv = train.attention_grad %do, %q, %q, %q, %o, %lse {scale = 0.5 : f64}
    : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
    -> (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>)
  return %t, %dq, %dk, %dv : tensor<1x3x2x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>
}

// -----

// Softmax reads rows: a transposed operand is copied first. A constant operand is stored by a dispatch.
// CHECK-LABEL: func.func @step
//  CHECK-SAME: (%[[A:.*]]: tensor<4x8xf32>)
//  CHECK-NEXT:   %[[C:.*]] = offload.dispatch @copy_8x4(%[[A]])
//  CHECK-NEXT:   %[[S:.*]] = offload.dispatch @softmax_8x4(%[[C]])
//  CHECK-NEXT:   %[[F:.*]] = offload.dispatch @fill_2x3()
//  CHECK-NEXT:   %[[T:.*]] = offload.dispatch @softmax_2x3(%[[F]])
//  CHECK-NEXT:   return %[[S]], %[[T]]
func.func @step(%a: tensor<4x8xf32>) -> (tensor<8x4xf32>, tensor<2x3xf32>) {
  %e = tensor.empty() : tensor<8x4xf32>
  %t = linalg.transpose ins(%a : tensor<4x8xf32>) outs(%e : tensor<8x4xf32>) permutation = [1, 0]
  %0 = train.softmax %t : tensor<8x4xf32>
  %c = arith.constant dense<1.0> : tensor<2x3xf32>
  %1 = train.softmax %c : tensor<2x3xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<2x3xf32>
}

// -----

// A donated argument that is returned unchanged stays; another one is copied. What is not used is gone.
// CHECK-LABEL: func.func @step
//  CHECK-SAME: (%[[A:.*]]: tensor<4xf32> {train.donate = 0 : i64}, %[[B:.*]]: tensor<4xf32>)
//  CHECK-NEXT:   %[[C:.*]] = offload.dispatch @copy_4(%[[B]])
//  CHECK-NEXT:   return %[[A]], %[[C]]
func.func @step(%a: tensor<4xf32> {train.donate = 0 : i64}, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %unused = math.exp %a : tensor<4xf32>
  return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @step(%a: tensor<4x3xf32>, %i: tensor<2x1xindex>) -> tensor<2x3xf32> {
  // expected-error @+2 {{no kernel computes 'tensor.gather'}}
  // expected-note @+1 {{have kernels}}
  %0 = tensor.gather %a[%i] gather_dims([0]) : (tensor<4x3xf32>, tensor<2x1xindex>) -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// expected-error @+1 {{has no function 'step'}}
module {
}

// -----

// Two products of one row each are each other's bias: the sum belongs to the first, the second is a dispatch of its own.
// CHECK-LABEL: func.func @step
//  CHECK-SAME: (%[[X:.*]]: tensor<1x7xf32>, %[[W:.*]]: tensor<7x3xf32>, %[[V:.*]]: tensor<7x3xf32>)
//  CHECK-NEXT:   %[[B:.*]] = offload.dispatch @gemm_1x3x7_1(%[[X]], %[[V]])
//  CHECK-NEXT:   %[[Y:.*]] = offload.dispatch @gemm_1x3x7(%[[X]], %[[W]], %[[B]])
//  CHECK-NEXT:   return %[[Y]]
#a = affine_map<(m, n, k) -> (m, k)>
#b = affine_map<(m, n, k) -> (k, n)>
#c = affine_map<(m, n, k) -> (m, n)>
func.func @step(%x: tensor<1x7xf32>, %w: tensor<7x3xf32>, %v: tensor<7x3xf32>) -> tensor<1x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<1x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<1x3xf32>) -> tensor<1x3xf32>
  %0 = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %w : tensor<1x7xf32>, tensor<7x3xf32>) outs(%f : tensor<1x3xf32>) -> tensor<1x3xf32>
  %1 = linalg.contract indexing_maps = [#a, #b, #c] ins(%x, %v : tensor<1x7xf32>, tensor<7x3xf32>) outs(%f : tensor<1x3xf32>) -> tensor<1x3xf32>
  %2 = arith.addf %0, %1 : tensor<1x3xf32>
  return %2 : tensor<1x3xf32>
}
