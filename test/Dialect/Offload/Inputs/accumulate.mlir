// One parameter, two micro-steps.
module attributes {offload.phase = "dispatch"} {
  func.func @step(
      %x: tensor<2048xf32> {train.name = "x", train.role = #train.role<input>},
      %w: tensor<2048xf32> {train.name = "w", train.role = #train.role<parameter>, train.trainable, train.donate = 2 : i64},
      %acc: tensor<2048xf32> {train.name = "w/grad", train.role = #train.role<accumulator>, train.donate = 3 : i64})
      -> (tensor<f32> {train.name = "loss", train.role = #train.role<loss>}, tensor<4xf32> {train.name = "verdict", train.role = #train.role<control>},
          tensor<2048xf32> {train.name = "w", train.role = #train.role<parameter>}, tensor<2048xf32> {train.name = "w/grad", train.role = #train.role<accumulator>}) {
    %loss, %dw = offload.dispatch @both(%x, %w) {train.phase = #train.phase<forward>} : (tensor<2048xf32>, tensor<2048xf32>) -> (tensor<f32>, tensor<2048xf32>)
    %sum = offload.dispatch @acc(%acc, %dw) {train.phase = #train.phase<accumulate>} : (tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32>
    %p = offload.dispatch @norm(%sum) {train.phase = #train.phase<verdict>} : (tensor<2048xf32>) -> tensor<2xf32>
    %v = offload.dispatch @verdict(%p) {train.phase = #train.phase<verdict>} : (tensor<2xf32>) -> tensor<4xf32>
    %s = train.scalars @sgd {group = 0 : i64, hyper = {}, train.phase = #train.phase<update>} : tensor<1xf32>
    %nw = offload.dispatch @update(%w, %sum, %s, %v) {train.phase = #train.phase<update>} : (tensor<2048xf32>, tensor<2048xf32>, tensor<1xf32>, tensor<4xf32>) -> tensor<2048xf32>
    return %loss, %v, %nw, %sum : tensor<f32>, tensor<4xf32>, tensor<2048xf32>, tensor<2048xf32>
  }
  func.func private @both(tensor<2048xf32>, tensor<2048xf32>) -> (tensor<f32>, tensor<2048xf32>) attributes {offload.kernel = #offload.kernel<"both", compiled, tiles = [1]>}
  func.func private @acc(tensor<2048xf32>, tensor<2048xf32>) -> tensor<2048xf32> attributes {offload.kernel = #offload.kernel<"accumulate", params = [2048, 1, 1024], tiles = [2], inplace = [0]>}
  func.func private @norm(tensor<2048xf32>) -> tensor<2xf32> attributes {offload.kernel = #offload.kernel<"norm_partials", params = [2048, 2, 1024], tiles = [2]>}
  func.func private @verdict(tensor<2xf32>) -> tensor<4xf32> attributes {offload.kernel = #offload.kernel<"verdict", params = [1, 0, 0, 2], tiles = [1]>}
  func.func private @update(tensor<2048xf32>, tensor<2048xf32>, tensor<1xf32>, tensor<4xf32>) -> tensor<2048xf32> attributes {offload.kernel = #offload.kernel<"update_sgd_2", compiled, params = [0, 2048, 1024], tiles = [2], inplace = [0], class = optimizer>}
  train.optimizer @sgd hyper {lr = 1.0e-3} state [] {
    func.func @scalars(%t: i64, %lr: f64) -> f32 {
      %0 = arith.truncf %lr : f64 to f32
      return %0 : f32
    }
    func.func @update(%p: f32, %g: f32, %lr: f32) -> f32 {
      %0 = arith.mulf %g, %lr : f32
      %1 = arith.subf %p, %0 : f32
      return %1 : f32
    }
  }
}
