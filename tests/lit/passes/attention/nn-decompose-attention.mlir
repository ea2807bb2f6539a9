// RUN: diffc-opt %s --nn-decompose-attention | FileCheck %s

// CHECK-LABEL: func.func @plain
// CHECK-SAME:    (%[[Q:.+]]: tensor<1x2x4x8xf32>, %[[K:.+]]: tensor<1x2x6x8xf32>
// CHECK-NEXT:    %[[S:.+]] = nn.matmul %[[Q]], %[[K]] {transpose_b = true}
// CHECK-NEXT:    %[[C:.+]] = nn.constant dense<5.000000e-01>
// CHECK-NEXT:    %[[T:.+]] = nn.mul %[[S]], %[[C]]
// CHECK-NEXT:    %[[P:.+]] = nn.softmax %[[T]] {axis = 3 : i64}
// CHECK-NEXT:    nn.matmul %[[P]]
func.func @plain(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>) -> tensor<1x2x4x8xf32> {
  %o = nn.attention %q, %k, %k {scale = 0.5} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x8xf32>
  return %o : tensor<1x2x4x8xf32>
}

// A causal mask hides the keys after the query's own place.

// CHECK-LABEL: func.func @causal
// CHECK:         nn.greater
// CHECK:         nn.select
// CHECK:         nn.softmax
func.func @causal(%q: tensor<1x1x4x8xf32>) -> tensor<1x1x4x8xf32> {
  %o = nn.attention %q, %q, %q {causal = true, scale = 1.0} : tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32>, tensor<1x1x4x8xf32> -> tensor<1x1x4x8xf32>
  return %o : tensor<1x1x4x8xf32>
}
