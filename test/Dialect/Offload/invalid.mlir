// RUN: forebay-opt %s --split-input-file --verify-diagnostics
// Every rule of the operations' verifiers, broken once.

func.func @step(%a: tensor<4xf32>) {
  // expected-error @below {{names no function: @absent}}
  %0 = offload.dispatch @absent(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @kernel(%a: tensor<5xf32>) -> tensor<5xf32>
func.func @step(%a: tensor<4xf32>) {
  // expected-error @below {{has another type than @kernel: '(tensor<5xf32>) -> tensor<5xf32>'}}
  %0 = offload.dispatch @kernel(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return
}

// -----

func.func private @kernel(%a: tensor<4xf32>) -> tensor<4xf32>
func.func @step(%a: !offload.buffer<hbm, tensor<4xf32>>) {
  // expected-error @below {{names no kernel: @kernel}}
  %0 = offload.async.dispatch <gpu> @kernel(%a) to(%a) : (!offload.buffer<hbm, tensor<4xf32>>) to(!offload.buffer<hbm, tensor<4xf32>>)
  return
}

// -----

func.func private @kernel(%a: tensor<4xf32>) -> tensor<4xf32> attributes {offload.kernel = #offload.kernel<"copy", workspace = 64>}
func.func @step(%a: !offload.buffer<hbm, tensor<4xf32>>) {
  // expected-error @below {{has 1 inputs and 1 outputs; @kernel has the type '(tensor<4xf32>) -> tensor<4xf32>' and a workspace}}
  %0 = offload.async.dispatch <gpu> @kernel(%a) to(%a) : (!offload.buffer<hbm, tensor<4xf32>>) to(!offload.buffer<hbm, tensor<4xf32>>)
  return
}

// -----

func.func private @kernel(%a: tensor<4xf32>) -> tensor<4xf32> attributes {offload.kernel = #offload.kernel<"copy">}
func.func @step(%a: !offload.buffer<hbm, tensor<4xf32>>) {
  // expected-error @below {{has a slice [8, 20) outside a buffer of 16 bytes}}
  %0 = offload.async.dispatch <gpu> @kernel(%a) to(%a) {slices = array<i64: 0, 16, 8, 12>} : (!offload.buffer<hbm, tensor<4xf32>>) to(!offload.buffer<hbm, tensor<4xf32>>)
  return
}

// -----

func.func @step(%a: !offload.buffer<hbm, tensor<4xf32>>, %b: !offload.buffer<host, tensor<4xf32>>) {
  // expected-error @below {{has 1 sources and 2 targets}}
  %0 = offload.async.transfer <d2h>(%a) to(%b, %b) : (!offload.buffer<hbm, tensor<4xf32>>) to(!offload.buffer<host, tensor<4xf32>>, !offload.buffer<host, tensor<4xf32>>)
  return
}

// -----

func.func @step(%a: !offload.buffer<hbm, tensor<4xf32>>, %b: !offload.buffer<host, tensor<4xf32>>) {
  // expected-error @below {{needs an offset and a size in 'slices' for each of its 2 buffers}}
  %0 = offload.async.transfer <d2h>(%a) to(%b) {slices = array<i64: 0, 16>} : (!offload.buffer<hbm, tensor<4xf32>>) to(!offload.buffer<host, tensor<4xf32>>)
  return
}

// -----

// expected-error @below {{unknown kernel field 'scrach'}}
func.func private @kernel() attributes {offload.kernel = #offload.kernel<"copy", scrach = 64>}

// -----

// expected-error @below {{unknown class of kernels 'gemm'}}
func.func private @kernel() attributes {offload.kernel = #offload.kernel<"copy", class = gemm>}
