// A two-layer perceptron at level dispatch, by hand: a frozen bias, a parameter without gradient path, two parameter groups, an activation that works
// in place, a kernel with workspace.
module attributes {offload.phase = "dispatch", train.dims = {batch = 16 : i64},
    train.model = {path = "/models/mlp.onnx", bytes = 1000 : i64, hash = -1 : i64},
    train.data_files = [{name = "mlp.onnx.data", bytes = 500000 : i64}]} {
  func.func @step(
      %x: tensor<16x64xf32> {train.name = "x", train.role = #train.role<input>},
      %labels: tensor<16xi64> {train.name = "labels", train.role = #train.role<input>, train.range = {lo = 0 : i64, hi = 128 : i64, ignore = -100 : i64}},
      %w1: tensor<64x256xf32> {train.name = "w1", train.role = #train.role<parameter>, train.trainable, train.donate = 2 : i64,
                               train.source = #train.source<"mlp.onnx.data", 0, 65536>},
      %b1: tensor<256xf32> {train.name = "b1", train.role = #train.role<parameter>, train.source = #train.source<"mlp.onnx.data", 65536, 1024>},
      %w2: tensor<256x128xf32> {train.name = "w2", train.role = #train.role<parameter>, train.trainable, train.donate = 3 : i64,
                                train.hyper = {lr_scale = 0.5 : f64, weight_decay = 0.0 : f64}},
      %unused: tensor<8xf32> {train.name = "unused", train.role = #train.role<parameter>, train.no_gradient},
      %m1: tensor<64x256xf32> {train.name = "w1/momentum_buffer", train.role = #train.role<moment>, train.donate = 4 : i64},
      %m2: tensor<256x128xf32> {train.name = "w2/momentum_buffer", train.role = #train.role<moment>, train.donate = 5 : i64})
      -> (tensor<f32> {train.name = "loss", train.role = #train.role<loss>},
          tensor<4xf32> {train.name = "verdict", train.role = #train.role<control>},
          tensor<64x256xf32> {train.name = "w1", train.role = #train.role<parameter>},
          tensor<256x128xf32> {train.name = "w2", train.role = #train.role<parameter>},
          tensor<64x256xf32> {train.name = "w1/momentum_buffer", train.role = #train.role<moment>},
          tensor<256x128xf32> {train.name = "w2/momentum_buffer", train.role = #train.role<moment>}) {
    %h = offload.dispatch @gemm1(%x, %w1, %b1) {train.phase = #train.phase<forward>} : (tensor<16x64xf32>, tensor<64x256xf32>, tensor<256xf32>) -> tensor<16x256xf32> loc("fc1"("mlp"))
    %a = offload.dispatch @relu(%h) {train.phase = #train.phase<forward>} : (tensor<16x256xf32>) -> tensor<16x256xf32>
    %logits = offload.dispatch @gemm2(%a, %w2) {train.phase = #train.phase<forward>} : (tensor<16x256xf32>, tensor<256x128xf32>) -> tensor<16x128xf32>
    %loss, %lse = offload.dispatch @loss(%logits, %labels) {train.phase = #train.phase<forward>} : (tensor<16x128xf32>, tensor<16xi64>) -> (tensor<f32>, tensor<16xf32>)
    %dlogits = offload.dispatch @dloss(%logits, %labels, %lse) {train.phase = #train.phase<backward>} : (tensor<16x128xf32>, tensor<16xi64>, tensor<16xf32>) -> tensor<16x128xf32>
    %dw2 = offload.dispatch @dgemm2(%a, %dlogits) {train.phase = #train.phase<backward>} : (tensor<16x256xf32>, tensor<16x128xf32>) -> tensor<256x128xf32>
    %da = offload.dispatch @agemm2(%dlogits, %w2) {train.phase = #train.phase<backward>} : (tensor<16x128xf32>, tensor<256x128xf32>) -> tensor<16x256xf32>
    %dh = offload.dispatch @drelu(%da, %a) {train.phase = #train.phase<backward>} : (tensor<16x256xf32>, tensor<16x256xf32>) -> tensor<16x256xf32>
    %dw1 = offload.dispatch @dgemm1(%x, %dh) {train.phase = #train.phase<backward>} : (tensor<16x64xf32>, tensor<16x256xf32>) -> tensor<64x256xf32>
    %p1 = offload.dispatch @norm1(%dw1) {train.phase = #train.phase<verdict>} : (tensor<64x256xf32>) -> tensor<16xf32>
    %p2 = offload.dispatch @norm2(%dw2) {train.phase = #train.phase<verdict>} : (tensor<256x128xf32>) -> tensor<32xf32>
    %v = offload.dispatch @verdict(%p1, %p2) {train.phase = #train.phase<verdict>} : (tensor<16xf32>, tensor<32xf32>) -> tensor<4xf32>
    %s0 = train.scalars @sgd {group = 0 : i64, hyper = {}, train.phase = #train.phase<update>} : tensor<2xf32>
    %nw1, %nm1 = offload.dispatch @update1(%w1, %dw1, %m1, %s0, %v) {train.phase = #train.phase<update>} : (tensor<64x256xf32>, tensor<64x256xf32>, tensor<64x256xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>)
    %s1 = train.scalars @sgd {group = 1 : i64, hyper = {lr_scale = 0.5 : f64, weight_decay = 0.0 : f64}, train.phase = #train.phase<update>} : tensor<2xf32>
    %nw2, %nm2 = offload.dispatch @update2(%w2, %dw2, %m2, %s1, %v) {train.phase = #train.phase<update>} : (tensor<256x128xf32>, tensor<256x128xf32>, tensor<256x128xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<256x128xf32>, tensor<256x128xf32>)
    return %loss, %v, %nw1, %nw2, %nm1, %nm2 : tensor<f32>, tensor<4xf32>, tensor<64x256xf32>, tensor<256x128xf32>, tensor<64x256xf32>, tensor<256x128xf32>
  }
  func.func private @gemm1(tensor<16x64xf32>, tensor<64x256xf32>, tensor<256xf32>) -> tensor<16x256xf32> attributes {offload.kernel = #offload.kernel<"gemm", params = [16, 256, 64], tiles = [1], flops = 524288, class = matmul, width = 16>}
  func.func private @relu(tensor<16x256xf32>) -> tensor<16x256xf32> attributes {offload.kernel = #offload.kernel<"relu", compiled, tiles = [1], inplace = [0], flops = 4096>}
  func.func private @gemm2(tensor<16x256xf32>, tensor<256x128xf32>) -> tensor<16x128xf32> attributes {offload.kernel = #offload.kernel<"gemm", params = [16, 128, 256], tiles = [1], flops = 1048576, class = matmul, width = 16>}
  func.func private @loss(tensor<16x128xf32>, tensor<16xi64>) -> (tensor<f32>, tensor<16xf32>) attributes {offload.kernel = #offload.kernel<"cross_entropy", tiles = [1, 1], scratch = 256, workspace = 64>}
  func.func private @dloss(tensor<16x128xf32>, tensor<16xi64>, tensor<16xf32>) -> tensor<16x128xf32> attributes {offload.kernel = #offload.kernel<"cross_entropy_grad", tiles = [1], inplace = [0]>}
  func.func private @dgemm2(tensor<16x256xf32>, tensor<16x128xf32>) -> tensor<256x128xf32> attributes {offload.kernel = #offload.kernel<"gemm", tiles = [1], scratch = 4096>}
  func.func private @agemm2(tensor<16x128xf32>, tensor<256x128xf32>) -> tensor<16x256xf32> attributes {offload.kernel = #offload.kernel<"gemm", tiles = [1]>}
  func.func private @drelu(tensor<16x256xf32>, tensor<16x256xf32>) -> tensor<16x256xf32> attributes {offload.kernel = #offload.kernel<"drelu", compiled, tiles = [1], inplace = [0]>}
  func.func private @dgemm1(tensor<16x64xf32>, tensor<16x256xf32>) -> tensor<64x256xf32> attributes {offload.kernel = #offload.kernel<"gemm", tiles = [1]>}
  func.func private @norm1(tensor<64x256xf32>) -> tensor<16xf32> attributes {offload.kernel = #offload.kernel<"norm_partials", params = [16384, 1, 4096], tiles = [4]>}
  func.func private @norm2(tensor<256x128xf32>) -> tensor<32xf32> attributes {offload.kernel = #offload.kernel<"norm_partials", params = [32768, 1, 4096], tiles = [8]>}
  func.func private @verdict(tensor<16xf32>, tensor<32xf32>) -> tensor<4xf32> attributes {offload.kernel = #offload.kernel<"verdict", params = [2, 1, 4607182418800017408, 16, 32], tiles = [1]>}
  func.func private @update1(tensor<64x256xf32>, tensor<64x256xf32>, tensor<64x256xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<64x256xf32>, tensor<64x256xf32>) attributes {offload.kernel = #offload.kernel<"update_sgd", compiled, params = [0, 16384, 4096], tiles = [4], inplace = [0, 2], flops = 65536, class = optimizer>}
  func.func private @update2(tensor<256x128xf32>, tensor<256x128xf32>, tensor<256x128xf32>, tensor<2xf32>, tensor<4xf32>) -> (tensor<256x128xf32>, tensor<256x128xf32>) attributes {offload.kernel = #offload.kernel<"update_sgd", compiled, params = [0, 32768, 4096], tiles = [8], inplace = [0, 2], flops = 131072, class = optimizer>}
  train.optimizer @sgd hyper {lr = 1.0e-3, momentum = 0.9, nesterov = true, weight_decay = 0.01} state ["momentum_buffer"] {
    func.func @scalars(%t: i64, %lr: f64, %momentum: f64, %nesterov: f64, %wd: f64) -> (f32, f32) {
      %0 = arith.truncf %lr : f64 to f32
      %1 = arith.truncf %momentum : f64 to f32
      return %0, %1 : f32, f32
    }
    func.func @update(%p: f32, %g: f32, %buf: f32, %lr: f32, %mu: f32) -> (f32, f32) {
      %0 = arith.mulf %g, %lr : f32
      %1 = arith.subf %p, %0 : f32
      return %1, %buf : f32, f32
    }
  }
}
