// RUN: forebay-opt %s --train-raise-loss | FileCheck %s

// The exporter's shifted labels: padded by one ignored value at the end, cut at the front.
// CHECK-LABEL: @shifted
// CHECK-SAME: (%[[L:.*]]: tensor<2x5xi64>)
// CHECK: %[[S:.*]] = tensor.extract_slice %[[L]][0, 1] [2, 4] [1, 1] : tensor<2x5xi64> to tensor<2x4xi64>
// CHECK: %[[P:.*]] = tensor.pad %[[S]] low[0, 0] high[0, 1]
// CHECK: return %[[P]]
func.func @shifted(%l: tensor<2x5xi64>) -> tensor<2x5xi64> {
  %ignore = arith.constant -100 : i64
  %p = tensor.pad %l low[0, 0] high[0, 1] {
  ^bb0(%i: index, %j: index):
    tensor.yield %ignore : i64
  } : tensor<2x5xi64> to tensor<2x6xi64>
  %s = tensor.extract_slice %p[0, 1] [2, 5] [1, 1] : tensor<2x6xi64> to tensor<2x5xi64>
  return %s : tensor<2x5xi64>
}

// A slice of nothing but labels needs no padding; one of nothing but padding is left.
// CHECK-LABEL: @edges
// CHECK-SAME: (%[[L:.*]]: tensor<5xi64>)
// CHECK: %[[P:.*]] = tensor.pad %[[L]]
// CHECK-DAG: tensor.extract_slice %[[P]][6] [1] [1]
// CHECK-DAG: tensor.extract_slice %[[L]][1] [3] [1]
func.func @edges(%l: tensor<5xi64>) -> (tensor<3xi64>, tensor<1xi64>) {
  %ignore = arith.constant -100 : i64
  %p = tensor.pad %l low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %ignore : i64
  } : tensor<5xi64> to tensor<7xi64>
  %s = tensor.extract_slice %p[2] [3] [1] : tensor<7xi64> to tensor<3xi64>
  %t = tensor.extract_slice %p[6] [1] [1] : tensor<7xi64> to tensor<1xi64>
  return %s, %t : tensor<3xi64>, tensor<1xi64>
}
