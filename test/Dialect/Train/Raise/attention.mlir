// RUN: forebay-opt %s --train-raise-attention --canonicalize --cse "--remarks-filter=train-raise.*" 2>%t.remarks | FileCheck %s
// RUN: FileCheck %s --check-prefix=REMARK --input-file=%t.remarks

#q = affine_map<(b, h, q, k, d) -> (b, h, q, d)>
#kt = affine_map<(b, h, q, k, d) -> (b, h, d, k)>
#k = affine_map<(b, h, q, k, d) -> (b, h, k, d)>
#s = affine_map<(b, h, q, k, d) -> (b, h, q, k)>
#p = affine_map<(b, h, q, d, k) -> (b, h, q, k)>
#v = affine_map<(b, h, q, d, k) -> (b, h, k, d)>
#o = affine_map<(b, h, q, d, k) -> (b, h, q, d)>

// scaled_dot_product_attention at opset 18: the scale is split into its root on queries and keys, keys are transposed through rank 3, one
// key head stands for two, the mask is a select that is added, NaN becomes 0.
// 0.53728497 is the root of 0.288675129 (1/sqrt(12)) in fp32; its square, 0.288675141, is another number.
// CHECK-LABEL: @sdpa_opset18
// CHECK-SAME: (%[[Q:.*]]: tensor<2x4x5x12xf32>, %[[K:.*]]: tensor<2x2x5x12xf32>, %[[V:.*]]: tensor<2x2x5x12xf32>)
// CHECK-NEXT: %[[R:.*]], %{{.*}} = train.attention %[[Q]], %[[K]], %[[V]] {causal, scale = 0.28867512941360474 : f64} : (tensor<2x4x5x12xf32>, tensor<2x2x5x12xf32>, tensor<2x2x5x12xf32>) -> (tensor<2x4x5x12xf32>, tensor<2x4x5xf32>)
// CHECK-NEXT: return %[[R]]
func.func @sdpa_opset18(%q: tensor<2x4x5x12xf32>, %k: tensor<2x2x5x12xf32>, %v: tensor<2x2x5x12xf32>) -> tensor<2x4x5x12xf32> {
  %rep = tensor.empty() : tensor<2x2x2x5x12xf32>
  %kb = linalg.broadcast ins(%k : tensor<2x2x5x12xf32>) outs(%rep : tensor<2x2x2x5x12xf32>) dimensions = [2]
  %vb = linalg.broadcast ins(%v : tensor<2x2x5x12xf32>) outs(%rep : tensor<2x2x2x5x12xf32>) dimensions = [2]
  %k4 = tensor.collapse_shape %kb [[0], [1, 2], [3], [4]] : tensor<2x2x2x5x12xf32> into tensor<2x4x5x12xf32>
  %v4 = tensor.collapse_shape %vb [[0], [1, 2], [3], [4]] : tensor<2x2x2x5x12xf32> into tensor<2x4x5x12xf32>
  %k3 = tensor.collapse_shape %k4 [[0, 1], [2], [3]] : tensor<2x4x5x12xf32> into tensor<8x5x12xf32>
  %kte = tensor.empty() : tensor<8x12x5xf32>
  %kt3 = linalg.transpose ins(%k3 : tensor<8x5x12xf32>) outs(%kte : tensor<8x12x5xf32>) permutation = [0, 2, 1]
  %kt = tensor.expand_shape %kt3 [[0, 1], [2], [3]] output_shape [2, 4, 12, 5] : tensor<8x12x5xf32> into tensor<2x4x12x5xf32>
  %rq = arith.constant dense<0.53728497> : tensor<2x4x5x12xf32>
  %rk = arith.constant dense<0.53728497> : tensor<2x4x12x5xf32>
  %qs = arith.mulf %q, %rq : tensor<2x4x5x12xf32>
  %ks = arith.mulf %kt, %rk : tensor<2x4x12x5xf32>
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<2x4x5x5xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %s = linalg.contract indexing_maps = [#q, #kt, #s] ins(%qs, %ks : tensor<2x4x5x12xf32>, tensor<2x4x12x5xf32>) outs(%si : tensor<2x4x5x5xf32>) -> tensor<2x4x5x5xf32>
  %cm = train.causal_mask : tensor<5x5xi1>
  %shown = arith.constant dense<0.0> : tensor<5x5xf32>
  %hidden = arith.constant dense<-3.40282347E+38> : tensor<5x5xf32>
  %m = arith.select %cm, %shown, %hidden : tensor<5x5xi1>, tensor<5x5xf32>
  %mb = linalg.broadcast ins(%m : tensor<5x5xf32>) outs(%se : tensor<2x4x5x5xf32>) dimensions = [0, 1]
  %sm = arith.addf %s, %mb : tensor<2x4x5x5xf32>
  %p = train.softmax %sm : tensor<2x4x5x5xf32>
  %nan = arith.cmpf uno, %p, %p : tensor<2x4x5x5xf32>
  %z = arith.constant dense<0.0> : tensor<2x4x5x5xf32>
  %pg = arith.select %nan, %z, %p : tensor<2x4x5x5xi1>, tensor<2x4x5x5xf32>
  %oe = tensor.empty() : tensor<2x4x5x12xf32>
  %oi = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x4x5x12xf32>) -> tensor<2x4x5x12xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%pg, %v4 : tensor<2x4x5x5xf32>, tensor<2x4x5x12xf32>) outs(%oi : tensor<2x4x5x12xf32>) -> tensor<2x4x5x12xf32>
  return %o : tensor<2x4x5x12xf32>
}

