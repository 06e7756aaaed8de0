// RUN: forebay-opt %s --forebay-form-dispatches --forebay-select-kernels --split-input-file --verify-diagnostics | FileCheck %s

// m, n, k, transA, transB, lda, ldb, ldc, ...
// CHECK-LABEL: func.func private @gemm_5x3x7
//  CHECK-SAME: #offload.kernel<"gemm", params = [5, 3, 7, 0, 1, 7, 7, 3, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 3, 0], tiles = [1], flops = 210, class = matmul, width = 3>
func.func @step(%x: tensor<5x7xf32>, %w: tensor<3x7xf32>) -> tensor<5x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<5x3xf32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<5x3xf32>) -> tensor<5x3xf32>
  %0 = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    ins(%x, %w : tensor<5x7xf32>, tensor<3x7xf32>) outs(%f : tensor<5x3xf32>) -> tensor<5x3xf32>
  return %0 : tensor<5x3xf32>
}

// -----

// In place where every point reads just the element that it writes: not over %b, which is read transposed.
// CHECK-LABEL: func.func private @addf_100x100
//  CHECK-SAME: #offload.kernel<"addf_100x100", compiled, tiles = [1], inplace = [1], flops = 10000>
func.func @step(%a: tensor<100x100xf32>, %b: tensor<100x100xf32>) -> tensor<100x100xf32> {
  %e = tensor.empty() : tensor<100x100xf32>
  %t = linalg.transpose ins(%b : tensor<100x100xf32>) outs(%e : tensor<100x100xf32>) permutation = [1, 0]
  %0 = arith.addf %t, %a : tensor<100x100xf32>
  return %0 : tensor<100x100xf32>
}

// -----

// Tiles of 32 Ki elements.
// CHECK-LABEL: func.func private @negf_
//  CHECK-SAME: compiled, tiles = [4], inplace = [0], flops = 100000>
func.func @step(%a: tensor<100000xf32>) -> tensor<100000xf32> {
  %0 = arith.negf %a : tensor<100000xf32>
  return %0 : tensor<100000xf32>
}

// -----

// dlogits may take the place of the logits, the second operand. The loss needs a row of workspace.
// CHECK: func.func private @cross_entropy_6x10{{.*}} #offload.kernel<"cross_entropy", params = [6, 10, 8, -100, 0, 6], tiles = [1, 1], workspace = 24, flops = 300, class = reduction>
// CHECK: func.func private @cross_entropy_grad_6x10{{.*}} #offload.kernel<"cross_entropy_grad", {{.*}}, inplace = [1]
func.func @step(%l: tensor<6x10xf32>, %y: tensor<6xi64>) -> (tensor<f32>, tensor<6x10xf32>) {
  %loss, %lse = train.cross_entropy %l, %y : (tensor<6x10xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<6xf32>)
  %one = arith.constant dense<1.0> : tensor<f32>
  %d = train.cross_entropy_grad %one, %l, %y, %lse : (tensor<f32>, tensor<6x10xf32>, tensor<6xi64>, tensor<6xf32>) -> tensor<6x10xf32>
  return %loss, %d : tensor<f32>, tensor<6x10xf32>
}

// -----

// The parameter and its states are updated in place: {first, count, elements per tile}. Equal but for the shape: one symbol.
// CHECK: func.func private @update_o_4x8{{.*}} #offload.kernel<"update_o_3", compiled, params = [0, 32, 65536], tiles = [1], inplace = [0, 2], flops
// CHECK: func.func private @update_o_9{{.*}} #offload.kernel<"update_o_3", compiled, params = [0, 9, 65536]
func.func @step(%p: tensor<4x8xf32>, %g: tensor<4x8xf32>, %m: tensor<4x8xf32>, %q: tensor<9xf32>, %v: tensor<4xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<9xf32>, tensor<9xf32>) {
  %s = train.scalars @o {hyper = {}, group = 0 : i64} : tensor<1xf32>
  %0:2 = train.update @o parameter(%p) grad(%g) state(%m) scalars(%s) verdict(%v) {accumulate = 3 : i64}
    : (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>, tensor<1xf32>, tensor<4xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>)
  %1:2 = train.update @o parameter(%q) grad(%q) state(%q) scalars(%s) verdict(%v) {accumulate = 3 : i64}
    : (tensor<9xf32>, tensor<9xf32>, tensor<9xf32>, tensor<1xf32>, tensor<4xf32>) -> (tensor<9xf32>, tensor<9xf32>)
  return %0#0, %0#1, %1#0, %1#1 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<9xf32>, tensor<9xf32>
}
train.optimizer @o hyper {lr = 1.0e-3} state ["m"] {
  func.func @scalars(%t: i64, %lr: f64) -> f32 {
    %0 = arith.truncf %lr : f64 to f32
    return %0 : f32
  }
  func.func @update(%p: f32, %g: f32, %m: f32, %lr: f32) -> (f32, f32) {
    %0 = arith.mulf %g, %lr : f32
    %1 = arith.subf %p, %0 : f32
    return %1, %g : f32, f32
  }
}

