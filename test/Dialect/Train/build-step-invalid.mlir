// RUN: split-file %s %t
// RUN: not forebay-opt %t/no-step.mlir --pass-pipeline='builtin.module(train-build-step)' 2>&1 | FileCheck %s --check-prefix=NOSTEP
// RUN: not forebay-opt %t/no-optimizer.mlir --pass-pipeline='builtin.module(train-build-step)' 2>&1 | FileCheck %s --check-prefix=NOOPT
// RUN: not forebay-opt %t/no-optimizer.mlir --pass-pipeline='builtin.module(train-set-optimizer,train-build-step{accumulate=0})' 2>&1 | FileCheck %s --check-prefix=ACC
// RUN: not forebay-opt %t/no-optimizer.mlir --pass-pipeline='builtin.module(train-set-optimizer,train-build-step)' 2>&1 | FileCheck %s --check-prefix=NOGRAD

// NOSTEP: error: has no @step: run train-differentiate before train-build-step
// NOOPT: error: has no optimizer: run train-set-optimizer before train-build-step
// ACC: error: accumulate must be at least 1, not 0
// NOGRAD: error: no parameter has a gradient: nothing would be trained

//--- no-step.mlir
module {}
//--- no-optimizer.mlir
func.func @step() {
  return
}
