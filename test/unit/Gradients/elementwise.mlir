// Gradient cases for arith and math. See GradientTest.cpp for the attributes.

func.func @addf(%a: tensor<3x5xf64>, %b: tensor<3x5xf64>) -> tensor<3x5xf64> {
  %r = arith.addf %a, %b : tensor<3x5xf64>
  return %r : tensor<3x5xf64>
}
func.func @subf(%a: tensor<7xf64>, %b: tensor<7xf64>) -> tensor<7xf64> {
  %r = arith.subf %a, %b : tensor<7xf64>
  return %r : tensor<7xf64>
}
func.func @mulf(%a: tensor<1x3xf64>, %b: tensor<1x3xf64>) -> tensor<1x3xf64> {
  %r = arith.mulf %a, %b : tensor<1x3xf64>
  return %r : tensor<1x3xf64>
}
func.func @square(%a: tensor<5xf64>) -> tensor<5xf64> {
  %r = arith.mulf %a, %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @scalar_rank0(%a: tensor<f64>, %b: tensor<f64>) -> tensor<f64> {
  %r = arith.mulf %a, %b : tensor<f64>
  return %r : tensor<f64>
}
func.func @divf(%a: tensor<3x3xf64>, %b: tensor<3x3xf64> {test.range = [0.5, 2.0]}) -> tensor<3x3xf64> {
  %r = arith.divf %a, %b : tensor<3x3xf64>
  return %r : tensor<3x3xf64>
}
func.func @reciprocal(%b: tensor<5xf64> {test.range = [-2.0, -0.5]}) -> tensor<5xf64> {
  %one = arith.constant dense<1.0> : tensor<5xf64>
  %r = arith.divf %one, %b : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @negf(%a: tensor<3xf64>) -> tensor<3xf64> {
  %r = arith.negf %a : tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @maximumf(%a: tensor<17xf64>, %b: tensor<17xf64>) -> tensor<17xf64> {
  %r = arith.maximumf %a, %b : tensor<17xf64>
  return %r : tensor<17xf64>
}
func.func @minimumf(%a: tensor<17xf64>, %b: tensor<17xf64>) -> tensor<17xf64> {
  %r = arith.minimumf %a, %b : tensor<17xf64>
  return %r : tensor<17xf64>
}
func.func @maxnumf(%a: tensor<17xf64>, %b: tensor<17xf64>) -> tensor<17xf64> {
  %r = arith.maxnumf %a, %b : tensor<17xf64>
  return %r : tensor<17xf64>
}
func.func @minnumf(%a: tensor<17xf64>, %b: tensor<17xf64>) -> tensor<17xf64> {
  %r = arith.minnumf %a, %b : tensor<17xf64>
  return %r : tensor<17xf64>
}
// torch.maximum: a tie gives each half.
func.func @maximumf_tie(%a: tensor<3xf64> {test.values = dense<[1.0, 2.0, 3.0]> : tensor<3xf64>, test.grad = dense<[0.0, 0.5, 1.0]> : tensor<3xf64>},
                        %b: tensor<3xf64> {test.values = dense<[2.0, 2.0, 2.0]> : tensor<3xf64>, test.grad = dense<[1.0, 0.5, 0.0]> : tensor<3xf64>}) -> tensor<3xf64> {
  %r = arith.maximumf %a, %b : tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @minimumf_tie(%a: tensor<3xf64> {test.values = dense<[1.0, 2.0, 3.0]> : tensor<3xf64>, test.grad = dense<[1.0, 0.5, 0.0]> : tensor<3xf64>},
                        %b: tensor<3xf64> {test.values = dense<[2.0, 2.0, 2.0]> : tensor<3xf64>, test.grad = dense<[0.0, 0.5, 1.0]> : tensor<3xf64>}) -> tensor<3xf64> {
  %r = arith.minimumf %a, %b : tensor<3xf64>
  return %r : tensor<3xf64>
}
// torch.clamp: the gradient passes at both bounds.
func.func @clip_at_bounds(%a: tensor<5xf64> {test.values = dense<[-2.0, -1.0, 0.0, 1.0, 2.0]> : tensor<5xf64>, test.grad = dense<[0.0, 1.0, 1.0, 1.0, 0.0]> : tensor<5xf64>}) -> tensor<5xf64> {
  %lo = arith.constant dense<-1.0> : tensor<5xf64>
  %h = arith.constant dense<1.0> : tensor<f64>
  %e = tensor.empty() : tensor<5xf64>
  // A bound may also be a broadcast constant.
  %hi = linalg.broadcast ins(%h : tensor<f64>) outs(%e : tensor<5xf64>) dimensions = [0]
  %m = arith.maximumf %a, %lo : tensor<5xf64>
  %r = arith.minimumf %hi, %m : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @select(%c: tensor<9xi1>, %a: tensor<9xf64>, %b: tensor<9xf64>) -> tensor<9xf64> {
  %r = arith.select %c, %a, %b : tensor<9xi1>, tensor<9xf64>
  return %r : tensor<9xf64>
}
func.func @relu(%a: tensor<3xf64> {test.values = dense<[-1.0, 0.0, 2.0]> : tensor<3xf64>, test.grad = dense<[0.0, 0.0, 1.0]> : tensor<3xf64>}) -> tensor<3xf64> {
  %z = arith.constant dense<0.0> : tensor<3xf64>
  %p = arith.cmpf ogt, %a, %z : tensor<3xf64>
  %r = arith.select %p, %a, %z : tensor<3xi1>, tensor<3xf64>
  return %r : tensor<3xf64>
}
// A masked NaN must not reach the gradient (SDPA at opset 18 masks the softmax of a row without keys).
func.func @masked_nan(%a: tensor<3xf64> {test.values = dense<[1.0, 0x7FF8000000000000, 0x7FF0000000000000]> : tensor<3xf64>, test.grad = dense<[2.0, 0.0, 0.0]> : tensor<3xf64>}) -> tensor<3xf64> {
  %z = arith.constant dense<0.0> : tensor<3xf64>
  %big = arith.constant dense<1.0e300> : tensor<3xf64>
  %t = arith.addf %a, %a : tensor<3xf64>
  %ok = arith.cmpf olt, %a, %big : tensor<3xf64>
  %r = arith.select %ok, %t, %z : tensor<3xi1>, tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @extf(%a: tensor<3xf32>, %b: tensor<3xf64>) -> tensor<3xf64> {
  %w = arith.extf %a : tensor<3xf32> to tensor<3xf64>
  %r = arith.mulf %w, %b : tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @truncf(%a: tensor<3xf64>, %b: tensor<3xf32>) -> tensor<3xf32> {
  %w = arith.truncf %a : tensor<3xf64> to tensor<3xf32>
  %r = arith.mulf %w, %b : tensor<3xf32>
  return %r : tensor<3xf32>
}
func.func @constant(%a: tensor<3xf64>) -> tensor<3xf64> {
  %c = arith.constant dense<[1.0, -3.0, 0.5]> : tensor<3xf64>
  %r = arith.mulf %a, %c : tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @sqrt(%a: tensor<5xf64> {test.range = [0.1, 3.0]}) -> tensor<5xf64> {
  %r = math.sqrt %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @rsqrt(%a: tensor<5xf64> {test.range = [0.3, 3.0]}) -> tensor<5xf64> {
  %r = math.rsqrt %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @exp(%a: tensor<5xf64>) -> tensor<5xf64> {
  %r = math.exp %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @exp2(%a: tensor<5xf64>) -> tensor<5xf64> {
  %r = math.exp2 %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @expm1(%a: tensor<5xf64>) -> tensor<5xf64> {
  %r = math.expm1 %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @log(%a: tensor<5xf64> {test.range = [0.1, 3.0]}) -> tensor<5xf64> {
  %r = math.log %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @log2(%a: tensor<5xf64> {test.range = [0.1, 3.0]}) -> tensor<5xf64> {
  %r = math.log2 %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @log10(%a: tensor<5xf64> {test.range = [0.1, 3.0]}) -> tensor<5xf64> {
  %r = math.log10 %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @log1p(%a: tensor<5xf64> {test.range = [-0.5, 3.0]}) -> tensor<5xf64> {
  %r = math.log1p %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @tanh(%a: tensor<5xf64>) -> tensor<5xf64> {
  %r = math.tanh %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @erf(%a: tensor<5xf64>) -> tensor<5xf64> {
  %r = math.erf %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @sin(%a: tensor<5xf64>) -> tensor<5xf64> {
  %r = math.sin %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @cos(%a: tensor<5xf64>) -> tensor<5xf64> {
  %r = math.cos %a : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @absf(%a: tensor<9xf64>) -> tensor<9xf64> {
  %r = math.absf %a : tensor<9xf64>
  return %r : tensor<9xf64>
}
func.func @absf_at_zero(%a: tensor<3xf64> {test.values = dense<[-1.0, 0.0, 1.0]> : tensor<3xf64>, test.grad = dense<[-1.0, 0.0, 1.0]> : tensor<3xf64>}) -> tensor<3xf64> {
  %r = math.absf %a : tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @rounding(%a: tensor<9xf64>) -> (tensor<9xf64>, tensor<9xf64>, tensor<9xf64>, tensor<9xf64>, tensor<9xf64>) {
  %f = math.floor %a : tensor<9xf64>
  %c = math.ceil %a : tensor<9xf64>
  %r = math.round %a : tensor<9xf64>
  %e = math.roundeven %a : tensor<9xf64>
  %t = math.trunc %a : tensor<9xf64>
  return %f, %c, %r, %e, %t : tensor<9xf64>, tensor<9xf64>, tensor<9xf64>, tensor<9xf64>, tensor<9xf64>
}
func.func @powf(%a: tensor<5xf64> {test.range = [0.2, 2.0]}, %b: tensor<5xf64>) -> tensor<5xf64> {
  %r = math.powf %a, %b : tensor<5xf64>
  return %r : tensor<5xf64>
}
// PyTorch's values where the base or the exponent is 0.
func.func @powf_zero(%a: tensor<3xf64> {test.values = dense<[0.0, 0.0, 2.0]> : tensor<3xf64>, test.grad = dense<[0.0, 0.0, 0.0]> : tensor<3xf64>},
                     %b: tensor<3xf64> {test.values = dense<[0.0, 2.0, 0.0]> : tensor<3xf64>, test.grad = dense<[0.0, 0.0, 0.69314718055994530942]> : tensor<3xf64>}) -> tensor<3xf64> {
  %r = math.powf %a, %b : tensor<3xf64>
  return %r : tensor<3xf64>
}
func.func @powf_constants(%a: tensor<5xf64> {test.range = [0.2, 2.0]}) -> (tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>) {
  %c0 = arith.constant dense<0.0> : tensor<5xf64>
  %c1 = arith.constant dense<1.0> : tensor<5xf64>
  %c2 = arith.constant dense<2.0> : tensor<5xf64>
  %c3 = arith.constant dense<3.0> : tensor<5xf64>
  %ch = arith.constant dense<-0.5> : tensor<5xf64>
  %cv = arith.constant dense<[0.0, 1.0, 2.0, 3.0, 0.5]> : tensor<5xf64>
  %r0 = math.powf %a, %c0 : tensor<5xf64>
  %r1 = math.powf %a, %c1 : tensor<5xf64>
  %r2 = math.powf %a, %c2 : tensor<5xf64>
  %r3 = math.powf %a, %c3 : tensor<5xf64>
  %rh = math.powf %a, %ch : tensor<5xf64>
  %rv = math.powf %a, %cv : tensor<5xf64>
  return %r0, %r1, %r2, %r3, %rh, %rv : tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>, tensor<5xf64>
}
// A square of a negative number has no logarithm in its gradient.
func.func @powf_negative_base(%a: tensor<5xf64> {test.range = [-2.0, -0.2]}) -> tensor<5xf64> {
  %c2 = arith.constant dense<2.0> : tensor<5xf64>
  %r = math.powf %a, %c2 : tensor<5xf64>
  return %r : tensor<5xf64>
}
func.func @fpowi(%a: tensor<5xf64> {test.range = [0.2, 2.0]}, %n: tensor<5xi32> {test.values = dense<[0, 1, 2, -1, 5]> : tensor<5xi32>}) -> tensor<5xf64> {
  %r = math.fpowi %a, %n : tensor<5xf64>, tensor<5xi32>
  return %r : tensor<5xf64>
}
func.func @fma(%a: tensor<3xf64>, %b: tensor<3xf64>, %c: tensor<3xf64>) -> tensor<3xf64> {
  %r = math.fma %a, %b, %c : tensor<3xf64>
  return %r : tensor<3xf64>
}
// Constants on one side: only the other has a gradient.
func.func @one_sided(%a: tensor<3xf64>, %k: tensor<3xf64> {test.constant, test.range = [0.5, 1.0]}) -> (tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>) {
  %0 = arith.subf %k, %a : tensor<3xf64>
  %1 = arith.mulf %k, %a : tensor<3xf64>
  %2 = arith.divf %a, %k : tensor<3xf64>
  %3 = math.fma %k, %a, %k : tensor<3xf64>
  return %0, %1, %2, %3 : tensor<3xf64>, tensor<3xf64>, tensor<3xf64>, tensor<3xf64>
}
func.func @zero_size(%a: tensor<0x3xf64>, %b: tensor<0x3xf64>) -> tensor<0x3xf64> {
  %0 = arith.mulf %a, %b : tensor<0x3xf64>
  %1 = math.tanh %0 : tensor<0x3xf64>
  %2 = arith.maximumf %1, %a : tensor<0x3xf64>
  return %2 : tensor<0x3xf64>
}
// A residual stream: three uses of a value and of an argument.
func.func @several_uses(%a: tensor<5xf64>, %b: tensor<5xf64>) -> tensor<5xf64> {
  %0 = math.tanh %a : tensor<5xf64>
  %1 = arith.mulf %0, %b : tensor<5xf64>
  %2 = arith.addf %0, %1 : tensor<5xf64>
  %3 = arith.mulf %2, %0 : tensor<5xf64>
  %4 = arith.addf %3, %a : tensor<5xf64>
  %5 = arith.mulf %4, %b : tensor<5xf64>
  return %5 : tensor<5xf64>
}
