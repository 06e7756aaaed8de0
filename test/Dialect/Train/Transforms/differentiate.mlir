// RUN: forebay-opt %s --split-input-file --train-differentiate --canonicalize --cse 2>%t.err | FileCheck %s
// RUN: FileCheck %s --check-prefix=WARN <%t.err

// A linear layer whose output is cut into three: the gradients of the slices are concatenated, the broadcast becomes a
// sum, the contraction's gradient for the weight is a contraction with exchanged maps, and none is made for the input.
// %qk is detached once.

// CHECK-DAG: #[[MK:.*]] = affine_map<(d0, d1, d2) -> (d0, d2)>
// CHECK-DAG: #[[KN:.*]] = affine_map<(d0, d1, d2) -> (d2, d1)>
// CHECK-DAG: #[[MN:.*]] = affine_map<(d0, d1, d2) -> (d0, d1)>
// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32> {train.name = "x"}, %[[W:.*]]: tensor<6x9xf32> {train.name = "w", train.trainable},
// CHECK-SAME: %{{.*}}: tensor<9xf32> {train.name = "b", train.trainable}, %{{.*}}: tensor<9xf32> {train.name = "dead", train.no_gradient})
// CHECK-SAME: -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4x3xf32>, tensor<6x9xf32> {train.name = "w", train.role = #train.role<gradient>}, tensor<9xf32> {train.name = "b", train.role = #train.role<gradient>})
// CHECK: linalg.contract indexing_maps = [#[[MK]], #[[KN]], #[[MN]]] {train.phase = #train.phase<forward>}
// CHECK: %[[Q:.*]] = tensor.extract_slice %{{.*}}[0, 0] [4, 3]
// CHECK: %[[K:.*]] = tensor.extract_slice %{{.*}}[0, 3] [4, 3]
// CHECK: %[[V:.*]] = tensor.extract_slice %{{.*}}[0, 6] [4, 3]
// CHECK: %[[QK:.*]] = arith.mulf %[[Q]], %[[K]]
// CHECK: %[[O:.*]] = arith.mulf %[[QK]], %[[V]]
// CHECK: %[[LOSS:.*]] = linalg.reduce {{.*}}phase<forward>
// CHECK-NOT: phase<forward>
// CHECK: %[[DS:.*]] = tensor.concat dim(1) %[[K]], %[[Q]], %[[QK]] {train.phase = #train.phase<backward>}
// CHECK: %[[DB:.*]] = linalg.reduce { arith.addf } ins(%[[DS]] : tensor<4x9xf32>) outs(%{{.*}}) dimensions = [0]
// CHECK: %[[DW:.*]] = linalg.contract indexing_maps = [#[[MK]], #[[MN]], #[[KN]]] {train.phase = #train.phase<backward>} ins(%[[X]], %[[DS]]
// CHECK-NEXT: return %[[LOSS]], %[[O]], %[[DW]], %[[DB]]
// WARN: warning: 1 trainable parameter(s) without a differentiable path to the loss stay as they are
// WARN: note: {{.*}}'dead'
func.func @forward(%x: tensor<4x6xf32> {train.name = "x"}, %w: tensor<6x9xf32> {train.name = "w", train.trainable},
                   %b: tensor<9xf32> {train.name = "b", train.trainable},
                   %dead: tensor<9xf32> {train.name = "dead", train.trainable})
    -> (tensor<f32> {train.role = #train.role<loss>}, tensor<4x3xf32>) {
  %e = tensor.empty() : tensor<4x9xf32>
  %z = arith.constant 0.0 : f32
  %f = linalg.fill ins(%z : f32) outs(%e : tensor<4x9xf32>) -> tensor<4x9xf32>
  %y = linalg.contract
      indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %w : tensor<4x6xf32>, tensor<6x9xf32>) outs(%f : tensor<4x9xf32>) -> tensor<4x9xf32>
  %bb = linalg.broadcast ins(%b : tensor<9xf32>) outs(%e : tensor<4x9xf32>) dimensions = [0]
  %s = arith.addf %y, %bb : tensor<4x9xf32>
  %q = tensor.extract_slice %s[0, 0] [4, 3] [1, 1] : tensor<4x9xf32> to tensor<4x3xf32>
  %k = tensor.extract_slice %s[0, 3] [4, 3] [1, 1] : tensor<4x9xf32> to tensor<4x3xf32>
  %v = tensor.extract_slice %s[0, 6] [4, 3] [1, 1] : tensor<4x9xf32> to tensor<4x3xf32>
  %qk = arith.mulf %q, %k : tensor<4x3xf32>
  %qkd = train.detach %qk : tensor<4x3xf32>
  %o = arith.mulf %qkd, %v : tensor<4x3xf32>
  %o2 = arith.addf %o, %qk : tensor<4x3xf32>
  %e0 = tensor.empty() : tensor<f32>
  %f0 = linalg.fill ins(%z : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %l = linalg.reduce {arith.addf} ins(%o2 : tensor<4x3xf32>) outs(%f0 : tensor<f32>) dimensions = [0, 1]
  return %l, %o : tensor<f32>, tensor<4x3xf32>
}

// -----

// A weight used twice: two gradients, added from the last use to the first. Dead operations go.

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[W:.*]]: tensor<5xf32> {{.*}}, %[[A:.*]]: tensor<5xf32>
// CHECK-NOT: math.exp
// CHECK: %[[T:.*]] = math.tanh %[[W]]
// CHECK: linalg.reduce
// CHECK: %[[TT:.*]] = arith.mulf %[[T]], %[[T]]
// CHECK: %[[SLOPE:.*]] = arith.subf %{{.*}}, %[[TT]]
// CHECK: %[[D:.*]] = arith.mulf %[[W]], %[[SLOPE]]
// CHECK: %[[SUM:.*]] = arith.addf %[[T]], %[[D]]
// CHECK: return %{{.*}}, %[[SUM]]
func.func @forward(%w: tensor<5xf32> {train.name = "w", train.trainable}, %a: tensor<5xf32>)
    -> (tensor<f32> {train.role = #train.role<loss>}) {
  %t = math.tanh %w : tensor<5xf32>
  %unused = math.exp %w : tensor<5xf32>
  %p = arith.mulf %t, %w : tensor<5xf32>
  %z = arith.constant dense<0.0> : tensor<f32>
  %l = linalg.reduce {arith.addf} ins(%p : tensor<5xf32>) outs(%z : tensor<f32>) dimensions = [0]
  return %l : tensor<f32>
}
