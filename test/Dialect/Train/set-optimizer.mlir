// RUN: forebay-opt %s --pass-pipeline='builtin.module(train-set-optimizer{optimizer=adam hyper=lr=1,lr=0.5 group=bias:weight_decay=0.25,norm:lr_scale=0})' | FileCheck %s
// RUN: forebay-opt %s --pass-pipeline='builtin.module(train-set-optimizer{optimizer=%source_root/examples/optimizer/adabelief.mlir})' | FileCheck %s --check-prefix=OWN
// RUN: forebay-opt %s --pass-pipeline='builtin.module(train-set-optimizer{optimizer=sgd hyper=nesterov=TRUE,momentum=0.9})' | FileCheck %s --check-prefix=BOOL
// RUN: forebay-opt %s --pass-pipeline='builtin.module(train-set-optimizer{optimizer=lion})' | FileCheck %s --check-prefix=LION

// The first group that matches wins; frozen parameters get nothing; of two values for a key the last wins.
// CHECK-LABEL: func.func @forward(
// CHECK-SAME: train.hyper = {weight_decay = 2.500000e-01 : f64}, train.name = "norm.bias"
// CHECK-SAME: train.hyper = {lr_scale = 0.000000e+00 : f64}, train.name = "norm.weight"
// CHECK-SAME: {train.name = "frozen.bias", train.role = #train.role<parameter>}
// CHECK-SAME: {train.name = "w", train.role = #train.role<parameter>, train.trainable}
// CHECK: train.optimizer @adam hyper {beta1 = 9.000000e-01 : f64, beta2 = {{.*}}, eps = {{.*}}, lr = 5.000000e-01 : f64, weight_decay = 0.000000e+00 : f64} state ["exp_avg", "exp_avg_sq"]
// OWN: train.optimizer @adabelief
// BOOL: nesterov = true
// LION: train.optimizer @lion hyper {{.*}} state ["exp_avg"]

func.func @forward(
    %a: tensor<3xf32> {train.name = "norm.bias", train.role = #train.role<parameter>, train.trainable},
    %b: tensor<3xf32> {train.name = "norm.weight", train.role = #train.role<parameter>, train.trainable},
    %c: tensor<3xf32> {train.name = "frozen.bias", train.role = #train.role<parameter>},
    %d: tensor<3xf32> {train.name = "w", train.role = #train.role<parameter>, train.trainable}) {
  return
}