// Eager attention of Gemma 2: scale, soft cap, window and key padding in one select, one head for all queries. Keys come
// as [batch, keys, dimension, heads] and are transposed.
// CHECK-LABEL: @eager
// CHECK-SAME: (%[[Q:.*]]: tensor<2x3x6x4xf32>, %[[K:.*]]: tensor<2x6x4x3xf32>, %[[V:.*]]: tensor<2x1x6x7xf32>, %[[KEEP:.*]]: tensor<2x6xi64>)
// CHECK-DAG: %[[PAD:.*]] = arith.cmpi ne, %[[KEEP]], %{{.*}} : tensor<2x6xi64>
// CHECK-DAG: %[[KT:.*]] = linalg.transpose ins(%[[K]] : {{.*}} permutation = [0, 3, 1, 2]
// CHECK-DAG: %[[VB:.*]] = linalg.broadcast
// CHECK: train.attention %[[Q]], %[[KT]], %[[VB]] key_padding(%[[PAD]]) {causal, scale = 2.500000e-01 : f64, softcap = 5.000000e+01 : f64, window = 3 : i64}
func.func @eager(%q: tensor<2x3x6x4xf32>, %k: tensor<2x6x4x3xf32>, %v: tensor<2x1x6x7xf32>, %keep: tensor<2x6xi64>) -> tensor<2x3x6x7xf32> {
  %zero = arith.constant 0.0 : f32
  %z64 = arith.constant dense<0> : tensor<2x6xi64>
  %se = tensor.empty() : tensor<2x3x6x6xf32>
  %be = tensor.empty() : tensor<2x3x6x6xi1>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<2x3x6x6xf32>) -> tensor<2x3x6x6xf32>
  %s0 = linalg.contract indexing_maps = [affine_map<(b, h, q, k, d) -> (b, k, d, h)>, #q, affine_map<(b, h, q, k, d) -> (b, h, q, k)>]
      ins(%k, %q : tensor<2x6x4x3xf32>, tensor<2x3x6x4xf32>) outs(%si : tensor<2x3x6x6xf32>) -> tensor<2x3x6x6xf32>
  %c4 = arith.constant dense<4.0> : tensor<2x3x6x6xf32>
  %c50 = arith.constant dense<50.0> : tensor<2x3x6x6xf32>
  %lowest = arith.constant dense<-3.40282347E+38> : tensor<2x3x6x6xf32>
  %s = arith.divf %s0, %c4 : tensor<2x3x6x6xf32>
  %s1 = arith.divf %s, %c50 : tensor<2x3x6x6xf32>
  %s2 = math.tanh %s1 : tensor<2x3x6x6xf32>
  %s3 = arith.mulf %s2, %c50 : tensor<2x3x6x6xf32>
  // k > q - 3, as numbers
  %i = train.iota : tensor<6xi64>
  %im = train.iota {start = -3 : i64} : tensor<6xi64>
  %ie = tensor.empty() : tensor<6x6xi64>
  %kk = linalg.broadcast ins(%i : tensor<6xi64>) outs(%ie : tensor<6x6xi64>) dimensions = [0]
  %qq = linalg.broadcast ins(%im : tensor<6xi64>) outs(%ie : tensor<6x6xi64>) dimensions = [1]
  %w = arith.cmpi sgt, %kk, %qq : tensor<6x6xi64>
  %cm = train.causal_mask : tensor<6x6xi1>
  %m = arith.andi %cm, %w : tensor<6x6xi1>
  %mb = linalg.broadcast ins(%m : tensor<6x6xi1>) outs(%be : tensor<2x3x6x6xi1>) dimensions = [0, 1]
  %pad = arith.cmpi ne, %keep, %z64 : tensor<2x6xi64>
  %padb = linalg.broadcast ins(%pad : tensor<2x6xi1>) outs(%be : tensor<2x3x6x6xi1>) dimensions = [1, 2]
  %all = arith.andi %padb, %mb : tensor<2x3x6x6xi1>
  %s4 = arith.select %all, %s3, %lowest : tensor<2x3x6x6xi1>, tensor<2x3x6x6xf32>
  %p = train.softmax %s4 : tensor<2x3x6x6xf32>
  %ve = tensor.empty() : tensor<2x3x6x7xf32>
  %v3 = tensor.collapse_shape %v [[0], [1, 2], [3]] : tensor<2x1x6x7xf32> into tensor<2x6x7xf32>
  %vb = linalg.broadcast ins(%v3 : tensor<2x6x7xf32>) outs(%ve : tensor<2x3x6x7xf32>) dimensions = [1]
  %oi = linalg.fill ins(%zero : f32) outs(%ve : tensor<2x3x6x7xf32>) -> tensor<2x3x6x7xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %vb : tensor<2x3x6x6xf32>, tensor<2x3x6x7xf32>) outs(%oi : tensor<2x3x6x7xf32>) -> tensor<2x3x6x7xf32>
  return %o : tensor<2x3x6x7xf32>
}

