// Gradient cases for train: activations, norms, softmax, rotary, embedding, loss.

func.func @gelu(%x: tensor<2x7xf64>) -> tensor<2x7xf64> {
  %r = train.gelu %x : tensor<2x7xf64>
  return %r : tensor<2x7xf64>
}
func.func @gelu_tanh(%x: tensor<2x7xf64>) -> tensor<2x7xf64> {
  %r = train.gelu %x {tanh} : tensor<2x7xf64>
  return %r : tensor<2x7xf64>
}
func.func @silu(%x: tensor<13xf64> {test.range = [-6.0, 6.0]}) -> tensor<13xf64> {
  %r = train.silu %x : tensor<13xf64>
  return %r : tensor<13xf64>
}
func.func @sigmoid(%x: tensor<13xf64> {test.range = [-6.0, 6.0]}) -> tensor<13xf64> {
  %r = train.sigmoid %x : tensor<13xf64>
  return %r : tensor<13xf64>
}
func.func @activations_zero_size(%x: tensor<0xf64>) -> (tensor<0xf64>, tensor<0xf64>, tensor<0xf64>) {
  %0 = train.gelu %x : tensor<0xf64>
  %1 = train.silu %x : tensor<0xf64>
  %2 = train.sigmoid %x : tensor<0xf64>
  return %0, %1, %2 : tensor<0xf64>, tensor<0xf64>, tensor<0xf64>
}
// d(x * detach(x)) = x, d(x * x) = 2 x.
func.func @detach(%x: tensor<3xf64> {test.values = dense<[1.0, -2.0, 3.0]> : tensor<3xf64>, test.grad = dense<[1.0, -2.0, 3.0]> : tensor<3xf64>}) -> tensor<3xf64> {
  %d = train.detach %x : tensor<3xf64>
  %r = arith.mulf %x, %d : tensor<3xf64>
  return %r : tensor<3xf64>
}

func.func @cast_between_types(%x: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %low = train.cast %x : tensor<2x3xf64> to tensor<2x3xf32>
  %square = arith.mulf %low, %low : tensor<2x3xf32>
  %r = train.cast %square : tensor<2x3xf32> to tensor<2x3xf64>
  return %r : tensor<2x3xf64>
}

