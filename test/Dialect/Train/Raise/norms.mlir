// RUN: forebay-opt %s --train-raise-norms "--remarks-filter=train-raise.*" 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks

// The exporter's form: power, mean with a kept dimension, reciprocal of a root, weight first.
// CHECK-LABEL: @rms_norm
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x4xf32>, %[[W:.*]]: tensor<4xf32>)
func.func @rms_norm(%x: tensor<2x3x4xf32>, %w: tensor<4xf32>) -> tensor<2x3x4xf32> {
  %two = arith.constant dense<2.0> : tensor<2x3x4xf32>
  %n = arith.constant dense<4.0> : tensor<2x3x1xf32>
  %eps = arith.constant dense<9.99999997E-7> : tensor<2x3x1xf32>
  %one = arith.constant dense<1.0> : tensor<2x3x1xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<2x3xf32>
  %wide = tensor.empty() : tensor<2x3x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3xf32>) -> tensor<2x3xf32>
  %sq = math.powf %x, %two : tensor<2x3x4xf32>
  %s = linalg.reduce { arith.addf } ins(%sq : tensor<2x3x4xf32>) outs(%init : tensor<2x3xf32>) dimensions = [2]
  %sk = tensor.expand_shape %s [[0], [1, 2]] output_shape [2, 3, 1] : tensor<2x3xf32> into tensor<2x3x1xf32>
  %m = arith.divf %sk, %n : tensor<2x3x1xf32>
  %a = arith.addf %m, %eps : tensor<2x3x1xf32>
  %rt = math.sqrt %a : tensor<2x3x1xf32>
  %r = arith.divf %one, %rt : tensor<2x3x1xf32>
  %rc = tensor.collapse_shape %r [[0], [1, 2]] : tensor<2x3x1xf32> into tensor<2x3xf32>
  %rb = linalg.broadcast ins(%rc : tensor<2x3xf32>) outs(%wide : tensor<2x3x4xf32>) dimensions = [2]
  %y = arith.mulf %x, %rb : tensor<2x3x4xf32>
  %wb = linalg.broadcast ins(%w : tensor<4xf32>) outs(%wide : tensor<2x3x4xf32>) dimensions = [0, 1]
  %z = arith.mulf %wb, %y : tensor<2x3x4xf32>
  // CHECK-NEXT: %[[R:.*]], %{{.*}} = train.rms_norm %[[X]] weight(%[[W]]) {eps = 9.9999999747524271E-7 : f64} : (tensor<2x3x4xf32>, tensor<4xf32>) -> (tensor<2x3x4xf32>, tensor<2x3xf32>)
  // CHECK-NEXT: return %[[R]]
  return %z : tensor<2x3x4xf32>
}

// Gemma: rsqrt, mean as a product, weight last and offset by 1 (before its broadcast).
// CHECK-LABEL: @gemma
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf64>, %[[W:.*]]: tensor<4xf64>)
func.func @gemma(%x: tensor<3x4xf64>, %w: tensor<4xf64>) -> tensor<3x4xf64> {
  %quarter = arith.constant dense<0.25> : tensor<3xf64>
  %eps = arith.constant dense<1.0e-6> : tensor<3xf64>
  %one = arith.constant dense<1.0> : tensor<4xf64>
  %zero = arith.constant 0.0 : f64
  %e = tensor.empty() : tensor<3xf64>
  %wide = tensor.empty() : tensor<3x4xf64>
  %init = linalg.fill ins(%zero : f64) outs(%e : tensor<3xf64>) -> tensor<3xf64>
  %sq = arith.mulf %x, %x : tensor<3x4xf64>
  %s = linalg.reduce { arith.addf } ins(%sq : tensor<3x4xf64>) outs(%init : tensor<3xf64>) dimensions = [1]
  %m = arith.mulf %s, %quarter : tensor<3xf64>
  %a = arith.addf %eps, %m : tensor<3xf64>
  %r = math.rsqrt %a : tensor<3xf64>
  %rb = linalg.broadcast ins(%r : tensor<3xf64>) outs(%wide : tensor<3x4xf64>) dimensions = [1]
  %y = arith.mulf %rb, %x : tensor<3x4xf64>
  %w1 = arith.addf %w, %one : tensor<4xf64>
  %wb = linalg.broadcast ins(%w1 : tensor<4xf64>) outs(%wide : tensor<3x4xf64>) dimensions = [0]
  %z = arith.mulf %y, %wb : tensor<3x4xf64>
  // CHECK-NEXT: %[[R:.*]], %{{.*}} = train.rms_norm %[[X]] weight(%[[W]]) {eps = 9.9999999999999995E-7 : f64, unit_offset}
  // CHECK-NEXT: return %[[R]]
  return %z : tensor<3x4xf64>
}