// An attention of the import: repeated heads go, the mask becomes attributes. A mask that is always true goes: its window is as
// large as the sequence. A comparison of what does not count keys stays an operand, without heads; negations meet.
// CHECK-LABEL: @refine
// CHECK-SAME: (%[[Q:.*]]: tensor<2x4x5x3xf32>, %[[K:.*]]: tensor<2x1x5x3xf32>, %[[SEG:.*]]: tensor<2x5xi64>)
// CHECK: %[[SAME:.*]] = arith.cmpi eq, {{.*}} : tensor<2x5x5xi64>
// CHECK: %[[MASK:.*]] = tensor.expand_shape %[[SAME]] {{.*}} into tensor<2x1x5x5xi1>
// CHECK: train.attention %[[Q]], %[[K]], %[[K]] mask(%[[MASK]]) {causal, scale = 5.000000e-01 : f64} : (tensor<2x4x5x3xf32>, tensor<2x1x5x3xf32>, tensor<2x1x5x3xf32>, tensor<2x1x5x5xi1>)
func.func @refine(%q: tensor<2x4x5x3xf32>, %k: tensor<2x1x5x3xf32>, %seg: tensor<2x5xi64>) -> tensor<2x4x5x3xf32> {
  %rep = tensor.empty() : tensor<2x1x4x5x3xf32>
  %kb = linalg.broadcast ins(%k : tensor<2x1x5x3xf32>) outs(%rep : tensor<2x1x4x5x3xf32>) dimensions = [2]
  %k4 = tensor.collapse_shape %kb [[0], [1, 2], [3], [4]] : tensor<2x1x4x5x3xf32> into tensor<2x4x5x3xf32>
  %i = train.iota : tensor<5xi64>
  %im = train.iota {start = -5 : i64} : tensor<5xi64>
  %ie = tensor.empty() : tensor<5x5xi64>
  %kk = linalg.broadcast ins(%i : tensor<5xi64>) outs(%ie : tensor<5x5xi64>) dimensions = [0]
  %qq = linalg.broadcast ins(%im : tensor<5xi64>) outs(%ie : tensor<5x5xi64>) dimensions = [1]
  %window = arith.cmpi sgt, %kk, %qq : tensor<5x5xi64>
  %q0 = linalg.broadcast ins(%i : tensor<5xi64>) outs(%ie : tensor<5x5xi64>) dimensions = [1]
  %later = arith.cmpi sgt, %kk, %q0 : tensor<5x5xi64>
  %yes = arith.constant dense<true> : tensor<2x5x5xi1>
  %ce = tensor.empty() : tensor<2x5x5xi1>
  %laterb = linalg.broadcast ins(%later : tensor<5x5xi1>) outs(%ce : tensor<2x5x5xi1>) dimensions = [0]
  %windowb = linalg.broadcast ins(%window : tensor<5x5xi1>) outs(%ce : tensor<2x5x5xi1>) dimensions = [0]
  %se = tensor.empty() : tensor<2x5x5xi64>
  %segq = linalg.broadcast ins(%seg : tensor<2x5xi64>) outs(%se : tensor<2x5x5xi64>) dimensions = [2]
  %segk = linalg.broadcast ins(%seg : tensor<2x5xi64>) outs(%se : tensor<2x5x5xi64>) dimensions = [1]
  %same = arith.cmpi eq, %segq, %segk : tensor<2x5x5xi64>
  %other = arith.xori %same, %yes : tensor<2x5x5xi1>
  %hide = arith.ori %other, %laterb : tensor<2x5x5xi1>
  %show = arith.xori %hide, %yes : tensor<2x5x5xi1>
  %both = arith.andi %show, %windowb : tensor<2x5x5xi1>
  %m = tensor.expand_shape %both [[0, 1], [2], [3]] output_shape [2, 1, 5, 5] : tensor<2x5x5xi1> into tensor<2x1x5x5xi1>
  %o, %lse = train.attention %q, %k4, %k4 mask(%m) {scale = 0.5 : f64} : (tensor<2x4x5x3xf32>, tensor<2x4x5x3xf32>, tensor<2x4x5x3xf32>, tensor<2x1x5x5xi1>) -> (tensor<2x4x5x3xf32>, tensor<2x4x5xf32>)
  return %o : tensor<2x4x5x3xf32>
}

