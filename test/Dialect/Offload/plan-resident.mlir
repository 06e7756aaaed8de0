// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='policy=resident' | FileCheck %s --check-prefixes=CHECK,CPU
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=resident' | FileCheck %s --check-prefixes=CHECK,EMU
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu memory=hbm=520KiB' | FileCheck %s --check-prefix=SMALL
// RUN: forebay-opt %S/Inputs/accumulate.mlir -offload-plan='machine=superchip-emu policy=resident' | FileCheck %s --check-prefix=ACC
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu memory=hbm=520KiB' --remarks-filter=offload-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK

// Everything is beside the compute queue; no weight copies, no copies of gradients.
// CHECK: policy = "resident"
// CHECK: func.func @step(
// CPU-SAME: %[[X:.+]]: !offload.buffer<host, tensor<16x64xf32>> {
// EMU-SAME: %[[X:.+]]: !offload.buffer<hbm, tensor<16x64xf32>> {
// CHECK-NOT: weight_copy
// CHECK-NOT: buffer<host, tensor<64x256xf32>>{{.*}}buffer<hbm
// CPU: offload.async.report <cpu>
// CPU: offload.async.dispatch <cpu> @dgemm2
// CPU-NEXT: offload.async.buffer "norm2"
// CPU-NEXT: offload.async.dispatch <cpu> @norm2
// CPU-NOT: transfer
// CPU: offload.async.dispatch <cpu> @update1{{.*}}predicate = #offload.predicate<apply>

// With two memories the runtime reads the verdict on the host, and the scalars go up.
// EMU: offload.async.report <d2h>
// EMU: offload.async.scalars <cpu> group 0 to %[[S:.+]] {
// EMU: %[[V:.+]] = offload.async.buffer "verdict" <control> : <hbm, tensor<4xf32>>
// EMU: offload.async.dispatch <gpu> @verdict{{.*}} to(%[[V]])
// EMU: offload.async.transfer <d2h>(%[[V]]) to(%[[VH:.+]]) after
// EMU: offload.async.verdict <cpu> %[[VH]]
// EMU: offload.async.transfer <h2d>(%[[S]]) to(
// EMU: offload.async.dispatch <gpu> @update1{{.*}}%[[V]]) to

// Where resident does not fit, the default finds something else and tells what it compared.
// SMALL: "capacity" = 532480 : i64
// SMALL: policy = "auto"
// REMARK: [Passed] Placed | Category:offload-plan {{.*}}"buckets: fastest plan that was found", on_device=
// REMARK: [Passed] Placed | Category:offload-plan {{.*}}kept_bytes=
// REMARK: [Missed] PolicyRejected | Category:offload-plan {{.*}}policy zero-offload: is not faster", step_us=

// Accumulation beside the gradient: a copy, then additions in place.
// ACC: offload.async.transfer <gpu>(%[[G:.+]]) to(%[[A:.+]]) after{{.*}}predicate = #offload.predicate<first_micro>
// ACC: offload.async.dispatch <gpu> @acc(%[[A]], %[[G]]) to(%[[A]]) {{.*}}predicate = #offload.predicate<later_micro>
