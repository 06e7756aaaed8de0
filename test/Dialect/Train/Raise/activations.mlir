// RUN: forebay-opt %s --train-raise-activations "--remarks-filter=train-raise.*" 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks

// CHECK-LABEL: @sigmoid
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
func.func @sigmoid(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %one = arith.constant dense<1.0> : tensor<2x3xf32>
  %n = arith.negf %x : tensor<2x3xf32>
  %e = math.exp %n : tensor<2x3xf32>
  %a = arith.addf %e, %one : tensor<2x3xf32>
  %r = arith.divf %one, %a : tensor<2x3xf32>
  // CHECK-NEXT: %[[R:.*]] = train.sigmoid %[[X]]
  // CHECK-NEXT: return %[[R]]
  return %r : tensor<2x3xf32>
}

// A quotient over 1 + exp(-x), with -x as a product.
// CHECK-LABEL: @silu_as_quotient
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
func.func @silu_as_quotient(%x: tensor<3xf32>) -> tensor<3xf32> {
  %one = arith.constant dense<1.0> : tensor<3xf32>
  %minus = arith.constant dense<-1.0> : tensor<3xf32>
  %n = arith.mulf %minus, %x : tensor<3xf32>
  %e = math.exp %n : tensor<3xf32>
  %a = arith.addf %one, %e : tensor<3xf32>
  %r = arith.divf %x, %a : tensor<3xf32>
  // CHECK-NEXT: %[[R:.*]] = train.silu %[[X]]
  // CHECK-NEXT: return %[[R]]
  return %r : tensor<3xf32>
}

// SwiGLU: the gate is raised, the product with the other branch stays. A gate of another value is no silu.
// CHECK-LABEL: @swiglu
// CHECK-SAME: (%[[G:.*]]: tensor<3xf32>, %[[U:.*]]: tensor<3xf32>)
func.func @swiglu(%g: tensor<3xf32>, %u: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %s = train.sigmoid %g : tensor<3xf32>
  %silu = arith.mulf %g, %s : tensor<3xf32>
  %r = arith.mulf %silu, %u : tensor<3xf32>
  %other = arith.mulf %u, %s : tensor<3xf32>
  // CHECK: %[[S:.*]] = train.sigmoid %[[G]]
  // CHECK: %[[SILU:.*]] = train.silu %[[G]]
  // CHECK: %[[R:.*]] = arith.mulf %[[SILU]], %[[U]]
  // CHECK: %[[O:.*]] = arith.mulf %[[U]], %[[S]]
  // CHECK: return %[[R]], %[[O]]
  return %r, %other : tensor<3xf32>, tensor<3xf32>
}

// GPT-2's form, with a power.
// CHECK-LABEL: @gelu_gpt2
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
func.func @gelu_gpt2(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %half = arith.constant dense<5.000000e-01> : tensor<2x3xf32>
  %three = arith.constant dense<3.000000e+00> : tensor<2x3xf32>
  %c = arith.constant dense<4.471500e-02> : tensor<2x3xf32>
  %k = arith.constant dense<0.797884583> : tensor<2x3xf32>
  %one = arith.constant dense<1.000000e+00> : tensor<2x3xf32>
  %0 = arith.mulf %x, %half : tensor<2x3xf32>
  %1 = math.powf %x, %three : tensor<2x3xf32>
  %2 = arith.mulf %1, %c : tensor<2x3xf32>
  %3 = arith.addf %x, %2 : tensor<2x3xf32>
  %4 = arith.mulf %3, %k : tensor<2x3xf32>
  %5 = math.tanh %4 : tensor<2x3xf32>
  %6 = arith.addf %5, %one : tensor<2x3xf32>
  %7 = arith.mulf %0, %6 : tensor<2x3xf32>
  // CHECK-NEXT: %[[R:.*]] = train.gelu %[[X]] {tanh}
  // CHECK-NEXT: return %[[R]]
  return %7 : tensor<2x3xf32>
}

