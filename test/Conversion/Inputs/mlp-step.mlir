// An MLP step: y = gelu(layer_norm(x) w^T + b), loss = mean((y - t)^2), by hand.
func.func @step(%x: tensor<64x32xf32> {train.name = "x", train.role = #train.role<input>},
                %t: tensor<64x16xf32> {train.name = "t", train.role = #train.role<input>},
                %w: tensor<16x32xf32> {train.name = "w", train.role = #train.role<parameter>, train.trainable, train.donate = 2 : i64},
                %b: tensor<16xf32> {train.name = "b", train.role = #train.role<parameter>, train.trainable, train.donate = 3 : i64},
                %lw: tensor<32xf32> {train.name = "lw", train.role = #train.role<parameter>},
                %mw: tensor<16x32xf32> {train.name = "w/exp_avg", train.role = #train.role<moment>, train.donate = 4 : i64},
                %vw: tensor<16x32xf32> {train.name = "w/exp_avg_sq", train.role = #train.role<moment>, train.donate = 5 : i64},
                %mb: tensor<16xf32> {train.name = "b/exp_avg", train.role = #train.role<moment>, train.donate = 6 : i64},
                %vb: tensor<16xf32> {train.name = "b/exp_avg_sq", train.role = #train.role<moment>, train.donate = 7 : i64})
    -> (tensor<f32>, tensor<4xf32>, tensor<16x32xf32>, tensor<16xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16xf32>, tensor<16xf32>) {
  %zero = arith.constant 0.0 : f32
  %n, %mean, %rstd = train.layer_norm %x weight(%lw) {eps = 1.0e-5 : f64, train.phase = #train.phase<forward>}
    : (tensor<64x32xf32>, tensor<32xf32>) -> (tensor<64x32xf32>, tensor<64xf32>, tensor<64xf32>)
  %e0 = tensor.empty() : tensor<64x16xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<64x16xf32>) -> tensor<64x16xf32>
  %h = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
    {train.phase = #train.phase<forward>} ins(%n, %w : tensor<64x32xf32>, tensor<16x32xf32>) outs(%f0 : tensor<64x16xf32>) -> tensor<64x16xf32>
  %bb = linalg.broadcast ins(%b : tensor<16xf32>) outs(%e0 : tensor<64x16xf32>) dimensions = [0] {train.phase = #train.phase<forward>}
  %hb = arith.addf %h, %bb {train.phase = #train.phase<forward>} : tensor<64x16xf32>
  %half = arith.constant dense<0.5> : tensor<64x16xf32>
  %one = arith.constant dense<1.0> : tensor<64x16xf32>
  %r2 = arith.constant dense<0.70710678> : tensor<64x16xf32>
  %hs = arith.mulf %hb, %r2 {train.phase = #train.phase<forward>} : tensor<64x16xf32>
  %er = math.erf %hs {train.phase = #train.phase<forward>} : tensor<64x16xf32>
  %e1 = arith.addf %er, %one {train.phase = #train.phase<forward>} : tensor<64x16xf32>
  %h2 = arith.mulf %hb, %half {train.phase = #train.phase<forward>} : tensor<64x16xf32>
  %y = arith.mulf %h2, %e1 {train.phase = #train.phase<forward>} : tensor<64x16xf32>
  %d = arith.subf %y, %t {train.phase = #train.phase<forward>} : tensor<64x16xf32>
  %sq = arith.mulf %d, %d {train.phase = #train.phase<forward>} : tensor<64x16xf32>
  %es = tensor.empty() : tensor<f32>
  %fs = linalg.fill ins(%zero : f32) outs(%es : tensor<f32>) -> tensor<f32>
  %sum = linalg.reduce ins(%sq : tensor<64x16xf32>) outs(%fs : tensor<f32>) dimensions = [0, 1] {train.phase = #train.phase<forward>}
    (%in: f32, %acc: f32) { %s = arith.addf %in, %acc : f32
      linalg.yield %s : f32 }
  %inv = arith.constant dense<0.0009765625> : tensor<f32>
  %loss = arith.mulf %sum, %inv {train.phase = #train.phase<forward>} : tensor<f32>
  %two = arith.constant dense<0.001953125> : tensor<64x16xf32>
  %dy = arith.mulf %d, %two {train.phase = #train.phase<backward>} : tensor<64x16xf32>
  %dh = train.gelu_grad %dy, %hb {train.phase = #train.phase<backward>} : tensor<64x16xf32>
  %e2 = tensor.empty() : tensor<16xf32>
  %f2 = linalg.fill ins(%zero : f32) outs(%e2 : tensor<16xf32>) -> tensor<16xf32>
  %db = linalg.reduce ins(%dh : tensor<64x16xf32>) outs(%f2 : tensor<16xf32>) dimensions = [0] {train.phase = #train.phase<backward>}
    (%in: f32, %acc: f32) { %s = arith.addf %in, %acc : f32
      linalg.yield %s : f32 }
  %e3 = tensor.empty() : tensor<16x32xf32>
  %f3 = linalg.fill ins(%zero : f32) outs(%e3 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %dw = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (k, m)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
    {train.phase = #train.phase<backward>} ins(%dh, %n : tensor<64x16xf32>, tensor<64x32xf32>) outs(%f3 : tensor<16x32xf32>) -> tensor<16x32xf32>
  %pw = train.norm_partials %dw {train.phase = #train.phase<verdict>} : (tensor<16x32xf32>) -> tensor<1xf32>
  %pb = train.norm_partials %db {train.phase = #train.phase<verdict>} : (tensor<16xf32>) -> tensor<1xf32>
  %v = train.verdict %pw, %pb {clip = 1.0 : f64, train.phase = #train.phase<verdict>} : (tensor<1xf32>, tensor<1xf32>) -> tensor<4xf32>
  %sc = train.scalars @adamw {hyper = {}, group = 0 : i64, train.phase = #train.phase<update>} : tensor<9xf32>
  %nw:3 = train.update @adamw parameter(%w) grad(%dw) state(%mw, %vw) scalars(%sc) verdict(%v) {train.phase = #train.phase<update>}
    : (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<9xf32>, tensor<4xf32>) -> (tensor<16x32xf32>, tensor<16x32xf32>, tensor<16x32xf32>)
  %nb:3 = train.update @adamw parameter(%b) grad(%db) state(%mb, %vb) scalars(%sc) verdict(%v) {train.phase = #train.phase<update>}
    : (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<9xf32>, tensor<4xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>)
  return %loss, %v, %nw#0, %nb#0, %nw#1, %nw#2, %nb#1, %nb#2 : tensor<f32>, tensor<4xf32>, tensor<16x32xf32>, tensor<16xf32>, tensor<16x32xf32>, tensor<16x32xf32>, tensor<16xf32>, tensor<16xf32>
}
