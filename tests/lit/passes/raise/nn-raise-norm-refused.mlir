// RUN: diffc-opt %s --canonicalize --cse --nn-raise-norm --canonicalize | FileCheck %s
//
// Chains that only look like a norm, or like another one.

// A scale of the last dimension, as many as channels, is not one of channels.

// CHECK-LABEL: func.func @refused_scale_of_columns
// CHECK:         %[[N:.+]] = nn.group_norm %{{.+}} {
// CHECK:         nn.mul %[[N]]
func.func @refused_scale_of_columns(%x: tensor<2x4x3x4xf32>, %s: tensor<4xf32>) -> tensor<2x4x3x4xf32> {
  %0 = nn.group_norm %x {epsilon = 1.0e-5 : f64, groups = 2 : i64} : tensor<2x4x3x4xf32> -> tensor<2x4x3x4xf32>
  %1 = nn.mul %0, %s : tensor<2x4x3x4xf32>, tensor<4xf32> -> tensor<2x4x3x4xf32>
  return %1 : tensor<2x4x3x4xf32>
}

// Groups across samples: the first dimension changes.

// CHECK-LABEL: func.func @refused_groups_across_samples
// CHECK-NOT:     groups = 4
// CHECK:         nn.group_norm %{{.+}} {epsilon = 1.000000e-05 : f64, groups = 2 : i64} : tensor<4x2x15xf32>
// CHECK:         return
func.func @refused_groups_across_samples(%x: tensor<2x4x3x5xf32>) -> tensor<2x4x3x5xf32> {
  %0 = nn.reshape %x {shape = array<i64: 4, 2, 15>} : tensor<2x4x3x5xf32> -> tensor<4x2x15xf32>
  %1 = nn.group_norm %0 {epsilon = 1.0e-5 : f64, groups = 2 : i64} : tensor<4x2x15xf32> -> tensor<4x2x15xf32>
  %2 = nn.reshape %1 {shape = array<i64: 2, 4, 3, 5>} : tensor<4x2x15xf32> -> tensor<2x4x3x5xf32>
  return %2 : tensor<2x4x3x5xf32>
}

// Four groups of a tensor with two channels: no whole channels.

// CHECK-LABEL: func.func @refused_groups_in_channels
// CHECK:         nn.group_norm %{{.+}} {epsilon = 1.000000e-05 : f64, groups = 4 : i64} : tensor<2x4x15xf32>
// CHECK:         return
func.func @refused_groups_in_channels(%x: tensor<2x2x6x5xf32>) -> tensor<2x2x6x5xf32> {
  %0 = nn.reshape %x {shape = array<i64: 2, 4, 15>} : tensor<2x2x6x5xf32> -> tensor<2x4x15xf32>
  %1 = nn.group_norm %0 {epsilon = 1.0e-5 : f64, groups = 4 : i64} : tensor<2x4x15xf32> -> tensor<2x4x15xf32>
  %2 = nn.reshape %1 {shape = array<i64: 2, 2, 6, 5>} : tensor<2x4x15xf32> -> tensor<2x2x6x5xf32>
  return %2 : tensor<2x2x6x5xf32>
}

// A scale per group in between is no scale per channel.

// CHECK-LABEL: func.func @refused_inner_scale
// CHECK:         nn.group_norm %{{.+}} scale
// CHECK:         nn.reshape
// CHECK-NOT:     nn.group_norm
// CHECK:         return
func.func @refused_inner_scale(%x: tensor<2x4x3x5xf32>, %g: tensor<2xf32>) -> tensor<2x4x3x5xf32> {
  %0 = nn.reshape %x {shape = array<i64: 2, 2, 30>} : tensor<2x4x3x5xf32> -> tensor<2x2x30xf32>
  %1 = nn.group_norm %0 scale %g : tensor<2xf32> {epsilon = 1.0e-5 : f64, groups = 2 : i64} : tensor<2x2x30xf32> -> tensor<2x2x30xf32>
  %2 = nn.reshape %1 {shape = array<i64: 2, 4, 3, 5>} : tensor<2x2x30xf32> -> tensor<2x4x3x5xf32>
  return %2 : tensor<2x4x3x5xf32>
}

