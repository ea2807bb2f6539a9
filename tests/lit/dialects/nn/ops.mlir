// RUN: diffc-opt %s | diffc-opt | FileCheck %s
// RUN: diffc-opt %s --mlir-print-op-generic | diffc-opt | FileCheck %s

// Every operator's custom form, read back from its own printing.

// CHECK-LABEL: func.func @elementwise
func.func @elementwise(%x: tensor<2x8xf32>, %b: tensor<8xf32>, %n: tensor<2x8xi32>,
                       %m: tensor<8xi32>) -> tensor<2x8xf32> {
  // CHECK: nn.gelu %{{.*}} {form = #nn.gelu_form<tanh>} : tensor<2x8xf32>
  %0 = nn.gelu %x {form = #nn.gelu_form<tanh>} : tensor<2x8xf32>
  // CHECK: nn.add %{{.*}}, %{{.*}} : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  %1 = nn.add %0, %b : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  // CHECK: nn.less %{{.*}} -> tensor<2x8xi1>
  %2 = nn.less %1, %b : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xi1>
  // CHECK: nn.select
  %3 = nn.select %2, %1, %b : tensor<2x8xi1>, tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  // CHECK: nn.cast %{{.*}} {to = bf16} : tensor<2x8xf32> -> tensor<2x8xbf16>
  %4 = nn.cast %3 {to = bf16} : tensor<2x8xf32> -> tensor<2x8xbf16>
  // CHECK: nn.silu_grad
  %5 = nn.silu_grad %x, %3 : tensor<2x8xf32>
  // CHECK: nn.atan
  %6 = nn.atan %x : tensor<2x8xf32>
  // CHECK: nn.log1p
  %7 = nn.log1p %6 : tensor<2x8xf32>
  // CHECK: nn.remainder %{{.*}}, %{{.*}} : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  %8 = nn.remainder %7, %b : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  // CHECK: nn.bitwise_and %{{.*}} : tensor<2x8xi32>, tensor<8xi32> -> tensor<2x8xi32>
  %9 = nn.bitwise_and %n, %m : tensor<2x8xi32>, tensor<8xi32> -> tensor<2x8xi32>
  return %5 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @tensors
func.func @tensors(%x: tensor<2x3x4xf32>, %i: tensor<5xi64>) -> tensor<2x5x4xf32> {
  // CHECK: nn.reduce_sum %{{.*}} {axes = array<i64: 1>, keepdims = true} : tensor<2x3x4xf32> -> tensor<2x1x4xf32>
  %0 = nn.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : tensor<2x3x4xf32> -> tensor<2x1x4xf32>
  // CHECK: nn.transpose
  %1 = nn.transpose %x {permutation = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  // CHECK: nn.slice
  %2 = nn.slice %1 {starts = array<i64: 3, 0, 0>, sizes = array<i64: 2, 2, 3>, strides = array<i64: -2, 1, 1>} : tensor<4x2x3xf32> -> tensor<2x2x3xf32>
  // CHECK: nn.concat %{{.*}}, %{{.*}} {axis = 1 : i64}
  %3 = nn.concat %2, %2 {axis = 1 : i64} : tensor<2x2x3xf32>, tensor<2x2x3xf32> -> tensor<2x4x3xf32>
  // CHECK: nn.pad
  %4 = nn.pad %3 {low = array<i64: 0, 1, 0>, high = array<i64: 0, 0, -1>, interior = array<i64: 0, 0, 1>, value = 0.0} : tensor<2x4x3xf32> -> tensor<2x5x4xf32>
  // CHECK: nn.gather
  %5 = nn.gather %x, %i {axis = 1 : i64} : tensor<2x3x4xf32>, tensor<5xi64> -> tensor<2x5x4xf32>
  // CHECK: nn.scatter_add
  %6 = nn.scatter_add %i, %5 {axis = 1 : i64, size = 3 : i64} : tensor<5xi64>, tensor<2x5x4xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.iota
  %7 = nn.iota {axis = 0 : i64, type = tensor<4xi64>} : tensor<4xi64>
  return %4 : tensor<2x5x4xf32>
}

// CHECK-LABEL: func.func @contractions
func.func @contractions(%x: tensor<2x4x8x8xf32>, %w: tensor<6x4x3x3xf32>, %q: tensor<2x2x5x4xf32>,
                        %m: tensor<5x5xf32>) -> tensor<2x6x4x4xf32> {
  // CHECK: nn.convolution %{{.*}}, %{{.*}} {{.*}} : tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<2x6x4x4xf32>
  %0 = nn.convolution %x, %w {strides = array<i64: 2, 2>, pads_low = array<i64: 1, 1>, pads_high = array<i64: 1, 1>, dilations = array<i64: 1, 1>, groups = 1 : i64} : tensor<2x4x8x8xf32>, tensor<6x4x3x3xf32> -> tensor<2x6x4x4xf32>
  // CHECK: nn.matmul %{{.*}}, %{{.*}} {transpose_b = true}
  %1 = nn.matmul %q, %q {transpose_b = true} : tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32> -> tensor<2x2x5x5xf32>
  // CHECK: nn.attention %{{.*}}, %{{.*}}, %{{.*}} mask %{{.*}} {scale = 5.000000e-01 : f64}
  %2 = nn.attention %q, %q, %q mask %m {scale = 0.5} : tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<2x2x5x4xf32>, tensor<5x5xf32> -> tensor<2x2x5x4xf32>
  return %0 : tensor<2x6x4x4xf32>
}

// CHECK-LABEL: func.func @norms
func.func @norms(%x: tensor<2x4x8xf32>, %s: tensor<8xf32>, %c: tensor<4xf32>) -> tensor<2x4x8xf32> {
  // CHECK: nn.layer_norm %{{.*}} scale %{{.*}} : tensor<8xf32> bias %{{.*}} : tensor<8xf32>
  %0 = nn.layer_norm %x scale %s : tensor<8xf32> bias %s : tensor<8xf32> {axis = 2 : i64, epsilon = 1.0e-5} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  // CHECK: nn.layer_norm_grad
  %1:3 = nn.layer_norm_grad %x scale %s : tensor<8xf32> grad %0 {axis = 2 : i64, epsilon = 1.0e-5} : tensor<2x4x8xf32>, tensor<2x4x8xf32> -> tensor<2x4x8xf32>, tensor<8xf32>, tensor<8xf32>
  // CHECK: nn.group_norm
  %2 = nn.group_norm %x scale %c : tensor<4xf32> {groups = 2 : i64, epsilon = 1.0e-5} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  // CHECK: nn.softmax
  %3 = nn.softmax %2 {axis = 2 : i64} : tensor<2x4x8xf32> -> tensor<2x4x8xf32>
  return %3 : tensor<2x4x8xf32>
}

// CHECK-LABEL: func.func @regions
func.func @regions(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  // CHECK: nn.kernel "silu" (%[[A:.*]] = %{{.*}}) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  // CHECK-NEXT: nn.silu %[[A]]
  // CHECK-NEXT: nn.yield
  %0 = nn.kernel "silu" (%a = %x) : (tensor<2x8xf32>) -> tensor<2x8xf32> {
    %1 = nn.silu %a : tensor<2x8xf32>
    nn.yield %1 : tensor<2x8xf32>
  }
  return %0 : tensor<2x8xf32>
}
