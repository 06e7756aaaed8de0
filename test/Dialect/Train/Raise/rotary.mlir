// RUN: forebay-opt %s --train-raise-rotary --canonicalize --cse "--remarks-filter=train-raise.*" 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks

// transformers' form: x * cos + concat(-x2, x1) * sin; cos and sin of concat(f, f). The tables get half width and are
// computed once for queries and keys.
// CHECK-LABEL: @rotate_half
// CHECK-SAME: (%[[Q:.*]]: tensor<2x4x5x6xf32>, %[[K:.*]]: tensor<2x1x5x6xf32>, %[[F:.*]]: tensor<3xf32>)
func.func @rotate_half(%q: tensor<2x4x5x6xf32>, %k: tensor<2x1x5x6xf32>, %freq: tensor<3xf32>)
    -> (tensor<2x4x5x6xf32>, tensor<2x1x5x6xf32>) {
  %half = tensor.empty() : tensor<5x3xf32>
  %wideq = tensor.empty() : tensor<2x4x5x6xf32>
  %widek = tensor.empty() : tensor<2x1x5x6xf32>
  %scaling = arith.constant dense<1.25> : tensor<5x6xf32>
  %pos = train.iota : tensor<5xi64>
  %posf = arith.sitofp %pos : tensor<5xi64> to tensor<5xf32>
  %a = linalg.broadcast ins(%posf : tensor<5xf32>) outs(%half : tensor<5x3xf32>) dimensions = [1]
  %b = linalg.broadcast ins(%freq : tensor<3xf32>) outs(%half : tensor<5x3xf32>) dimensions = [0]
  %f = arith.mulf %a, %b : tensor<5x3xf32>
  %ff = tensor.concat dim(1) %f, %f : (tensor<5x3xf32>, tensor<5x3xf32>) -> tensor<5x6xf32>
  %c0 = math.cos %ff : tensor<5x6xf32>
  %c = arith.mulf %c0, %scaling : tensor<5x6xf32>
  %s0 = math.sin %ff : tensor<5x6xf32>
  %s = arith.mulf %s0, %scaling : tensor<5x6xf32>
  // CHECK-DAG: %[[SCALE:.*]] = arith.constant dense<1.250000e+00> : tensor<5x3xf32>
  // CHECK-DAG: %[[ANGLE:.*]] = arith.mulf %{{.*}}, %{{.*}} : tensor<5x3xf32>
  // CHECK-DAG: %[[COS0:.*]] = math.cos %[[ANGLE]]
  // CHECK-DAG: %[[COS:.*]] = arith.mulf %[[COS0]], %[[SCALE]]
  // CHECK-DAG: %[[SIN0:.*]] = math.sin %[[ANGLE]]
  // CHECK-DAG: %[[SIN:.*]] = arith.mulf %[[SIN0]], %[[SCALE]]
  // CHECK-NOT: tensor.concat
  // CHECK: %[[RQ:.*]] = train.rotary %[[Q]], %[[COS]], %[[SIN]] : (tensor<2x4x5x6xf32>, tensor<5x3xf32>, tensor<5x3xf32>)
  %cq = linalg.broadcast ins(%c : tensor<5x6xf32>) outs(%wideq : tensor<2x4x5x6xf32>) dimensions = [0, 1]
  %sq = linalg.broadcast ins(%s : tensor<5x6xf32>) outs(%wideq : tensor<2x4x5x6xf32>) dimensions = [0, 1]
  %q1 = tensor.extract_slice %q[0, 0, 0, 0] [2, 4, 5, 3] [1, 1, 1, 1] : tensor<2x4x5x6xf32> to tensor<2x4x5x3xf32>
  %q2 = tensor.extract_slice %q[0, 0, 0, 3] [2, 4, 5, 3] [1, 1, 1, 1] : tensor<2x4x5x6xf32> to tensor<2x4x5x3xf32>
  %nq2 = arith.negf %q2 : tensor<2x4x5x3xf32>
  %qr = tensor.concat dim(3) %nq2, %q1 : (tensor<2x4x5x3xf32>, tensor<2x4x5x3xf32>) -> tensor<2x4x5x6xf32>
  %qc = arith.mulf %q, %cq : tensor<2x4x5x6xf32>
  %qs = arith.mulf %qr, %sq : tensor<2x4x5x6xf32>
  %rq = arith.addf %qc, %qs : tensor<2x4x5x6xf32>
  // The one key head: the unit dimension comes by a reshape.
  // CHECK: %[[RK:.*]] = train.rotary %[[K]], %[[COS]], %[[SIN]]
  %c1 = tensor.expand_shape %c [[0, 1], [2]] output_shape [1, 5, 6] : tensor<5x6xf32> into tensor<1x5x6xf32>
  %s1 = tensor.expand_shape %s [[0, 1], [2]] output_shape [1, 5, 6] : tensor<5x6xf32> into tensor<1x5x6xf32>
  %ck = linalg.broadcast ins(%c1 : tensor<1x5x6xf32>) outs(%widek : tensor<2x1x5x6xf32>) dimensions = [0]
  %sk = linalg.broadcast ins(%s1 : tensor<1x5x6xf32>) outs(%widek : tensor<2x1x5x6xf32>) dimensions = [0]
  %k1 = tensor.extract_slice %k[0, 0, 0, 0] [2, 1, 5, 3] [1, 1, 1, 1] : tensor<2x1x5x6xf32> to tensor<2x1x5x3xf32>
  %k2 = tensor.extract_slice %k[0, 0, 0, 3] [2, 1, 5, 3] [1, 1, 1, 1] : tensor<2x1x5x6xf32> to tensor<2x1x5x3xf32>
  %nk2 = arith.negf %k2 : tensor<2x1x5x3xf32>
  %kr = tensor.concat dim(3) %nk2, %k1 : (tensor<2x1x5x3xf32>, tensor<2x1x5x3xf32>) -> tensor<2x1x5x6xf32>
  %kc = arith.mulf %ck, %k : tensor<2x1x5x6xf32>
  %ks = arith.mulf %sk, %kr : tensor<2x1x5x6xf32>
  %rk = arith.addf %ks, %kc : tensor<2x1x5x6xf32>
  // CHECK: return %[[RQ]], %[[RK]]
  return %rq, %rk : tensor<2x4x5x6xf32>, tensor<2x1x5x6xf32>
}

