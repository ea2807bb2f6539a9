// RUN: diffc-opt %s --nn-raise | FileCheck %s
//
// All of raising, as the compiler runs it.

// A block as an exporter may write it: norm, attention with the scale on both
// sides, GELU. Nothing of the formulas stays.

// CHECK-LABEL: func.func @block
// CHECK:         %[[N:.+]] = nn.layer_norm
// CHECK:         %[[O:.+]] = nn.attention
// CHECK-NOT:     nn.softmax
// CHECK:         %[[G:.+]] = nn.gelu
// CHECK-NOT:     nn.erf
// CHECK-NOT:     nn.reduce_mean
// CHECK:         return
func.func @block(%x: tensor<1x2x4x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<1x2x4x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 3>, keepdims = true} : tensor<1x2x4x8xf32> -> tensor<1x2x4x1xf32>
  %1 = nn.sub %x, %0 : tensor<1x2x4x8xf32>, tensor<1x2x4x1xf32> -> tensor<1x2x4x8xf32>
  %2 = nn.reduce_mean %x {axes = array<i64: 3>, keepdims = true} : tensor<1x2x4x8xf32> -> tensor<1x2x4x1xf32>
  %3 = nn.sub %x, %2 : tensor<1x2x4x8xf32>, tensor<1x2x4x1xf32> -> tensor<1x2x4x8xf32>
  %4 = nn.constant dense<2.0> : tensor<f32>
  %5 = nn.pow %3, %4 : tensor<1x2x4x8xf32>, tensor<f32> -> tensor<1x2x4x8xf32>
  %6 = nn.reduce_mean %5 {axes = array<i64: 3>, keepdims = true} : tensor<1x2x4x8xf32> -> tensor<1x2x4x1xf32>
  %7 = nn.constant dense<1.0e-5> : tensor<f32>
  %8 = nn.add %6, %7 : tensor<1x2x4x1xf32>, tensor<f32> -> tensor<1x2x4x1xf32>
  %9 = nn.constant dense<0.5> : tensor<f32>
  %10 = nn.pow %8, %9 : tensor<1x2x4x1xf32>, tensor<f32> -> tensor<1x2x4x1xf32>
  %11 = nn.div %1, %10 : tensor<1x2x4x8xf32>, tensor<1x2x4x1xf32> -> tensor<1x2x4x8xf32>
  %12 = nn.mul %11, %s : tensor<1x2x4x8xf32>, tensor<8xf32> -> tensor<1x2x4x8xf32>
  %13 = nn.add %12, %b : tensor<1x2x4x8xf32>, tensor<8xf32> -> tensor<1x2x4x8xf32>
  %14 = nn.constant dense<0.594603539> : tensor<1xf32>
  %15 = nn.reshape %13 {shape = array<i64: 2, 4, 8>} : tensor<1x2x4x8xf32> -> tensor<2x4x8xf32>
  %16 = nn.transpose %15 {permutation = array<i64: 0, 2, 1>} : tensor<2x4x8xf32> -> tensor<2x8x4xf32>
  %17 = nn.reshape %16 {shape = array<i64: 1, 2, 8, 4>} : tensor<2x8x4xf32> -> tensor<1x2x8x4xf32>
  %18 = nn.mul %13, %14 : tensor<1x2x4x8xf32>, tensor<1xf32> -> tensor<1x2x4x8xf32>
  %19 = nn.mul %17, %14 : tensor<1x2x8x4xf32>, tensor<1xf32> -> tensor<1x2x8x4xf32>
  %20 = nn.matmul %18, %19 : tensor<1x2x4x8xf32>, tensor<1x2x8x4xf32> -> tensor<1x2x4x4xf32>
  %21 = nn.softmax %20 {axis = 3 : i64} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
  %22 = nn.matmul %21, %13 : tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x8xf32>
  %23 = nn.constant dense<1.41421354> : tensor<f32>
  %24 = nn.div %22, %23 : tensor<1x2x4x8xf32>, tensor<f32> -> tensor<1x2x4x8xf32>
  %25 = nn.erf %24 : tensor<1x2x4x8xf32>
  %26 = nn.constant dense<0.5> : tensor<f32>
  %27 = nn.mul %22, %26 : tensor<1x2x4x8xf32>, tensor<f32> -> tensor<1x2x4x8xf32>
  %28 = nn.constant dense<1.0> : tensor<f32>
  %29 = nn.add %25, %28 : tensor<1x2x4x8xf32>, tensor<f32> -> tensor<1x2x4x8xf32>
  %30 = nn.mul %27, %29 : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x8xf32>
  return %30 : tensor<1x2x4x8xf32>
}

// SiLU is part of it.

// CHECK-LABEL: func.func @small_silu
// CHECK:         nn.silu
// CHECK:         return
func.func @small_silu(%x: tensor<8xf32>) -> tensor<8xf32> {
  %0 = nn.sigmoid %x : tensor<8xf32>
  %1 = nn.mul %x, %0 : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  return %1 : tensor<8xf32>
}