// A quotient by the root, without a weight; the result has two uses, so the product after it stays.
// CHECK-LABEL: @no_weight
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>, %[[W:.*]]: tensor<4xf32>)
func.func @no_weight(%x: tensor<3x4xf32>, %w: tensor<4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %n = arith.constant dense<4.0> : tensor<3xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %wide = tensor.empty() : tensor<3x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %sq = arith.mulf %x, %x : tensor<3x4xf32>
  %s = linalg.reduce { arith.addf } ins(%sq : tensor<3x4xf32>) outs(%init : tensor<3xf32>) dimensions = [1]
  %m = arith.divf %s, %n : tensor<3xf32>
  %r = math.sqrt %m : tensor<3xf32>
  %rb = linalg.broadcast ins(%r : tensor<3xf32>) outs(%wide : tensor<3x4xf32>) dimensions = [1]
  %y = arith.divf %x, %rb : tensor<3x4xf32>
  %wb = linalg.broadcast ins(%w : tensor<4xf32>) outs(%wide : tensor<3x4xf32>) dimensions = [0]
  %z = arith.mulf %y, %wb : tensor<3x4xf32>
  // CHECK: %[[R:.*]], %{{.*}} = train.rms_norm %[[X]] {eps = 0.000000e+00 : f64}
  // CHECK: arith.mulf %[[R]]
  return %y, %z : tensor<3x4xf32>, tensor<3x4xf32>
}

// (x * w) * r; and a squared product: the weight belongs to the value then.
// CHECK-LABEL: @associations
// CHECK-SAME: (%[[X:.*]]: tensor<3x4xf32>, %[[W:.*]]: tensor<4xf32>)
func.func @associations(%x: tensor<3x4xf32>, %w: tensor<4xf32>) -> (tensor<3x4xf32>, tensor<3x4xf32>) {
  %n = arith.constant dense<4.0> : tensor<3xf32>
  %eps = arith.constant dense<1.0> : tensor<3xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %wide = tensor.empty() : tensor<3x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %wb = linalg.broadcast ins(%w : tensor<4xf32>) outs(%wide : tensor<3x4xf32>) dimensions = [0]
  %xw = arith.mulf %x, %wb : tensor<3x4xf32>
  %sq = arith.mulf %x, %x : tensor<3x4xf32>
  %s = linalg.reduce { arith.addf } ins(%sq : tensor<3x4xf32>) outs(%init : tensor<3xf32>) dimensions = [1]
  %m = arith.divf %s, %n : tensor<3xf32>
  %a = arith.addf %m, %eps : tensor<3xf32>
  %r = math.rsqrt %a : tensor<3xf32>
  %rb = linalg.broadcast ins(%r : tensor<3xf32>) outs(%wide : tensor<3x4xf32>) dimensions = [1]
  %y = arith.mulf %xw, %rb : tensor<3x4xf32>
  %sq2 = arith.mulf %xw, %xw : tensor<3x4xf32>
  %s2 = linalg.reduce { arith.addf } ins(%sq2 : tensor<3x4xf32>) outs(%init : tensor<3xf32>) dimensions = [1]
  %m2 = arith.divf %s2, %n : tensor<3xf32>
  %a2 = arith.addf %m2, %eps : tensor<3xf32>
  %r2 = math.rsqrt %a2 : tensor<3xf32>
  %rb2 = linalg.broadcast ins(%r2 : tensor<3xf32>) outs(%wide : tensor<3x4xf32>) dimensions = [1]
  %y2 = arith.mulf %rb2, %xw : tensor<3x4xf32>
  // CHECK: %[[XW:.*]] = arith.mulf %[[X]]
  // CHECK: %[[R:.*]], %{{.*}} = train.rms_norm %[[X]] weight(%[[W]]) {eps = 1.000000e+00 : f64}
  // CHECK: %[[R2:.*]], %{{.*}} = train.rms_norm %[[XW]] {eps = 1.000000e+00 : f64}
  // CHECK: return %[[R]], %[[R2]]
  return %y, %y2 : tensor<3x4xf32>, tensor<3x4xf32>
}