// PyTorch's gelu(approximate="tanh") at opset 18: the half comes last, the cube is two products.
// CHECK-LABEL: @gelu_tanh_opset18
// CHECK-SAME: (%[[X:.*]]: tensor<3xf32>)
func.func @gelu_tanh_opset18(%x: tensor<3xf32>) -> tensor<3xf32> {
  %half = arith.constant dense<5.000000e-01> : tensor<3xf32>
  %c = arith.constant dense<4.471500e-02> : tensor<3xf32>
  %k = arith.constant dense<0.797884583> : tensor<3xf32>
  %one = arith.constant dense<1.000000e+00> : tensor<3xf32>
  %0 = arith.mulf %x, %x : tensor<3xf32>
  %1 = arith.mulf %0, %x : tensor<3xf32>
  %2 = arith.mulf %c, %1 : tensor<3xf32>
  %3 = arith.addf %x, %2 : tensor<3xf32>
  %4 = arith.mulf %k, %3 : tensor<3xf32>
  %5 = math.tanh %4 : tensor<3xf32>
  %6 = arith.addf %5, %one : tensor<3xf32>
  %7 = arith.mulf %x, %6 : tensor<3xf32>
  %8 = arith.mulf %half, %7 : tensor<3xf32>
  // CHECK-NEXT: %[[R:.*]] = train.gelu %[[X]] {tanh}
  // CHECK-NEXT: return %[[R]]
  return %8 : tensor<3xf32>
}

// x (k (1 + c x x)) inside tanh, and 0.5 tanh + 0.5 outside.
// CHECK-LABEL: @gelu_fast
// CHECK-SAME: (%[[X:.*]]: tensor<3xf64>)
func.func @gelu_fast(%x: tensor<3xf64>) -> tensor<3xf64> {
  %half = arith.constant dense<0.5> : tensor<3xf64>
  %c = arith.constant dense<0.044715> : tensor<3xf64>
  %k = arith.constant dense<0.7978845608> : tensor<3xf64>
  %one = arith.constant dense<1.0> : tensor<3xf64>
  %0 = arith.mulf %x, %k : tensor<3xf64>
  %1 = arith.mulf %x, %c : tensor<3xf64>
  %2 = arith.mulf %1, %x : tensor<3xf64>
  %3 = arith.addf %one, %2 : tensor<3xf64>
  %4 = arith.mulf %0, %3 : tensor<3xf64>
  %5 = math.tanh %4 : tensor<3xf64>
  %6 = arith.mulf %half, %5 : tensor<3xf64>
  %7 = arith.addf %half, %6 : tensor<3xf64>
  %8 = arith.mulf %x, %7 : tensor<3xf64>
  // CHECK-NEXT: %[[R:.*]] = train.gelu %[[X]] {tanh}
  // CHECK-NEXT: return %[[R]]
  return %8 : tensor<3xf64>
}

// Exact GELU of opset 18, and GeGLU after it.
// CHECK-LABEL: @gelu_erf
// CHECK-SAME: (%[[X:.*]]: tensor<0x3xf32>, %[[U:.*]]: tensor<0x3xf32>)
func.func @gelu_erf(%x: tensor<0x3xf32>, %u: tensor<0x3xf32>) -> tensor<0x3xf32> {
  %half = arith.constant dense<5.000000e-01> : tensor<0x3xf32>
  %root = arith.constant dense<1.41421354> : tensor<0x3xf32>
  %one = arith.constant dense<1.000000e+00> : tensor<0x3xf32>
  %0 = arith.divf %x, %root : tensor<0x3xf32>
  %1 = math.erf %0 : tensor<0x3xf32>
  %2 = arith.addf %1, %one : tensor<0x3xf32>
  %3 = arith.mulf %half, %2 : tensor<0x3xf32>
  %4 = arith.mulf %x, %3 : tensor<0x3xf32>
  %5 = arith.mulf %4, %u : tensor<0x3xf32>
  // CHECK-NEXT: %[[R:.*]] = train.gelu %[[X]] : tensor<0x3xf32>
  // CHECK-NEXT: arith.mulf %[[R]], %[[U]]
  return %5 : tensor<0x3xf32>
}

