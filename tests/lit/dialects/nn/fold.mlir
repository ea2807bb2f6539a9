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
