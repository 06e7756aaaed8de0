// Gradient cases for linalg.

func.func @broadcast(%a: tensor<3xf64>, %s: tensor<f64>, %x: tensor<2x3x5xf64>) -> tensor<2x3x5xf64> {
  %e = tensor.empty() : tensor<2x3x5xf64>
  %b = linalg.broadcast ins(%a : tensor<3xf64>) outs(%e : tensor<2x3x5xf64>) dimensions = [0, 2]
  %t = linalg.broadcast ins(%s : tensor<f64>) outs(%e : tensor<2x3x5xf64>) dimensions = [0, 1, 2]
  %0 = arith.mulf %b, %x : tensor<2x3x5xf64>
  %1 = arith.mulf %0, %t : tensor<2x3x5xf64>
  return %1 : tensor<2x3x5xf64>
}
func.func @broadcast_one(%a: tensor<3xf64>) -> tensor<1x3xf64> {
  %e = tensor.empty() : tensor<1x3xf64>
  %b = linalg.broadcast ins(%a : tensor<3xf64>) outs(%e : tensor<1x3xf64>) dimensions = [0]
  return %b : tensor<1x3xf64>
}
// Nothing is repeated zero times: the gradient is 0.
func.func @broadcast_zero(%a: tensor<3xf64>) -> tensor<0x3xf64> {
  %e = tensor.empty() : tensor<0x3xf64>
  %b = linalg.broadcast ins(%a : tensor<3xf64>) outs(%e : tensor<0x3xf64>) dimensions = [0]
  return %b : tensor<0x3xf64>
}
func.func @transpose(%a: tensor<2x3x5xf64>) -> tensor<5x2x3xf64> {
  %e = tensor.empty() : tensor<5x2x3xf64>
  %t = linalg.transpose ins(%a : tensor<2x3x5xf64>) outs(%e : tensor<5x2x3xf64>) permutation = [2, 0, 1]
  %r = arith.mulf %t, %t : tensor<5x2x3xf64>
  return %r : tensor<5x2x3xf64>
}
func.func @fill(%a: tensor<3xf64>) -> tensor<3xf64> {
  %c = arith.constant 3.0 : f64
  %e = tensor.empty() : tensor<3xf64>
  %f = linalg.fill ins(%c : f64) outs(%e : tensor<3xf64>) -> tensor<3xf64>
  %r = arith.mulf %a, %f : tensor<3xf64>
  return %r : tensor<3xf64>
}
// What a fill overwrites has no influence: the gradient of %a comes from the last result alone.
func.func @overwritten(%a: tensor<3xf64>) -> (tensor<3xf64>, tensor<3xf64>) {
  %c = arith.constant 3.0 : f64
  %t = math.sin %a : tensor<3xf64>
  %f = linalg.fill ins(%c : f64) outs(%t : tensor<3xf64>) -> tensor<3xf64>
  return %f, %a : tensor<3xf64>, tensor<3xf64>
}
func.func @reduce_sum(%a: tensor<2x3x5xf64>, %init: tensor<3xf64>) -> tensor<3xf64> {
  %r = linalg.reduce {arith.addf} ins(%a : tensor<2x3x5xf64>) outs(%init : tensor<3xf64>) dimensions = [0, 2]
  %s = arith.mulf %r, %r : tensor<3xf64>
  return %s : tensor<3xf64>
}
func.func @reduce_sum_zero(%a: tensor<0x3xf64>, %b: tensor<3xf64>) -> tensor<3xf64> {
  %z = arith.constant dense<0.0> : tensor<3xf64>
  %r = linalg.reduce {arith.addf} ins(%a : tensor<0x3xf64>) outs(%z : tensor<3xf64>) dimensions = [0]
  %s = arith.mulf %r, %b : tensor<3xf64>
  return %s : tensor<3xf64>
}
func.func @reduce_max(%a: tensor<4x5xf64>) -> tensor<4xf64> {
  %z = arith.constant dense<0xFFF0000000000000> : tensor<4xf64>
  %r = linalg.reduce {arith.maximumf} ins(%a : tensor<4x5xf64>) outs(%z : tensor<4xf64>) dimensions = [1]
  return %r : tensor<4xf64>
}
func.func @reduce_maxnum(%a: tensor<4x5xf64>) -> tensor<4xf64> {
  %z = arith.constant dense<0xFFF0000000000000> : tensor<4xf64>
  %r = linalg.reduce {arith.maxnumf} ins(%a : tensor<4x5xf64>) outs(%z : tensor<4xf64>) dimensions = [1]
  return %r : tensor<4xf64>
}
func.func @reduce_min(%a: tensor<4x5xf64>) -> tensor<5xf64> {
  %z = arith.constant dense<0x7FF0000000000000> : tensor<5xf64>
  %r = linalg.reduce {arith.minimumf} ins(%a : tensor<4x5xf64>) outs(%z : tensor<5xf64>) dimensions = [0]
  return %r : tensor<5xf64>
}
func.func @reduce_max_init(%a: tensor<4x5xf64>, %init: tensor<4xf64>) -> tensor<4xf64> {
  %r = linalg.reduce {arith.maximumf} ins(%a : tensor<4x5xf64>) outs(%init : tensor<4xf64>) dimensions = [1]
  return %r : tensor<4xf64>
}
// torch.amax: ties share evenly.
func.func @reduce_max_tie(%a: tensor<2x4xf64> {test.values = dense<[[1.0, 3.0, 3.0, 2.0], [5.0, 5.0, 5.0, 5.0]]> : tensor<2x4xf64>, test.grad = dense<[[0.0, 0.5, 0.5, 0.0], [0.25, 0.25, 0.25, 0.25]]> : tensor<2x4xf64>}) -> tensor<2xf64> {
  %z = arith.constant dense<0xFFF0000000000000> : tensor<2xf64>
  %r = linalg.reduce {arith.maximumf} ins(%a : tensor<2x4xf64>) outs(%z : tensor<2xf64>) dimensions = [1]
  return %r : tensor<2xf64>
}
func.func @reduce_mul(%a: tensor<3x4xf64>, %init: tensor<3xf64>) -> tensor<3xf64> {
  %r = linalg.reduce {arith.mulf} ins(%a : tensor<3x4xf64>) outs(%init : tensor<3xf64>) dimensions = [1]
  return %r : tensor<3xf64>
}
// No zero, one zero, two zeros in a row.
func.func @reduce_mul_zeros(%a: tensor<3x3xf64> {test.values = dense<[[1.0, 2.0, 3.0], [4.0, 0.0, 5.0], [0.0, 7.0, 0.0]]> : tensor<3x3xf64>}) -> tensor<3xf64> {
  %one = arith.constant dense<1.0> : tensor<3xf64>
  %r = linalg.reduce {arith.mulf} ins(%a : tensor<3x3xf64>) outs(%one : tensor<3xf64>) dimensions = [1]
  return %r : tensor<3xf64>
}

