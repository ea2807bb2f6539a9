// RUN: diffc-opt %s --nn-raise-attention | FileCheck %s
//
// tests/unit/raise evaluates every function here before and after raising.

// No scale at all.

// CHECK-LABEL: func.func @unscaled
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] {scale = 1.000000e+00
// CHECK-NEXT:    return %[[O]]
func.func @unscaled(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.matmul %1, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %2 : tensor<1x2x4x5xf32>
}

// The scale on the scores, as a factor.

// CHECK-LABEL: func.func @scaled_scores
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] {scale = 0.353
// CHECK-NEXT:    return %[[O]]
func.func @scaled_scores(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.constant dense<0.353553385> : tensor<f32>
  %2 = nn.mul %0, %1 : tensor<1x2x4x6xf32>, tensor<f32> -> tensor<1x2x4x6xf32>
  %3 = nn.softmax %2 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %4 = nn.matmul %3, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %4 : tensor<1x2x4x5xf32>
}

// As a divisor, k transposed by an operation.

// CHECK-LABEL: func.func @divided_scores
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] {scale = 5.000000e-01
// CHECK-NEXT:    return %[[O]]
func.func @divided_scores(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : tensor<1x2x6x8xf32> -> tensor<1x2x8x6xf32>
  %1 = nn.matmul %q, %0 : tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.constant dense<2.0> : tensor<f32>
  %3 = nn.div %1, %2 : tensor<1x2x4x6xf32>, tensor<f32> -> tensor<1x2x4x6xf32>
  %4 = nn.softmax %3 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %5 = nn.matmul %4, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %5 : tensor<1x2x4x5xf32>
}

// On q.

// CHECK-LABEL: func.func @scaled_q
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] {scale = 5.000000e-01
// CHECK-NEXT:    return %[[O]]
func.func @scaled_q(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.constant dense<0.5> : tensor<1xf32>
  %1 = nn.mul %0, %q : tensor<1xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x8xf32>
  %2 = nn.matmul %1, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %3 = nn.softmax %2 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %4 = nn.matmul %3, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %4 : tensor<1x2x4x5xf32>
}

// On the transposed k.

// CHECK-LABEL: func.func @scaled_k
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] {scale = 5.000000e-01
// CHECK-NEXT:    return %[[O]]
func.func @scaled_k(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : tensor<1x2x6x8xf32> -> tensor<1x2x8x6xf32>
  %1 = nn.constant dense<0.5> : tensor<f32>
  %2 = nn.mul %0, %1 : tensor<1x2x8x6xf32>, tensor<f32> -> tensor<1x2x8x6xf32>
  %3 = nn.matmul %q, %2 : tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32> -> tensor<1x2x4x6xf32>
  %4 = nn.softmax %3 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %5 = nn.matmul %4, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %5 : tensor<1x2x4x5xf32>
}

// The root of it on both, as torch decomposes scaled_dot_product_attention.

// CHECK-LABEL: func.func @scaled_q_and_k
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] {scale = 0.353
// CHECK-NEXT:    return %[[O]]
func.func @scaled_q_and_k(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.constant dense<0.594603539> : tensor<1xf32>
  %1 = nn.mul %q, %0 : tensor<1x2x4x8xf32>, tensor<1xf32> -> tensor<1x2x4x8xf32>
  %2 = nn.transpose %k {permutation = array<i64: 0, 1, 3, 2>} : tensor<1x2x6x8xf32> -> tensor<1x2x8x6xf32>
  %3 = nn.mul %2, %0 : tensor<1x2x8x6xf32>, tensor<1xf32> -> tensor<1x2x8x6xf32>
  %4 = nn.matmul %1, %3 : tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32> -> tensor<1x2x4x6xf32>
  %5 = nn.softmax %4 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %6 = nn.matmul %5, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %6 : tensor<1x2x4x5xf32>
}

// Divisors and factors in three places.

// CHECK-LABEL: func.func @scaled_everywhere
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] {scale = 2.500000e-01
// CHECK-NEXT:    return %[[O]]
func.func @scaled_everywhere(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.constant dense<4.0> : tensor<f32>
  %1 = nn.div %q, %0 : tensor<1x2x4x8xf32>, tensor<f32> -> tensor<1x2x4x8xf32>
  %2 = nn.constant dense<2.0> : tensor<f32>
  %3 = nn.mul %k, %2 : tensor<1x2x6x8xf32>, tensor<f32> -> tensor<1x2x6x8xf32>
  %4 = nn.matmul %1, %3 {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %5 = nn.constant dense<2.0> : tensor<f32>
  %6 = nn.div %4, %5 : tensor<1x2x4x6xf32>, tensor<f32> -> tensor<1x2x4x6xf32>
  %7 = nn.softmax %6 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %8 = nn.matmul %7, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %8 : tensor<1x2x4x5xf32>
}

// A mask that broadcasts, added after scaling.

// CHECK-LABEL: func.func @mask
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>, %[[M:[^:]+]]:
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] mask %[[M]] {scale = 5.000000e-01
// CHECK-NEXT:    return %[[O]]
func.func @mask(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.constant dense<0.5> : tensor<f32>
  %2 = nn.mul %0, %1 : tensor<1x2x4x6xf32>, tensor<f32> -> tensor<1x2x4x6xf32>
  %3 = nn.add %2, %m : tensor<1x2x4x6xf32>, tensor<4x6xf32> -> tensor<1x2x4x6xf32>
  %4 = nn.softmax %3 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %5 = nn.matmul %4, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %5 : tensor<1x2x4x5xf32>
}

// The mask as the first operand.

// CHECK-LABEL: func.func @mask_first
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>, %[[M:[^:]+]]:
// CHECK-NEXT:    %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]] mask %[[M]] {scale = 1.000000e+00
// CHECK-NEXT:    return %[[O]]
func.func @mask_first(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<1x1x1x6xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.add %m, %0 : tensor<1x1x1x6xf32>, tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.softmax %1 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %3 = nn.matmul %2, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %3 : tensor<1x2x4x5xf32>
}

// One transpose for heads and keys: k keeps its rows in what is left.

// CHECK-LABEL: func.func @k_transposed_with_heads
// CHECK:         %[[K:.+]] = nn.transpose %{{.+}} {permutation = array<i64: 0, 2, 1, 3>}
// CHECK:         nn.attention %{{.+}}, %[[K]],
func.func @k_transposed_with_heads(%q: tensor<1x2x4x8xf32>, %k: tensor<1x6x2x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.transpose %k {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x6x2x8xf32> -> tensor<1x2x8x6xf32>
  %1 = nn.matmul %q, %0 : tensor<1x2x4x8xf32>, tensor<1x2x8x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.softmax %1 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %3 = nn.matmul %2, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %3 : tensor<1x2x4x5xf32>
}

// q and v that are stored the other way around.

// CHECK-LABEL: func.func @q_and_v_transposed
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x8x4xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x5x6xf32>)
// CHECK-DAG:     %[[QT:.+]] = nn.transpose %[[Q]]
// CHECK-DAG:     %[[VT:.+]] = nn.transpose %[[V]]
// CHECK:         nn.attention %[[QT]], %[[K]], %[[VT]]
func.func @q_and_v_transposed(%q: tensor<1x2x8x4xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x5x6xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_a = true, transpose_b = true} : tensor<1x2x8x4xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.matmul %1, %v {transpose_b = true} : tensor<1x2x4x6xf32>, tensor<1x2x5x6xf32> -> tensor<1x2x4x5xf32>
  return %2 : tensor<1x2x4x5xf32>
}

// The product's transpose, as two flags say it.

// CHECK-LABEL: func.func @transposed_result
// CHECK-SAME:    (%[[Q:[^:]+]]: tensor<1x2x4x8xf32>, %[[K:[^:]+]]: tensor<1x2x6x8xf32>, %[[V:[^:]+]]: tensor<1x2x6x5xf32>
// CHECK:         %[[O:.+]] = nn.attention %[[Q]], %[[K]], %[[V]]
// CHECK-NEXT:    %[[T:.+]] = nn.transpose %[[O]] {permutation = array<i64: 0, 1, 3, 2>}
// CHECK-NEXT:    return %[[T]]
func.func @transposed_result(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x5x4xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.matmul %v, %1 {transpose_a = true, transpose_b = true} : tensor<1x2x6x5xf32>, tensor<1x2x4x6xf32> -> tensor<1x2x5x4xf32>
  return %2 : tensor<1x2x5x4xf32>
}

// Batch and heads in one dimension.

// CHECK-LABEL: func.func @three_dimensions
// CHECK:         nn.attention %{{.+}}, %{{.+}}, %{{.+}} mask %{{.+}} {scale = 1.000000e+00 : f64} : tensor<2x1x4x8xf32>, tensor<2x1x6x8xf32>, tensor<2x1x6x5xf32>, tensor<2x1x4x6xf32>
// CHECK:         nn.reshape %{{.+}} {shape = array<i64: 2, 4, 5>}
func.func @three_dimensions(%q: tensor<2x4x8xf32>, %k: tensor<2x6x8xf32>, %v: tensor<2x6x5xf32>, %m: tensor<2x4x6xf32>) -> tensor<2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x4x8xf32>, tensor<2x6x8xf32> -> tensor<2x4x6xf32>
  %1 = nn.add %0, %m : tensor<2x4x6xf32>, tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  %2 = nn.softmax %1 {axis = 2 : i64} : tensor<2x4x6xf32> -> tensor<2x4x6xf32>
  %3 = nn.matmul %2, %v : tensor<2x4x6xf32>, tensor<2x6x5xf32> -> tensor<2x4x5xf32>
  return %3 : tensor<2x4x5xf32>
}

