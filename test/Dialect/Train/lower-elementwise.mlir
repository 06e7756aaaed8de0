// RUN: forebay-opt %s --train-lower-elementwise --split-input-file | FileCheck %s

// The phase of an operation goes to what replaces it; constants have none.
// CHECK-LABEL: func @sigmoid
//  CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
//   CHECK-DAG:   %[[ONE:.*]] = arith.constant dense<1.000000e+00>
//   CHECK-DAG:   %[[N:.*]] = arith.negf %[[X]] {train.phase = #train.phase<forward>}
//       CHECK:   %[[E:.*]] = math.exp %[[N]] {train.phase = #train.phase<forward>}
//       CHECK:   %[[S:.*]] = arith.addf %{{.*}}, %[[E]] {train.phase = #train.phase<forward>}
//       CHECK:   %[[R:.*]] = arith.divf %{{.*}}, %[[S]] {train.phase = #train.phase<forward>}
//       CHECK:   return %[[R]]
func.func @sigmoid(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = train.sigmoid %x {train.phase = #train.phase<forward>} : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// The exact form uses erf, the other tanh.
// CHECK-LABEL: func @gelu
//       CHECK:   math.erf
//   CHECK-NOT:   math.tanh
//       CHECK:   math.tanh
//   CHECK-NOT:   train.
func.func @gelu(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = train.gelu %x : tensor<3xf32>
  %1 = train.gelu %x {tanh} : tensor<3xf32>
  return %0, %1 : tensor<3xf32>, tensor<3xf32>
}

// -----

// CHECK-LABEL: func @gradients
//   CHECK-NOT:   train.gelu
//   CHECK-NOT:   train.silu
//       CHECK:   return
func.func @gradients(%g: tensor<3xf64>, %x: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0 = train.gelu_grad %g, %x : tensor<3xf64>
  %1 = train.gelu_grad %g, %x {tanh} : tensor<3xf64>
  %2 = train.silu_grad %g, %x : tensor<3xf64>
  return %0, %1, %2 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}

// -----

// A mask is a comparison of indices: no [4, 4] tensor is stored before a kernel needs it.
// CHECK-LABEL: func @mask
//       CHECK:   %[[Q:.*]] = train.iota : tensor<4xi64>
//       CHECK:   %[[QB:.*]] = linalg.broadcast ins(%[[Q]] : tensor<4xi64>) {{.*}} dimensions = [0, 2]
//       CHECK:   %[[K:.*]] = train.iota : tensor<4xi64>
//       CHECK:   %[[KB:.*]] = linalg.broadcast ins(%[[K]] : tensor<4xi64>) {{.*}} dimensions = [0, 1]
//       CHECK:   arith.cmpi sle, %[[KB]], %[[QB]] : tensor<1x4x4xi64>
//       CHECK:   arith.constant dense<2>
//       CHECK:   arith.subi
//       CHECK:   arith.cmpi sgt
//       CHECK:   arith.andi
func.func @mask() -> tensor<1x4x4xi1> {
  %0 = train.causal_mask {window = 2 : i64} : tensor<1x4x4xi1>
  return %0 : tensor<1x4x4xi1>
}

// -----

// CHECK-LABEL: func @detach
//  CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
//  CHECK-NEXT:   return %[[X]]
func.func @detach(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = train.detach %x : tensor<3xf32>
  return %0 : tensor<3xf32>
}

// bf16 is a type of memory: the expression and its constants are f32.
// CHECK-LABEL: func.func @narrow
//       CHECK: %[[X:.*]] = arith.extf %{{.*}} : tensor<4xbf16> to tensor<4xf32>
//       CHECK: math.exp %{{.*}} : tensor<4xf32>
//       CHECK: arith.divf %[[X]], %{{.*}} : tensor<4xf32>
//       CHECK: arith.truncf %{{.*}} : tensor<4xf32> to tensor<4xbf16>
func.func @narrow(%x: tensor<4xbf16>) -> tensor<4xbf16> {
  %0 = train.silu %x : tensor<4xbf16>
  return %0 : tensor<4xbf16>
}
