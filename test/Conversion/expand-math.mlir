// RUN: forebay-opt %s --forebay-expand-math --split-input-file --verify-diagnostics | FileCheck %s

// Instructions stay, functions become arithmetic. (Accuracy: test/unit/Conversion/ExpandMathTest.cpp.)
// CHECK-LABEL: func @functions
//   CHECK-NOT:   math.{{exp|log|tanh|erf|sin|cos|powf|rsqrt}}
//       CHECK:   math.sqrt
//   CHECK-NOT:   math.{{exp|log|tanh|erf|sin|cos|powf|rsqrt}}
//       CHECK:   return
func.func @functions(%x: f32, %y: f32) -> (f32, f32, f32, f32, f32, f32, f32) {
  %0 = math.exp %x : f32
  %1 = math.log %x : f32
  %2 = math.tanh %x : f32
  %3 = math.erf %x : f32
  %4 = math.sin %x : f32
  %5 = math.powf %x, %y : f32
  %6 = math.rsqrt %x : f32
  return %0, %1, %2, %3, %4, %5, %6 : f32, f32, f32, f32, f32, f32, f32
}

// -----

// CHECK-LABEL: func @power
//       CHECK:   scf.while
func.func @power(%x: f64, %n: i64) -> f64 {
  %0 = math.fpowi %x, %n : f64, i64
  return %0 : f64
}

// -----

func.func @unknown(%x: f32) -> f32 {
  // expected-error @+2 {{no arithmetic form of 'math.cbrt' on 'f32'}}
  // expected-note @+1 {{work on f32 and f64}}
  %0 = math.cbrt %x : f32
  return %0 : f32
}