func.func @softmax(%x: tensor<2x3x5xf64>) -> tensor<2x3x5xf64> {
  %r = train.softmax %x : tensor<2x3x5xf64>
  return %r : tensor<2x3x5xf64>
}
func.func @softmax_one(%x: tensor<3x1xf64>) -> tensor<3x1xf64> {
  %r = train.softmax %x : tensor<3x1xf64>
  return %r : tensor<3x1xf64>
}
func.func @softmax_vector(%x: tensor<5xf64>) -> tensor<5xf64> {
  %r = train.softmax %x : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @softmax_zero_size(%x: tensor<0x5xf64>) -> tensor<0x5xf64> {
  %r = train.softmax %x : tensor<0x5xf64>
  return %r : tensor<0x5xf64>
}

func.func @layer_norm(%x: tensor<2x3x5xf64>, %w: tensor<5xf64>, %b: tensor<5xf64>) -> tensor<2x3x5xf64> {
  %y, %m, %s = train.layer_norm %x weight(%w) bias(%b) {eps = 1.0e-5}
      : (tensor<2x3x5xf64>, tensor<5xf64>, tensor<5xf64>) -> (tensor<2x3x5xf64>, tensor<2x3xf64>, tensor<2x3xf64>)
  return %y : tensor<2x3x5xf64>
}
func.func @layer_norm_no_bias(%x: tensor<3x7xf64>, %w: tensor<7xf64>) -> tensor<3x7xf64> {
  %y, %m, %s = train.layer_norm %x weight(%w) {eps = 1.0e-5} : (tensor<3x7xf64>, tensor<7xf64>) -> (tensor<3x7xf64>, tensor<3xf64>, tensor<3xf64>)
  return %y : tensor<3x7xf64>
}
func.func @layer_norm_only_bias(%x: tensor<3x7xf64>, %b: tensor<7xf64>) -> tensor<3x7xf64> {
  %y, %m, %s = train.layer_norm %x bias(%b) {eps = 1.0e-5} : (tensor<3x7xf64>, tensor<7xf64>) -> (tensor<3x7xf64>, tensor<3xf64>, tensor<3xf64>)
  return %y : tensor<3x7xf64>
}
func.func @layer_norm_plain(%x: tensor<7xf64>) -> tensor<7xf64> {
  %y, %m, %s = train.layer_norm %x {eps = 1.0e-5} : (tensor<7xf64>) -> (tensor<7xf64>, tensor<f64>, tensor<f64>)
  return %y : tensor<7xf64>
}
// A row of one element is all mean: the result is the bias. A large eps keeps the difference quotient tame.
func.func @layer_norm_one(%x: tensor<3x1xf64>, %w: tensor<1xf64>, %b: tensor<1xf64>) -> tensor<3x1xf64> {
  %y, %m, %s = train.layer_norm %x weight(%w) bias(%b) {eps = 0.5} : (tensor<3x1xf64>, tensor<1xf64>, tensor<1xf64>) -> (tensor<3x1xf64>, tensor<3xf64>, tensor<3xf64>)
  return %y : tensor<3x1xf64>
}
func.func @layer_norm_zero_size(%x: tensor<0x3xf64>, %w: tensor<3xf64>, %b: tensor<3xf64>) -> tensor<0x3xf64> {
  %y, %m, %s = train.layer_norm %x weight(%w) bias(%b) {eps = 1.0e-5} : (tensor<0x3xf64>, tensor<3xf64>, tensor<3xf64>) -> (tensor<0x3xf64>, tensor<0xf64>, tensor<0xf64>)
  return %y : tensor<0x3xf64>
}

func.func @rms_norm(%x: tensor<2x3x5xf64>, %w: tensor<5xf64>) -> tensor<2x3x5xf64> {
  %y, %s = train.rms_norm %x weight(%w) {eps = 1.0e-6} : (tensor<2x3x5xf64>, tensor<5xf64>) -> (tensor<2x3x5xf64>, tensor<2x3xf64>)
  return %y : tensor<2x3x5xf64>
}
func.func @rms_norm_unit_offset(%x: tensor<3x5xf64>, %w: tensor<5xf64>) -> tensor<3x5xf64> {
  %y, %s = train.rms_norm %x weight(%w) {eps = 1.0e-6, unit_offset} : (tensor<3x5xf64>, tensor<5xf64>) -> (tensor<3x5xf64>, tensor<3xf64>)
  return %y : tensor<3x5xf64>
}
func.func @rms_norm_plain(%x: tensor<3x5xf64>) -> tensor<3x5xf64> {
  %y, %s = train.rms_norm %x {eps = 1.0e-6} : (tensor<3x5xf64>) -> (tensor<3x5xf64>, tensor<3xf64>)
  return %y : tensor<3x5xf64>
}
func.func @rms_norm_one(%x: tensor<3x1xf64>, %w: tensor<1xf64>) -> tensor<3x1xf64> {
  %y, %s = train.rms_norm %x weight(%w) {eps = 0.5} : (tensor<3x1xf64>, tensor<1xf64>) -> (tensor<3x1xf64>, tensor<3xf64>)
  return %y : tensor<3x1xf64>
}
func.func @rms_norm_zero_size(%x: tensor<0x3xf64>, %w: tensor<3xf64>) -> tensor<0x3xf64> {
  %y, %s = train.rms_norm %x weight(%w) {eps = 1.0e-6} : (tensor<0x3xf64>, tensor<3xf64>) -> (tensor<0x3xf64>, tensor<0xf64>)
  return %y : tensor<0x3xf64>
}

func.func @rotary(%x: tensor<2x3x5x6xf64>, %c: tensor<5x3xf64> {test.constant}, %s: tensor<5x3xf64> {test.constant}) -> tensor<2x3x5x6xf64> {
  %r = train.rotary %x, %c, %s : (tensor<2x3x5x6xf64>, tensor<5x3xf64>, tensor<5x3xf64>) -> tensor<2x3x5x6xf64>
  return %r : tensor<2x3x5x6xf64>
}
func.func @rotary_interleaved(%x: tensor<2x1x3x4xf64>, %c: tensor<2x3x2xf64> {test.constant}, %s: tensor<2x3x2xf64> {test.constant}) -> tensor<2x1x3x4xf64> {
  %r = train.rotary %x, %c, %s {interleaved} : (tensor<2x1x3x4xf64>, tensor<2x3x2xf64>, tensor<2x3x2xf64>) -> tensor<2x1x3x4xf64>
  return %r : tensor<2x1x3x4xf64>
}
func.func @rotary_partial(%x: tensor<1x2x3x7xf64>, %c: tensor<3x2xf64> {test.constant}, %s: tensor<3x2xf64> {test.constant}) -> tensor<1x2x3x7xf64> {
  %r = train.rotary %x, %c, %s : (tensor<1x2x3x7xf64>, tensor<3x2xf64>, tensor<3x2xf64>) -> tensor<1x2x3x7xf64>
  return %r : tensor<1x2x3x7xf64>
}
func.func @rotary_inverse(%x: tensor<1x2x3x4xf64>, %c: tensor<3x2xf64> {test.constant}, %s: tensor<3x2xf64> {test.constant}) -> tensor<1x2x3x4xf64> {
  %r = train.rotary %x, %c, %s {inverse} : (tensor<1x2x3x4xf64>, tensor<3x2xf64>, tensor<3x2xf64>) -> tensor<1x2x3x4xf64>
  return %r : tensor<1x2x3x4xf64>
}

// Repeated ids add up; negative ones count from the end.
func.func @embedding(%t: tensor<5x3xf64>, %i: tensor<2x4xi64> {test.values = dense<[[0, 1, -1, 1], [4, 1, -5, 3]]> : tensor<2x4xi64>}) -> tensor<2x4x3xf64> {
  %r = train.embedding %t, %i : (tensor<5x3xf64>, tensor<2x4xi64>) -> tensor<2x4x3xf64>
  return %r : tensor<2x4x3xf64>
}
func.func @embedding_scalar_rows(%t: tensor<5xf64>, %i: tensor<3xi32> {test.range = [0, 5]}) -> tensor<3xf64> {
  %r = train.embedding %t, %i : (tensor<5xf64>, tensor<3xi32>) -> tensor<3xf64>
  %s = arith.mulf %r, %r : tensor<3xf64>
  return %s : tensor<3xf64>
}
func.func @embedding_no_ids(%t: tensor<5x3xf64>, %i: tensor<0xi64>) -> tensor<0x3xf64> {
  %r = train.embedding %t, %i : (tensor<5x3xf64>, tensor<0xi64>) -> tensor<0x3xf64>
  return %r : tensor<0x3xf64>
}
// The padding row gets none.
func.func @embedding_padding(%t: tensor<3x2xf64> {test.grad = dense<[[2.0, 2.0], [0.0, 0.0], [1.0, 1.0]]> : tensor<3x2xf64>},
                             %i: tensor<5xi64> {test.values = dense<[0, 1, -1, 1, 0]> : tensor<5xi64>}) -> tensor<5x2xf64> {
  %r = train.embedding %t, %i {padding = 1 : i64} : (tensor<3x2xf64>, tensor<5xi64>) -> tensor<5x2xf64>
  return %r : tensor<5x2xf64>
}
// A tied table: rows and a product with the whole.
func.func @embedding_tied(%t: tensor<5x3xf64>, %i: tensor<4xi64> {test.range = [0, 5]}) -> tensor<4x5xf64> {
  %x = train.embedding %t, %i : (tensor<5x3xf64>, tensor<4xi64>) -> tensor<4x3xf64>
  %z = arith.constant dense<0.0> : tensor<4x5xf64>
  %r = linalg.contract indexing_maps = [affine_map<(m, n, k) -> (m, k)>, affine_map<(m, n, k) -> (n, k)>, affine_map<(m, n, k) -> (m, n)>]
      ins(%x, %t : tensor<4x3xf64>, tensor<5x3xf64>) outs(%z : tensor<4x5xf64>) -> tensor<4x5xf64>
  return %r : tensor<4x5xf64>
}

func.func @cross_entropy(%x: tensor<5x7xf64>, %l: tensor<5xi64> {test.values = dense<[0, -100, 6, 3, -100]> : tensor<5xi64>}) -> tensor<f64> {
  %r, %s = train.cross_entropy %x, %l : (tensor<5x7xf64>, tensor<5xi64>) -> (tensor<f64>, tensor<5xf64>)
  return %r : tensor<f64>
}
func.func @cross_entropy_sum(%x: tensor<5x7xf64>, %l: tensor<5xi64> {test.range = [0, 7]}) -> tensor<f64> {
  %r, %s = train.cross_entropy %x, %l {sum} : (tensor<5x7xf64>, tensor<5xi64>) -> (tensor<f64>, tensor<5xf64>)
  return %r : tensor<f64>
}
func.func @cross_entropy_own_ignore(%x: tensor<3x4xf64>, %l: tensor<3xi32> {test.values = dense<[0, 1, 0]> : tensor<3xi32>}) -> tensor<f64> {
  %r, %s = train.cross_entropy %x, %l {ignore_index = 0 : i64} : (tensor<3x4xf64>, tensor<3xi32>) -> (tensor<f64>, tensor<3xf64>)
  return %r : tensor<f64>
}
func.func @cross_entropy_one_class(%x: tensor<3x1xf64>, %l: tensor<3xi64> {test.range = [0, 1]}) -> tensor<f64> {
  %r, %s = train.cross_entropy %x, %l : (tensor<3x1xf64>, tensor<3xi64>) -> (tensor<f64>, tensor<3xf64>)
  return %r : tensor<f64>
}
// Scaled afterwards: the incoming gradient counts.
func.func @cross_entropy_scaled(%x: tensor<3x4xf64>, %l: tensor<3xi64> {test.range = [0, 4]}, %k: tensor<f64>) -> tensor<f64> {
  %r, %s = train.cross_entropy %x, %l : (tensor<3x4xf64>, tensor<3xi64>) -> (tensor<f64>, tensor<3xf64>)
  %t = arith.mulf %r, %k : tensor<f64>
  return %t : tensor<f64>
}
