// loss = sum(((first + second) * x)^2): both parameters have one gradient.
func.func @forward(%x: tensor<4x8xf32> {train.name = "x", train.role = #train.role<input>},
                   %a: tensor<4x8xf32> {train.name = "first", train.role = #train.role<parameter>, train.trainable},
                   %b: tensor<4x8xf32> {train.name = "second", train.role = #train.role<parameter>, train.trainable})
    -> (tensor<f32> {train.name = "loss", train.role = #train.role<loss>}) {
  %zero = arith.constant 0.0 : f32
  %0 = arith.addf %a, %b : tensor<4x8xf32>
  %1 = arith.mulf %0, %x : tensor<4x8xf32>
  %2 = arith.mulf %1, %1 : tensor<4x8xf32>
  %e = tensor.empty() : tensor<f32>
  %f = linalg.fill ins(%zero : f32) outs(%e : tensor<f32>) -> tensor<f32>
  %3 = linalg.reduce { arith.addf } ins(%2 : tensor<4x8xf32>) outs(%f : tensor<f32>) dimensions = [0, 1]
  return %3 : tensor<f32>
}
