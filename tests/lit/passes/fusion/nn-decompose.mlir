// RUN: diffc-opt %s --nn-decompose | FileCheck %s
//
// tests/unit/autodiff compares each decomposition's numbers with its operator's.

// The maximum is subtracted; a row of -inf alone divides 0 by 1.

// CHECK-LABEL: func.func @softmax
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-DAG:     %[[ZERO:.+]] = nn.constant dense<0.000000e+00>
// CHECK-DAG:     %[[ONE:.+]] = nn.constant dense<1.000000e+00>
// CHECK-DAG:     %[[LOW:.+]] = nn.constant dense<-3.40282347E+38>
// CHECK:         %[[M:.+]] = nn.reduce_max %[[X]] {axes = array<i64: 1>, keepdims = true}
// CHECK-NEXT:    %[[F:.+]] = nn.maximum %[[M]], %[[LOW]]
// CHECK-NEXT:    %[[D:.+]] = nn.sub %[[X]], %[[F]]
// CHECK-NEXT:    %[[E:.+]] = nn.exp %[[D]]
// CHECK-NEXT:    %[[T:.+]] = nn.reduce_sum %[[E]] {axes = array<i64: 1>, keepdims = true}
// CHECK-NEXT:    %[[EMPTY:.+]] = nn.equal %[[T]], %[[ZERO]]
// CHECK-NEXT:    %[[S:.+]] = nn.select %[[EMPTY]], %[[ONE]], %[[T]]
// CHECK-NEXT:    %[[R:.+]] = nn.reciprocal %[[S]]
// CHECK-NEXT:    nn.mul %[[E]], %[[R]]
func.func @softmax(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// One value of each row is subtracted before the mean is taken: rows with a
// large mean keep their small differences.

// CHECK-LABEL: func.func @layer_norm
// CHECK-SAME:    (%[[X:[^:]+]]: {{[^,]+}}, %[[S:[^:]+]]: {{[^,]+}}, %[[B:[^:]+]]:
// CHECK:         %[[FIRST:.+]] = nn.slice %[[X]] {sizes = array<i64: 4, 1>, starts = array<i64: 0, 0>
// CHECK-NEXT:    %[[D:.+]] = nn.sub %[[X]], %[[FIRST]]
// CHECK-NEXT:    nn.reduce_sum %[[D]]
// CHECK:         %[[C:.+]] = nn.sub %[[D]], %{{.+}}
// CHECK-NEXT:    %[[Q:.+]] = nn.mul %[[C]], %[[C]]
// CHECK-NEXT:    nn.reduce_sum %[[Q]]
// CHECK:         %[[R:.+]] = nn.rsqrt
// CHECK-NEXT:    %[[N:.+]] = nn.mul %[[C]], %[[R]]
// CHECK-NEXT:    %[[Y:.+]] = nn.mul %[[N]], %[[S]]
// CHECK-NEXT:    nn.add %[[Y]], %[[B]]
func.func @layer_norm(%x: tensor<4x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<4x8xf32> {
  %0 = nn.layer_norm %x scale %s : tensor<8xf32> bias %b : tensor<8xf32> {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// An RMS norm has no mean to subtract.

// CHECK-LABEL: func.func @rms_norm
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NOT:     nn.sub
// CHECK:         %[[Q:.+]] = nn.mul %[[X]], %[[X]]
// CHECK:         nn.reduce_sum %[[Q]] {axes = array<i64: 1>, keepdims = true}
// CHECK:         %[[R:.+]] = nn.rsqrt
// CHECK-NEXT:    nn.mul %[[X]], %[[R]]
func.func @rms_norm(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.rms_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// Groups are rows of [N, groups, channels of a group, pixels].

// CHECK-LABEL: func.func @group_norm
// CHECK:         %[[G:.+]] = nn.reshape %{{.+}} {shape = array<i64: 2, 2, 2, 15>}
// CHECK:         nn.reduce_sum %{{.+}} {axes = array<i64: 2, 3>, keepdims = true}
// CHECK:         %[[S:.+]] = nn.reshape %{{.+}} {shape = array<i64: 1, 2, 2, 1>}
// CHECK-NEXT:    %[[Y:.+]] = nn.mul %{{.+}}, %[[S]]
// CHECK-NEXT:    nn.reshape %[[Y]] {shape = array<i64: 2, 4, 3, 5>}
func.func @group_norm(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>) -> tensor<2x4x3x5xf32> {
  %0 = nn.group_norm %x scale %s : tensor<4xf32> {groups = 2 : i64, epsilon = 1.0e-5 : f64} : tensor<2x4x3x5xf32> -> tensor<2x4x3x5xf32>
  return %0 : tensor<2x4x3x5xf32>
}

// A mean is a sum by the number of elements.

// CHECK-LABEL: func.func @mean
// CHECK:         %[[C:.+]] = nn.constant dense<1.250000e-01>
// CHECK:         %[[S:.+]] = nn.reduce_sum %{{.+}} {axes = array<i64: 1>}
// CHECK-NEXT:    nn.mul %[[S]], %[[C]]
func.func @mean(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Composite operators within composite ones go too: attention has a softmax.

// CHECK-LABEL: func.func @attention
// CHECK-NOT:     nn.attention
// CHECK-NOT:     nn.softmax
// CHECK:         nn.matmul
// CHECK:         nn.exp
// CHECK:         nn.matmul
// CHECK:         return
func.func @attention(%x: tensor<1x2x4x8xf32>) -> tensor<1x2x4x8xf32> {
  %0 = nn.attention %x, %x, %x {scale = 1.0} : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x8xf32>
  return %0 : tensor<1x2x4x8xf32>
}

// A sum over several leading dimensions: the outermost last, so that its parts
// can be shared by threads.

// CHECK-LABEL: func.func @column_sum
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[I:.+]] = nn.reduce_sum %[[X]] {axes = array<i64: 1, 2>} : tensor<2x4x3x8xf32> -> tensor<2x8xf32>
// CHECK-NEXT:    nn.reduce_sum %[[I]] {axes = array<i64: 0>}
func.func @column_sum(%x: tensor<2x4x3x8xf32>) -> tensor<8xf32> {
  %0 = nn.reduce_sum %x {axes = array<i64: 0, 1, 2>} : tensor<2x4x3x8xf32> -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// Other sums stay: over one dimension, with the last one, kept as 1, or with
// nothing to share.

// CHECK-LABEL: func.func @other_sums
// CHECK-COUNT-4: nn.reduce_sum
// CHECK-NOT:     nn.reduce_sum
// CHECK:         return
func.func @other_sums(%x: tensor<2x4x8xf32>, %y: tensor<1x4x8xf32>) -> (tensor<4x8xf32>, tensor<f32>, tensor<1x1x8xf32>, tensor<8xf32>) {
  %0 = nn.reduce_sum %x {axes = array<i64: 0>} : tensor<2x4x8xf32> -> tensor<4x8xf32>
  %1 = nn.reduce_sum %x {axes = array<i64: 0, 1, 2>} : tensor<2x4x8xf32> -> tensor<f32>
  %2 = nn.reduce_sum %x {axes = array<i64: 0, 1>, keepdims = true} : tensor<2x4x8xf32> -> tensor<1x1x8xf32>
  %3 = nn.reduce_sum %y {axes = array<i64: 0, 1>} : tensor<1x4x8xf32> -> tensor<8xf32>
  return %0, %1, %2, %3 : tensor<4x8xf32>, tensor<f32>, tensor<1x1x8xf32>, tensor<8xf32>
}

// What is simple already stays as it is.

// CHECK-LABEL: func.func @simple
// CHECK-NEXT:    nn.silu
// CHECK-NEXT:    return
func.func @simple(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.silu %x : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// The library computes in f32, whatever the operands are.

// CHECK-LABEL: func.func @half_product
// CHECK-DAG:     %[[A:.+]] = nn.cast %arg0 {to = f32}
// CHECK-DAG:     %[[B:.+]] = nn.cast %arg1 {to = f32}
// CHECK:         %[[C:.+]] = nn.matmul %[[A]], %[[B]] {transpose_b = true} : tensor<2x3xf32>, tensor<4x3xf32> -> tensor<2x4xf32>
// CHECK:         %[[D:.+]] = nn.cast %[[C]] {to = f16}
// CHECK:         return %[[D]]
func.func @half_product(%x: tensor<2x3xf16>, %w: tensor<4x3xf16>) -> tensor<2x4xf16> {
  %0 = nn.matmul %x, %w {transpose_b = true} : tensor<2x3xf16>, tensor<4x3xf16> -> tensor<2x4xf16>
  return %0 : tensor<2x4xf16>
}

// What has no elements is not computed.

// CHECK-LABEL: func.func @nothing
// CHECK-NEXT:    %[[NONE:.+]] = nn.constant dense<> : tensor<2x0xf32>
// CHECK-NEXT:    return %[[NONE]]
func.func @nothing(%x: tensor<2x3xf32>) -> tensor<2x0xf32> {
  %0 = nn.slice %x {sizes = array<i64: 2, 0>, starts = array<i64: 0, 3>, strides = array<i64: 1, 1>} : tensor<2x3xf32> -> tensor<2x0xf32>
  %1 = nn.exp %0 : tensor<2x0xf32>
  return %1 : tensor<2x0xf32>
}
