// RUN: forebay-opt %s --split-input-file --pass-pipeline='builtin.module(train-mixed-precision,canonicalize,cse)' | FileCheck %s
// RUN: forebay-opt %s --split-input-file --pass-pipeline='builtin.module(train-mixed-precision{type=f16})' | FileCheck %s --check-prefix=F16

// A parameter is cast once, in front of its first reader, also for a second reader; frozen ones, too. Statistics and the loss stay f32; what no
// parameter reaches (inputs, %cos) stays f32 until something of the compute type reads it.
// CHECK-LABEL: func.func @forward
//  CHECK-SAME: (%[[X:.*]]: tensor<6x8xf32> {{.*}}, %[[LABELS:.*]]: tensor<6xi64> {{.*}}, %[[W:.*]]: tensor<8x8xf32> {{.*}}, %[[G:.*]]: tensor<8xf32>
//  CHECK-SAME: -> (tensor<f32>
//   CHECK-DAG: %[[XC:.*]] = arith.truncf %[[X]] : tensor<6x8xf32> to tensor<6x8xbf16>
//   CHECK-DAG: %[[WC:.*]] = train.cast %[[W]] : tensor<8x8xf32> to tensor<8x8xbf16>
//       CHECK: %[[H:.*]] = linalg.contract {{.*}} ins(%[[XC]], %[[WC]] : tensor<6x8xbf16>, tensor<8x8xbf16>) outs(%{{.*}} : tensor<6x8xbf16>)
//       CHECK: %[[GC:.*]] = train.cast %[[G]] : tensor<8xf32> to tensor<8xbf16>
//       CHECK: %[[N:.*]], %{{.*}} = train.rms_norm %[[H]] weight(%[[GC]]) {eps = {{.*}}} : (tensor<6x8xbf16>, tensor<8xbf16>) -> (tensor<6x8xbf16>, tensor<6xf32>)
//       CHECK: train.silu %[[N]] : tensor<6x8xbf16>
//   CHECK-NOT: train.cast
//       CHECK: %[[L:.*]] = linalg.contract {{.*}}%[[WC]] : tensor<6x8xbf16>, tensor<8x8xbf16>)
//       CHECK: %[[LOSS:.*]], %{{.*}} = train.cross_entropy %[[L]], %[[LABELS]] : (tensor<6x8xbf16>, tensor<6xi64>) -> (tensor<f32>, tensor<6xf32>)
//       CHECK: return %[[LOSS]] : tensor<f32>
// F16-LABEL: func.func @forward
// F16: train.cast %{{.*}} : tensor<8x8xf32> to tensor<8x8xf16>
#map = affine_map<(m, n, k) -> (m, k)>
#map1 = affine_map<(m, n, k) -> (n, k)>
#map2 = affine_map<(m, n, k) -> (m, n)>
func.func @forward(%x: tensor<6x8xf32> {train.name = "x", train.role = #train.role<input>},
                   %labels: tensor<6xi64> {train.name = "labels", train.role = #train.role<input>},
                   %w: tensor<8x8xf32> {train.name = "w", train.role = #train.role<parameter>, train.trainable},
                   %g: tensor<8xf32> {train.name = "g", train.role = #train.role<parameter>})
    -> (tensor<f32> {train.name = "loss", train.role = #train.role<loss>}) {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<6x8xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<6x8xf32>) -> tensor<6x8xf32>
  %h = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%x, %w : tensor<6x8xf32>, tensor<8x8xf32>) outs(%z : tensor<6x8xf32>) -> tensor<6x8xf32>
  %n, %r = train.rms_norm %h weight(%g) {eps = 1.0e-6 : f64} : (tensor<6x8xf32>, tensor<8xf32>) -> (tensor<6x8xf32>, tensor<6xf32>)
  %s = train.silu %n : tensor<6x8xf32>
  %l = linalg.contract indexing_maps = [#map, #map1, #map2] ins(%s, %w : tensor<6x8xf32>, tensor<8x8xf32>) outs(%z : tensor<6x8xf32>) -> tensor<6x8xf32>
  %loss, %lse = train.cross_entropy %l, %labels : (tensor<6x8xf32>, tensor<6xi64>) -> (tensor<f32>, tensor<6xf32>)
  return %loss : tensor<f32>
}

// -----

// Attention and rotary: lse, tables and float masks in f32. The function's results keep their types.
// CHECK-LABEL: func.func @forward
//  CHECK-SAME: (%[[T:.*]]: tensor<10x8xf32> {{.*}}, %[[IDS:.*]]: tensor<1x1x4xi64> {{.*}}, %[[COS:.*]]: tensor<4x4xf32> {{.*}}, %[[MASK:.*]]: tensor<1x1x4x4xf32>
//       CHECK: %[[TC:.*]] = train.cast %[[T]]
//       CHECK: %[[Q:.*]] = train.embedding %[[TC]], %[[IDS]] : (tensor<10x8xbf16>, tensor<1x1x4xi64>) -> tensor<1x1x4x8xbf16>
//       CHECK: %[[R:.*]] = train.rotary %[[Q]], %[[COS]], %[[COS]] : (tensor<1x1x4x8xbf16>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<1x1x4x8xbf16>
//       CHECK: %[[A:.*]], %{{.*}} = train.attention %[[R]], %[[R]], %[[Q]] mask(%[[MASK]]) {{.*}} -> (tensor<1x1x4x8xbf16>, tensor<1x1x4xf32>)
//       CHECK: %[[OUT:.*]] = arith.extf %[[A]] : tensor<1x1x4x8xbf16> to tensor<1x1x4x8xf32>
//       CHECK: return %[[OUT]], %[[T]]
func.func @forward(%t: tensor<10x8xf32> {train.name = "t", train.role = #train.role<parameter>, train.trainable},
                   %ids: tensor<1x1x4xi64> {train.name = "ids", train.role = #train.role<input>},
                   %cos: tensor<4x4xf32> {train.name = "cos", train.role = #train.role<buffer>},
                   %mask: tensor<1x1x4x4xf32> {train.name = "mask", train.role = #train.role<input>})
    -> (tensor<1x1x4x8xf32> {train.name = "out", train.role = #train.role<output>}, tensor<10x8xf32> {train.name = "table", train.role = #train.role<output>}) {
  %q = train.embedding %t, %ids : (tensor<10x8xf32>, tensor<1x1x4xi64>) -> tensor<1x1x4x8xf32>
  %r = train.rotary %q, %cos, %cos : (tensor<1x1x4x8xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<1x1x4x8xf32>
  %a, %lse = train.attention %r, %r, %q mask(%mask) {scale = 1.0 : f64}
    : (tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x4xf32>) -> (tensor<1x1x4x8xf32>, tensor<1x1x4xf32>)
  return %a, %t : tensor<1x1x4x8xf32>, tensor<10x8xf32>
}

// -----

// Sums go on in f32; an elementwise operation comes back. Views, padding and constants follow; the mask's lowest number stays finite.
// CHECK-LABEL: func.func @forward
//   CHECK-DAG: arith.constant dense<-3.389530e+38> : tensor<4x6xbf16>
//   CHECK-DAG: arith.constant 1.000000e+00 : bf16
//       CHECK: %[[W:.*]] = train.cast
//       CHECK: linalg.transpose ins(%[[W]] : tensor<6x4xbf16>) outs(%{{.*}} : tensor<4x6xbf16>)
//       CHECK: %[[D:.*]] = arith.divf %{{.*}} : tensor<4x6xbf16>
//       CHECK: %[[UP:.*]] = arith.extf %[[D]] : tensor<4x6xbf16> to tensor<4x6xf32>
//       CHECK: %[[SUM:.*]] = linalg.reduce ins(%[[UP]] : tensor<4x6xf32>) outs(%{{.*}} : tensor<4xf32>)
//       CHECK: %[[WIDE:.*]] = linalg.broadcast ins(%[[SUM]] : tensor<4xf32>)
//       CHECK: %[[DOWN:.*]] = arith.truncf %[[WIDE]] : tensor<4x6xf32> to tensor<4x6xbf16>
//       CHECK: arith.mulf %[[D]], %[[DOWN]] : tensor<4x6xbf16>
//       CHECK: tensor.pad
//       CHECK: tensor<4x6xbf16> to tensor<5x6xbf16>
//       CHECK: arith.fptosi %{{.*}} : tensor<5x6xbf16> to tensor<5x6xi32>
func.func @forward(%w: tensor<6x4xf32> {train.name = "w", train.role = #train.role<parameter>, train.trainable}) -> (tensor<5x6xi32> {train.name = "out", train.role = #train.role<output>}) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %lowest = arith.constant dense<-3.40282347e+38> : tensor<4x6xf32>
  %e = tensor.empty() : tensor<4x6xf32>
  %v = tensor.empty() : tensor<4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%v : tensor<4xf32>) -> tensor<4xf32>
  %t = linalg.transpose ins(%w : tensor<6x4xf32>) outs(%e : tensor<4x6xf32>) permutation = [1, 0]
  %d = arith.divf %t, %lowest : tensor<4x6xf32>
  %sum = linalg.reduce ins(%d : tensor<4x6xf32>) outs(%z : tensor<4xf32>) dimensions = [1]
    (%in: f32, %acc: f32) { %x = arith.addf %in, %acc : f32
      linalg.yield %x : f32 }
  %b = linalg.broadcast ins(%sum : tensor<4xf32>) outs(%e : tensor<4x6xf32>) dimensions = [1]
  %m = arith.mulf %d, %b : tensor<4x6xf32>
  %p = tensor.pad %m low[1, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %one : f32
  } : tensor<4x6xf32> to tensor<5x6xf32>
  %n = arith.fptosi %p : tensor<5x6xf32> to tensor<5x6xi32>
  return %n : tensor<5x6xi32>
}