// A float mask of the keys and one that is causal, added; -10000 hides nothing for sure, it adds. The float part keeps its small
// shape.
// CHECK-LABEL: @float_mask
// CHECK-SAME: (%[[Q:.*]]: tensor<1x2x3x4xf32>, %[[K:.*]]: tensor<1x2x3x4xf32>, %[[BIAS:.*]]: tensor<1x3xf32>)
// CHECK: %[[MASK:.*]] = tensor.expand_shape %{{.*}} into tensor<1x1x1x3xf32>
// CHECK: train.attention %[[Q]], %[[K]], %[[K]] mask(%[[MASK]]) {causal, scale = 1.000000e+00 : f64}
func.func @float_mask(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x3x4xf32>, %bias: tensor<1x3xf32>) -> tensor<1x2x3x4xf32> {
  %c = arith.constant dense<-1.0e4> : tensor<1x3xf32>
  %b = arith.mulf %bias, %c : tensor<1x3xf32>
  %fe = tensor.empty() : tensor<1x2x3x3xf32>
  %bb = linalg.broadcast ins(%b : tensor<1x3xf32>) outs(%fe : tensor<1x2x3x3xf32>) dimensions = [1, 2]
  %one = arith.constant dense<1.0> : tensor<3x3xf32>
  %z = arith.constant dense<0.0> : tensor<3x3xf32>
  %inf = arith.constant dense<0xFF800000> : tensor<3x3xf32>
  // Trilu(1) == 0 ? -inf : 0
  %cm = train.causal_mask : tensor<3x3xi1>
  %tri = arith.select %cm, %one, %z : tensor<3x3xi1>, tensor<3x3xf32>
  %hide = arith.cmpf oeq, %tri, %z : tensor<3x3xf32>
  %cf = arith.select %hide, %inf, %z : tensor<3x3xi1>, tensor<3x3xf32>
  %cb = linalg.broadcast ins(%cf : tensor<3x3xf32>) outs(%fe : tensor<1x2x3x3xf32>) dimensions = [0, 1]
  %m = arith.addf %bb, %cb : tensor<1x2x3x3xf32>
  %o, %lse = train.attention %q, %k, %k mask(%m) {scale = 1.0 : f64} : (tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>, tensor<1x2x3x3xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3xf32>)
  return %o : tensor<1x2x3x4xf32>
}

