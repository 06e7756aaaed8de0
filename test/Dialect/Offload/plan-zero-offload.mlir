// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=zero-offload bucket-bytes=100000' | FileCheck %s
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=zero-offload bucket-bytes=100000' | forebay-opt | FileCheck %s
// RUN: forebay-opt %S/Inputs/accumulate.mlir -offload-plan='machine=superchip-emu policy=zero-offload bucket-bytes=4096' | FileCheck %s --check-prefix=ACC

// Masters and moments on the host, compute copies in hbm; what is not trained has one home, in hbm.
// CHECK: dlti.target_system_spec
// CHECK-SAME: offload.machine = "superchip-emu", offload.phase = "async", offload.plan = {accumulate = 1 : i64, binding = {{.*}}bucket_bytes = 100000 : i64, policy = "zero-offload"}
// CHECK: func.func @step(
// CHECK-SAME: %[[X:arg0]]: !offload.buffer<hbm, tensor<16x64xf32>>
// CHECK-SAME: %[[W1:arg2]]: !offload.buffer<host, tensor<64x256xf32>> {offload.group = 0 : i64, offload.role = #offload.role<parameter>, train.name = "w1"
// CHECK-SAME: %[[B1:arg3]]: !offload.buffer<hbm, tensor<256xf32>> {offload.role = #offload.role<parameter>, train.name = "b1"
// CHECK-SAME: %[[W2:arg4]]: !offload.buffer<host, tensor<256x128xf32>> {offload.group = 1 : i64
// CHECK-SAME: %arg5: !offload.buffer<hbm, tensor<8xf32>> {{{.*}}train.name = "unused"
// CHECK-SAME: %[[M1:arg6]]: !offload.buffer<host, tensor<64x256xf32>> {offload.role = #offload.role<moment>
// CHECK-SAME: %[[C1:arg8]]: !offload.buffer<hbm, tensor<64x256xf32>> {offload.copy_of = 2 : i64, offload.role = #offload.role<weight_copy>, train.name = "w1"}
// CHECK-SAME: %[[C2:arg9]]: !offload.buffer<hbm, tensor<256x128xf32>> {offload.copy_of = 4 : i64
// CHECK-SAME: offload.groups = [{}, {lr_scale = 5.000000e-01 : f64, weight_decay = 0.000000e+00 : f64}], offload.optimizer = @sgd, offload.outputs = [{name = "loss", role = #offload.role<loss>, type = tensor<f32>}], offload.scalars = 2 : i64

// Forward reads the copies; the label is scope and node.
// CHECK: %[[FX:.+]] = offload.async.feed <gpu> %[[X]]
// CHECK: %[[H:.+]] = offload.async.buffer "mlp/fc1" <activation> : <hbm, tensor<16x256xf32>>
// CHECK: offload.async.dispatch <gpu> @gemm1(%[[X]], %[[C1]], %[[B1]]) to(%[[H]]) after(%[[FX]]) {label = "mlp/fc1"
// CHECK: %[[WS:.+]] = offload.async.buffer "loss workspace" <workspace> : <hbm, tensor<64xi8>>
// CHECK: %[[LT:.+]] = offload.async.dispatch <gpu> @loss({{.*}}) to({{.*}}, %[[WS]])
// CHECK: offload.async.report <d2h> %{{.+}} output 0 after(%[[LT]])

// w2 is larger than a bucket: two pieces, at a multiple of 1024 elements. Its gradient leaves before backward goes on. Norms are taken in groups of
// 16 blocks, so that partial sums are aligned.
// CHECK: %[[G2T:.+]] = offload.async.dispatch <gpu> @dgemm2
// CHECK: %[[GH2:.+]] = offload.async.buffer "dgemm2" <gradient> : <host, tensor<256x128xf32>>
// CHECK: %[[T0:.+]] = offload.async.transfer <d2h>(%{{.+}}) to(%[[GH2]]) after(%[[G2T]]) {label = "gradients of bucket 0", slices = array<i64: 0, 98304, 0, 98304>
// CHECK: offload.async.dispatch <cpu> @norm2(%[[GH2]]) to(%[[P2:.+]]) after(%[[T0]]) {{{.*}}parameter = 4 : i64, params = array<i64: 16384, 1, 4096>, slices = array<i64: 0, 65536, 0, 64>, tiles = array<i64: 4>
// CHECK: %[[T1:.+]] = offload.async.transfer <d2h>(%{{.+}}) to(%[[GH2]]) after(%[[G2T]]) {label = "gradients of bucket 1", slices = array<i64: 98304, 32768, 98304, 32768>
// CHECK: offload.async.dispatch <cpu> @norm2(%[[GH2]]) to(%[[P2]]) after(%[[T0]], %[[T1]]) {{{.*}}params = array<i64: 16384, 1, 4096>, slices = array<i64: 65536, 65536, 64, 64>, tiles = array<i64: 4>
// CHECK: offload.async.dispatch <gpu> @agemm2
// CHECK: offload.async.transfer <d2h>{{.*}}label = "gradients of bucket 2"

