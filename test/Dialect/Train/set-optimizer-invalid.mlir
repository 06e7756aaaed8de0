// RUN: split-file %s %t
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{optimizer=adamx})' 2>&1 | FileCheck %s --check-prefix=NAME
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{optimizer=%t/absent.mlir})' 2>&1 | FileCheck %s --check-prefix=ABSENT
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{optimizer=%t/model.mlir})' 2>&1 | FileCheck %s --check-prefix=NONE
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{optimizer=%t/exp.mlir})' 2>&1 | FileCheck %s --check-prefix=EXP
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{optimizer=%t/states.mlir})' 2>&1 | FileCheck %s --check-prefix=STATES
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{optimizer=sgd hyper=lrx=0.1,momentum=-1,nesterov=2,lr=nan,lr})' 2>&1 | FileCheck %s --check-prefix=HYPER
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{hyper=beta1=1})' 2>&1 | FileCheck %s --check-prefix=RANGE
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{optimizer=sgd hyper=nesterov=true})' 2>&1 | FileCheck %s --check-prefix=NESTEROV
// RUN: not forebay-opt %t/model.mlir --pass-pipeline='builtin.module(train-set-optimizer{group=*w:lr=1,nope:lr=1,w:foo=1,w})' 2>&1 | FileCheck %s --check-prefix=GROUP

// NAME: error: --optimizer=adamx: there is no such optimizer
// NAME-NEXT: note: known: adamw, adam, sgd, lion, or a FILE.mlir
// ABSENT: error: --optimizer={{.*}}absent.mlir: cannot be read: No such file or directory
// NONE: error: --optimizer={{.*}}model.mlir: holds 0 train.optimizer operations
// EXP: error: {{.*}}: 'math.exp' is not allowed in @update
// EXP-NEXT: note: only + - * /
// STATES: error: --optimizer={{.*}}states.mlir: 1:1: 'train.optimizer' op @update takes parameter, gradient, 1 states and 1 scalars, not 3 arguments

// HYPER: error: --hyper=lrx=0.1: optimizer 'sgd' has no hyper-parameter 'lrx'
// HYPER-NEXT: note: known keys: dampening, lr, momentum, nesterov, weight_decay
// HYPER-NEXT: error: --hyper=momentum=-1: 'momentum' is negative
// HYPER: error: --hyper=nesterov=2: '2' is no value for 'nesterov'
// HYPER-NEXT: note: true or false
// HYPER-NEXT: error: --hyper=lr=nan: 'nan' is no value for 'lr'
// HYPER: error: --hyper=lr: 'lr' is not KEY=VALUE
// RANGE: error: --hyper=beta1=1: 'beta1' is 1
// RANGE-NEXT: note: it must be at least 0 and less than 1
// NESTEROV: error: --hyper: nesterov needs a momentum above 0 and no dampening

// GROUP: error: --group=*w:lr=1: '*w' is not a regular expression
// GROUP: error: --group=nope:lr=1: 'nope' matches no parameter
// GROUP-NEXT: note: parameters: w
// GROUP-NEXT: error: --group=w:foo=1: optimizer 'adamw' has no hyper-parameter 'foo'
// GROUP-NEXT: note: known keys: beta1, beta2, eps, lr, weight_decay, lr_scale
// GROUP-NEXT: error: --group=w: is not REGEX:KEY=VALUE,...

//--- model.mlir
func.func @forward(%w: tensor<3xf32> {train.name = "w", train.role = #train.role<parameter>, train.trainable}) {
  return
}
//--- exp.mlir
train.optimizer @own hyper {lr = 1.0} state [] {
  func.func @scalars(%t: i64, %lr: f64) -> f32 {
    %0 = arith.truncf %lr : f64 to f32
    return %0 : f32
  }
  func.func @update(%p: f32, %g: f32, %lr: f32) -> f32 {
    %0 = math.exp %p : f32
    return %0 : f32
  }
}
//--- states.mlir
train.optimizer @own hyper {lr = 1.0} state ["m"] {
  func.func @scalars(%t: i64, %lr: f64) -> f32 {
    %0 = arith.truncf %lr : f64 to f32
    return %0 : f32
  }
  func.func @update(%p: f32, %g: f32, %lr: f32) -> f32 {
    return %p : f32
  }
}