// Near misses. A learned bias stays decomposed; so do probabilities that lose a column, and a mask inside the scale.
// CHECK-LABEL: @learned_bias
// CHECK-NOT: train.attention
// CHECK: return
// REMARK: NotRaised{{.*}}a float mask needs a gradient
func.func @learned_bias(%q: tensor<1x2x3x4xf32>, %bias: tensor<2x3x3xf32> {train.trainable}) -> tensor<1x2x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<1x2x3x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) outs(%si : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %b = tensor.expand_shape %bias [[0, 1], [2], [3]] output_shape [1, 2, 3, 3] : tensor<2x3x3xf32> into tensor<1x2x3x3xf32>
  %sb = arith.addf %b, %s : tensor<1x2x3x3xf32>
  %p = train.softmax %sb : tensor<1x2x3x3xf32>
  %oe = tensor.empty() : tensor<1x2x3x4xf32>
  %oi = linalg.fill ins(%zero : f32) outs(%oe : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %q : tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) outs(%oi : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// CHECK-LABEL: @tanh_is_no_cap
// CHECK-NOT: train.attention
// CHECK: return
// REMARK: NotRaised{{.*}}tanh of the scores is not a soft cap
func.func @tanh_is_no_cap(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<1x2x3x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) outs(%si : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %c = arith.constant dense<50.0> : tensor<1x2x3x3xf32>
  %d = arith.constant dense<40.0> : tensor<1x2x3x3xf32>
  %s1 = arith.divf %s, %c : tensor<1x2x3x3xf32>
  %s2 = math.tanh %s1 : tensor<1x2x3x3xf32>
  %s3 = arith.mulf %s2, %d : tensor<1x2x3x3xf32>
  %p = train.softmax %s3 : tensor<1x2x3x3xf32>
  %oe = tensor.empty() : tensor<1x2x3x4xf32>
  %oi = linalg.fill ins(%zero : f32) outs(%oe : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%p, %q : tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) outs(%oi : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// The transposed pattern: values are summed over queries.
// CHECK-LABEL: @transposed_probabilities
// CHECK-NOT: train.attention
// CHECK: return
// REMARK: NotRaised{{.*}}the second product does not contract the softmax's axis
func.func @transposed_probabilities(%q: tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<1x2x3x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) outs(%si : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %p = train.softmax %s : tensor<1x2x3x3xf32>
  %oe = tensor.empty() : tensor<1x2x3x4xf32>
  %oi = linalg.fill ins(%zero : f32) outs(%oe : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %o = linalg.contract indexing_maps = [affine_map<(b, h, q, d, k) -> (b, h, k, q)>, #v, #o] ins(%p, %q : tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) outs(%oi : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// One key head for all queries, without a heads dimension in the products (its unit dimension was dropped), scaled and transposed
// beforehand; the mask is a constant buffer: causal with a window of 2.
// CHECK-LABEL: @multi_query
// CHECK-SAME: (%[[Q:.*]]: tensor<2x4x3x5xf32>, %[[K:.*]]: tensor<2x1x3x5xf32>, %[[V:.*]]: tensor<2x1x3x5xf32>)
// CHECK-NEXT: %[[R:.*]], %{{.*}} = train.attention %[[Q]], %[[K]], %[[V]] {causal, scale = 1.500000e+00 : f64, window = 2 : i64} : (tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32>, tensor<2x1x3x5xf32>)
// CHECK-NEXT: return %[[R]]
func.func @multi_query(%q: tensor<2x4x3x5xf32>, %k: tensor<2x1x3x5xf32>, %v: tensor<2x1x3x5xf32>) -> tensor<2x4x3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %c = arith.constant dense<1.5> : tensor<2x1x5x3xf32>
  %ke = tensor.empty() : tensor<2x1x5x3xf32>
  %kt = linalg.transpose ins(%k : tensor<2x1x3x5xf32>) outs(%ke : tensor<2x1x5x3xf32>) permutation = [0, 1, 3, 2]
  %ks = arith.mulf %kt, %c : tensor<2x1x5x3xf32>
  %k3 = tensor.collapse_shape %ks [[0, 1], [2], [3]] : tensor<2x1x5x3xf32> into tensor<2x5x3xf32>
  %v3 = tensor.collapse_shape %v [[0, 1], [2], [3]] : tensor<2x1x3x5xf32> into tensor<2x3x5xf32>
  %se = tensor.empty() : tensor<2x4x3x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, affine_map<(b, h, q, k, d) -> (b, d, k)>, #s]
      ins(%q, %k3 : tensor<2x4x3x5xf32>, tensor<2x5x3xf32>) outs(%si : tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %band = arith.constant dense<[[true, false, false], [true, true, false], [false, true, true]]> : tensor<3x3xi1>
  %be = tensor.empty() : tensor<2x4x3x3xi1>
  %bb = linalg.broadcast ins(%band : tensor<3x3xi1>) outs(%be : tensor<2x4x3x3xi1>) dimensions = [0, 1]
  %low = arith.constant dense<-1.0e+09> : tensor<2x4x3x3xf32>
  %sm = arith.select %bb, %s, %low : tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>
  %p = train.softmax %sm : tensor<2x4x3x3xf32>
  %oe = tensor.empty() : tensor<2x4x3x5xf32>
  %oi = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %o = linalg.contract indexing_maps = [#p, affine_map<(b, h, q, d, k) -> (b, k, d)>, #o]
      ins(%p, %v3 : tensor<2x4x3x3xf32>, tensor<2x3x5xf32>) outs(%oi : tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  return %o : tensor<2x4x3x5xf32>
}

// Only keys are repeated, so they stay as they are; values come as [batch, keys, heads, dimension]. A constant that is no band
// stays a mask.
// CHECK-LABEL: @only_keys_repeated
// CHECK-SAME: (%[[Q:.*]]: tensor<2x4x3x5xf32>, %[[K:.*]]: tensor<2x2x3x5xf32>, %[[V:.*]]: tensor<2x3x4x5xf32>)
// CHECK: %[[MASK:.*]] = arith.constant dense<{{.*}}> : tensor<1x1x3x3xi1>
// CHECK: %[[KT:.*]] = tensor.expand_shape {{.*}} into tensor<2x4x5x3xf32>
// CHECK: %[[KB:.*]] = linalg.transpose ins(%[[KT]] : {{.*}} permutation = [0, 1, 3, 2]
// CHECK: %[[VT:.*]] = linalg.transpose ins(%[[V]] : {{.*}} permutation = [0, 2, 1, 3]
// CHECK: train.attention %[[Q]], %[[KB]], %[[VT]] mask(%[[MASK]]) {scale = 1.000000e+00 : f64}
func.func @only_keys_repeated(%q: tensor<2x4x3x5xf32>, %k: tensor<2x2x3x5xf32>, %v: tensor<2x3x4x5xf32>) -> tensor<2x4x3x5xf32> {
  %zero = arith.constant 0.0 : f32
  %re = tensor.empty() : tensor<2x2x2x3x5xf32>
  %kb = linalg.broadcast ins(%k : tensor<2x2x3x5xf32>) outs(%re : tensor<2x2x2x3x5xf32>) dimensions = [2]
  %k3 = tensor.collapse_shape %kb [[0, 1, 2], [3], [4]] : tensor<2x2x2x3x5xf32> into tensor<8x3x5xf32>
  %te = tensor.empty() : tensor<8x5x3xf32>
  %kt = linalg.transpose ins(%k3 : tensor<8x3x5xf32>) outs(%te : tensor<8x5x3xf32>) permutation = [0, 2, 1]
  %k4 = tensor.expand_shape %kt [[0, 1], [2], [3]] output_shape [2, 4, 5, 3] : tensor<8x5x3xf32> into tensor<2x4x5x3xf32>
  %se = tensor.empty() : tensor<2x4x3x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, #kt, #s] ins(%q, %k4 : tensor<2x4x3x5xf32>, tensor<2x4x5x3xf32>) outs(%si : tensor<2x4x3x3xf32>) -> tensor<2x4x3x3xf32>
  %odd = arith.constant dense<[[true, false, true], [true, true, false], [false, true, true]]> : tensor<3x3xi1>
  %be = tensor.empty() : tensor<2x4x3x3xi1>
  %bb = linalg.broadcast ins(%odd : tensor<3x3xi1>) outs(%be : tensor<2x4x3x3xi1>) dimensions = [0, 1]
  %low = arith.constant dense<0xFF800000> : tensor<2x4x3x3xf32>
  %sm = arith.select %bb, %s, %low : tensor<2x4x3x3xi1>, tensor<2x4x3x3xf32>
  %p = train.softmax %sm : tensor<2x4x3x3xf32>
  %oe = tensor.empty() : tensor<2x4x3x5xf32>
  %oi = linalg.fill ins(%zero : f32) outs(%oe : tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  %o = linalg.contract indexing_maps = [#p, affine_map<(b, h, q, d, k) -> (b, k, h, d)>, #o]
      ins(%p, %v : tensor<2x4x3x3xf32>, tensor<2x3x4x5xf32>) outs(%oi : tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32>
  return %o : tensor<2x4x3x5xf32>
}

// Sinks: probabilities lose a column before they meet the values.
// CHECK-LABEL: @sinks
// CHECK-NOT: train.attention
// CHECK: return
// REMARK: NotRaised{{.*}}the probabilities are not multiplied by values
func.func @sinks(%q: tensor<1x2x3x4xf32>, %sink: tensor<1x2x3x1xf32>) -> tensor<1x2x3x4xf32> {
  %zero = arith.constant 0.0 : f32
  %se = tensor.empty() : tensor<1x2x3x3xf32>
  %si = linalg.fill ins(%zero : f32) outs(%se : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %s = linalg.contract indexing_maps = [#q, #k, #s] ins(%q, %q : tensor<1x2x3x4xf32>, tensor<1x2x3x4xf32>) outs(%si : tensor<1x2x3x3xf32>) -> tensor<1x2x3x3xf32>
  %c = tensor.concat dim(3) %s, %sink : (tensor<1x2x3x3xf32>, tensor<1x2x3x1xf32>) -> tensor<1x2x3x4xf32>
  %p = train.softmax %c : tensor<1x2x3x4xf32>
  %cut = tensor.extract_slice %p[0, 0, 0, 0] [1, 2, 3, 3] [1, 1, 1, 1] : tensor<1x2x3x4xf32> to tensor<1x2x3x3xf32>
  %oe = tensor.empty() : tensor<1x2x3x4xf32>
  %oi = linalg.fill ins(%zero : f32) outs(%oe : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  %o = linalg.contract indexing_maps = [#p, #v, #o] ins(%cut, %q : tensor<1x2x3x3xf32>, tensor<1x2x3x4xf32>) outs(%oi : tensor<1x2x3x4xf32>) -> tensor<1x2x3x4xf32>
  return %o : tensor<1x2x3x4xf32>
}

// A padding mask that hides where it is 0, twice negated, as DistilBERT has it: no negation is left, and the operand is a comparison
// of [batch, keys].
// CHECK-LABEL: @negated_padding
// CHECK-SAME: (%[[Q:.*]]: tensor<2x1x3x4xf32>, %[[KEEP:.*]]: tensor<2x3xi64>)
// CHECK-NEXT: %[[ZERO:.*]] = arith.constant dense<0> : tensor<2x3xi64>
// CHECK-NEXT: %[[PAD:.*]] = arith.cmpi ne, %[[KEEP]], %[[ZERO]] : tensor<2x3xi64>
// CHECK-NEXT: train.attention %[[Q]], %[[Q]], %[[Q]] key_padding(%[[PAD]]) {scale = 1.000000e+00 : f64}
func.func @negated_padding(%q: tensor<2x1x3x4xf32>, %keep: tensor<2x3xi64>) -> tensor<2x1x3x4xf32> {
  %z = arith.constant dense<0> : tensor<2x3xi64>
  %hide = arith.cmpi eq, %keep, %z : tensor<2x3xi64>
  %be = tensor.empty() : tensor<2x1x3x3xi1>
  %hb = linalg.broadcast ins(%hide : tensor<2x3xi1>) outs(%be : tensor<2x1x3x3xi1>) dimensions = [1, 2]
  %low = arith.constant dense<-3.40282347E+38> : tensor<2x1x3x3xf32>
  %zero = arith.constant dense<0.0> : tensor<2x1x3x3xf32>
  %m = arith.select %hb, %low, %zero : tensor<2x1x3x3xi1>, tensor<2x1x3x3xf32>
  %o, %lse = train.attention %q, %q, %q mask(%m) {scale = 1.0 : f64} : (tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>, tensor<2x1x3x4xf32>, tensor<2x1x3x3xf32>) -> (tensor<2x1x3x4xf32>, tensor<2x1x3xf32>)
  return %o : tensor<2x1x3x4xf32>
}
