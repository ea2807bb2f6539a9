// RUN: diffc-opt %s --nn-raise | FileCheck %s
//
// Blocks of models that people train, as PyTorch's exporters spell them: what is
// around an attention or a norm does not hide it.

// Two streams of tokens joined (SD3, Flux), their queries and keys normalised,
// the scale's root on both; the parts of the result go their own ways.

// CHECK-LABEL: func.func @joint_attention
// CHECK-COUNT-4: nn.rms_norm %{{.+}} scale %{{.+}} : tensor<8xf32> {axis = 3
// CHECK:         %[[O:.+]] = nn.attention %{{.+}} {scale = 0.353{{.+}} : tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>, tensor<2x2x7x8xf32>
// CHECK-NOT:     nn.softmax
// CHECK:         nn.slice
// CHECK:         nn.slice
func.func @joint_attention(%q: tensor<2x2x4x8xf32>, %k: tensor<2x2x4x8xf32>, %v: tensor<2x2x4x8xf32>, %tq: tensor<2x2x3x8xf32>, %tk: tensor<2x2x3x8xf32>, %tv: tensor<2x2x3x8xf32>, %g: tensor<8xf32>) -> (tensor<2x4x16xf32>, tensor<2x3x16xf32>) {
  %e = nn.constant dense<9.99999997E-7> : tensor<f32>
  %q2 = nn.mul %q, %q : tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32> -> tensor<2x2x4x8xf32>
  %qm = nn.reduce_mean %q2 {axes = array<i64: 3>, keepdims = true} : tensor<2x2x4x8xf32> -> tensor<2x2x4x1xf32>
  %qe = nn.add %qm, %e : tensor<2x2x4x1xf32>, tensor<f32> -> tensor<2x2x4x1xf32>
  %qr = nn.sqrt %qe : tensor<2x2x4x1xf32>
  %qi = nn.reciprocal %qr : tensor<2x2x4x1xf32>
  %qn = nn.mul %q, %qi : tensor<2x2x4x8xf32>, tensor<2x2x4x1xf32> -> tensor<2x2x4x8xf32>
  %qs = nn.mul %qn, %g : tensor<2x2x4x8xf32>, tensor<8xf32> -> tensor<2x2x4x8xf32>
  %k2 = nn.mul %k, %k : tensor<2x2x4x8xf32>, tensor<2x2x4x8xf32> -> tensor<2x2x4x8xf32>
  %km = nn.reduce_mean %k2 {axes = array<i64: 3>, keepdims = true} : tensor<2x2x4x8xf32> -> tensor<2x2x4x1xf32>
  %ke = nn.add %km, %e : tensor<2x2x4x1xf32>, tensor<f32> -> tensor<2x2x4x1xf32>
  %kr = nn.sqrt %ke : tensor<2x2x4x1xf32>
  %kn = nn.div %k, %kr : tensor<2x2x4x8xf32>, tensor<2x2x4x1xf32> -> tensor<2x2x4x8xf32>
  %ks = nn.mul %kn, %g : tensor<2x2x4x8xf32>, tensor<8xf32> -> tensor<2x2x4x8xf32>
  %tq2 = nn.mul %tq, %tq : tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32> -> tensor<2x2x3x8xf32>
  %tqm = nn.reduce_mean %tq2 {axes = array<i64: 3>, keepdims = true} : tensor<2x2x3x8xf32> -> tensor<2x2x3x1xf32>
  %tqe = nn.add %tqm, %e : tensor<2x2x3x1xf32>, tensor<f32> -> tensor<2x2x3x1xf32>
  %tqr = nn.rsqrt %tqe : tensor<2x2x3x1xf32>
  %tqn = nn.mul %tq, %tqr : tensor<2x2x3x8xf32>, tensor<2x2x3x1xf32> -> tensor<2x2x3x8xf32>
  %tqs = nn.mul %tqn, %g : tensor<2x2x3x8xf32>, tensor<8xf32> -> tensor<2x2x3x8xf32>
  %tk2 = nn.mul %tk, %tk : tensor<2x2x3x8xf32>, tensor<2x2x3x8xf32> -> tensor<2x2x3x8xf32>
  %tkm = nn.reduce_mean %tk2 {axes = array<i64: 3>, keepdims = true} : tensor<2x2x3x8xf32> -> tensor<2x2x3x1xf32>
  %tke = nn.add %tkm, %e : tensor<2x2x3x1xf32>, tensor<f32> -> tensor<2x2x3x1xf32>
  %tkr = nn.rsqrt %tke : tensor<2x2x3x1xf32>
  %tkn = nn.mul %tk, %tkr : tensor<2x2x3x8xf32>, tensor<2x2x3x1xf32> -> tensor<2x2x3x8xf32>
  %tks = nn.mul %g, %tkn : tensor<8xf32>, tensor<2x2x3x8xf32> -> tensor<2x2x3x8xf32>
  %jq = nn.concat %qs, %tqs {axis = 2 : i64} : tensor<2x2x4x8xf32>, tensor<2x2x3x8xf32> -> tensor<2x2x7x8xf32>
  %jk = nn.concat %ks, %tks {axis = 2 : i64} : tensor<2x2x4x8xf32>, tensor<2x2x3x8xf32> -> tensor<2x2x7x8xf32>
  %jv = nn.concat %v, %tv {axis = 2 : i64} : tensor<2x2x4x8xf32>, tensor<2x2x3x8xf32> -> tensor<2x2x7x8xf32>
  %root = nn.constant dense<0.594603539> : tensor<f32>
  %sq = nn.mul %jq, %root : tensor<2x2x7x8xf32>, tensor<f32> -> tensor<2x2x7x8xf32>
  %kt = nn.transpose %jk {permutation = array<i64: 0, 1, 3, 2>} : tensor<2x2x7x8xf32> -> tensor<2x2x8x7xf32>
  %sk = nn.mul %kt, %root : tensor<2x2x8x7xf32>, tensor<f32> -> tensor<2x2x8x7xf32>
  %s = nn.matmul %sq, %sk : tensor<2x2x7x8xf32>, tensor<2x2x8x7xf32> -> tensor<2x2x7x7xf32>
  %p = nn.softmax %s {axis = 3 : i64} : tensor<2x2x7x7xf32> -> tensor<2x2x7x7xf32>
  %o = nn.matmul %p, %jv : tensor<2x2x7x7xf32>, tensor<2x2x7x8xf32> -> tensor<2x2x7x8xf32>
  %ot = nn.transpose %o {permutation = array<i64: 0, 2, 1, 3>} : tensor<2x2x7x8xf32> -> tensor<2x7x2x8xf32>
  %f = nn.reshape %ot {shape = array<i64: 2, 7, 16>} : tensor<2x7x2x8xf32> -> tensor<2x7x16xf32>
  %a = nn.slice %f {sizes = array<i64: 2, 4, 16>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : tensor<2x7x16xf32> -> tensor<2x4x16xf32>
  %b = nn.slice %f {sizes = array<i64: 2, 3, 16>, starts = array<i64: 0, 4, 0>, strides = array<i64: 1, 1, 1>} : tensor<2x7x16xf32> -> tensor<2x3x16xf32>
  return %a, %b : tensor<2x4x16xf32>, tensor<2x3x16xf32>
}

// Weights of two softmaxes side by side are no softmax over all tokens.

// CHECK-LABEL: func.func @refused_joined_weights
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_joined_weights(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %tk: tensor<1x2x3x8xf32>, %v: tensor<1x2x7x8xf32>) -> tensor<1x2x4x8xf32> {
  %s = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x4xf32>
  %t = nn.matmul %q, %tk {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x3x8xf32> -> tensor<1x2x4x3xf32>
  %p = nn.softmax %s {axis = 3 : i64} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
  %u = nn.softmax %t {axis = 3 : i64} : tensor<1x2x4x3xf32> -> tensor<1x2x4x3xf32>
  %w = nn.concat %p, %u {axis = 3 : i64} : tensor<1x2x4x4xf32>, tensor<1x2x4x3xf32> -> tensor<1x2x4x7xf32>
  %o = nn.matmul %w, %v : tensor<1x2x4x7xf32>, tensor<1x2x7x8xf32> -> tensor<1x2x4x8xf32>
  return %o : tensor<1x2x4x8xf32>
}

// Rotary positions by halves (x cos + [-x2, x1] sin) before the products.

// CHECK-LABEL: func.func @rotary
// CHECK:         nn.attention %{{.+}}, %{{.+}}, %arg2 {scale = 0.353{{.+}}
// CHECK-NOT:     nn.softmax
func.func @rotary(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>, %cos: tensor<4x8xf32>, %sin: tensor<4x8xf32>) -> tensor<1x2x4x8xf32> {
  %q1 = nn.slice %q {sizes = array<i64: 1, 2, 4, 4>, starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x2x4x8xf32> -> tensor<1x2x4x4xf32>
  %q2 = nn.slice %q {sizes = array<i64: 1, 2, 4, 4>, starts = array<i64: 0, 0, 0, 4>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x2x4x8xf32> -> tensor<1x2x4x4xf32>
  %qn = nn.neg %q2 : tensor<1x2x4x4xf32>
  %qh = nn.concat %qn, %q1 {axis = 3 : i64} : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32> -> tensor<1x2x4x8xf32>
  %qc = nn.mul %q, %cos : tensor<1x2x4x8xf32>, tensor<4x8xf32> -> tensor<1x2x4x8xf32>
  %qs = nn.mul %qh, %sin : tensor<1x2x4x8xf32>, tensor<4x8xf32> -> tensor<1x2x4x8xf32>
  %qr = nn.add %qc, %qs : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x8xf32>
  %k1 = nn.slice %k {sizes = array<i64: 1, 2, 4, 4>, starts = array<i64: 0, 0, 0, 0>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x2x4x8xf32> -> tensor<1x2x4x4xf32>
  %k2 = nn.slice %k {sizes = array<i64: 1, 2, 4, 4>, starts = array<i64: 0, 0, 0, 4>, strides = array<i64: 1, 1, 1, 1>} : tensor<1x2x4x8xf32> -> tensor<1x2x4x4xf32>
  %kn = nn.neg %k2 : tensor<1x2x4x4xf32>
  %kh = nn.concat %kn, %k1 {axis = 3 : i64} : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32> -> tensor<1x2x4x8xf32>
  %kc = nn.mul %k, %cos : tensor<1x2x4x8xf32>, tensor<4x8xf32> -> tensor<1x2x4x8xf32>
  %ks = nn.mul %kh, %sin : tensor<1x2x4x8xf32>, tensor<4x8xf32> -> tensor<1x2x4x8xf32>
  %kr = nn.add %kc, %ks : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x8xf32>
  %c = nn.constant dense<0.353553385> : tensor<f32>
  %s = nn.matmul %qr, %kr {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x4xf32>
  %t = nn.mul %s, %c : tensor<1x2x4x4xf32>, tensor<f32> -> tensor<1x2x4x4xf32>
  %p = nn.softmax %t {axis = 3 : i64} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
  %o = nn.matmul %p, %v : tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x8xf32>
  return %o : tensor<1x2x4x8xf32>
}

// A table on the scores instead: no attention.

// CHECK-LABEL: func.func @refused_rotated_scores
// CHECK-NOT:     nn.attention
// CHECK:         return
func.func @refused_rotated_scores(%q: tensor<1x2x4x8xf32>, %k: tensor<1x2x4x8xf32>, %v: tensor<1x2x4x8xf32>, %cos: tensor<4x4xf32>) -> tensor<1x2x4x8xf32> {
  %s = nn.matmul %q, %k {transpose_b = true} : tensor<1x2x4x8xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x4xf32>
  %t = nn.mul %s, %cos : tensor<1x2x4x4xf32>, tensor<4x4xf32> -> tensor<1x2x4x4xf32>
  %p = nn.softmax %t {axis = 3 : i64} : tensor<1x2x4x4xf32> -> tensor<1x2x4x4xf32>
  %o = nn.matmul %p, %v : tensor<1x2x4x4xf32>, tensor<1x2x4x8xf32> -> tensor<1x2x4x8xf32>
  return %o : tensor<1x2x4x8xf32>
}

// One projection for q, k and v, cut in three (Split), heads folded into the
// batch, a causal mask added between (CLIP).

// CHECK-LABEL: func.func @fused_projection
// CHECK:         nn.attention %{{.+}} mask %{{.+}} : tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<2x2x3x4xf32>, tensor<1x1x3x3xf32>
// CHECK-NOT:     nn.softmax
func.func @fused_projection(%x: tensor<2x3x8xf32>, %w: tensor<8x24xf32>) -> tensor<4x3x4xf32> {
  %a = nn.matmul %x, %w : tensor<2x3x8xf32>, tensor<8x24xf32> -> tensor<2x3x24xf32>
  %q0 = nn.slice %a {sizes = array<i64: 2, 3, 8>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %k0 = nn.slice %a {sizes = array<i64: 2, 3, 8>, starts = array<i64: 0, 0, 8>, strides = array<i64: 1, 1, 1>} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %v0 = nn.slice %a {sizes = array<i64: 2, 3, 8>, starts = array<i64: 0, 0, 16>, strides = array<i64: 1, 1, 1>} : tensor<2x3x24xf32> -> tensor<2x3x8xf32>
  %half = nn.constant dense<5.000000e-01> : tensor<f32>
  %q1 = nn.mul %q0, %half : tensor<2x3x8xf32>, tensor<f32> -> tensor<2x3x8xf32>
  %q2 = nn.reshape %q1 {shape = array<i64: 2, 3, 2, 4>} : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %q3 = nn.transpose %q2 {permutation = array<i64: 0, 2, 1, 3>} : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %q = nn.reshape %q3 {shape = array<i64: 4, 3, 4>} : tensor<2x2x3x4xf32> -> tensor<4x3x4xf32>
  %k2 = nn.reshape %k0 {shape = array<i64: 2, 3, 2, 4>} : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %k3 = nn.transpose %k2 {permutation = array<i64: 0, 2, 1, 3>} : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %k = nn.reshape %k3 {shape = array<i64: 4, 3, 4>} : tensor<2x2x3x4xf32> -> tensor<4x3x4xf32>
  %v2 = nn.reshape %v0 {shape = array<i64: 2, 3, 2, 4>} : tensor<2x3x8xf32> -> tensor<2x3x2x4xf32>
  %v3 = nn.transpose %v2 {permutation = array<i64: 0, 2, 1, 3>} : tensor<2x3x2x4xf32> -> tensor<2x2x3x4xf32>
  %v = nn.reshape %v3 {shape = array<i64: 4, 3, 4>} : tensor<2x2x3x4xf32> -> tensor<4x3x4xf32>
  %kt = nn.transpose %k {permutation = array<i64: 0, 2, 1>} : tensor<4x3x4xf32> -> tensor<4x4x3xf32>
  %s = nn.matmul %q, %kt : tensor<4x3x4xf32>, tensor<4x4x3xf32> -> tensor<4x3x3xf32>
  %s4 = nn.reshape %s {shape = array<i64: 2, 2, 3, 3>} : tensor<4x3x3xf32> -> tensor<2x2x3x3xf32>
  %causal = nn.constant dense<[[[[0.0, -1.0e30, -1.0e30], [0.0, 0.0, -1.0e30], [0.0, 0.0, 0.0]]]]> : tensor<1x1x3x3xf32>
  %m = nn.add %s4, %causal : tensor<2x2x3x3xf32>, tensor<1x1x3x3xf32> -> tensor<2x2x3x3xf32>
  %m3 = nn.reshape %m {shape = array<i64: 4, 3, 3>} : tensor<2x2x3x3xf32> -> tensor<4x3x3xf32>
  %p = nn.softmax %m3 {axis = 2 : i64} : tensor<4x3x3xf32> -> tensor<4x3x3xf32>
  %o = nn.matmul %p, %v : tensor<4x3x3xf32>, tensor<4x3x4xf32> -> tensor<4x3x4xf32>
  return %o : tensor<4x3x4xf32>
}

// Modulation (adaLN): 1 + scale and shift of each sample stay outside the norm;
// GEGLU: half of a projection times the GELU of the other half.

// CHECK-LABEL: func.func @modulated_geglu
// CHECK:         %[[N:.+]] = nn.layer_norm %arg0 {axis = 2
// CHECK:         %[[M:.+]] = nn.mul %[[N]]
// CHECK:         nn.add %[[M]]
// CHECK:         nn.gelu %{{.+}} {form =
// CHECK-NOT:     nn.erf
func.func @modulated_geglu(%x: tensor<2x3x8xf32>, %t: tensor<2x16xf32>, %w: tensor<8x16xf32>) -> tensor<2x3x8xf32> {
  %shift = nn.slice %t {sizes = array<i64: 2, 8>, starts = array<i64: 0, 0>, strides = array<i64: 1, 1>} : tensor<2x16xf32> -> tensor<2x8xf32>
  %scale = nn.slice %t {sizes = array<i64: 2, 8>, starts = array<i64: 0, 8>, strides = array<i64: 1, 1>} : tensor<2x16xf32> -> tensor<2x8xf32>
  %shift3 = nn.reshape %shift {shape = array<i64: 2, 1, 8>} : tensor<2x8xf32> -> tensor<2x1x8xf32>
  %scale3 = nn.reshape %scale {shape = array<i64: 2, 1, 8>} : tensor<2x8xf32> -> tensor<2x1x8xf32>
  %one = nn.constant dense<1.000000e+00> : tensor<f32>
  %e = nn.constant dense<9.99999997E-7> : tensor<f32>
  %mean = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %c = nn.sub %x, %mean : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %c2 = nn.mul %c, %c : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %var = nn.reduce_mean %c2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %ve = nn.add %var, %e : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %r = nn.sqrt %ve : tensor<2x3x1xf32>
  %n = nn.div %c, %r : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %s1 = nn.add %scale3, %one : tensor<2x1x8xf32>, tensor<f32> -> tensor<2x1x8xf32>
  %m = nn.mul %n, %s1 : tensor<2x3x8xf32>, tensor<2x1x8xf32> -> tensor<2x3x8xf32>
  %a = nn.add %m, %shift3 : tensor<2x3x8xf32>, tensor<2x1x8xf32> -> tensor<2x3x8xf32>
  %p = nn.matmul %a, %w : tensor<2x3x8xf32>, tensor<8x16xf32> -> tensor<2x3x16xf32>
  %h = nn.slice %p {sizes = array<i64: 2, 3, 8>, starts = array<i64: 0, 0, 0>, strides = array<i64: 1, 1, 1>} : tensor<2x3x16xf32> -> tensor<2x3x8xf32>
  %g = nn.slice %p {sizes = array<i64: 2, 3, 8>, starts = array<i64: 0, 0, 8>, strides = array<i64: 1, 1, 1>} : tensor<2x3x16xf32> -> tensor<2x3x8xf32>
  %root2 = nn.constant dense<1.41421354> : tensor<f32>
  %half = nn.constant dense<5.000000e-01> : tensor<f32>
  %g1 = nn.div %g, %root2 : tensor<2x3x8xf32>, tensor<f32> -> tensor<2x3x8xf32>
  %g2 = nn.erf %g1 : tensor<2x3x8xf32>
  %g3 = nn.add %g2, %one : tensor<2x3x8xf32>, tensor<f32> -> tensor<2x3x8xf32>
  %g4 = nn.mul %g, %g3 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %g5 = nn.mul %g4, %half : tensor<2x3x8xf32>, tensor<f32> -> tensor<2x3x8xf32>
  %y = nn.mul %h, %g5 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  return %y : tensor<2x3x8xf32>
}

// Half of a projection times the erf of the other half: no GELU without its own
// factor.

// CHECK-LABEL: func.func @refused_gate_by_the_other_half
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_gate_by_the_other_half(%h: tensor<2x8xf32>, %g: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %one = nn.constant dense<1.000000e+00> : tensor<f32>
  %root2 = nn.constant dense<1.41421354> : tensor<f32>
  %half = nn.constant dense<5.000000e-01> : tensor<f32>
  %g1 = nn.div %g, %root2 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %g2 = nn.erf %g1 : tensor<2x8xf32>
  %g3 = nn.add %g2, %one : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %g4 = nn.mul %h, %g3 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %g5 = nn.mul %g4, %half : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %g5 : tensor<2x8xf32>
}
