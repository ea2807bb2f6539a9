// RUN: diffc-opt %s --split-input-file --verify-diagnostics

func.func @broadcast(%a: tensor<2x3xf32>, %b: tensor<2xf32>) {
  // expected-error @+2 {{shapes do not broadcast}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.add %a, %b : tensor<2x3xf32>, tensor<2xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @result_shape(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{inferred type(s)}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.add %a, %a : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x4xf32>
  return
}

// -----

func.func @reshape(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{changes the number of elements}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.reshape %a {shape = array<i64: 7>} : tensor<2x3xf32> -> tensor<7xf32>
  return
}

// -----

func.func @slice(%a: tensor<4xf32>) {
  // expected-error @+2 {{slice from 2 to 4 leaves dimension 0}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.slice %a {starts = array<i64: 2>, sizes = array<i64: 3>, strides = array<i64: 1>} : tensor<4xf32> -> tensor<3xf32>
  return
}

// -----

func.func @matmul(%a: tensor<2x3xf32>) {
  // expected-error @+2 {{inner extents 3 and 2}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.matmul %a, %a : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @norm_scale(%x: tensor<2x3xf32>, %s: tensor<2xf32>) {
  // expected-error @+2 {{scale and bias must have the normalised dimensions' shape}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.layer_norm %x scale %s : tensor<2xf32> {axis = 1 : i64, epsilon = 1.0e-5} : tensor<2x3xf32> -> tensor<2x3xf32>
  return
}

// -----

func.func @groups(%x: tensor<2x3x4xf32>) {
  // expected-error @+2 {{groups do not divide the channels}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.group_norm %x {groups = 2 : i64, epsilon = 1.0e-5} : tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  return
}

// -----

func.func @reduce_axes(%x: tensor<2x3xf32>) {
  // expected-error @+2 {{axes must be sorted, distinct and within the rank}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.reduce_sum %x {axes = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<f32>
  return
}

// -----

func.func @kernel_yield(%x: tensor<2xf32>) {
  // expected-error @+1 {{yields other types than its results'}}
  %0 = nn.kernel "k" (%a = %x) : (tensor<2xf32>) -> tensor<3xf32> {
    nn.yield %a : tensor<2xf32>
  }
  return
}

// -----

func.func @convolution(%x: tensor<1x3x8x8xf32>, %w: tensor<4x2x3x3xf32>) {
  // expected-error @+2 {{3 input channels do not fit}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.convolution %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x3x8x8xf32>, tensor<4x2x3x3xf32> -> tensor<1x4x6x6xf32>
  return
}

// -----

// Bits are integers'.

func.func @bits_of_floats(%x: tensor<2xf32>) -> tensor<2xf32> {
  // expected-error @+1 {{op operand #0 must be}}
  %0 = nn.bitwise_and %x, %x : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

func.func @remainder_of_two_types(%x: tensor<2xf32>, %y: tensor<2xi32>) -> tensor<2xf32> {
  // expected-error @+2 {{element types differ}}
  // expected-error @+1 {{failed to infer returned types}}
  %0 = nn.remainder %x, %y : tensor<2xf32>, tensor<2xi32> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
