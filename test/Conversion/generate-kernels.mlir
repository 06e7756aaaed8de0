// RUN: forebay-opt %s --forebay-form-dispatches --forebay-select-kernels --forebay-generate-kernels --split-input-file | FileCheck %s
// RUN: forebay-opt %s --forebay-form-dispatches --forebay-select-kernels --forebay-lower-kernels --split-input-file | FileCheck %s --check-prefix=LLVM

// One function of the kernel interface; what a row shares is read outside of the loop over its elements, whose accesses are in
// one group that the loop names as parallel.
// CHECK-DAG: #[[GROUP:.*]] = #llvm.access_group
// CHECK-DAG: #[[LOOP:.*]] = #llvm.loop_annotation<vectorize = {{.*}}, parallelAccesses = #[[GROUP]]>
// CHECK-LABEL: llvm.func internal @mulf_300x500(
//  CHECK-SAME: %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: i32, %{{.*}}: i64, %{{.*}}: !llvm.ptr)
//   CHECK-NOT:   func.func
//       CHECK:   scf.for %[[ROW:.*]] =
//       CHECK:     llvm.getelementptr inbounds %{{.*}}[%[[ROW]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
//       CHECK:     %[[S:.*]] = llvm.load %{{.*}} : !llvm.ptr -> f32
//       CHECK:     scf.for
//       CHECK:       %[[X:.*]] = llvm.load %{{.*}} {access_groups = [#[[GROUP]]]} : !llvm.ptr -> f32
//       CHECK:       arith.mulf %[[X]], %[[S]]
//       CHECK:       llvm.store {{.*}} {access_groups = [#[[GROUP]]]}
//       CHECK:     } {loop_annotation = #[[LOOP]]}

// LLVM: llvm.func internal @mulf_300x500
// LLVM-NOT: {{memref|scf\.|arith\.|math\.|builtin.unrealized}}
// LLVM: llvm.br {{.*}} {loop_annotation =
func.func @step(%a: tensor<300x500xf32>, %s: tensor<300xf32>) -> tensor<300x500xf32> {
  %e = tensor.empty() : tensor<300x500xf32>
  %b = linalg.broadcast ins(%s : tensor<300xf32>) outs(%e : tensor<300x500xf32>) dimensions = [1]
  %0 = arith.mulf %a, %b : tensor<300x500xf32>
  return %0 : tensor<300x500xf32>
}

// -----

// Booleans are bytes.
// CHECK-LABEL: llvm.func internal @select_5
//       CHECK:   llvm.load {{.*}} : !llvm.ptr -> i8
//       CHECK:   arith.cmpi ne
//       CHECK:   arith.select
func.func @step(%c: tensor<5xi1>, %a: tensor<5xf32>, %b: tensor<5xf32>) -> tensor<5xf32> {
  %0 = arith.select %c, %a, %b : tensor<5xi1>, tensor<5xf32>
  return %0 : tensor<5xf32>
}

// -----

// The scalar function is its definition with t and an array of doubles; the update is one loop, with a copy where the verdict
// is not finite.
// CHECK-LABEL: llvm.func internal @update_o
//       CHECK:   arith.cmpf une
//       CHECK:   scf.if
//       CHECK:     scf.for
//       CHECK:   } else {
//       CHECK:     scf.for
// CHECK-LABEL: llvm.func internal @o_scalars(%{{.*}}: i64, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr)
//       CHECK:   llvm.load {{.*}} : !llvm.ptr -> f64
//       CHECK:   arith.truncf
//       CHECK:   llvm.store
func.func @step(%p: tensor<9xf32>, %g: tensor<9xf32>, %v: tensor<4xf32>) -> tensor<9xf32> {
  %s = train.scalars @o {hyper = {}, group = 0 : i64} : tensor<1xf32>
  %0 = train.update @o parameter(%p) grad(%g) state() scalars(%s) verdict(%v)
    : (tensor<9xf32>, tensor<9xf32>, tensor<1xf32>, tensor<4xf32>) -> tensor<9xf32>
  return %0 : tensor<9xf32>
}
train.optimizer @o hyper {lr = 1.0e-3} state [] {
  func.func @scalars(%t: i64, %lr: f64) -> f32 {
    %0 = arith.truncf %lr : f64 to f32
    return %0 : f32
  }
  func.func @update(%p: f32, %g: f32, %lr: f32) -> f32 {
    %0 = arith.mulf %g, %lr : f32
    %1 = arith.subf %p, %0 : f32
    return %1 : f32
  }
}
