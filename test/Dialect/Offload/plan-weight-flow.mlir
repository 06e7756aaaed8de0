// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=weight-flow' | FileCheck %s
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=weight-flow' | forebay-opt | FileCheck %s
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=weight-flow memory=hbm=1KiB' | FileCheck %s --check-prefix=LEAST
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu memory=hbm=290KiB' --remarks-filter=offload-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=AUTO
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=weight-flow memory=hbm=1KiB' --remarks-filter=offload-plan -o /dev/null 2>&1 | FileCheck %s --check-prefix=REMARK
// RUN: forebay-opt %S/Inputs/accumulate.mlir -offload-plan='machine=superchip-emu policy=weight-flow' -offload-lower-to-cmd -offload-verify-races | FileCheck %s --check-prefix=ACC

// All parameters are on the host, the frozen one too; only inputs are in hbm, and there are no copies that live for ever.
// CHECK: offload.plan = {{{.*}}policy = "weight-flow"}
// CHECK: func.func @step(
// CHECK-SAME: %[[X:arg0]]: !offload.buffer<hbm, tensor<16x64xf32>>
// CHECK-SAME: %[[W1:arg2]]: !offload.buffer<host, tensor<64x256xf32>>
// CHECK-SAME: %[[B1:arg3]]: !offload.buffer<host, tensor<256xf32>> {offload.role = #offload.role<parameter>, train.name = "b1"
// CHECK-SAME: %[[W2:arg4]]: !offload.buffer<host, tensor<256x128xf32>>
// CHECK-NOT: copy_of

// What one operation reads comes in one unit; both units are issued before the first operation.
// CHECK: %[[C1:.+]] = offload.async.buffer "w1" <weight_copy> : <hbm, tensor<64x256xf32>>
// CHECK: %[[F1:.+]] = offload.async.transfer <h2d>(%[[W1]], %[[B1]]) to(%[[C1]], %[[CB:.+]]) {label = "fetch w1 and 1 more"
// CHECK: %[[F2:.+]] = offload.async.transfer <h2d>(%[[W2]]) to(%[[C2:.+]]) {label = "fetch w2"
// CHECK: offload.async.dispatch <gpu> @gemm1(%[[X]], %[[C1]], %[[CB]]) to(%{{.+}}) after({{.*}}%[[F1]])
// CHECK: offload.async.dispatch <gpu> @gemm2(%{{.+}}, %[[C2]]) {{.*}} after(%[[F2]]

// Backward needs the last weight of forward at once: it is not fetched again. Nothing else moves up.
// CHECK-NOT: <h2d>
// CHECK: offload.async.dispatch <gpu> @agemm2(%{{.+}}, %[[C2]])
// CHECK: offload.async.transfer <d2h>{{.*}}label = "gradients of bucket 1"
// CHECK-NOT: <h2d>
// CHECK: offload.async.dispatch <cpu> @update1(%[[W1]]
// CHECK-NOT: <h2d>
// CHECK: return

// With the least memory each weight comes right before its operation, and what forward leaves for backward waits on the host.
// LEAST: offload.async.dispatch <gpu> @relu(%{{.+}}) to(%[[A:.+]]) after
// LEAST-NEXT: offload.async.buffer "w2"
// LEAST-NEXT: offload.async.transfer <h2d>{{.*}}label = "fetch w2"
// LEAST-NEXT: offload.async.buffer
// LEAST-NEXT: offload.async.dispatch <gpu> @gemm2(%[[A]],
// LEAST-NEXT: %[[H:.+]] = offload.async.buffer "relu" <activation> : <host, tensor<16x256xf32>>
// LEAST-NEXT: %[[T:.+]] = offload.async.transfer <d2h>(%[[A]]) to(%[[H]]) {{.*}}label = "offload relu"
// LEAST: offload.async.dispatch <gpu> @dloss
// LEAST-NEXT: %[[BACK:.+]] = offload.async.buffer "relu" <activation> : <hbm, tensor<16x256xf32>>
// LEAST-NEXT: %[[TB:.+]] = offload.async.transfer <h2d>(%[[H]]) to(%[[BACK]]) after(%[[T]]) {label = "fetch relu"
// LEAST: offload.async.dispatch <gpu> @dgemm2(%[[BACK]], {{.*}} after({{.*}}%[[TB]])

// REMARK: [Missed] WeightsFlow | Category:offload-plan {{.*}}"weights: units of up to 4.00 KiB, no prefetch possible: each fetch waits: does not fit", activation_bytes_kept=0, activation_bytes_offloaded=16384, awaited_bytes=197632, awaited_units=2, bytes_up=197632, distance=0,{{.*}} hbm_capacity=1024
// REMARK: [Passed] ActivationOffloaded | Category:offload-plan {{.*}}"relu: waits on host between forward and backward", bytes=16384, idle_operations=2
// The default goes to weight-flow where nothing else fits.
// AUTO: [Passed] PolicyChosen {{.*}}policy weight-flow: fits
// AUTO: [Passed] WeightsFlow | Category:offload-plan {{.*}}

// With two micro-steps weights come in each of them; the update of the last is waited for in the next.
// ACC: offload.cmd.copy <h2d> [#offload.range<host, {{[0-9]+}}, 8192, read>, #offload.range<hbm, {{[0-9]+}}, 8192, write>] waits {{.*}}label = "fetch w"
// ACC: offload.cmd.dispatch <cpu> @update{{.*}}predicate<apply>
