// RUN: forebay-opt %S/Inputs/linear.mlir --pass-pipeline='builtin.module(train-set-optimizer,forebay-train{clip-norm=1.0},forebay-dispatch,offload-plan{machine=superchip-emu policy=zero-offload})' -o %t.mlir
// RUN: forebay-opt %t.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-keep-state-in-hbm{parameters=weight})' -o %t.kept.mlir 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: FileCheck %s < %t.kept.mlir
// It still is a plan: it lowers, and the race verifier accepts it.
// RUN: forebay-opt %t.kept.mlir --pass-pipeline='builtin.module(offload-lower-to-cmd,offload-verify-races)' -o %t.cmd.mlir
// RUN: mlir-opt %t.mlir --load-dialect-plugin=%plugin --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-keep-state-in-hbm{parameters=weight})' | FileCheck %s
// Nothing matches; added up on the host; too early.
// RUN: forebay-opt %t.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-keep-state-in-hbm{parameters=nothing})' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: forebay-opt %S/Inputs/linear.mlir --pass-pipeline='builtin.module(train-set-optimizer,forebay-train{accumulate=2},forebay-dispatch,offload-plan{machine=superchip-emu policy=zero-offload})' -o %t.acc.mlir
// RUN: forebay-opt %t.acc.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-keep-state-in-hbm)' 2>&1 | FileCheck %s --check-prefix=ADDED
// RUN: not forebay-opt %S/Inputs/linear.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-keep-state-in-hbm)' 2>&1 | FileCheck %s --check-prefix=EARLY

// REMARK: remark: 'linear.weight' stays in hbm: 384 bytes of weight and state
// REMARK-NOT: 'linear.bias' stays

// CHECK: func.func @step(
// CHECK-SAME: %[[W:[a-z0-9]+]]: !offload.buffer<hbm, tensor<4x8xf32>> {{{[^}]*}}train.name = "linear.weight"
// CHECK-SAME: !offload.buffer<host, tensor<4xf32>> {{{[^}]*}}train.name = "linear.bias"
// CHECK-SAME: !offload.buffer<hbm, tensor<4x8xf32>> {{{[^}]*}}train.name = "linear.weight/exp_avg"
// CHECK-SAME: !offload.buffer<host, tensor<4xf32>> {{{[^}]*}}train.name = "linear.bias/exp_avg"
// The copy of the weight is gone, that of the bias is not.
// CHECK-NOT:  offload.copy_of{{[^}]*}}"linear.weight"
// CHECK:      offload.async.dispatch <gpu> @gemm{{.*}}(%{{.*}}, %[[W]], %{{.*}})
// CHECK:      %[[G:.*]] = offload.async.buffer {{.*}} <gradient> : <hbm, tensor<4x8xf32>>
// CHECK:      offload.async.transfer <h2d>{{.*}}label = "scalars and verdict"
// CHECK:      offload.async.dispatch <gpu> @update_adamw_4x8(%[[W]], %[[G]],

// NONE: remark: {{.*}}no parameter was moved
// ADDED: remark: {{.*}}'linear.weight' stays offloaded: its gradients are added up on the host
// EARLY: error: {{.*}}is not at level 'async': run this pass at the end of phase async
