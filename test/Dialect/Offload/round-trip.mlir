// What is printed can be read again; a kernel without inputs, too.
// RUN: forebay-opt %s | forebay-opt | FileCheck %s

func.func private @zeros() -> tensor<4xf32> attributes {offload.kernel = #offload.kernel<"zeros_4", compiled, tiles = [1]>} {
  %0 = arith.constant dense<0.0> : tensor<4xf32>
  return %0 : tensor<4xf32>
}
func.func @step(%w: !offload.buffer<host, tensor<4xf32>>) {
  %b = offload.async.buffer "zeros" <activation> : !offload.buffer<hbm, tensor<4xf32>>
  // CHECK: %[[T:.*]] = offload.async.dispatch <gpu> @zeros() to(%{{.*}}) : () to (!offload.buffer<hbm, tensor<4xf32>>)
  %t = offload.async.dispatch <gpu> @zeros() to(%b) : () to (!offload.buffer<hbm, tensor<4xf32>>)
  // CHECK: offload.async.transfer <d2h>(%{{.*}}) to(%{{.*}}) after(%[[T]]) : (!offload.buffer<hbm, tensor<4xf32>>) to (!offload.buffer<host, tensor<4xf32>>)
  %u = offload.async.transfer <d2h>(%b) to(%w) after(%t) : (!offload.buffer<hbm, tensor<4xf32>>) to (!offload.buffer<host, tensor<4xf32>>)
  return
}