// A single head.

// CHECK-LABEL: func.func @two_dimensions
// CHECK:         nn.attention {{.+}} : tensor<1x1x4x8xf32>, tensor<1x1x6x8xf32>, tensor<1x1x6x5xf32> -> tensor<1x1x4x5xf32>
// CHECK:         nn.reshape %{{.+}} {shape = array<i64: 4, 5>}
func.func @two_dimensions(%q: tensor<4x8xf32>, %k: tensor<6x8xf32>, %v: tensor<6x5xf32>) -> tensor<4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<4x8xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
  %1 = nn.softmax %0 {axis = 1 : i64} : tensor<4x6xf32> -> tensor<4x6xf32>
  %2 = nn.matmul %1, %v : tensor<4x6xf32>, tensor<6x5xf32> -> tensor<4x5xf32>
  return %2 : tensor<4x5xf32>
}

// What others read of q stays for them.

// CHECK-LABEL: func.func @scaled_q_read_elsewhere
// CHECK:         %[[S:.+]] = nn.mul %[[Q:.+]], %{{.+}}
// CHECK:         nn.attention %{{.+}}
// CHECK:         return %{{.+}}, %[[S]]
func.func @scaled_q_read_elsewhere(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> (tensor<1x2x4x5xf32>, tensor<1x2x4x8xf32>) {
  %0 = nn.constant dense<0.5> : tensor<f32>
  %1 = nn.mul %q, %0 : tensor<1x2x4x8xf32>, tensor<f32> -> tensor<1x2x4x8xf32>
  %2 = nn.matmul %1, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %3 = nn.softmax %2 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %4 = nn.matmul %3, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %4, %1 : tensor<1x2x4x5xf32>, tensor<1x2x4x8xf32>
}

// Softmax over the queries.

// CHECK-LABEL: func.func @refused_queries
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_queries(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 2 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.matmul %1, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %2 : tensor<1x2x4x5xf32>
}

// Softmax over the heads.

// CHECK-LABEL: func.func @refused_heads
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_heads(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 1 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.matmul %1, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %2 : tensor<1x2x4x5xf32>
}

// The weights are a result too.

// CHECK-LABEL: func.func @refused_weights_read
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_weights_read(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> (tensor<1x2x4x5xf32>, tensor<1x2x4x6xf32>) {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.matmul %1, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %2, %1 : tensor<1x2x4x5xf32>, tensor<1x2x4x6xf32>
}

// The scores are a result too.

// CHECK-LABEL: func.func @refused_scores_read
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_scores_read(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> (tensor<1x2x4x5xf32>, tensor<1x2x4x6xf32>) {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.constant dense<0.5> : tensor<f32>
  %2 = nn.mul %0, %1 : tensor<1x2x4x6xf32>, tensor<f32> -> tensor<1x2x4x6xf32>
  %3 = nn.softmax %2 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %4 = nn.matmul %3, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %4, %0 : tensor<1x2x4x5xf32>, tensor<1x2x4x6xf32>
}

// The scaled scores are.

// CHECK-LABEL: func.func @refused_scaled_scores_read
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_scaled_scores_read(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> (tensor<1x2x4x5xf32>, tensor<1x2x4x6xf32>) {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.constant dense<0.5> : tensor<f32>
  %2 = nn.mul %0, %1 : tensor<1x2x4x6xf32>, tensor<f32> -> tensor<1x2x4x6xf32>
  %3 = nn.softmax %2 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %4 = nn.matmul %3, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %4, %2 : tensor<1x2x4x5xf32>, tensor<1x2x4x6xf32>
}

// The mask is scaled with the scores.

// CHECK-LABEL: func.func @refused_mask_scaled
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_mask_scaled(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.add %0, %m : tensor<1x2x4x6xf32>, tensor<4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.constant dense<0.5> : tensor<f32>
  %3 = nn.mul %1, %2 : tensor<1x2x4x6xf32>, tensor<f32> -> tensor<1x2x4x6xf32>
  %4 = nn.softmax %3 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %5 = nn.matmul %4, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %5 : tensor<1x2x4x5xf32>
}

// A mask that multiplies.

// CHECK-LABEL: func.func @refused_mask_multiplied
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_mask_multiplied(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<4x6xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.mul %0, %m : tensor<1x2x4x6xf32>, tensor<4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.softmax %1 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %3 = nn.matmul %2, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %3 : tensor<1x2x4x5xf32>
}

// A mask with more samples than the scores.

// CHECK-LABEL: func.func @refused_larger_mask
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_larger_mask(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>, %m: tensor<3x1x4x6xf32>) -> tensor<3x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.add %0, %m : tensor<1x2x4x6xf32>, tensor<3x1x4x6xf32> -> tensor<3x2x4x6xf32>
  %2 = nn.softmax %1 {axis = 3 : i64} : tensor<3x2x4x6xf32> -> tensor<3x2x4x6xf32>
  %3 = nn.matmul %2, %v : tensor<3x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<3x2x4x5xf32>
  return %3 : tensor<3x2x4x5xf32>
}

// A scale per head is no constant.

// CHECK-LABEL: func.func @refused_scale_per_head
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_scale_per_head(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>, %s: tensor<2x1x1xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.mul %0, %s : tensor<1x2x4x6xf32>, tensor<2x1x1xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.softmax %1 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %3 = nn.matmul %2, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %3 : tensor<1x2x4x5xf32>
}

// The weights' columns weigh the values: keys and queries exchanged.

// CHECK-LABEL: func.func @refused_weights_transposed
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_weights_transposed(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x4xf32>
  %1 = nn.softmax %0 {axis = 3 : i64} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
  %2 = nn.matmul %1, %v {transpose_a = true} : tensor<1x2x4x4xf32>, tensor<1x2x4x5xf32> -> tensor<1x2x4x5xf32>
  return %2 : tensor<1x2x4x5xf32>
}

// One k for all heads broadcasts.

// CHECK-LABEL: func.func @refused_shared_k
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_shared_k(%q: tensor<1x2x4x8xf32>, %k: tensor<1x1x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x1x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.matmul %1, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %2 : tensor<1x2x4x5xf32>
}

// Five dimensions.

// CHECK-LABEL: func.func @refused_five_dimensions
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_five_dimensions(%q: tensor<1x1x2x4x8xf32>, %k: tensor<1x1x2x6x8xf32>, %v: tensor<1x1x2x6x5xf32>) -> tensor<1x1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x1x2x4x8xf32>, tensor<1x1x2x6x8xf32> -> tensor<1x1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 4 : i64} : tensor<1x1x2x4x6xf32> -> tensor<1x1x2x4x6xf32>
  %2 = nn.matmul %1, %v : tensor<1x1x2x4x6xf32>, tensor<1x1x2x6x5xf32> -> tensor<1x1x2x4x5xf32>
  return %2 : tensor<1x1x2x4x5xf32>
}

// A softmax of something that is no product.

// CHECK-LABEL: func.func @refused_no_product
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_no_product(%q: tensor<1x2x4x6xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.softmax %q {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.matmul %0, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %1 : tensor<1x2x4x5xf32>
}

// Something between softmax and product.

// CHECK-LABEL: func.func @refused_in_between
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_in_between(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>, %d: tensor<1x2x4x6xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.softmax %0 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %2 = nn.mul %1, %d : tensor<1x2x4x6xf32>, tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %3 = nn.matmul %2, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %3 : tensor<1x2x4x5xf32>
}

// A scale of 0 is no attention.

// CHECK-LABEL: func.func @refused_scale_zero
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_scale_zero(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x6x8xf32>, %v: tensor<1x2x6x5xf32>) -> tensor<1x2x4x5xf32> {
  %0 = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x6x8xf32> -> tensor<1x2x4x6xf32>
  %1 = nn.constant dense<0.0> : tensor<f32>
  %2 = nn.mul %0, %1 : tensor<1x2x4x6xf32>, tensor<f32> -> tensor<1x2x4x6xf32>
  %3 = nn.softmax %2 {axis = 3 : i64} : tensor<1x2x4x6xf32> -> tensor<1x2x4x6xf32>
  %4 = nn.matmul %3, %v : tensor<1x2x4x6xf32>, tensor<1x2x6x5xf32> -> tensor<1x2x4x5xf32>
  return %4 : tensor<1x2x4x5xf32>
}
