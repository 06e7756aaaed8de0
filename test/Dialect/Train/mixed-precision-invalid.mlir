// RUN: not forebay-opt %s --pass-pipeline='builtin.module(train-mixed-precision)' 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not forebay-opt %s --pass-pipeline='builtin.module(train-mixed-precision{type=f8})' 2>&1 | FileCheck %s --check-prefix=TYPE

// EARLY: error: has no @forward: train-mixed-precision goes before train-differentiate
// TYPE: error: type of train-mixed-precision is bf16 or f16, not 'f8'
func.func @step() {
  return
}