// The mean over one dimension, the variance over another: no layer norm. The
// rest is an RMS norm of x - mean.

// CHECK-LABEL: func.func @refused_variance_of_another_axis
// CHECK-NOT:     nn.layer_norm
// CHECK:         %[[C:.+]] = nn.sub
// CHECK-NOT:     nn.layer_norm
// CHECK:         nn.rms_norm %[[C]] {axis = 2
// CHECK-NOT:     nn.layer_norm
// CHECK:         return
func.func @refused_variance_of_another_axis(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x1x8xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x1x8xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %7 : tensor<2x3x8xf32>
}

// The variance over more dimensions than the mean.

// CHECK-LABEL: func.func @refused_variance_of_more_axes
// CHECK-NOT:     nn.layer_norm
// CHECK:         %[[C:.+]] = nn.sub
// CHECK:         nn.rms_norm %[[C]] {axis = 1
// CHECK-NOT:     nn.layer_norm
// CHECK:         return
func.func @refused_variance_of_more_axes(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 1, 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x1x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x1x1xf32>, tensor<f32> -> tensor<2x1x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x1x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x1x1xf32> -> tensor<2x3x8xf32>
  return %7 : tensor<2x3x8xf32>
}

// The mean of another value.

// CHECK-LABEL: func.func @refused_mean_of_another_value
// CHECK-NOT:     nn.layer_norm
// CHECK:         nn.rms_norm
// CHECK-NOT:     nn.layer_norm
// CHECK:         return
func.func @refused_mean_of_another_value(%x: tensor<2x3x8xf32>, %w: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %w {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %7 : tensor<2x3x8xf32>
}

// The sum of squares by n - 1.

// CHECK-LABEL: func.func @refused_sample_variance
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_sample_variance(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_sum %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<7.0> : tensor<f32>
  %5 = nn.div %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.constant dense<1.0e-5> : tensor<f32>
  %7 = nn.add %5, %6 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %8 = nn.rsqrt %7 : tensor<2x3x1xf32>
  %9 = nn.mul %1, %8 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %9 : tensor<2x3x8xf32>
}

// An epsilon below 0.

// CHECK-LABEL: func.func @refused_negative_epsilon
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_negative_epsilon(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<-1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %7 : tensor<2x3x8xf32>
}

// No epsilon: a constant row gives NaN, which a norm does not.

// CHECK-LABEL: func.func @refused_no_epsilon
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_no_epsilon(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.rsqrt %3 : tensor<2x3x1xf32>
  %5 = nn.mul %1, %4 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// The epsilon added to the root, not under it.

// CHECK-LABEL: func.func @refused_epsilon_outside
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_epsilon_outside(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.sqrt %3 : tensor<2x3x1xf32>
  %5 = nn.constant dense<1.0e-5> : tensor<f32>
  %6 = nn.add %4, %5 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %7 = nn.div %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %7 : tensor<2x3x8xf32>
}

// An epsilon that is no constant.

// CHECK-LABEL: func.func @refused_epsilon_per_element
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_epsilon_per_element(%x: tensor<2x3x8xf32>, %e: tensor<1xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.add %3, %e : tensor<2x3x1xf32>, tensor<1xf32> -> tensor<2x3x1xf32>
  %5 = nn.rsqrt %4 : tensor<2x3x1xf32>
  %6 = nn.mul %1, %5 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %6 : tensor<2x3x8xf32>
}

// By the root of another value's mean square.

// CHECK-LABEL: func.func @refused_root_of_another
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_root_of_another(%x: tensor<2x3x8xf32>, %w: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.mul %w, %w : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<f32>
  %3 = nn.add %1, %2 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %4 = nn.rsqrt %3 : tensor<2x3x1xf32>
  %5 = nn.mul %x, %4 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// A product of two values where the square should be.

// CHECK-LABEL: func.func @refused_product_for_the_square
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_product_for_the_square(%x: tensor<2x3x8xf32>, %w: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.mul %x, %w : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<f32>
  %3 = nn.add %1, %2 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %4 = nn.rsqrt %3 : tensor<2x3x1xf32>
  %5 = nn.mul %x, %4 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// A cube where the square should be.

// CHECK-LABEL: func.func @refused_cube
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_cube(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.constant dense<3.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x3x8xf32>, tensor<f32> -> tensor<2x3x8xf32>
  %2 = nn.reduce_mean %1 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %3 = nn.constant dense<1.0e-5> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %5 = nn.rsqrt %4 : tensor<2x3x1xf32>
  %6 = nn.mul %x, %5 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %6 : tensor<2x3x8xf32>
}

// Multiplied by the root instead of divided.

// CHECK-LABEL: func.func @refused_times_the_root
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_times_the_root(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<f32>
  %3 = nn.add %1, %2 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %4 = nn.sqrt %3 : tensor<2x3x1xf32>
  %5 = nn.mul %x, %4 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// Divided by the inverse root.

// CHECK-LABEL: func.func @refused_divided_by_rsqrt
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_divided_by_rsqrt(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<f32>
  %3 = nn.add %1, %2 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %4 = nn.rsqrt %3 : tensor<2x3x1xf32>
  %5 = nn.div %x, %4 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// The value below the line, the inverse root above.

// CHECK-LABEL: func.func @refused_below_the_line
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_below_the_line(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<f32>
  %3 = nn.add %1, %2 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %4 = nn.rsqrt %3 : tensor<2x3x1xf32>
  %5 = nn.div %4, %x : tensor<2x3x1xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// 1 / variance, without a root.

// CHECK-LABEL: func.func @refused_variance_alone
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_variance_alone(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.div %1, %5 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %6 : tensor<2x3x8xf32>
}

// A maximum where the mean should be.

// CHECK-LABEL: func.func @refused_maximum
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_maximum(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %1 = nn.reduce_max %0 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<f32>
  %3 = nn.add %1, %2 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %4 = nn.rsqrt %3 : tensor<2x3x1xf32>
  %5 = nn.mul %x, %4 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %5 : tensor<2x3x8xf32>
}

// E[x]^2 - E[x^2]: minus the variance.

// CHECK-LABEL: func.func @refused_variance_reversed
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_variance_reversed(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %p = nn.mul %m, %m : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %d = nn.sub %p, %s : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %d, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %c, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// E[x^2] + E[x]^2.

// CHECK-LABEL: func.func @refused_variance_plus
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_variance_plus(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %p = nn.mul %m, %m : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %d = nn.add %s, %p : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %d, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %c, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// E[w^2] - E[x]^2.

// CHECK-LABEL: func.func @refused_variance_of_two_values
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_variance_of_two_values(%x: tensor<2x3x8xf32>, %w: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %w, %w : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %p = nn.mul %m, %m : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %d = nn.sub %s, %p : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %d, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %c, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// x itself over the root of its variance.

// CHECK-LABEL: func.func @refused_not_centred
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_not_centred(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %p = nn.mul %m, %m : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %d = nn.sub %s, %p : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %d, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %x, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// A variance of at least 0.5 is another one.

// CHECK-LABEL: func.func @refused_clamped_above_zero
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_clamped_above_zero(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %p = nn.mul %m, %m : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %d = nn.sub %s, %p : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %h = nn.constant dense<0.5> : tensor<f32>
  %k = nn.maximum %d, %h : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %k, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %c, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// A variance of at most 0.

// CHECK-LABEL: func.func @refused_clamped_from_above
// CHECK-NOT:     nn.layer_norm
// CHECK-NOT:     nn.rms_norm
// CHECK:         return
func.func @refused_clamped_from_above(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %p = nn.mul %m, %m : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %d = nn.sub %s, %p : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %h = nn.constant dense<0.0> : tensor<f32>
  %k = nn.minimum %d, %h : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %k, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %c, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}
