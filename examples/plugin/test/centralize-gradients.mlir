// RUN: forebay-opt %S/Inputs/linear.mlir --pass-pipeline='builtin.module(train-set-optimizer,forebay-train)' -o %t.mlir
// RUN: forebay-opt %t.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-centralize-gradients)' 2>&1 | FileCheck %s
// The same in mlir-opt, which learns the dialects from the plug-in.
// RUN: mlir-opt %t.mlir --load-dialect-plugin=%plugin --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-centralize-gradients)' 2>&1 | FileCheck %s
// Only what matches; the other axis.
// RUN: forebay-opt %t.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-centralize-gradients{parameters=bias axis=0})' 2>&1 | FileCheck %s --check-prefix=BIAS
// Micro-steps are centralised before they are added.
// RUN: forebay-opt %S/Inputs/linear.mlir --pass-pipeline='builtin.module(train-set-optimizer,forebay-train{accumulate=2})' -o %t.mlir
// RUN: forebay-opt %t.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-centralize-gradients)' | FileCheck %s --check-prefix=MICRO
// Too early, and no expression.
// RUN: not forebay-opt %S/Inputs/linear.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-centralize-gradients)' 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: not forebay-opt %t.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-centralize-gradients{parameters=(})' 2>&1 | FileCheck %s --check-prefix=REGEX

// CHECK-DAG: remark: the gradient of 'linear.weight' is centralised over axis 1
// CHECK-DAG: remark: 'linear.bias' has no axis 1: its gradient is not centralised
// CHECK:     %[[G:.*]] = linalg.contract {{.*}}train.phase = #train.phase<backward>{{.*}} -> tensor<4x8xf32>
// CHECK:     %[[SUM:.*]] = linalg.reduce ins(%[[G]] : tensor<4x8xf32>) {{.*}}dimensions = [1]
// CHECK:     %[[N:.*]] = arith.constant dense<1.250000e-01> : tensor<4xf32>
// CHECK:     %[[MEAN:.*]] = arith.mulf %[[SUM]], %[[N]] {train.phase = #train.phase<backward>}
// CHECK:     %[[ALL:.*]] = linalg.broadcast ins(%[[MEAN]] : tensor<4xf32>) {{.*}} dimensions = [1]
// CHECK:     %[[C:.*]] = arith.subf %[[G]], %[[ALL]] {train.phase = #train.phase<backward>}
// CHECK:     train.norm_partials %[[C]]
// CHECK:     train.update {{.*}} grad(%[[C]])

// BIAS: remark: the gradient of 'linear.bias' is centralised over axis 0
// BIAS-NOT: linear.weight{{.*}}is centralised

// MICRO: %[[C:.*]] = arith.subf {{.*}} tensor<4x8xf32>
// MICRO: %[[A:.*]] = train.accumulate %{{.*}}, %[[C]]
// MICRO: train.norm_partials %[[A]]

// EARLY: error: {{.*}}has no @step with updates: run this pass at the end of phase train
// REGEX: error: {{.*}}parameters=( is not a regular expression

// Two parameters with one gradient, of which one is chosen: the other keeps its gradient and its partial sums.
// RUN: forebay-opt %S/Inputs/shared.mlir --pass-pipeline='builtin.module(train-set-optimizer,forebay-train)' -o %t.mlir
// RUN: forebay-opt %t.mlir --load-pass-plugin=%plugin --pass-pipeline='builtin.module(example-centralize-gradients{parameters=first})' | FileCheck %s --check-prefix=SHARED
// SHARED:     %[[C:.*]] = arith.subf %[[G:.*]], %{{.*}} {train.phase = #train.phase<backward>}
// SHARED-DAG: %[[NC:.*]] = train.norm_partials %[[C]]
// SHARED-DAG: %[[NG:.*]] = train.norm_partials %[[G]]
// SHARED:     train.verdict %[[NC]], %[[NG]]
// SHARED:     train.update {{.*}} grad(%[[C]])
// SHARED:     train.update {{.*}} grad(%[[G]])
