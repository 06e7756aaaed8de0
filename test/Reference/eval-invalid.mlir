// RUN: not forebay-eval %s --function=id 2>&1 | FileCheck %s --check-prefix=ID
// RUN: not forebay-eval %s --function=label 2>&1 | FileCheck %s --check-prefix=LABEL
// RUN: not forebay-eval %s --function=declared 2>&1 | FileCheck %s --check-prefix=DECLARED
// RUN: not forebay-eval %s --function=dynamic 2>&1 | FileCheck %s --check-prefix=DYNAMIC
// RUN: not forebay-eval %s --function=id --same-as=%s --same-as-function=missing 2>&1 | FileCheck %s --check-prefix=ID
// RUN: not forebay-eval %s --function=takes --input=x=%s 2>&1 | FileCheck %s --check-prefix=NPY
// RUN: not forebay-eval %s --function=takes --input=x=%t.missing 2>&1 | FileCheck %s --check-prefix=MISSING

// ID: error: id 3 is outside of a table of 3 rows
func.func @id() -> tensor<1xf32> {
  %t = arith.constant dense<0.0> : tensor<3xf32>
  %i = arith.constant dense<3> : tensor<1xi64>
  %r = train.embedding %t, %i : (tensor<3xf32>, tensor<1xi64>) -> tensor<1xf32>
  return %r : tensor<1xf32>
}

// LABEL: error: label -1 is not one of 2 classes
func.func @label() -> tensor<f32> {
  %x = arith.constant dense<0.0> : tensor<1x2xf32>
  %i = arith.constant dense<-1> : tensor<1xi64>
  %r, %l = train.cross_entropy %x, %i : (tensor<1x2xf32>, tensor<1xi64>) -> (tensor<f32>, tensor<1xf32>)
  return %r : tensor<f32>
}

// DECLARED: needs one block to be evaluated
func.func private @declared()

// DYNAMIC: error: has a dynamic shape
func.func @dynamic() {
  %n = arith.constant 3 : index
  %e = tensor.empty(%n) : tensor<?xf32>
  return
}

// NPY: eval-invalid.mlir: not a .npy file
// MISSING: error: {{.*}}.missing: No such file
func.func @takes(%x: tensor<2xf32> {train.name = "x"}) {
  return
}
