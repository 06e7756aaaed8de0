// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=zero-offload bucket-bytes=100000' -offload-lower-to-cmd -offload-verify-races | FileCheck %s
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=zero-offload bucket-bytes=100000' | forebay-opt -offload-lower-to-cmd | forebay-opt -offload-verify-races | FileCheck %s
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=cpu' -offload-lower-to-cmd -offload-verify-races | FileCheck %s --check-prefix=CPU
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=resident' -offload-lower-to-cmd -offload-verify-races -o /dev/null
// RUN: forebay-opt %S/Inputs/accumulate.mlir -offload-plan='machine=superchip-emu policy=zero-offload bucket-bytes=4096' -offload-lower-to-cmd -offload-verify-races -o /dev/null
// RUN: forebay-opt %S/Inputs/accumulate.mlir -offload-plan='machine=superchip-emu policy=resident' -offload-lower-to-cmd -offload-verify-races -o /dev/null
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=zero-offload' -offload-lower-to-cmd --remarks-filter=offload-lower-to-cmd -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// State lies at the bottom, in the order of the arguments.
// CHECK: offload.arenas = {hbm = {{[0-9]+}} : i64, host = {{[0-9]+}} : i64}, offload.events = {{[0-9]+}} : i64
// CHECK-SAME: offload.phase = "cmd"
// CHECK: func.func @step(%arg0: {{[^{]*}}{offload.home = #offload.range<hbm, 0, 4096, readwrite>
// CHECK-SAME: %arg2: {{[^{]*}}{offload.group = 0 : i64, offload.home = #offload.range<host, 0, 65536, readwrite>

// relu works in place over its operand, which nobody reads later.
// CHECK: offload.cmd.value "mlp/fc1" <activation> <hbm, [[H:[0-9]+]], 16384, readwrite> live 2 3
// CHECK: offload.cmd.value "relu" <activation> <hbm, [[H]], 16384, readwrite> live 3 14
// CHECK: offload.cmd.feed <gpu> argument 0 [#offload.range<hbm, 0, 4096, write>] {label = "feed x"

// The next forward waits for the weights that the last step has copied up, each layer for its own.
// CHECK: offload.cmd.dispatch <gpu> @gemm1 [{{.*}}] waits [#offload.wait<[[UP1:[0-9]+]], 1>]
// CHECK: offload.cmd.dispatch <gpu> @relu [#offload.range<hbm, [[H]], 16384, read>, #offload.range<hbm, [[H]], 16384, write>] {
// CHECK: offload.cmd.dispatch <gpu> @gemm2 [{{.*}}] waits [#offload.wait<[[UP2:[0-9]+]], 1>]
// CHECK: offload.cmd.dispatch <gpu> @dgemm2 {{.*}} signals [[G2:[0-9]+]]
// CHECK: offload.cmd.copy <d2h> {{.*}} waits [#offload.wait<[[G2]], 0>] signals [[D0:[0-9]+]] {label = "gradients of bucket 0"
// CHECK: offload.cmd.dispatch <cpu> @norm2 {{.*}} waits [#offload.wait<[[D0]], 0>]
// The second piece needs no wait: the copy queue is in order.
// CHECK: offload.cmd.copy <d2h> [{{[^]]*}}] signals {{[0-9]+}} {label = "gradients of bucket 1"
// CHECK: offload.cmd.verdict <cpu> [#offload.range<host, {{[0-9]+}}, 16, read>] {label = "verdict"
// CHECK: offload.cmd.copy <h2d> {{.*}} signals [[UP1]] {label = "weights of bucket 2", predicate = #offload.predicate<apply>
// CHECK: offload.cmd.copy <h2d> {{.*}} signals [[UP2]] {label = "weights of bucket 1"

// One queue: nothing to wait for.
// CPU: offload.events = 0 : i64
// CPU-NOT: waits

// REMARK: Arena | Category:offload-lower-to-cmd {{.*}}space=hbm{{.*}}arena_bytes={{[0-9]+}}, capacity=2147483648, live_bytes={{[0-9]+}}
// REMARK: [Passed] CopySourcesHeld