// Scalars before the verdict, then updates, first needed first, each followed by its weights.
// CHECK: %[[S0:.+]] = offload.async.scalars <cpu> group 0
// CHECK: offload.async.scalars <cpu> group 1
// CHECK: %[[VT:.+]] = offload.async.dispatch <cpu> @verdict
// CHECK: offload.async.verdict <cpu> %{{.+}} after(%[[VT]])
// CHECK: %[[U1:.+]] = offload.async.dispatch <cpu> @update1(%[[W1]], %{{.+}}, %[[M1]], %{{.+}}, %{{.+}}) to(%[[W1]], %[[M1]]) {{.*}}predicate = #offload.predicate<apply>
// CHECK: offload.async.transfer <h2d>(%[[W1]]) to(%[[C1]]) after(%[[U1]]) {label = "weights of bucket 2", predicate = #offload.predicate<apply>
// CHECK: offload.async.dispatch <cpu> @update2{{.*}}params = array<i64: 0, 24576, 4096>
// CHECK: offload.async.transfer <h2d>(%[[W2]]) to(%[[C2]]) {{.*}}slices = array<i64: 0, 98304, 0, 98304>
// CHECK: offload.async.dispatch <cpu> @update2{{.*}}params = array<i64: 0, 8192, 4096>, {{.*}}slices = array<i64: 98304, 32768, 98304, 32768, 98304, 32768, 0, 8, 0, 16, 98304, 32768, 98304, 32768>
// CHECK: offload.async.transfer <h2d>
// CHECK: return
// CHECK: func.func @flush() {
// CHECK-NEXT: return

// Two micro-steps: the first copies into the accumulator, later ones add through staging memory; verdict and update at the last.
// ACC: func.func @step(%[[X:.+]]: !offload.buffer<hbm, tensor<2048xf32>>{{.*}}, %[[W:.+]]: !offload.buffer<host, tensor<2048xf32>>{{.*}}, %[[A:.+]]: !offload.buffer<host, tensor<2048xf32>> {offload.role = #offload.role<accumulator>
// ACC: offload.async.transfer <d2h>(%[[G:.+]]) to(%[[A]]) after(%{{.+}}) {label = "gradients of bucket 0", predicate = #offload.predicate<first_micro>, slices = array<i64: 0, 4096, 0, 4096>
// ACC: %[[S:.+]] = offload.async.buffer "both#1 staged" <staging> : <host, tensor<1024xf32>>
// ACC: offload.async.transfer <d2h>(%[[G]]) to(%[[S]]) {{.*}}predicate = #offload.predicate<later_micro>, slices = array<i64: 0, 4096, 0, 4096>
// ACC: offload.async.dispatch <cpu> @acc(%[[A]], %[[S]]) to(%[[A]]) {{.*}}params = array<i64: 1024, 1, 1024>, predicate = #offload.predicate<later_micro>, slices = array<i64: 0, 4096, 0, 4096, 0, 4096>, tiles = array<i64: 1>
// ACC-NOT: @norm
// ACC: offload.async.transfer <d2h>(%[[G]]) to(%[[A]]) {{.*}}"gradients of bucket 1"
// ACC: offload.async.dispatch <cpu> @norm(%[[A]]) to(%{{.+}}) after({{.*}}) {label = "norm", parameter = 1 : i64, predicate = #offload.predicate<last_micro>
// ACC: offload.async.scalars <cpu> group 0 to {{.*}}predicate = #offload.predicate<last_micro>
// ACC: offload.async.dispatch <cpu> @verdict{{.*}}predicate = #offload.predicate<last_micro>
// ACC: offload.async.verdict <cpu> {{.*}}predicate = #offload.predicate<last_micro>
// ACC: offload.async.dispatch <cpu> @update(%[[W]], %[[A]], {{.*}}predicate = #offload.predicate<apply>
