// Gradient cases for tensor.

func.func @expand_shape(%a: tensor<6x5xf64>) -> tensor<2x3x1x5xf64> {
  %r = tensor.expand_shape %a [[0, 1, 2], [3]] output_shape [2, 3, 1, 5] : tensor<6x5xf64> into tensor<2x3x1x5xf64>
  return %r : tensor<2x3x1x5xf64>
}
func.func @expand_shape_scalar(%a: tensor<f64>) -> tensor<1x1xf64> {
  %r = tensor.expand_shape %a [] output_shape [1, 1] : tensor<f64> into tensor<1x1xf64>
  return %r : tensor<1x1xf64>
}
func.func @collapse_shape(%a: tensor<2x3x1x5xf64>) -> tensor<6x5xf64> {
  %r = tensor.collapse_shape %a [[0, 1, 2], [3]] : tensor<2x3x1x5xf64> into tensor<6x5xf64>
  %s = arith.mulf %r, %r : tensor<6x5xf64>
  return %s : tensor<6x5xf64>
}
func.func @collapse_shape_zero(%a: tensor<2x0x3xf64>) -> tensor<0x3xf64> {
  %r = tensor.collapse_shape %a [[0, 1], [2]] : tensor<2x0x3xf64> into tensor<0x3xf64>
  return %r : tensor<0x3xf64>
}
func.func @cast(%a: tensor<3xf64>) -> tensor<3xf64> {
  %u = tensor.cast %a : tensor<3xf64> to tensor<3xf64>
  %r = arith.mulf %u, %a : tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @empty(%a: tensor<2x3xf64>) -> tensor<3x2xf64> {
  %e = tensor.empty() : tensor<3x2xf64>
  %r = linalg.transpose ins(%a : tensor<2x3xf64>) outs(%e : tensor<3x2xf64>) permutation = [1, 0]
  return %r : tensor<3x2xf64>
}
func.func @extract_slice(%a: tensor<5x7xf64>) -> tensor<2x3xf64> {
  %r = tensor.extract_slice %a[1, 4] [2, 3] [1, 1] : tensor<5x7xf64> to tensor<2x3xf64>
  return %r : tensor<2x3xf64>
}
func.func @extract_slice_strided(%a: tensor<5x8xf64>) -> tensor<2x4xf64> {
  %r = tensor.extract_slice %a[1, 1] [2, 4] [3, 2] : tensor<5x8xf64> to tensor<2x4xf64>
  return %r : tensor<2x4xf64>
}
func.func @extract_slice_rank_reducing(%a: tensor<4x1x5x3xf64>) -> tensor<5x3xf64> {
  %r = tensor.extract_slice %a[2, 0, 0, 0] [1, 1, 5, 3] [1, 1, 1, 1] : tensor<4x1x5x3xf64> to tensor<5x3xf64>
  return %r : tensor<5x3xf64>
}
func.func @extract_slice_middle_and_last(%a: tensor<2x4x3x5xf64>) -> tensor<2x3xf64> {
  %r = tensor.extract_slice %a[0, 3, 0, 1] [2, 1, 3, 1] [1, 1, 1, 1] : tensor<2x4x3x5xf64> to tensor<2x3xf64>
  return %r : tensor<2x3xf64>
}
func.func @extract_slice_to_scalar(%a: tensor<4x3xf64>) -> tensor<f64> {
  %r = tensor.extract_slice %a[2, 1] [1, 1] [1, 1] : tensor<4x3xf64> to tensor<f64>
  %s = arith.mulf %r, %r : tensor<f64>
  return %s : tensor<f64>
}
func.func @extract_slice_zero(%a: tensor<4x3xf64>) -> tensor<4x0xf64> {
  %r = tensor.extract_slice %a[0, 2] [4, 0] [1, 1] : tensor<4x3xf64> to tensor<4x0xf64>
  return %r : tensor<4x0xf64>
}
// Slices that make up the whole: one concat of gradients.
func.func @split(%a: tensor<2x9xf64>) -> tensor<2x3xf64> {
  %q = tensor.extract_slice %a[0, 3] [2, 3] [1, 1] : tensor<2x9xf64> to tensor<2x3xf64>
  %k = tensor.extract_slice %a[0, 0] [2, 3] [1, 1] : tensor<2x9xf64> to tensor<2x3xf64>
  %v = tensor.extract_slice %a[0, 6] [2, 3] [1, 1] : tensor<2x9xf64> to tensor<2x3xf64>
  %0 = arith.mulf %q, %k : tensor<2x3xf64>
  %1 = arith.mulf %0, %v : tensor<2x3xf64>
  return %1 : tensor<2x3xf64>
}
// With a gap, a repeated window, and a use of the whole.
func.func @split_gap(%a: tensor<2x9xf64>) -> (tensor<2x3xf64>, tensor<2x9xf64>) {
  %q = tensor.extract_slice %a[0, 1] [2, 3] [1, 1] : tensor<2x9xf64> to tensor<2x3xf64>
  %k = tensor.extract_slice %a[0, 5] [2, 3] [1, 1] : tensor<2x9xf64> to tensor<2x3xf64>
  %t = math.tanh %a : tensor<2x9xf64>
  %k2 = tensor.extract_slice %a[0, 5] [2, 3] [1, 1] : tensor<2x9xf64> to tensor<2x3xf64>
  %0 = arith.mulf %q, %k : tensor<2x3xf64>
  %1 = arith.mulf %0, %k2 : tensor<2x3xf64>
  return %1, %t : tensor<2x3xf64>, tensor<2x9xf64>
}
func.func @split_overlap(%a: tensor<9xf64>) -> tensor<5xf64> {
  %q = tensor.extract_slice %a[0] [5] [1] : tensor<9xf64> to tensor<5xf64>
  %k = tensor.extract_slice %a[3] [5] [1] : tensor<9xf64> to tensor<5xf64>
  %0 = arith.mulf %q, %k : tensor<5xf64>
  return %0 : tensor<5xf64>
}
func.func @split_two_axes(%a: tensor<4x4xf64>) -> tensor<2x2xf64> {
  %p = tensor.extract_slice %a[0, 0] [2, 2] [1, 1] : tensor<4x4xf64> to tensor<2x2xf64>
  %q = tensor.extract_slice %a[2, 2] [2, 2] [1, 1] : tensor<4x4xf64> to tensor<2x2xf64>
  %0 = arith.mulf %p, %q : tensor<2x2xf64>
  return %0 : tensor<2x2xf64>
}
// Rotary's halves with an empty rest (phi4): a zero-size window beside two others.
func.func @split_with_empty(%a: tensor<3x4xf64>) -> tensor<3x4xf64> {
  %l = tensor.extract_slice %a[0, 0] [3, 2] [1, 1] : tensor<3x4xf64> to tensor<3x2xf64>
  %h = tensor.extract_slice %a[0, 2] [3, 2] [1, 1] : tensor<3x4xf64> to tensor<3x2xf64>
  %r = tensor.extract_slice %a[0, 3] [3, 0] [1, 1] : tensor<3x4xf64> to tensor<3x0xf64>
  %s = tensor.extract_slice %a[0, 2] [3, 0] [1, 1] : tensor<3x4xf64> to tensor<3x0xf64>
  %n = arith.mulf %h, %h : tensor<3x2xf64>
  %c = tensor.concat dim(1) %n, %l, %r, %s : (tensor<3x2xf64>, tensor<3x2xf64>, tensor<3x0xf64>, tensor<3x0xf64>) -> tensor<3x4xf64>
  return %c : tensor<3x4xf64>
}
// Whole windows: nothing is cut.
func.func @split_whole(%a: tensor<3xf64>) -> tensor<3xf64> {
  %p = tensor.extract_slice %a[0] [3] [1] : tensor<3xf64> to tensor<3xf64>
  %q = tensor.extract_slice %a[0] [3] [1] : tensor<3xf64> to tensor<3xf64>
  %0 = arith.mulf %p, %q : tensor<3xf64>
  return %0 : tensor<3xf64>
}
func.func @interleaved(%a: tensor<3x6xf64>) -> tensor<3x3xf64> {
  %p = tensor.extract_slice %a[0, 0] [3, 3] [1, 2] : tensor<3x6xf64> to tensor<3x3xf64>
  %q = tensor.extract_slice %a[0, 1] [3, 3] [1, 2] : tensor<3x6xf64> to tensor<3x3xf64>
  %0 = arith.mulf %p, %q : tensor<3x3xf64>
  return %0 : tensor<3x3xf64>
}
func.func @insert_slice(%a: tensor<2x3xf64>, %b: tensor<5x7xf64>) -> tensor<5x7xf64> {
  %r = tensor.insert_slice %a into %b[1, 2] [2, 3] [1, 1] : tensor<2x3xf64> into tensor<5x7xf64>
  %s = arith.mulf %r, %r : tensor<5x7xf64>
  return %s : tensor<5x7xf64>
}
func.func @insert_slice_strided(%a: tensor<3xf64>, %b: tensor<2x6xf64>) -> tensor<2x6xf64> {
  %r = tensor.insert_slice %a into %b[1, 1] [1, 3] [1, 2] : tensor<3xf64> into tensor<2x6xf64>
  %s = arith.mulf %r, %r : tensor<2x6xf64>
  return %s : tensor<2x6xf64>
}
func.func @concat(%a: tensor<2x3xf64>, %b: tensor<2x1xf64>, %k: tensor<2x2xf64> {test.constant}, %z: tensor<2x0xf64>) -> tensor<2x9xf64> {
  %r = tensor.concat dim(1) %a, %b, %k, %a, %z : (tensor<2x3xf64>, tensor<2x1xf64>, tensor<2x2xf64>, tensor<2x3xf64>, tensor<2x0xf64>) -> tensor<2x9xf64>
  %s = arith.mulf %r, %r : tensor<2x9xf64>
  return %s : tensor<2x9xf64>
}
func.func @pad_empty(%a: tensor<2x0xf64>, %b: tensor<2x3xf64>) -> tensor<2x3xf64> {
  %c = arith.constant 7.0 : f64
  %r = tensor.pad %a low[0, 3] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f64
  } : tensor<2x0xf64> to tensor<2x3xf64>
  %s = arith.mulf %r, %b : tensor<2x3xf64>
  return %s : tensor<2x3xf64>
}
func.func @pad(%a: tensor<2x3xf64>) -> tensor<5x4xf64> {
  %c = arith.constant 7.0 : f64
  %r = tensor.pad %a low[1, 0] high[2, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f64
  } : tensor<2x3xf64> to tensor<5x4xf64>
  %s = arith.mulf %r, %r : tensor<5x4xf64>
  return %s : tensor<5x4xf64>
}
