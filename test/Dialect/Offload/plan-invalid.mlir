// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=gh200' 2>&1 | FileCheck %s --check-prefix=MACHINE
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=%S' 2>&1 | FileCheck %s --check-prefix=FOLDER
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='machine=%s' 2>&1 | FileCheck %s --check-prefix=NOMACHINE
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='policy=fast' 2>&1 | FileCheck %s --check-prefix=POLICY
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='policy=zero-offload' 2>&1 | FileCheck %s --check-prefix=CPU
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='memory=hbm=1GiB' 2>&1 | FileCheck %s --check-prefix=SPACE
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='memory=host=1GB' 2>&1 | FileCheck %s --check-prefix=SIZE
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan='bucket-bytes=4095' 2>&1 | FileCheck %s --check-prefix=BUCKET
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-lower-to-cmd 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-plan -offload-plan 2>&1 | FileCheck %s --check-prefix=LATE
// RUN: not forebay-opt %s -offload-plan 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not forebay-opt %S/Inputs/mlp.mlir -offload-verify-races 2>&1 | FileCheck %s --check-prefix=VERIFY

// MACHINE: error: --machine=gh200: there is no such machine
// MACHINE: note: known: a100-pcie4, cpu, gb200, gh200-144, gh200-96, h200-pcie5, superchip-emu, or a machine file
// FOLDER: error: --machine={{.*}}: there is no such machine
// NOMACHINE: error: --machine={{.*}}plan-invalid.mlir: has no dlti.target_system_spec
// POLICY: error: --policy=fast: there is no such policy
// POLICY: note: known: auto, resident, zero-offload, superoffload, weight-flow
// CPU: error: --policy=zero-offload: needs a machine with two memory spaces; machine 'cpu' has one: host
// SPACE: error: --memory=hbm=1GiB: machine 'cpu' has no memory 'hbm' (it has: host)
// SIZE: error: --memory=host=1GB: 'host=1GB' is not NAME=SIZE, with a size above 0 in bytes, KiB, MiB or GiB
// BUCKET: error: bucket-bytes must be at least 4096, not 4095
// EARLY: error: offload-lower-to-cmd needs a module at level 'async'; this one is at level 'dispatch': the pass runs too early
// LATE: error: offload-plan needs a module at level 'dispatch'; this one is at level 'async': the pass runs too late
// NONE: error: offload-plan needs a module at level 'dispatch'; this one has no dispatches yet: the pass runs too early
// VERIFY: error: offload-verify-races needs a module at level 'cmd'; this one is at level 'dispatch': the pass runs too early

func.func @step() {
  return
}