// Near misses: another cubic coefficient; no factor of one half.
// CHECK-LABEL: @gelu_near_misses
// CHECK-NOT: train.gelu
// CHECK: return
// REMARK-DAG: NotRaised{{.*}}the polynomial inside tanh has the coefficients 0.000000, 0.797885, 0.000000, 0.039894{{.*}}gelu
// REMARK-DAG: NotRaised{{.*}}the factor is 1.000000, not 0.5{{.*}}gelu
func.func @gelu_near_misses(%x: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %half = arith.constant dense<5.000000e-01> : tensor<3xf32>
  %c = arith.constant dense<0.05> : tensor<3xf32>
  %k = arith.constant dense<0.797884583> : tensor<3xf32>
  %r = arith.constant dense<0.707106769> : tensor<3xf32>
  %one = arith.constant dense<1.000000e+00> : tensor<3xf32>
  %0 = arith.mulf %x, %x : tensor<3xf32>
  %1 = arith.mulf %0, %x : tensor<3xf32>
  %2 = arith.mulf %c, %1 : tensor<3xf32>
  %3 = arith.addf %x, %2 : tensor<3xf32>
  %4 = arith.mulf %k, %3 : tensor<3xf32>
  %5 = math.tanh %4 : tensor<3xf32>
  %6 = arith.addf %5, %one : tensor<3xf32>
  %7 = arith.mulf %x, %6 : tensor<3xf32>
  %8 = arith.mulf %half, %7 : tensor<3xf32>
  %9 = arith.mulf %x, %r : tensor<3xf32>
  %10 = math.erf %9 : tensor<3xf32>
  %11 = arith.addf %10, %one : tensor<3xf32>
  %12 = arith.mulf %x, %11 : tensor<3xf32>
  return %8, %12 : tensor<3xf32>, tensor<3xf32>
}

// CHECK-LABEL: @softmax
// CHECK-SAME: (%[[X:.*]]: tensor<2x3xf32>)
func.func @softmax(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2xf32>
  %wide = tensor.empty() : tensor<2x3xf32>
  %i = linalg.fill ins(%lowest : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %m = linalg.reduce { arith.maximumf } ins(%x : tensor<2x3xf32>) outs(%i : tensor<2xf32>) dimensions = [1]
  %mb = linalg.broadcast ins(%m : tensor<2xf32>) outs(%wide : tensor<2x3xf32>) dimensions = [1]
  %s = arith.subf %x, %mb : tensor<2x3xf32>
  %ex = math.exp %s : tensor<2x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2xf32>) -> tensor<2xf32>
  %sum = linalg.reduce { arith.addf } ins(%ex : tensor<2x3xf32>) outs(%z : tensor<2xf32>) dimensions = [1]
  %sumk = tensor.expand_shape %sum [[0, 1]] output_shape [2, 1] : tensor<2xf32> into tensor<2x1xf32>
  %sumc = tensor.collapse_shape %sumk [[0, 1]] : tensor<2x1xf32> into tensor<2xf32>
  %sb = linalg.broadcast ins(%sumc : tensor<2xf32>) outs(%wide : tensor<2x3xf32>) dimensions = [1]
  %r = arith.divf %ex, %sb : tensor<2x3xf32>
  // CHECK-NEXT: %[[R:.*]] = train.softmax %[[X]]
  // CHECK-NEXT: return %[[R]]
  return %r : tensor<2x3xf32>
}

// Over the first axis, in a square where shapes alone do not tell: not a softmax of this dialect.
// CHECK-LABEL: @softmax_other_axis
// CHECK-NOT: train.softmax
// CHECK: return
func.func @softmax_other_axis(%x: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %wide = tensor.empty() : tensor<3x3xf32>
  %ex = math.exp %x : tensor<3x3xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %sum = linalg.reduce { arith.addf } ins(%ex : tensor<3x3xf32>) outs(%z : tensor<3xf32>) dimensions = [1]
  // Broadcast along the rows, not back to where the sums came from.
  %sb = linalg.broadcast ins(%sum : tensor<3xf32>) outs(%wide : tensor<3x3xf32>) dimensions = [0]
  %r = arith.divf %ex, %sb : tensor<3x3xf32>
  return %r : tensor<3x3xf32>
}