// -----

// CHECK: func.func private @verdict{{.*}} #offload.kernel<"verdict", params = [2, 1, 4607182418800017408, 3, 1], tiles = [1], class = reduction>
func.func @step(%a: tensor<3xf32>, %b: tensor<1xf32>) -> tensor<4xf32> {
  %v = train.verdict %a, %b {clip = 1.0 : f64} : (tensor<3xf32>, tensor<1xf32>) -> tensor<4xf32>
  return %v : tensor<4xf32>
}

// -----

// Traffic is said where it is not all bytes of operands and results: 3 of 100 rows of %a, once; rows of a table.
// CHECK-DAG: func.func private @copy_3x10{{.*}}, tiles = [1], traffic = 240>
// CHECK-DAG: func.func private @mulf_addf_3x10{{.*}} inplace = [1], flops = 60, traffic = 360>
// CHECK-DAG: func.func private @embedding_2x10{{.*}}, tiles = [1], class = gather, traffic = 176>
func.func @step(%a: tensor<100x10xf32>, %b: tensor<3x10xf32>, %ids: tensor<2xi64>) -> (tensor<3x10xf32>, tensor<3x10xf32>, tensor<2x10xf32>) {
  %s = tensor.extract_slice %a[5, 0] [3, 10] [1, 1] : tensor<100x10xf32> to tensor<3x10xf32>
  %0 = arith.mulf %s, %b : tensor<3x10xf32>
  %1 = arith.addf %0, %s : tensor<3x10xf32>
  %2 = train.embedding %a, %ids : (tensor<100x10xf32>, tensor<2xi64>) -> tensor<2x10xf32>
  return %s, %1, %2 : tensor<3x10xf32>, tensor<3x10xf32>, tensor<2x10xf32>
}

// -----

// A window of 2 leaves 1 + 2 + 2 of 9 pairs.
// CHECK: #offload.kernel<"attention", {{.*}} flops = 288, executed = 160, class = attention>
func.func @step(%q: tensor<1x1x3x8xf32>, %k: tensor<1x1x3x8xf32>, %v: tensor<1x1x3x8xf32>) -> tensor<1x1x3x8xf32> {
  %0, %lse = train.attention %q, %k, %v {scale = 1.0 : f64, causal, window = 2 : i64}
    : (tensor<1x1x3x8xf32>, tensor<1x1x3x8xf32>, tensor<1x1x3x8xf32>) -> (tensor<1x1x3x8xf32>, tensor<1x1x3xf32>)
  return %0 : tensor<1x1x3x8xf32>
}

// -----

// Casts between masters and the type of compute have kernels of their own; casts of activations are compiled.
// CHECK-DAG: func.func private @cast_8{{.*}} #offload.kernel<"cast_f32_bf16", params = [8, 1, 65536], tiles = [1], flops = 8, class = cast>
// CHECK-DAG: func.func private @truncf_8{{.*}} compiled, tiles = [1], flops = 8, class = cast>
func.func @step(%w: tensor<8xf32>, %x: tensor<8xf32>) -> (tensor<8xbf16>, tensor<8xbf16>) {
  %0 = train.cast %w : tensor<8xf32> to tensor<8xbf16>
  %1 = arith.truncf %x : tensor<8xf32> to tensor<8xbf16>
  return %0, %1 : tensor<8xbf16>, tensor<8xbf16>
}

// -----

func.func @step(%a: tensor<6x4xf32>) -> tensor<2xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2xf32>
  %init = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %s = tensor.extract_slice %a[0, 0] [2, 4] [1, 1] : tensor<6x4xf32> to tensor<2x4xf32>
  // expected-error @+1 {{no kernel computes it: its initial value is not a constant}}
  %0 = linalg.reduce ins(%s : tensor<2x4xf32>) outs(%init : tensor<2xf32>) dimensions = [1]
    (%in: f32, %acc: f32) { %x = arith.addf %in, %acc : f32
      linalg.yield %x : f32 }
  return %0 : tensor<2xf32>
}
