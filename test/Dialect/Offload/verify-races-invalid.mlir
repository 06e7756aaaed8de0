// Without one of its waits, with a wait that cannot come, with a range outside its arena, or reading what nothing wrote, a table is rejected.
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=zero-offload' -offload-lower-to-cmd -o %t
// RUN: forebay-opt %t -offload-verify-races -o /dev/null
// RUN: sed 's/ waits .#offload.wait<[0-9]*, 0>. \(.*"gradients of bucket 0"\)/ \1/' %t > %t.wait
// RUN: not forebay-opt %t.wait -offload-verify-races 2>&1 | FileCheck %s --check-prefix=WAIT
// RUN: sed '/@update1/s/ waits .*signals/ signals/; /@gemm1 /s/read>, #offload/read>, #offload/; s/offload.events = [0-9]*/offload.events = 1/' %t > %t.event
// RUN: not forebay-opt %t.event -offload-verify-races 2>&1 | FileCheck %s --check-prefix=EVENT
// RUN: sed 's/host = [0-9]* : i64}/host = 64 : i64}/' %t > %t.arena
// RUN: not forebay-opt %t.arena -offload-verify-races 2>&1 | FileCheck %s --check-prefix=ARENA
// RUN: sed '/cmd.dispatch <gpu> @gemm1 /d' %t > %t.lost
// RUN: not forebay-opt %t.lost -offload-verify-races 2>&1 | FileCheck %s --check-prefix=LOST

// WAIT: error: the command table is not safe: race: command {{[0-9]+}} 'gradients of bucket 0' (d2h) reads hbm [{{[0-9]+}}, {{[0-9]+}}) while command {{[0-9]+}} '{{.*}}' (gpu) of the same iteration may still write it
// EVENT: error: the command table is not safe: command {{[0-9]+}} '{{.*}}' signals an event that does not exist
// ARENA: error: the command table is not safe: tensor 'w1' lies outside its arena
// LOST: error: the command table is not safe: {{.*}} reads hbm {{.*}}, which nothing has written in this iteration
