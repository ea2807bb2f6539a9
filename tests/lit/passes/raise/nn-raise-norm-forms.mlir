// RUN: diffc-opt %s --canonicalize --cse --nn-raise-norm --canonicalize --cse | FileCheck %s
//
// Norms over other dimensions than the last, and variances spelled otherwise.

// E[x^2] - E[x]^2 is the variance; the operator keeps what it loses.

// CHECK-LABEL: func.func @squares_less_mean_squared
// CHECK-SAME:    (%[[X:[^:]+]]: tensor
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @squares_less_mean_squared(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
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

// Clamped at 0, below which no variance is.

// CHECK-LABEL: func.func @squares_less_mean_squared_relu
// CHECK-SAME:    (%[[X:[^:]+]]: tensor
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @squares_less_mean_squared_relu(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %p = nn.mul %m, %m : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %d = nn.sub %s, %p : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %k = nn.relu %d : tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %k, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %c, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// The same by a maximum.

// CHECK-LABEL: func.func @squares_less_mean_squared_maximum
// CHECK-SAME:    (%[[X:[^:]+]]: tensor
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @squares_less_mean_squared_maximum(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %q = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %p = nn.mul %m, %m : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %d = nn.sub %s, %p : tensor<2x3x1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %h = nn.constant dense<0.0> : tensor<f32>
  %k = nn.maximum %h, %d : tensor<f32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %k, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %c, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// One mean for the variance, the same one as a sum over a count for the value.

// CHECK-LABEL: func.func @mean_spelled_twice
// CHECK-SAME:    (%[[X:[^:]+]]: tensor
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @mean_spelled_twice(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %m = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %q = nn.mul %c, %c : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %t = nn.reduce_sum %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %n = nn.constant dense<8.0> : tensor<f32>
  %u = nn.div %t, %n : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %c2 = nn.sub %x, %u : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %s, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x3x1xf32>
  %y = nn.mul %c2, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// Channels first, with scale and bias: the channels are moved to the end.

// CHECK-LABEL: func.func @channels_first
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x4x3x5xf32>, %[[S:[^:]+]]: tensor<4x1x1xf32>, %[[B:[^:]+]]: tensor<4x1x1xf32>)
// CHECK:         %[[T:.+]] = nn.transpose %[[X]] {permutation = array<i64: 0, 2, 3, 1>}
// CHECK:         %[[Y:.+]] = nn.layer_norm %[[T]] scale %{{.+}} : tensor<4xf32> bias %{{.+}} : tensor<4xf32> {axis = 3 : i64
// CHECK:         %[[Z:.+]] = nn.transpose %[[Y]] {permutation = array<i64: 0, 3, 1, 2>}
// CHECK-NEXT:    return %[[Z]]
func.func @channels_first(%x: tensor<2x4x3x5xf32>, %s0: tensor<4x1x1xf32>, %b: tensor<4x1x1xf32>) -> tensor<2x4x3x5xf32> {
  %m = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %c = nn.sub %x, %m : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %q = nn.mul %c, %c : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %s, %e : tensor<2x1x3x5xf32>, tensor<f32> -> tensor<2x1x3x5xf32>
  %r = nn.rsqrt %v : tensor<2x1x3x5xf32>
  %y = nn.mul %c, %r : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %y1 = nn.mul %s0, %y : tensor<4x1x1xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %y2 = nn.add %y1, %b : tensor<2x4x3x5xf32>, tensor<4x1x1xf32> -> tensor<2x4x3x5xf32>
  return %y2 : tensor<2x4x3x5xf32>
}

// An RMS norm over channels with its scale.

// CHECK-LABEL: func.func @rms_of_channels
// CHECK:         %[[Y:.+]] = nn.rms_norm %{{.+}} scale %{{.+}} : tensor<4xf32> {axis = 3 : i64
// CHECK-NEXT:    nn.transpose %[[Y]]
func.func @rms_of_channels(%x: tensor<2x4x3x5xf32>, %s0: tensor<4x1x1xf32>) -> tensor<2x4x3x5xf32> {
  %q = nn.mul %x, %x : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %s, %e : tensor<2x1x3x5xf32>, tensor<f32> -> tensor<2x1x3x5xf32>
  %r = nn.rsqrt %v : tensor<2x1x3x5xf32>
  %y = nn.mul %x, %r : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %y1 = nn.mul %y, %s0 : tensor<2x4x3x5xf32>, tensor<4x1x1xf32> -> tensor<2x4x3x5xf32>
  return %y1 : tensor<2x4x3x5xf32>
}

// Two dimensions that are not next to each other; the scale runs over both.

// CHECK-LABEL: func.func @two_dimensions
// CHECK:         nn.transpose %{{.+}} {permutation = array<i64: 0, 2, 1, 3>}
// CHECK:         nn.layer_norm %{{.+}} scale %{{.+}} : tensor<4x5xf32> {axis = 2 : i64
func.func @two_dimensions(%x: tensor<2x4x3x5xf32>, %g: tensor<4x1x5xf32>) -> tensor<2x4x3x5xf32> {
  %m = nn.reduce_mean %x {axes = array<i64: 1, 3>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x1xf32>
  %c = nn.sub %x, %m : tensor<2x4x3x5xf32>, tensor<2x1x3x1xf32> -> tensor<2x4x3x5xf32>
  %q = nn.mul %c, %c : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 1, 3>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x1xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %s, %e : tensor<2x1x3x1xf32>, tensor<f32> -> tensor<2x1x3x1xf32>
  %r = nn.rsqrt %v : tensor<2x1x3x1xf32>
  %y = nn.mul %c, %r : tensor<2x4x3x5xf32>, tensor<2x1x3x1xf32> -> tensor<2x4x3x5xf32>
  %y1 = nn.mul %y, %g : tensor<2x4x3x5xf32>, tensor<4x1x5xf32> -> tensor<2x4x3x5xf32>
  return %y1 : tensor<2x4x3x5xf32>
}

// A scale per sample (adaptive norm) is none of the norm's.

// CHECK-LABEL: func.func @channels_first_modulated
// CHECK:         nn.layer_norm %{{[^ ]+}} {axis = 3
// CHECK:         nn.mul
func.func @channels_first_modulated(%x: tensor<2x4x3x5xf32>, %g: tensor<2x4x1x1xf32>) -> tensor<2x4x3x5xf32> {
  %m = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %c = nn.sub %x, %m : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %q = nn.mul %c, %c : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %s, %e : tensor<2x1x3x5xf32>, tensor<f32> -> tensor<2x1x3x5xf32>
  %r = nn.rsqrt %v : tensor<2x1x3x5xf32>
  %y = nn.mul %c, %r : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %y1 = nn.mul %y, %g : tensor<2x4x3x5xf32>, tensor<2x4x1x1xf32> -> tensor<2x4x3x5xf32>
  return %y1 : tensor<2x4x3x5xf32>
}

// A scale per column is none either.

// CHECK-LABEL: func.func @channels_first_scale_of_columns
// CHECK:         nn.layer_norm %{{[^ ]+}} {axis = 3
// CHECK:         nn.mul
func.func @channels_first_scale_of_columns(%x: tensor<2x4x3x5xf32>, %g: tensor<5xf32>) -> tensor<2x4x3x5xf32> {
  %m = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %c = nn.sub %x, %m : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %q = nn.mul %c, %c : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %s, %e : tensor<2x1x3x5xf32>, tensor<f32> -> tensor<2x1x3x5xf32>
  %r = nn.rsqrt %v : tensor<2x1x3x5xf32>
  %y = nn.mul %c, %r : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %y1 = nn.mul %y, %g : tensor<2x4x3x5xf32>, tensor<5xf32> -> tensor<2x4x3x5xf32>
  return %y1 : tensor<2x4x3x5xf32>
}

// Two readers: the norm is computed once.

// CHECK-LABEL: func.func @channels_first_read_twice
// CHECK:         nn.layer_norm %{{[^ ]+}} {axis = 3
// CHECK-NOT:     nn.layer_norm
func.func @channels_first_read_twice(%x: tensor<2x4x3x5xf32>, %g: tensor<4x1x1xf32>) -> (tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>) {
  %m = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %c = nn.sub %x, %m : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %q = nn.mul %c, %c : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  %s = nn.reduce_mean %q {axes = array<i64: 1>, keepdims = true} : tensor<2x4x3x5xf32> -> tensor<2x1x3x5xf32>
  %e = nn.constant dense<1.0e-5> : tensor<f32>
  %v = nn.add %s, %e : tensor<2x1x3x5xf32>, tensor<f32> -> tensor<2x1x3x5xf32>
  %r = nn.rsqrt %v : tensor<2x1x3x5xf32>
  %y = nn.mul %c, %r : tensor<2x4x3x5xf32>, tensor<2x1x3x5xf32> -> tensor<2x4x3x5xf32>
  %y1 = nn.mul %y, %g : tensor<2x4x3x5xf32>, tensor<4x1x1xf32> -> tensor<2x4x3x5xf32>
  return %y, %y1 : tensor<2x4x3x5xf32>, tensor<2x4x3x5xf32>
}