func.func @contract(%a: tensor<3x5xf64>, %b: tensor<5x2xf64>, %c: tensor<3x2xf64>) -> tensor<3x2xf64> {
  %r = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<3x5xf64>, tensor<5x2xf64>) outs(%c : tensor<3x2xf64>) -> tensor<3x2xf64>
  %s = arith.mulf %r, %r : tensor<3x2xf64>
  return %s : tensor<3x2xf64>
}
// A batch that only the left operand has, a transposed weight, two reduced dimensions.
func.func @contract_linear(%a: tensor<2x3x5xf64>, %w: tensor<7x5xf64>) -> tensor<2x3x7xf64> {
  %z = arith.constant dense<0.0> : tensor<2x3x7xf64>
  %r = linalg.contract indexing_maps = [affine_map<(b, m, n, k) -> (b, m, k)>, affine_map<(b, m, n, k) -> (n, k)>, affine_map<(b, m, n, k) -> (b, m, n)>]
      ins(%a, %w : tensor<2x3x5xf64>, tensor<7x5xf64>) outs(%z : tensor<2x3x7xf64>) -> tensor<2x3x7xf64>
  return %r : tensor<2x3x7xf64>
}
func.func @contract_batch(%a: tensor<2x3x4xf64>, %b: tensor<3x2x4xf64>) -> tensor<4x2xf64> {
  %z = arith.constant dense<0.0> : tensor<4x2xf64>
  %r = linalg.contract indexing_maps = [affine_map<(b, i, j) -> (b, i, j)>, affine_map<(b, i, j) -> (i, b, j)>, affine_map<(b, i, j) -> (j, b)>]
      ins(%a, %b : tensor<2x3x4xf64>, tensor<3x2x4xf64>) outs(%z : tensor<4x2xf64>) -> tensor<4x2xf64>
  return %r : tensor<4x2xf64>
}
// Products whose gradient is an outer product, with both orders of the dimensions.
func.func @contract_matvec(%a: tensor<3x4xf64>, %b: tensor<4xf64>) -> tensor<3xf64> {
  %z = arith.constant dense<0.0> : tensor<3xf64>
  %r = linalg.contract indexing_maps = [affine_map<(m, k) -> (m, k)>, affine_map<(m, k) -> (k)>, affine_map<(m, k) -> (m)>]
      ins(%a, %b : tensor<3x4xf64>, tensor<4xf64>) outs(%z : tensor<3xf64>) -> tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @contract_vecmat_transposed(%a: tensor<4xf64>, %b: tensor<2x4x3xf64>) -> tensor<3x2xf64> {
  %z = arith.constant dense<0.0> : tensor<3x2xf64>
  %r = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (k)>, affine_map<(m, n, k) -> (n, k, m)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<4xf64>, tensor<2x4x3xf64>) outs(%z : tensor<3x2xf64>) -> tensor<3x2xf64>
  return %r : tensor<3x2xf64>
}
func.func @contract_dot(%a: tensor<3xf64>, %b: tensor<3xf64>) -> tensor<f64> {
  %z = arith.constant dense<0.0> : tensor<f64>
  %r = linalg.contract indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> ()>]
      ins(%a, %b : tensor<3xf64>, tensor<3xf64>) outs(%z : tensor<f64>) -> tensor<f64>
  return %r : tensor<f64>
}
func.func @contract_same(%a: tensor<3x3xf64>) -> tensor<3x3xf64> {
  %z = arith.constant dense<0.0> : tensor<3x3xf64>
  %r = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %a : tensor<3x3xf64>, tensor<3x3xf64>) outs(%z : tensor<3x3xf64>) -> tensor<3x3xf64>
  return %r : tensor<3x3xf64>
}
func.func @contract_zero_k(%a: tensor<3x0xf64>, %b: tensor<0x2xf64>, %c: tensor<3x2xf64>) -> tensor<3x2xf64> {
  %r = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<3x0xf64>, tensor<0x2xf64>) outs(%c : tensor<3x2xf64>) -> tensor<3x2xf64>
  return %r : tensor<3x2xf64>
}
// Low-precision operands with a wide accumulator.
func.func @contract_mixed(%a: tensor<3x4xf32>, %b: tensor<4x2xf32>) -> tensor<3x2xf64> {
  %z = arith.constant dense<0.0> : tensor<3x2xf64>
  %r = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (k, n)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%a, %b : tensor<3x4xf32>, tensor<4x2xf32>) outs(%z : tensor<3x2xf64>) -> tensor<3x2xf64>
  return %r : tensor<3x2xf64>
}
func.func @matmul(%a: tensor<3x4xf64>, %b: tensor<4x2xf64>, %c: tensor<3x2xf64>) -> tensor<3x2xf64> {
  %r = linalg.matmul ins(%a, %b : tensor<3x4xf64>, tensor<4x2xf64>) outs(%c : tensor<3x2xf64>) -> tensor<3x2xf64>
  return %r : tensor<3x2xf64>
}
func.func @batch_matmul(%a: tensor<2x3x4xf64>, %b: tensor<2x4x1xf64>) -> tensor<2x3x1xf64> {
  %z = arith.constant dense<0.0> : tensor<2x3x1xf64>
  %r = linalg.batch_matmul ins(%a, %b : tensor<2x3x4xf64>, tensor<2x4x1xf64>) outs(%z : tensor<2x3x1xf64>) -> tensor<2x3x1xf64>
  return %r : tensor<2x3x1xf64>
}
