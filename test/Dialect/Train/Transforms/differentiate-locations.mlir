// RUN: forebay-opt %s --train-differentiate --mlir-print-debuginfo --mlir-print-local-scope | FileCheck %s

// CHECK: math.tanh {{.*}} loc("Tanh_3"("m.mlp"))
// CHECK: arith.subf {{.*}} loc("Tanh_3.grad"("m.mlp"))
func.func @forward(%w: tensor<f32> {train.name = "w", train.trainable}) -> (tensor<f32> {train.role = #train.role<loss>}) {
  %t = math.tanh %w : tensor<f32> loc("Tanh_3"("m.mlp"))
  return %t : tensor<f32>
}
