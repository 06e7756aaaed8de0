// What a step exchanges, written by hand: a shadow names its parameter or moment, and a constant has the bytes of its type.
// RUN: forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=superchip-emu policy=superoffload bucket-bytes=4096' -o %t
// RUN: sed '0,/<shadow>/s/offload.copy_of = [0-9]* : i64, offload.role = #offload.role<shadow>/offload.role = #offload.role<shadow>/' %t > %t.nothing
// RUN: not forebay-opt %t.nothing -offload-lower-to-cmd 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: sed '0,/<shadow>/s/offload.copy_of = [0-9]* : i64, offload.role = #offload.role<shadow>/offload.copy_of = 0 : i64, offload.role = #offload.role<shadow>/' %t > %t.input
// RUN: not forebay-opt %t.input -offload-lower-to-cmd 2>&1 | FileCheck %s --check-prefix=NOTHING
// RUN: sed 's/offload.initial = array<f32: [^>]*>/offload.initial = array<f32: 1.0>/' %t > %t.short
// RUN: not forebay-opt %t.short -offload-lower-to-cmd -offload-verify-races 2>&1 | FileCheck %s --check-prefix=SHORT
// RUN: forebay-opt %t -offload-lower-to-cmd -o %t.cmd
// RUN: grep -q '<redo>' %t.cmd
// RUN: sed '/<redo>/d' %t.cmd > %t.off
// RUN: not forebay-opt %t.off -offload-verify-races 2>&1 | FileCheck %s --check-prefix=REDO

// NOTHING: error: argument {{[0-9]+}}, a shadow, needs offload.copy_of with the number of an earlier argument of its type
// SHORT: error: argument 'assumed verdict' has 16 bytes, offload.initial 4
// REDO: error: the command table is not safe: {{.*}}
