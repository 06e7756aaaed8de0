// RUN: forebay-opt %s --pass-pipeline='builtin.module(train-set-optimizer{optimizer=sgd hyper=lr=0.1,momentum=0.9 group=bias:weight_decay=0.5},train-build-step{accumulate=2 clip-norm=1.0})' | FileCheck %s
// RUN: forebay-opt %s --pass-pipeline='builtin.module(train-set-optimizer,train-build-step)' | FileCheck %s --check-prefix=PLAIN

// Gradients arrive in the order in which they were derived; the norm and the state keep the order of the initializers. The frozen
// parameter and the one without gradient are no state.

// CHECK-LABEL: func.func @step(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<2x3xf32> {train.name = "x"
// CHECK-SAME: %[[W:[a-z0-9]+]]: tensor<3xf32> {train.donate = 2 : i64, train.name = "w"
// CHECK-SAME: %[[F:[a-z0-9]+]]: tensor<2xf32> {train.name = "frozen", train.role = #train.role<parameter>}
// CHECK-SAME: %[[B:[a-z0-9]+]]: tensor<3xf32> {train.donate = 3 : i64, train.hyper = {weight_decay = 5.000000e-01 : f64}, train.name = "b.bias"
// CHECK-SAME: %[[WM:[a-z0-9]+]]: tensor<3xf32> {train.donate = 4 : i64, train.name = "w/momentum_buffer", train.role = #train.role<moment>}
// CHECK-SAME: %[[BM:[a-z0-9]+]]: tensor<3xf32> {train.donate = 5 : i64, train.name = "b.bias/momentum_buffer"
// CHECK-SAME: %[[WG:[a-z0-9]+]]: tensor<3xf32> {train.donate = 6 : i64, train.name = "w/grad", train.role = #train.role<accumulator>}
// CHECK-SAME: %[[BG:[a-z0-9]+]]: tensor<3xf32> {train.donate = 7 : i64, train.name = "b.bias/grad"
// CHECK-SAME: -> (tensor<f32> {train.name = "loss", train.role = #train.role<loss>}, tensor<4xf32> {train.name = "verdict", train.role = #train.role<control>}, tensor<3xf32> {train.name = "w", train.role = #train.role<parameter>}
// CHECK: %[[SW:.+]] = train.accumulate %[[WG]], %[[W]] {train.phase = #train.phase<accumulate>}
// CHECK: %[[SB:.+]] = train.accumulate %[[BG]], %{{.+}} {train.phase = #train.phase<accumulate>}
// CHECK: %[[PW:.+]] = train.norm_partials %[[SW]] {accumulate = 2 : i64, train.phase = #train.phase<verdict>}
// CHECK: %[[PB:.+]] = train.norm_partials %[[SB]]
// CHECK: %[[V:.+]] = train.verdict %[[PW]], %[[PB]] {clip = 1.000000e+00 : f64, train.phase = #train.phase<verdict>}
// CHECK: %[[S0:.+]] = train.scalars @sgd {group = 0 : i64, hyper = {}, train.phase = #train.phase<update>} : tensor<6xf32>
// CHECK: train.update @sgd parameter(%[[W]]) grad(%[[SW]]) state(%[[WM]]) scalars(%[[S0]]) verdict(%[[V]]) {accumulate = 2 : i64
// CHECK: %[[S1:.+]] = train.scalars @sgd {group = 1 : i64, hyper = {weight_decay = 5.000000e-01 : f64}
// CHECK: train.update @sgd parameter(%[[B]]) grad(%[[SB]]) state(%[[BM]]) scalars(%[[S1]])
// CHECK: train.optimizer @sgd hyper {dampening = 0.000000e+00 : f64, lr = 1.000000e-01 : f64, momentum = 9.000000e-01 : f64, nesterov = false, weight_decay = 0.000000e+00 : f64}

// Without accumulation there are no accumulators; without a limit no clip; one group.
// PLAIN-LABEL: func.func @step(
// PLAIN-SAME: "w/exp_avg"
// PLAIN-SAME: "w/exp_avg_sq"
// PLAIN-NOT: accumulator
// PLAIN: %[[P:.+]] = train.norm_partials %arg1 {train.phase = #train.phase<verdict>}
// PLAIN: train.verdict %[[P]], %{{.+}} {train.phase = #train.phase<verdict>}
// PLAIN: train.scalars @adamw {group = 0 : i64, hyper = {}
// PLAIN-NOT: train.scalars
// PLAIN: train.optimizer @adamw

func.func @step(
    %x: tensor<2x3xf32> {train.name = "x", train.role = #train.role<input>},
    %w: tensor<3xf32> {train.name = "w", train.role = #train.role<parameter>, train.trainable},
    %f: tensor<2xf32> {train.name = "frozen", train.role = #train.role<parameter>},
    %b: tensor<3xf32> {train.name = "b.bias", train.role = #train.role<parameter>, train.trainable})
    -> (tensor<f32> {train.name = "loss", train.role = #train.role<loss>},
        tensor<3xf32> {train.name = "b.bias", train.role = #train.role<gradient>},
        tensor<3xf32> {train.name = "w", train.role = #train.role<gradient>}) {
  %l = arith.constant dense<0.0> : tensor<f32>
  %s = arith.addf %w, %b : tensor<3xf32>
  return %l, %s, %w : tensor<f32>, tensor<3xf32>, tensor<3xf32>
}