// Positions that are fed: a table a batch. A constant table that repeats. Size 1: one pair a row.
// CHECK-LABEL: @tables
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x1x2xf32>, %[[F:.*]]: tensor<2x1x1xf32>, %[[Y:.*]]: tensor<1x1x2x4xf32>)
func.func @tables(%x: tensor<2x3x1x2xf32>, %f: tensor<2x1x1xf32>, %y: tensor<1x1x2x4xf32>) -> (tensor<2x3x1x2xf32>, tensor<1x1x2x4xf32>) {
  %wide = tensor.empty() : tensor<2x3x1x2xf32>
  %ff = tensor.concat dim(2) %f, %f : (tensor<2x1x1xf32>, tensor<2x1x1xf32>) -> tensor<2x1x2xf32>
  %c = math.cos %ff : tensor<2x1x2xf32>
  %s = math.sin %ff : tensor<2x1x2xf32>
  // CHECK: train.rotary %[[X]], %{{.*}}, %{{.*}} : (tensor<2x3x1x2xf32>, tensor<2x1x1xf32>, tensor<2x1x1xf32>)
  %cb = linalg.broadcast ins(%c : tensor<2x1x2xf32>) outs(%wide : tensor<2x3x1x2xf32>) dimensions = [1]
  %sb = linalg.broadcast ins(%s : tensor<2x1x2xf32>) outs(%wide : tensor<2x3x1x2xf32>) dimensions = [1]
  %x1 = tensor.extract_slice %x[0, 0, 0, 0] [2, 3, 1, 1] [1, 1, 1, 1] : tensor<2x3x1x2xf32> to tensor<2x3x1x1xf32>
  %x2 = tensor.extract_slice %x[0, 0, 0, 1] [2, 3, 1, 1] [1, 1, 1, 1] : tensor<2x3x1x2xf32> to tensor<2x3x1x1xf32>
  %n = arith.negf %x2 : tensor<2x3x1x1xf32>
  %r = tensor.concat dim(3) %n, %x1 : (tensor<2x3x1x1xf32>, tensor<2x3x1x1xf32>) -> tensor<2x3x1x2xf32>
  %m0 = arith.mulf %x, %cb : tensor<2x3x1x2xf32>
  %m1 = arith.mulf %r, %sb : tensor<2x3x1x2xf32>
  %o = arith.addf %m0, %m1 : tensor<2x3x1x2xf32>
  // CHECK: train.rotary %[[Y]], %{{.*}}, %{{.*}} : (tensor<1x1x2x4xf32>, tensor<2x2xf32>, tensor<2x2xf32>)
  %ct = arith.constant dense<[[[[1.0, 0.5, 1.0, 0.5], [0.25, 0.75, 0.25, 0.75]]]]> : tensor<1x1x2x4xf32>
  %st = arith.constant dense<[[[[0.0, 0.5, 0.0, 0.5], [0.125, 0.75, 0.125, 0.75]]]]> : tensor<1x1x2x4xf32>
  %y1 = tensor.extract_slice %y[0, 0, 0, 0] [1, 1, 2, 2] [1, 1, 1, 1] : tensor<1x1x2x4xf32> to tensor<1x1x2x2xf32>
  %y2 = tensor.extract_slice %y[0, 0, 0, 2] [1, 1, 2, 2] [1, 1, 1, 1] : tensor<1x1x2x4xf32> to tensor<1x1x2x2xf32>
  %ny = arith.negf %y2 : tensor<1x1x2x2xf32>
  %ry = tensor.concat dim(3) %ny, %y1 : (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x1x2x4xf32>
  %n0 = arith.mulf %y, %ct : tensor<1x1x2x4xf32>
  %n1 = arith.mulf %ry, %st : tensor<1x1x2x4xf32>
  %p = arith.addf %n0, %n1 : tensor<1x1x2x4xf32>
  return %o, %p : tensor<2x3x1x2xf32>, tensor<1x1x2x4xf32>
}

// gpt-oss: tables of half width.
// CHECK-LABEL: @half_width
// CHECK-SAME: (%[[X:.*]]: tensor<2x3x5x4xf32>, %[[C:.*]]: tensor<5x2xf32>, %[[S:.*]]: tensor<5x2xf32>)
// CHECK-NEXT: %[[R:.*]] = train.rotary %[[X]], %[[C]], %[[S]]
// CHECK-NEXT: return %[[R]]
func.func @half_width(%x: tensor<2x3x5x4xf32>, %c: tensor<5x2xf32>, %s: tensor<5x2xf32>) -> tensor<2x3x5x4xf32> {
  %wide = tensor.empty() : tensor<2x3x5x2xf32>
  %cb = linalg.broadcast ins(%c : tensor<5x2xf32>) outs(%wide : tensor<2x3x5x2xf32>) dimensions = [0, 1]
  %sb = linalg.broadcast ins(%s : tensor<5x2xf32>) outs(%wide : tensor<2x3x5x2xf32>) dimensions = [0, 1]
  %x1 = tensor.extract_slice %x[0, 0, 0, 0] [2, 3, 5, 2] [1, 1, 1, 1] : tensor<2x3x5x4xf32> to tensor<2x3x5x2xf32>
  %x2 = tensor.extract_slice %x[0, 0, 0, 2] [2, 3, 5, 2] [1, 1, 1, 1] : tensor<2x3x5x4xf32> to tensor<2x3x5x2xf32>
  %0 = arith.mulf %x1, %cb : tensor<2x3x5x2xf32>
  %1 = arith.mulf %x2, %sb : tensor<2x3x5x2xf32>
  %2 = arith.subf %0, %1 : tensor<2x3x5x2xf32>
  %3 = arith.mulf %x2, %cb : tensor<2x3x5x2xf32>
  %4 = arith.mulf %x1, %sb : tensor<2x3x5x2xf32>
  %5 = arith.addf %3, %4 : tensor<2x3x5x2xf32>
  %6 = tensor.concat dim(3) %2, %5 : (tensor<2x3x5x2xf32>, tensor<2x3x5x2xf32>) -> tensor<2x3x5x4xf32>
  return %6 : tensor<2x3x5x4xf32>
}

// Interleaved pairs, tables that repeat each element, before the transpose of heads and positions.
// CHECK-LABEL: @interleaved
// CHECK-SAME: (%[[X:.*]]: tensor<2x5x3x4xf32>, %[[C:.*]]: tensor<5x2xf32>, %[[S:.*]]: tensor<5x2xf32>)
// CHECK: %[[T:.*]] = linalg.transpose ins(%[[X]] : tensor<2x5x3x4xf32>) {{.*}} permutation = [0, 2, 1, 3]
// CHECK: %[[R:.*]] = train.rotary %[[T]], %[[C]], %[[S]] {interleaved} : (tensor<2x3x5x4xf32>
// CHECK-NEXT: return %[[R]]
func.func @interleaved(%x: tensor<2x5x3x4xf32>, %c: tensor<5x2xf32>, %s: tensor<5x2xf32>) -> tensor<2x3x5x4xf32> {
  %twice = tensor.empty() : tensor<5x2x2xf32>
  %wide = tensor.empty() : tensor<2x5x3x4xf32>
  %out = tensor.empty() : tensor<2x3x5x4xf32>
  %c2 = linalg.broadcast ins(%c : tensor<5x2xf32>) outs(%twice : tensor<5x2x2xf32>) dimensions = [2]
  %s2 = linalg.broadcast ins(%s : tensor<5x2xf32>) outs(%twice : tensor<5x2x2xf32>) dimensions = [2]
  %c4 = tensor.collapse_shape %c2 [[0], [1, 2]] : tensor<5x2x2xf32> into tensor<5x4xf32>
  %s4 = tensor.collapse_shape %s2 [[0], [1, 2]] : tensor<5x2x2xf32> into tensor<5x4xf32>
  %cb = linalg.broadcast ins(%c4 : tensor<5x4xf32>) outs(%wide : tensor<2x5x3x4xf32>) dimensions = [0, 2]
  %sb = linalg.broadcast ins(%s4 : tensor<5x4xf32>) outs(%wide : tensor<2x5x3x4xf32>) dimensions = [0, 2]
  %x1 = tensor.extract_slice %x[0, 0, 0, 0] [2, 5, 3, 2] [1, 1, 1, 2] : tensor<2x5x3x4xf32> to tensor<2x5x3x2xf32>
  %x2 = tensor.extract_slice %x[0, 0, 0, 1] [2, 5, 3, 2] [1, 1, 1, 2] : tensor<2x5x3x4xf32> to tensor<2x5x3x2xf32>
  %n = arith.negf %x2 : tensor<2x5x3x2xf32>
  %u1 = tensor.expand_shape %n [[0], [1], [2], [3, 4]] output_shape [2, 5, 3, 2, 1] : tensor<2x5x3x2xf32> into tensor<2x5x3x2x1xf32>
  %u2 = tensor.expand_shape %x1 [[0], [1], [2], [3, 4]] output_shape [2, 5, 3, 2, 1] : tensor<2x5x3x2xf32> into tensor<2x5x3x2x1xf32>
  %st = tensor.concat dim(4) %u1, %u2 : (tensor<2x5x3x2x1xf32>, tensor<2x5x3x2x1xf32>) -> tensor<2x5x3x2x2xf32>
  %r = tensor.collapse_shape %st [[0], [1], [2], [3, 4]] : tensor<2x5x3x2x2xf32> into tensor<2x5x3x4xf32>
  %0 = arith.mulf %x, %cb : tensor<2x5x3x4xf32>
  %1 = arith.mulf %r, %sb : tensor<2x5x3x4xf32>
  %2 = arith.addf %0, %1 : tensor<2x5x3x4xf32>
  %3 = linalg.transpose ins(%2 : tensor<2x5x3x4xf32>) outs(%out : tensor<2x3x5x4xf32>) permutation = [0, 2, 1, 3]
  return %3 : tensor<2x3x5x4xf32>
}

// Partial rotation, and phi4's empty rest.
// CHECK-LABEL: @partial
// CHECK-SAME: (%[[X:.*]]: tensor<1x3x5x7xf32>, %[[C:.*]]: tensor<5x2xf32>, %[[S:.*]]: tensor<5x2xf32>)
// CHECK-NEXT: %[[R:.*]] = train.rotary %[[X]], %[[C]], %[[S]] : (tensor<1x3x5x7xf32>, tensor<5x2xf32>, tensor<5x2xf32>)
// CHECK-NEXT: return %[[R]]
func.func @partial(%x: tensor<1x3x5x7xf32>, %c: tensor<5x2xf32>, %s: tensor<5x2xf32>) -> tensor<1x3x5x7xf32> {
  %wide = tensor.empty() : tensor<1x3x5x4xf32>
  %c2 = tensor.concat dim(1) %c, %c : (tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<5x4xf32>
  %s2 = tensor.concat dim(1) %s, %s : (tensor<5x2xf32>, tensor<5x2xf32>) -> tensor<5x4xf32>
  %cb = linalg.broadcast ins(%c2 : tensor<5x4xf32>) outs(%wide : tensor<1x3x5x4xf32>) dimensions = [0, 1]
  %sb = linalg.broadcast ins(%s2 : tensor<5x4xf32>) outs(%wide : tensor<1x3x5x4xf32>) dimensions = [0, 1]
  %turn = tensor.extract_slice %x[0, 0, 0, 0] [1, 3, 5, 4] [1, 1, 1, 1] : tensor<1x3x5x7xf32> to tensor<1x3x5x4xf32>
  %rest = tensor.extract_slice %x[0, 0, 0, 4] [1, 3, 5, 3] [1, 1, 1, 1] : tensor<1x3x5x7xf32> to tensor<1x3x5x3xf32>
  %none = tensor.extract_slice %x[0, 0, 0, 0] [1, 3, 5, 0] [1, 1, 1, 1] : tensor<1x3x5x7xf32> to tensor<1x3x5x0xf32>
  %x1 = tensor.extract_slice %turn[0, 0, 0, 0] [1, 3, 5, 2] [1, 1, 1, 1] : tensor<1x3x5x4xf32> to tensor<1x3x5x2xf32>
  %x2 = tensor.extract_slice %x[0, 0, 0, 2] [1, 3, 5, 2] [1, 1, 1, 1] : tensor<1x3x5x7xf32> to tensor<1x3x5x2xf32>
  %n = arith.negf %x2 : tensor<1x3x5x2xf32>
  %r = tensor.concat dim(3) %n, %x1 : (tensor<1x3x5x2xf32>, tensor<1x3x5x2xf32>) -> tensor<1x3x5x4xf32>
  %0 = arith.mulf %turn, %cb : tensor<1x3x5x4xf32>
  %1 = arith.mulf %r, %sb : tensor<1x3x5x4xf32>
  %2 = arith.addf %0, %1 : tensor<1x3x5x4xf32>
  %3 = tensor.concat dim(3) %2, %rest, %none : (tensor<1x3x5x4xf32>, tensor<1x3x5x3xf32>, tensor<1x3x5x0xf32>) -> tensor<1x3x5x7xf32>
  return %3 : tensor<1x3x5x7xf32>
}

// GPT-NeoX: queries are a part of a fused product, a part of them is rotated (tables of half width here), the rest follows.
// CHECK-LABEL: @partial_of_slice
// CHECK-SAME: (%[[QKV:.*]]: tensor<1x3x5x12xf32>, %[[C:.*]]: tensor<5x2xf32>, %[[S:.*]]: tensor<5x2xf32>)
// CHECK-NEXT: %[[Q:.*]] = tensor.extract_slice %[[QKV]][0, 0, 0, 3] [1, 3, 5, 6] [1, 1, 1, 1]
// CHECK-NEXT: %[[R:.*]] = train.rotary %[[Q]], %[[C]], %[[S]] : (tensor<1x3x5x6xf32>
// CHECK-NEXT: return %[[R]]
func.func @partial_of_slice(%qkv: tensor<1x3x5x12xf32>, %c: tensor<5x2xf32>, %s: tensor<5x2xf32>) -> tensor<1x3x5x6xf32> {
  %wide = tensor.empty() : tensor<1x3x5x2xf32>
  %cb = linalg.broadcast ins(%c : tensor<5x2xf32>) outs(%wide : tensor<1x3x5x2xf32>) dimensions = [0, 1]
  %sb = linalg.broadcast ins(%s : tensor<5x2xf32>) outs(%wide : tensor<1x3x5x2xf32>) dimensions = [0, 1]
  %x1 = tensor.extract_slice %qkv[0, 0, 0, 3] [1, 3, 5, 2] [1, 1, 1, 1] : tensor<1x3x5x12xf32> to tensor<1x3x5x2xf32>
  %x2 = tensor.extract_slice %qkv[0, 0, 0, 5] [1, 3, 5, 2] [1, 1, 1, 1] : tensor<1x3x5x12xf32> to tensor<1x3x5x2xf32>
  %rest = tensor.extract_slice %qkv[0, 0, 0, 7] [1, 3, 5, 2] [1, 1, 1, 1] : tensor<1x3x5x12xf32> to tensor<1x3x5x2xf32>
  %0 = arith.mulf %x1, %cb : tensor<1x3x5x2xf32>
  %1 = arith.mulf %x2, %sb : tensor<1x3x5x2xf32>
  %2 = arith.subf %0, %1 : tensor<1x3x5x2xf32>
  %3 = arith.mulf %x2, %cb : tensor<1x3x5x2xf32>
  %4 = arith.mulf %x1, %sb : tensor<1x3x5x2xf32>
  %5 = arith.addf %3, %4 : tensor<1x3x5x2xf32>
  %6 = tensor.concat dim(3) %2, %5 : (tensor<1x3x5x2xf32>, tensor<1x3x5x2xf32>) -> tensor<1x3x5x4xf32>
  %7 = tensor.concat dim(3) %6, %rest : (tensor<1x3x5x4xf32>, tensor<1x3x5x2xf32>) -> tensor<1x3x5x6xf32>
  return %7 : tensor<1x3x5x6xf32>
}

// Near misses: a table whose halves may differ; the halves in the wrong order is no rotation at all.
// CHECK-LABEL: @near_misses
// CHECK-NOT: train.rotary
// CHECK: return
// REMARK: NotRaised{{.*}}the two halves of the tables are not provably equal
// REMARK-NOT: NotRaised
func.func @near_misses(%x: tensor<1x1x5x4xf32>, %c: tensor<5x4xf32>, %s: tensor<5x4xf32>) -> (tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>) {
  %cb = tensor.expand_shape %c [[0, 1, 2], [3]] output_shape [1, 1, 5, 4] : tensor<5x4xf32> into tensor<1x1x5x4xf32>
  %sb = tensor.expand_shape %s [[0, 1, 2], [3]] output_shape [1, 1, 5, 4] : tensor<5x4xf32> into tensor<1x1x5x4xf32>
  %x1 = tensor.extract_slice %x[0, 0, 0, 0] [1, 1, 5, 2] [1, 1, 1, 1] : tensor<1x1x5x4xf32> to tensor<1x1x5x2xf32>
  %x2 = tensor.extract_slice %x[0, 0, 0, 2] [1, 1, 5, 2] [1, 1, 1, 1] : tensor<1x1x5x4xf32> to tensor<1x1x5x2xf32>
  %n = arith.negf %x2 : tensor<1x1x5x2xf32>
  %r = tensor.concat dim(3) %n, %x1 : (tensor<1x1x5x2xf32>, tensor<1x1x5x2xf32>) -> tensor<1x1x5x4xf32>
  %0 = arith.mulf %x, %cb : tensor<1x1x5x4xf32>
  %1 = arith.mulf %r, %sb : tensor<1x1x5x4xf32>
  %2 = arith.addf %0, %1 : tensor<1x1x5x4xf32>
  %n1 = arith.negf %x1 : tensor<1x1x5x2xf32>
  %r1 = tensor.concat dim(3) %x2, %n1 : (tensor<1x1x5x2xf32>, tensor<1x1x5x2xf32>) -> tensor<1x1x5x4xf32>
  %3 = arith.mulf %r1, %sb : tensor<1x1x5x4xf32>
  %4 = arith.addf %0, %3 : tensor<1x1x5x4xf32>
  return %2, %4 : tensor<1x1x5x4xf32>, tensor<1x1x5x4xf32>
}
