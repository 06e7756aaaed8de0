// y = x w^T + b; loss = mean((y - t)^2). As forebay-translate writes it.
#x = affine_map<(d0, d1, d2) -> (d0, d2)>
#w = affine_map<(d0, d1, d2) -> (d1, d2)>
#y = affine_map<(d0, d1, d2) -> (d0, d1)>
func.func @forward(%x: tensor<2x8xf32> {train.name = "x", train.role = #train.role<input>},
                   %t: tensor<2x4xf32> {train.name = "t", train.role = #train.role<input>},
                   %w: tensor<4x8xf32> {train.name = "linear.weight", train.role = #train.role<parameter>, train.trainable},
                   %b: tensor<4xf32> {train.name = "linear.bias", train.role = #train.role<parameter>, train.trainable})
    -> (tensor<f32> {train.name = "loss", train.role = #train.role<loss>}) {
  %zero = arith.constant 0.0 : f32
  %eighth = arith.constant dense<0.125> : tensor<f32>
  %e0 = tensor.empty() : tensor<2x4xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %0 = linalg.contract indexing_maps = [#x, #w, #y] ins(%x, %w : tensor<2x8xf32>, tensor<4x8xf32>) outs(%f0 : tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = linalg.broadcast ins(%b : tensor<4xf32>) outs(%e0 : tensor<2x4xf32>) dimensions = [0]
  %2 = arith.addf %0, %1 : tensor<2x4xf32>
  %3 = arith.subf %2, %t : tensor<2x4xf32>
  %4 = arith.mulf %3, %3 : tensor<2x4xf32>
  %e1 = tensor.empty() : tensor<f32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<f32>) -> tensor<f32>
  %5 = linalg.reduce { arith.addf } ins(%4 : tensor<2x4xf32>) outs(%f1 : tensor<f32>) dimensions = [0, 1]
  %6 = arith.mulf %5, %eighth : tensor<f32>
  return %6 : tensor<f32>
}
