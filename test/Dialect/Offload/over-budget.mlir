// The note's budget works, 64 KiB less do not.
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=zero-offload memory=hbm=64KiB;host=100KiB' -offload-lower-to-cmd -o /dev/null 2> %t
// RUN: FileCheck %s < %t
// RUN: sed -n 's/.*--memory=\(.*\),\(.*\)/\1;\2/p' %t | tr -d '\n' > %t.budget
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan="machine=superchip-emu policy=zero-offload memory=`cat %t.budget`" -offload-lower-to-cmd -offload-verify-races -o /dev/null
// RUN: sed 's/.*hbm=\([0-9]*\)KiB.*/\1/' %t.budget > %t.hbm
// RUN: sh -c 'expr `cat %t.hbm` - 64' > %t.less
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan="machine=superchip-emu policy=zero-offload memory=hbm=`cat %t.less`KiB" -offload-lower-to-cmd -o /dev/null 2>&1 | FileCheck %s --check-prefix=LESS
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=zero-offload memory=hbm=64KiB' -offload-lower-to-cmd=keep-over-budget | FileCheck %s --check-prefix=KEEP

// The same for weight-flow, where placement depends on the budget.
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=weight-flow memory=hbm=64KiB' -offload-lower-to-cmd -o /dev/null 2> %t
// RUN: FileCheck %s --check-prefix=FLOW < %t
// RUN: sed -n 's/.*--memory=\(.*\),\(.*\)/\1;\2/p' %t | tr -d '\n' > %t.budget
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan="machine=superchip-emu policy=weight-flow memory=`cat %t.budget`" -offload-lower-to-cmd -offload-verify-races -o /dev/null
// RUN: sed 's/.*hbm=\([0-9]*\)KiB.*/\1/' %t.budget > %t.hbm
// RUN: sh -c 'expr `cat %t.hbm` - 64' > %t.less
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan="machine=superchip-emu policy=weight-flow memory=hbm=`cat %t.less`KiB" -offload-lower-to-cmd -o /dev/null 2>&1 | FileCheck %s --check-prefix=LESS
// Too little on the host: placement does not send activations there, and says so.
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=weight-flow memory=host=64KiB' -offload-lower-to-cmd -o /dev/null 2>&1 | FileCheck %s --check-prefix=HOST

// FLOW: error: hbm is too small: the step needs
// FLOW: note: resident in hbm at its peak, bytes by role: input
// FLOW: note: resident in host at its peak, bytes by role: parameter 197696, moment 196608,
// FLOW: note: the smallest budget that works: --memory=hbm={{[0-9]+}}KiB,host={{[0-9]+}}KiB
// HOST: error: host is too small
// HOST: note: resident in host at its peak, bytes by role: parameter 197696, moment 196608, gradient 196608, control {{[0-9]+}}{{$}}
// CHECK: error: hbm is too small: the step needs {{[0-9.]+}} KiB ({{[0-9]+}} bytes), there are 64.00 KiB (65536 bytes); the peak is at '{{.+}}'
// CHECK: note: resident in hbm at its peak, bytes by role: {{.*}}parameter {{[0-9]+}}, weight copy 196608, {{.*}}gradient {{[0-9]+}}, activation {{[0-9]+}}
// CHECK: note: resident in host at its peak, bytes by role: parameter 196608, moment 196608, gradient 196608, control {{[0-9]+}}
// CHECK: note: the smallest budget that works: --memory=hbm={{[0-9]+}}KiB,host={{[0-9]+}}KiB
// LESS: error: hbm is too small
// KEEP: offload.phase = "cmd"
