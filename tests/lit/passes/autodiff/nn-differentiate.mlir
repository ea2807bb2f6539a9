// RUN: diffc-opt %s --split-input-file --nn-differentiate --verify-diagnostics | FileCheck %s

// The gradient of a linear layer's weight sums over all rows in one product.

// CHECK-LABEL: func.func @linear
// CHECK-SAME:    (%[[X:.*]]: tensor<2x5x4xf32>, %[[W:.*]]: tensor<3x4xf32>) -> (tensor<f32>, tensor<3x4xf32>)
// CHECK:         nn.matmul %[[X]], %[[W]]
// CHECK:         %[[ROWS:.*]] = nn.reshape %[[X]] {{.*}} -> tensor<10x4xf32>
// CHECK:         %[[DW:.*]] = nn.matmul %{{.*}}, %[[ROWS]] {transpose_a = true} : tensor<10x3xf32>, tensor<10x4xf32> -> tensor<3x4xf32>
// CHECK:         return %{{.*}}, %[[DW]]
func.func @linear(%x: tensor<2x5x4xf32>, %w: tensor<3x4xf32> {nn.trainable}) -> tensor<f32>
    attributes {nn.differentiate} {
  %0 = nn.matmul %x, %w {transpose_b = true} : tensor<2x5x4xf32>, tensor<3x4xf32> -> tensor<2x5x3xf32>
  %1 = nn.mul %0, %0 : tensor<2x5x3xf32>, tensor<2x5x3xf32> -> tensor<2x5x3xf32>
  %2 = nn.reduce_sum %1 {axes = array<i64: 0, 1, 2>} : tensor<2x5x3xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// What leads to no trainable argument gets no derivative.

// CHECK-LABEL: func.func @trimmed
// CHECK-NOT:     nn.cos
func.func @trimmed(%x: tensor<4xf32>, %w: tensor<4xf32> {nn.trainable}) -> tensor<f32>
    attributes {nn.differentiate} {
  %0 = nn.sin %x : tensor<4xf32>
  %1 = nn.mul %0, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %2 = nn.reduce_sum %1 {axes = array<i64: 0>} : tensor<4xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// -----

// Refused where it happens, not silently zero.

func.func @refused(%q: tensor<1x1x2x2xf32> {nn.trainable}) -> tensor<f32>
    attributes {nn.differentiate} {
  // expected-error @+1 {{has no derivative, but a trainable parameter reaches the loss through it}}
  %0 = nn.attention %q, %q, %q {scale = 1.0} : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  %1 = nn.reduce_sum %0 {axes = array<i64: 0, 1, 2, 3>} : tensor<1x1x2x2xf32> -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// expected-error @+1 {{the last result must be a scalar float tensor}}
func.func @no_scalar(%w: tensor<4xf32> {nn.trainable}) -> tensor<4xf32>
    attributes {nn.differentiate} {
  return %w : tensor<4xf32>
}
