// RUN: diffc-opt %s --nn-differentiate --nn-decompose --canonicalize --cse --nn-fuse | FileCheck %s

// Forward and backward of a linear layer and SiLU as kernels and calls: the
// bias is in the forward call, the backward products take their operands by
// flags instead of transposing them, and nothing is left outside.

// CHECK-LABEL: func.func @linear_silu
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<6x4xf32>, %[[W:[^:]+]]: tensor<3x4xf32>, %[[B:[^:]+]]: tensor<3xf32>)
// CHECK-NEXT:    %[[H:.+]] = nn.call "matmul" ({{.+}} = %[[X]], {{.+}} = %[[W]], {{.+}} = %[[B]])
// CHECK-NEXT:      nn.matmul %{{.+}} {transpose_b = true}
// CHECK-NEXT:      nn.add
// CHECK-NEXT:      nn.yield
// CHECK-NOT:     nn.transpose
// CHECK:         nn.silu_grad
// CHECK-NOT:     nn.transpose
// CHECK:         %[[DW:.+]] = nn.call "matmul" ({{.+}}, {{.+}} = %[[X]])
// CHECK-NEXT:      nn.matmul %{{.+}} {transpose_a = true} : tensor<6x3xf32>, tensor<6x4xf32> -> tensor<3x4xf32>
// CHECK:         return %{{.+}}, %[[DW]], %{{.+}}
func.func @linear_silu(%x: tensor<6x4xf32>, %w: tensor<3x4xf32> {nn.trainable}, %b: tensor<3xf32> {nn.trainable}) -> tensor<f32>
    attributes {nn.differentiate} {
  %0 = nn.matmul %x, %w {transpose_b = true} : tensor<6x4xf32>, tensor<3x4xf32> -> tensor<6x3xf32>
  %1 = nn.add %0, %b : tensor<6x3xf32>, tensor<3xf32> -> tensor<6x3xf32>
  %2 = nn.silu %1 : tensor<6x3xf32>
  %3 = nn.reduce_sum %2 {axes = array<i64: 0, 1>} : tensor<6x3xf32> -> tensor<f32>
  return %3 : tensor<f32>
}

// A norm's statistics are computed once for forward and backward.

// CHECK-LABEL: func.func @norm
// CHECK-NEXT:    %[[R:.+]]:3 = nn.kernel
// CHECK:         nn.rsqrt
// CHECK-NOT:     nn.rsqrt
// CHECK:         nn.kernel "reduce_sum" ({{.+}} = %[[R]]#2) {{.+}}{nn.unfused = "the kernel reduces over other axes"
// CHECK:         nn.kernel "reduce_sum" ({{.+}} = %[[R]]#0) {{.+}}{nn.unfused = "the kernel reduces over other axes"
// CHECK-NOT:     nn.kernel
// CHECK:         return %{{.+}}, %[[R]]#1, %{{.+}}
func.func @norm(%x: tensor<6x8xf32> {nn.trainable}, %s: tensor<8xf32> {nn.trainable}) -> tensor<f32>
    attributes {nn.differentiate} {
  %0 = nn.rms_norm %x scale %s : tensor<8xf32> {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<6x8xf32> -> tensor<6x8xf32>
  %1 = nn.mul %0, %0 : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  %2 = nn.reduce_sum %1 {axes = array<i64: 0, 1>} : tensor<6x8xf32> -> tensor<f32>
  return %2 : tensor<f32>
}

// Softmax and its derivative: one kernel makes the gradient, rows and all.

// CHECK-LABEL: func.func @softmax
// CHECK-COUNT-1: nn.exp
// CHECK-NOT:     nn.exp
// CHECK:         return
func.func @softmax(%x: tensor<6x8xf32> {nn.trainable}, %t: tensor<6x8xf32>) -> tensor<f32>
    attributes {nn.differentiate} {
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<6x8xf32> -> tensor<6x8xf32>
  %1 = nn.mul %0, %t : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  %2 = nn.reduce_sum %1 {axes = array<i64: 0, 1>} : tensor<6x8xf32> -> tensor<f32>
  return %2 : tensor<f32>
}