// CHECK-LABEL: @layer_norm
// CHECK-SAME: (%[[X:.*]]: tensor<3x1xf32>, %[[W:.*]]: tensor<1xf32>, %[[B:.*]]: tensor<1xf32>)
func.func @layer_norm(%x: tensor<3x1xf32>, %w: tensor<1xf32>, %b: tensor<1xf32>) -> tensor<3x1xf32> {
  %n = arith.constant dense<1.0> : tensor<3xf32>
  %eps = arith.constant dense<0.5> : tensor<3xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<3xf32>
  %wide = tensor.empty() : tensor<3x1xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<3xf32>) -> tensor<3xf32>
  %s0 = linalg.reduce { arith.addf } ins(%x : tensor<3x1xf32>) outs(%init : tensor<3xf32>) dimensions = [1]
  %m0 = arith.divf %s0, %n : tensor<3xf32>
  %mb = linalg.broadcast ins(%m0 : tensor<3xf32>) outs(%wide : tensor<3x1xf32>) dimensions = [1]
  %d = arith.subf %x, %mb : tensor<3x1xf32>
  %sq = arith.mulf %d, %d : tensor<3x1xf32>
  %s = linalg.reduce { arith.addf } ins(%sq : tensor<3x1xf32>) outs(%init : tensor<3xf32>) dimensions = [1]
  %m = arith.divf %s, %n : tensor<3xf32>
  %a = arith.addf %m, %eps : tensor<3xf32>
  %r = math.sqrt %a : tensor<3xf32>
  %rb = linalg.broadcast ins(%r : tensor<3xf32>) outs(%wide : tensor<3x1xf32>) dimensions = [1]
  %y = arith.divf %d, %rb : tensor<3x1xf32>
  %wb = linalg.broadcast ins(%w : tensor<1xf32>) outs(%wide : tensor<3x1xf32>) dimensions = [0]
  %z = arith.mulf %y, %wb : tensor<3x1xf32>
  %bb = linalg.broadcast ins(%b : tensor<1xf32>) outs(%wide : tensor<3x1xf32>) dimensions = [0]
  %o = arith.addf %z, %bb : tensor<3x1xf32>
  // CHECK-NEXT: %[[R:.*]], %{{.*}}, %{{.*}} = train.layer_norm %[[X]] weight(%[[W]]) bias(%[[B]]) {eps = 5.000000e-01 : f64}
  // CHECK-NEXT: return %[[R]]
  return %o : tensor<3x1xf32>
}

// Near misses: a sum that is no mean, another axis, another value, a row statistic that belongs to other rows.
// CHECK-LABEL: @near_misses
// CHECK-NOT: train.rms_norm
// CHECK: return
// REMARK-DAG: NotRaised{{.*}}the sum is not divided by the size of the last axis
// REMARK-DAG: NotRaised{{.*}}the mean is not over the last axis alone
// REMARK-DAG: NotRaised{{.*}}the value that is scaled is not the one whose squares were averaged
// REMARK-DAG: NotRaised{{.*}}what is added to the mean is not a constant
func.func @near_misses(%x: tensor<4x4xf32>, %u: tensor<4x4xf32>, %t: tensor<4xf32>)
    -> (tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) {
  %n = arith.constant dense<4.0> : tensor<4xf32>
  %eps = arith.constant dense<1.0> : tensor<4xf32>
  %zero = arith.constant 0.0 : f32
  %e = tensor.empty() : tensor<4xf32>
  %wide = tensor.empty() : tensor<4x4xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<4xf32>) -> tensor<4xf32>
  %sq = arith.mulf %x, %x : tensor<4x4xf32>
  %s = linalg.reduce { arith.addf } ins(%sq : tensor<4x4xf32>) outs(%init : tensor<4xf32>) dimensions = [1]
  %r = math.rsqrt %s : tensor<4xf32>
  %rb = linalg.broadcast ins(%r : tensor<4xf32>) outs(%wide : tensor<4x4xf32>) dimensions = [1]
  %y = arith.mulf %rb, %x : tensor<4x4xf32>
  %s1 = linalg.reduce { arith.addf } ins(%sq : tensor<4x4xf32>) outs(%init : tensor<4xf32>) dimensions = [0]
  %m1 = arith.divf %s1, %n : tensor<4xf32>
  %a1 = arith.addf %m1, %eps : tensor<4xf32>
  %r1 = math.rsqrt %a1 : tensor<4xf32>
  %rb1 = linalg.broadcast ins(%r1 : tensor<4xf32>) outs(%wide : tensor<4x4xf32>) dimensions = [0]
  %y1 = arith.mulf %rb1, %x : tensor<4x4xf32>
  %m2 = arith.divf %s, %n : tensor<4xf32>
  %a2 = arith.addf %m2, %eps : tensor<4xf32>
  %r2 = math.rsqrt %a2 : tensor<4xf32>
  %rb2 = linalg.broadcast ins(%r2 : tensor<4xf32>) outs(%wide : tensor<4x4xf32>) dimensions = [1]
  %y2 = arith.mulf %rb2, %u : tensor<4x4xf32>
  %a3 = arith.addf %m2, %t : tensor<4xf32>
  %r3 = math.rsqrt %a3 : tensor<4xf32>
  %rb3 = linalg.broadcast ins(%r3 : tensor<4xf32>) outs(%wide : tensor<4x4xf32>) dimensions = [1]
  %y3 = arith.mulf %rb3, %x : tensor<4x4xf32>
  // Of each row's statistic every column is made: element (i, j) is scaled by row j.
  %rb4 = linalg.broadcast ins(%r2 : tensor<4xf32>) outs(%wide : tensor<4x4xf32>) dimensions = [0]
  %y4 = arith.mulf %rb4, %x : tensor<4x4xf32>
  return %y, %y1, %y2, %y3, %y4 : tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>
}
