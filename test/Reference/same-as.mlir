// RUN: forebay-opt %s --canonicalize -o %t.mlir
// RUN: forebay-eval %s --function=f --random=3 --same-as=%t.mlir | FileCheck %s
// RUN: not forebay-eval %s --function=f --random=3 --same-as=%t.mlir --same-as-function=g 2>&1 | FileCheck %s --check-prefix=DIFFERS

// CHECK: same as {{.*}} up to 0.0e+00
// DIFFERS: error: result 0 differs by
func.func @f(%x: tensor<5x3xf32> {train.name = "x"}, %i: tensor<4xi64> {train.name = "i", train.range = {hi = 5 : i64, lo = -5 : i64}}) -> tensor<4x3xf32> {
  %one = arith.constant dense<1.0> : tensor<4x3xf32>
  %y = train.embedding %x, %i : (tensor<5x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  %z = arith.mulf %y, %one : tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}
func.func @g(%i: tensor<4xi64> {train.name = "i"}, %x: tensor<5x3xf32> {train.name = "x"}) -> tensor<4x3xf32> {
  %y = train.embedding %x, %i : (tensor<5x3xf32>, tensor<4xi64>) -> tensor<4x3xf32>
  %z = arith.addf %y, %y : tensor<4x3xf32>
  return %z : tensor<4x3xf32>
}
