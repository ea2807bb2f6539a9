// RUN: diffc-opt %s --canonicalize | FileCheck %s

// Neutral elements and moves that change nothing disappear.

// CHECK-LABEL: func.func @neutral
// CHECK-SAME:    (%[[X:.*]]: tensor<2x3xf32>)
// CHECK-NEXT:    return %[[X]]
func.func @neutral(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.add %x, %zero : tensor<2x3xf32>, tensor<f32> -> tensor<2x3xf32>
  %1 = nn.mul %one, %0 : tensor<f32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = nn.reshape %1 {shape = array<i64: 6>} : tensor<2x3xf32> -> tensor<6xf32>
  %3 = nn.reshape %2 {shape = array<i64: 2, 3>} : tensor<6xf32> -> tensor<2x3xf32>
  %4 = nn.transpose %3 {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32>
  %5 = nn.transpose %4 {permutation = array<i64: 1, 0>} : tensor<3x2xf32> -> tensor<2x3xf32>
  return %5 : tensor<2x3xf32>
}

// A sum that broadcasts its other operand is not neutral.

// CHECK-LABEL: func.func @broadcasts
// CHECK:         nn.add
func.func @broadcasts(%x: tensor<3xf32>) -> tensor<2x3xf32> {
  %zero = nn.constant dense<0.0> : tensor<2x3xf32>
  %0 = nn.add %x, %zero : tensor<3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// 1 - x and 1 / x have no neutral left operand.

// CHECK-LABEL: func.func @left_operand
// CHECK:         nn.sub
// CHECK:         nn.div
func.func @left_operand(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = nn.constant dense<0.0> : tensor<3xf32>
  %one = nn.constant dense<1.0> : tensor<3xf32>
  %0 = nn.sub %zero, %x : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  %1 = nn.div %one, %0 : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  return %1 : tensor<3xf32>
}

// 0 * x is not 0 for an infinite x.

// CHECK-LABEL: func.func @zero_times
// CHECK:         nn.mul
func.func @zero_times(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = nn.constant dense<0.0> : tensor<3xf32>
  %0 = nn.mul %x, %zero : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Division by 1, subtraction of 0, casts to the same type, slices of the whole
// and a concatenation of one.

// CHECK-LABEL: func.func @nothing_changes
// CHECK-SAME:    (%[[X:.*]]: tensor<3xf32>)
// CHECK-NEXT:    return %[[X]]
func.func @nothing_changes(%x: tensor<3xf32>) -> tensor<3xf32> {
  %zero = nn.constant dense<0.0> : tensor<f32>
  %one = nn.constant dense<1.0> : tensor<f32>
  %0 = nn.div %x, %one : tensor<3xf32>, tensor<f32> -> tensor<3xf32>
  %1 = nn.sub %0, %zero : tensor<3xf32>, tensor<f32> -> tensor<3xf32>
  %2 = nn.cast %1 {to = f32} : tensor<3xf32> -> tensor<3xf32>
  %3 = nn.slice %2 {starts = array<i64: 0>, sizes = array<i64: 3>, strides = array<i64: 1>} : tensor<3xf32> -> tensor<3xf32>
  %4 = nn.concat %3 {axis = 0 : i64} : tensor<3xf32> -> tensor<3xf32>
  %5 = nn.broadcast_to %4 {shape = array<i64: 3>} : tensor<3xf32> -> tensor<3xf32>
  return %5 : tensor<3xf32>
}

// A slice of the whole with a negative stride reverses.

// CHECK-LABEL: func.func @reversed
// CHECK:         nn.slice
func.func @reversed(%x: tensor<3xf32>) -> tensor<3xf32> {
  %0 = nn.slice %x {starts = array<i64: 2>, sizes = array<i64: 3>, strides = array<i64: -1>} : tensor<3xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Constants: views of any, and moves of those whose elements are all equal.

// CHECK-LABEL: func.func @constants
// CHECK-DAG:     %[[A:.+]] = nn.constant dense<{{\[\[}}1.000000e+00, 2.000000e+00], [3.000000e+00, 4.000000e+00]]> : tensor<2x2xf32>
// CHECK-DAG:     %[[B:.+]] = nn.constant dense<7.000000e+00> : tensor<3x2xf32>
// CHECK-DAG:     %[[C:.+]] = nn.constant dense<7.000000e+00> : tensor<2xf32>
// CHECK-NEXT:    return %[[A]], %[[B]], %[[C]]
func.func @constants() -> (tensor<2x2xf32>, tensor<3x2xf32>, tensor<2xf32>) {
  %0 = nn.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %1 = nn.reshape %0 {shape = array<i64: 2, 2>} : tensor<4xf32> -> tensor<2x2xf32>
  %2 = nn.constant dense<7.0> : tensor<2x1xf32>
  %3 = nn.broadcast_to %2 {shape = array<i64: 2, 3>} : tensor<2x1xf32> -> tensor<2x3xf32>
  %4 = nn.transpose %3 {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32>
  %5 = nn.slice %3 {starts = array<i64: 0, 1>, sizes = array<i64: 2, 1>, strides = array<i64: 1, 1>} : tensor<2x3xf32> -> tensor<2x1xf32>
  %6 = nn.reshape %5 {shape = array<i64: 2>} : tensor<2x1xf32> -> tensor<2xf32>
  return %1, %4, %6 : tensor<2x2xf32>, tensor<3x2xf32>, tensor<2xf32>
}

// Permutations in a row are one.

// CHECK-LABEL: func.func @permutations
// CHECK-SAME:    (%[[X:.*]]: tensor<2x3x4xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.transpose %[[X]] {permutation = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @permutations(%x: tensor<2x3x4xf32>) -> tensor<4x2x3xf32> {
  %0 = nn.transpose %x {permutation = array<i64: 1, 2, 0>} : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 2, 0>} : tensor<3x4x2xf32> -> tensor<4x2x3xf32>
  return %1 : tensor<4x2x3xf32>
}
