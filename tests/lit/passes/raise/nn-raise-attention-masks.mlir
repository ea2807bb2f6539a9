// RUN: diffc-opt %s --nn-raise-attention --canonicalize | FileCheck %s
//
// Masks in all their forms, and heads that are folded into the batch.

// Three dimensions under four of the scores: heads, not samples.

// CHECK-LABEL: func.func @mask_per_head
// CHECK:         nn.attention %{{[^ ]+}}, %{{[^ ]+}}, %{{[^ ]+}} mask %{{[^ ]+}} {scale = 5.000000e-01 : f64} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x5xf32>, tensor<3x4x6xf32> ->
// CHECK-NOT:     nn.softmax
func.func @mask_per_head(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %m: tensor<3x4x6xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %a = nn.add %s, %m : tensor<2x3x4x6xf32>, tensor<3x4x6xf32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %a {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// A bias of positions and a mask: one is added to the other.

// CHECK-LABEL: func.func @two_masks
// CHECK:         %[[M:.+]] = nn.add %{{.+}} : tensor<1x3x4x6xf32>, tensor<2x1x1x6xf32> -> tensor<2x3x4x6xf32>
// CHECK:         nn.attention %{{[^ ]+}}, %{{[^ ]+}}, %{{[^ ]+}} mask %[[M]]
func.func @two_masks(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %b: tensor<1x3x4x6xf32>, %m: tensor<2x1x1x6xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %a = nn.add %s, %b : tensor<2x3x4x6xf32>, tensor<1x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %c = nn.add %m, %a : tensor<2x1x1x6xf32>, tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %c {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// -inf in place of a score hides its key, as added to it.

// CHECK-LABEL: func.func @filled
// CHECK:         nn.attention %{{[^ ]+}}, %{{[^ ]+}}, %{{[^ ]+}} mask %{{[^ ]+}} {scale = 5.000000e-01 : f64} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x5xf32>, tensor<4x6xf32> ->
// CHECK-NOT:     nn.softmax
func.func @filled(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %m: tensor<4x6xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %z = nn.constant dense<0.0> : tensor<f32>
  %h = nn.greater %m, %z : tensor<4x6xf32>, tensor<f32> -> tensor<4x6xi1>
  %n = nn.constant dense<0xFF800000> : tensor<f32>
  %a = nn.select %h, %n, %s : tensor<4x6xi1>, tensor<f32>, tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %a {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// The other way round.

// CHECK-LABEL: func.func @filled_where_false
// CHECK:         nn.attention %{{[^ ]+}}, %{{[^ ]+}}, %{{[^ ]+}} mask %{{[^ ]+}} {scale = 5.000000e-01 : f64} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x5xf32>, tensor<4x6xf32> ->
// CHECK-NOT:     nn.softmax
func.func @filled_where_false(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %m: tensor<4x6xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %z = nn.constant dense<0.0> : tensor<f32>
  %h = nn.greater %m, %z : tensor<4x6xf32>, tensor<f32> -> tensor<4x6xi1>
  %n = nn.constant dense<0xFF800000> : tensor<f32>
  %a = nn.select %h, %s, %n : tensor<4x6xi1>, tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %a {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// With a row that sees no key: 0 on both sides.

// CHECK-LABEL: func.func @filled_row
// CHECK:         nn.attention
// CHECK-NOT:     nn.softmax
func.func @filled_row(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %h = nn.constant dense<[[true, true, true, true, true, true], [false, true, true, true, true, true], [false, false, true, true, true, true], [false, false, false, false, false, false]]> : tensor<4x6xi1>
  %n = nn.constant dense<0xFF800000> : tensor<f32>
  %a = nn.select %h, %n, %s : tensor<4x6xi1>, tensor<f32>, tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %a {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// Heads folded into the batch around the products, a mask per sample between.

// CHECK-LABEL: func.func @folded_heads
// CHECK:         nn.attention %{{.+}} mask %{{.+}} {scale = 1.000000e+00 : f64} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x5xf32>, tensor<2x1x4x6xf32> ->
// CHECK-NOT:     nn.softmax
func.func @folded_heads(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x6x5xf32>, %m: tensor<2x1x4x6xf32>) -> tensor<6x4x5xf32> {
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<6x4x8xf32>, tensor<6x6x8xf32> -> tensor<6x4x6xf32>
  %s1 = nn.reshape %s0 {shape = array<i64: 2, 3, 4, 6>} : tensor<6x4x6xf32> -> tensor<2x3x4x6xf32>
  %a = nn.add %s1, %m : tensor<2x3x4x6xf32>, tensor<2x1x4x6xf32> -> tensor<2x3x4x6xf32>
  %b = nn.reshape %a {shape = array<i64: 6, 4, 6>} : tensor<2x3x4x6xf32> -> tensor<6x4x6xf32>
  %p = nn.softmax %b {axis = 2 : i64} : tensor<6x4x6xf32> -> tensor<6x4x6xf32>
  %o = nn.matmul %p, %v : tensor<6x4x6xf32>, tensor<6x6x5xf32> -> tensor<6x4x5xf32>
  return %o : tensor<6x4x5xf32>
}

// Only the weights folded.

// CHECK-LABEL: func.func @folded_weights
// CHECK:         nn.attention %{{.+}} {scale = 5.000000e-01 : f64} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32>, tensor<2x3x6x5xf32> ->
// CHECK-NOT:     nn.softmax
func.func @folded_weights(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<6x6x5xf32>) -> tensor<6x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %s {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %w = nn.reshape %p {shape = array<i64: 6, 4, 6>} : tensor<2x3x4x6xf32> -> tensor<6x4x6xf32>
  %o = nn.matmul %w, %v : tensor<6x4x6xf32>, tensor<6x6x5xf32> -> tensor<6x4x5xf32>
  return %o : tensor<6x4x5xf32>
}

// -10000 in place of a score: where all are hidden, all weigh the same, which an added
// number does not give.

// CHECK-LABEL: func.func @refused_filled_with_a_number
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_filled_with_a_number(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %m: tensor<4x6xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %z = nn.constant dense<0.0> : tensor<f32>
  %h = nn.greater %m, %z : tensor<4x6xf32>, tensor<f32> -> tensor<4x6xi1>
  %n = nn.constant dense<-10000.0> : tensor<f32>
  %a = nn.select %h, %n, %s : tensor<4x6xi1>, tensor<f32>, tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %a {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// +inf hides all others.

// CHECK-LABEL: func.func @refused_infinity
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_infinity(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %m: tensor<4x6xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %z = nn.constant dense<0.0> : tensor<f32>
  %h = nn.greater %m, %z : tensor<4x6xf32>, tensor<f32> -> tensor<4x6xi1>
  %n = nn.constant dense<0x7F800000> : tensor<f32>
  %a = nn.select %h, %n, %s : tensor<4x6xi1>, tensor<f32>, tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %a {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// The product is the condition, not what is chosen.

// CHECK-LABEL: func.func @refused_filled_elsewhere
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_filled_elsewhere(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %w: tensor<2x3x4x6xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %z = nn.constant dense<0.0> : tensor<f32>
  %h = nn.greater %s, %z : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xi1>
  %n = nn.constant dense<0xFF800000> : tensor<f32>
  %a = nn.select %h, %n, %w : tensor<2x3x4x6xi1>, tensor<f32>, tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %a {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// A mask that is scaled with the scores.

// CHECK-LABEL: func.func @refused_scaled_after_the_mask
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_scaled_after_the_mask(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %m: tensor<4x6xf32>) -> tensor<2x3x4x5xf32> {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %a = nn.add %s, %m : tensor<2x3x4x6xf32>, tensor<4x6xf32> -> tensor<2x3x4x6xf32>
  %c = nn.mul %a, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %c {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o : tensor<2x3x4x5xf32>
}

// Masks before and after a reshape that folds the heads: one needs both shapes.

// CHECK-LABEL: func.func @refused_masks_of_two_shapes
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_masks_of_two_shapes(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x6x5xf32>, %m: tensor<2x1x4x6xf32>, %n: tensor<6x4x6xf32>) -> tensor<6x4x5xf32> {
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<6x4x8xf32>, tensor<6x6x8xf32> -> tensor<6x4x6xf32>
  %s1 = nn.reshape %s0 {shape = array<i64: 2, 3, 4, 6>} : tensor<6x4x6xf32> -> tensor<2x3x4x6xf32>
  %a = nn.add %s1, %m : tensor<2x3x4x6xf32>, tensor<2x1x4x6xf32> -> tensor<2x3x4x6xf32>
  %b = nn.reshape %a {shape = array<i64: 6, 4, 6>} : tensor<2x3x4x6xf32> -> tensor<6x4x6xf32>
  %c = nn.add %b, %n : tensor<6x4x6xf32>, tensor<6x4x6xf32> -> tensor<6x4x6xf32>
  %p = nn.softmax %c {axis = 2 : i64} : tensor<6x4x6xf32> -> tensor<6x4x6xf32>
  %o = nn.matmul %p, %v : tensor<6x4x6xf32>, tensor<6x6x5xf32> -> tensor<6x4x5xf32>
  return %o : tensor<6x4x5xf32>
}

// A reshape that cuts the rows anew.

// CHECK-LABEL: func.func @refused_other_rows
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_other_rows(%q: tensor<6x4x8xf32>, %k: tensor<6x6x8xf32>, %v: tensor<6x4x5xf32>) -> tensor<6x6x5xf32> {
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<6x4x8xf32>, tensor<6x6x8xf32> -> tensor<6x4x6xf32>
  %s1 = nn.reshape %s0 {shape = array<i64: 6, 6, 4>} : tensor<6x4x6xf32> -> tensor<6x6x4xf32>
  %p = nn.softmax %s1 {axis = 2 : i64} : tensor<6x6x4xf32> -> tensor<6x6x4xf32>
  %o = nn.matmul %p, %v : tensor<6x6x4xf32>, tensor<6x4x5xf32> -> tensor<6x6x5xf32>
  return %o : tensor<6x6x5xf32>
}

// Masked scores that something else reads too.

// CHECK-LABEL: func.func @refused_masked_scores_read
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_masked_scores_read(%q: tensor<2x3x4x8xf32>, %k: tensor<2x3x6x8xf32>, %v: tensor<2x3x6x5xf32>, %m: tensor<4x6xf32>) -> (tensor<2x3x4x5xf32>, tensor<2x3x4x6xf32>) {
  %half = nn.constant dense<0.5> : tensor<f32>
  %s0 = nn.matmul %q, %k {transpose_b = true} : tensor<2x3x4x8xf32>, tensor<2x3x6x8xf32> -> tensor<2x3x4x6xf32>
  %s = nn.mul %s0, %half : tensor<2x3x4x6xf32>, tensor<f32> -> tensor<2x3x4x6xf32>
  %a = nn.add %s, %m : tensor<2x3x4x6xf32>, tensor<4x6xf32> -> tensor<2x3x4x6xf32>
  %p = nn.softmax %a {axis = 3 : i64} : tensor<2x3x4x6xf32> -> tensor<2x3x4x6xf32>
  %o = nn.matmul %p, %v : tensor<2x3x4x6xf32>, tensor<2x3x6x5xf32> -> tensor<2x3x4x5xf32>
  return %o, %a : tensor<2x3x4x5xf32>, tensor<2x3x4x6xf32>
}
