// RUN: diffc-opt %s --canonicalize --cse --nn-raise-norm --canonicalize | FileCheck %s
//
// tests/unit/raise evaluates every function here before and after raising.
// What only looks like a norm: nn-raise-norm-refused.mlir.

// As torch's older exporter writes it: Pow, Sqrt, Div.

// CHECK-LABEL: func.func @power_and_quotient
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] scale %[[S]] : tensor<8xf32> bias %[[B]] : tensor<8xf32> {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @power_and_quotient(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.constant dense<2.0> : tensor<f32>
  %3 = nn.pow %1, %2 : tensor<2x3x8xf32>, tensor<f32> -> tensor<2x3x8xf32>
  %4 = nn.reduce_mean %3 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %5 = nn.constant dense<1.0e-5> : tensor<f32>
  %6 = nn.add %4, %5 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %7 = nn.sqrt %6 : tensor<2x3x1xf32>
  %8 = nn.div %1, %7 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %9 = nn.mul %8, %s : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  %10 = nn.add %9, %b : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  return %10 : tensor<2x3x8xf32>
}

// A product for the square, 1 / sqrt, and every operand on the other side.

// CHECK-LABEL: func.func @commuted
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] scale %[[S]] : tensor<8xf32> bias %[[B]] : tensor<8xf32> {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @commuted(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<1xf32>
  %3 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %4 = nn.reduce_mean %3 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %5 = nn.add %2, %4 : tensor<1xf32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %6 = nn.sqrt %5 : tensor<2x3x1xf32>
  %7 = nn.reciprocal %6 : tensor<2x3x1xf32>
  %8 = nn.mul %7, %1 : tensor<2x3x1xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %9 = nn.mul %s, %8 : tensor<8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %10 = nn.add %b, %9 : tensor<8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  return %10 : tensor<2x3x8xf32>
}

// nn.rsqrt, and the scale multiplied into it first.

// CHECK-LABEL: func.func @rsqrt
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] scale %[[S]] : tensor<8xf32> bias %[[B]] : tensor<8xf32> {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @rsqrt(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %6, %s : tensor<2x3x1xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  %8 = nn.mul %1, %7 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %9 = nn.add %8, %b : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  return %9 : tensor<2x3x8xf32>
}

// 1 / sqrt as a division, the scale multiplied into x - mean first.

// CHECK-LABEL: func.func @one_over_root
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] scale %[[S]] : tensor<8xf32> bias %[[B]] : tensor<8xf32> {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @one_over_root(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.constant dense<1.0> : tensor<f32>
  %3 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %4 = nn.reduce_mean %3 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %5 = nn.constant dense<1.0e-5> : tensor<f32>
  %6 = nn.add %4, %5 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %7 = nn.sqrt %6 : tensor<2x3x1xf32>
  %8 = nn.div %2, %7 : tensor<f32>, tensor<2x3x1xf32> -> tensor<2x3x1xf32>
  %9 = nn.mul %1, %s : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  %10 = nn.mul %9, %8 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %11 = nn.add %10, %b : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  return %11 : tensor<2x3x8xf32>
}

// The root as a power.

// CHECK-LABEL: func.func @power_of_minus_half
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] scale %[[S]] : tensor<8xf32> bias %[[B]] : tensor<8xf32> {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @power_of_minus_half(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.constant dense<-0.5> : tensor<f32>
  %7 = nn.pow %5, %6 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %8 = nn.mul %1, %7 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %9 = nn.mul %8, %s : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  %10 = nn.add %9, %b : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  return %10 : tensor<2x3x8xf32>
}

// Means as sums by the number of elements, dimensions dropped and put back.

// CHECK-LABEL: func.func @sums
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]: tensor<8xf32>, %[[B:[^:]+]]: tensor<8xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] scale %[[S]] : tensor<8xf32> bias %[[B]] : tensor<8xf32> {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @sums(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_sum %x {axes = array<i64: 2>} : tensor<2x3x8xf32> -> tensor<2x3xf32>
  %1 = nn.reshape %0 {shape = array<i64: 2, 3, 1>} : tensor<2x3xf32> -> tensor<2x3x1xf32>
  %2 = nn.constant dense<0.125> : tensor<f32>
  %3 = nn.mul %1, %2 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %4 = nn.sub %x, %3 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %5 = nn.mul %4, %4 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %6 = nn.reduce_sum %5 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %7 = nn.constant dense<8.0> : tensor<f32>
  %8 = nn.div %6, %7 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %9 = nn.constant dense<1.0e-5> : tensor<f32>
  %10 = nn.add %8, %9 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %11 = nn.rsqrt %10 : tensor<2x3x1xf32>
  %12 = nn.mul %4, %11 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %13 = nn.mul %12, %s : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  %14 = nn.add %13, %b : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  return %14 : tensor<2x3x8xf32>
}

// Scale and bias with leading dimensions of 1, or repeated first.

// CHECK-LABEL: func.func @leading_ones
// CHECK:         %[[Y:.+]] = nn.layer_norm %{{.+}} scale %{{.+}} : tensor<8xf32> bias %{{.+}} : tensor<8xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @leading_ones(%x: tensor<2x3x8xf32>, %s: tensor<1x1x8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %8 = nn.mul %7, %s : tensor<2x3x8xf32>, tensor<1x1x8xf32> -> tensor<2x3x8xf32>
  %9 = nn.broadcast_to %b {shape = array<i64: 2, 3, 8>} : tensor<8xf32> -> tensor<2x3x8xf32>
  %10 = nn.add %8, %9 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  return %10 : tensor<2x3x8xf32>
}

// Two normalised dimensions, their scale a matrix.

// CHECK-LABEL: func.func @two_axes
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.layer_norm %[[X]] scale %[[S]] : tensor<3x8xf32> {axis = 1
// CHECK-NEXT:    return %[[Y]]
func.func @two_axes(%x: tensor<2x3x8xf32>, %s: tensor<3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 1, 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x1x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x1x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 1, 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x1x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x1x1xf32>, tensor<f32> -> tensor<2x1x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x1x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x1x1xf32> -> tensor<2x3x8xf32>
  %8 = nn.mul %7, %s : tensor<2x3x8xf32>, tensor<3x8xf32> -> tensor<2x3x8xf32>
  return %8 : tensor<2x3x8xf32>
}

// Neither scale nor bias.

// CHECK-LABEL: func.func @no_affine
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[N:.+]] = nn.layer_norm %[[X]] {axis = 2 : i64, epsilon =
// CHECK-NEXT:    return %[[N]]
func.func @no_affine(%x: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %7 : tensor<2x3x8xf32>
}

// A scale that is no vector over the normalised dimension stays a product, one
// per row (with the same extent as the normalised one it must not be mistaken).

// CHECK-LABEL: func.func @scale_per_row
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<3x3xf32>, %[[S:[^:]+]]:
// CHECK-NEXT:    %[[N:.+]] = nn.layer_norm %[[X]] {axis = 1
// CHECK-NEXT:    %[[Y:.+]] = nn.mul %[[N]], %[[S]]
// CHECK-NEXT:    return %[[Y]]
func.func @scale_per_row(%x: tensor<3x3xf32>, %s: tensor<3x1xf32>) -> tensor<3x3xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<3x3xf32> -> tensor<3x1xf32>
  %1 = nn.sub %x, %0 : tensor<3x3xf32>, tensor<3x1xf32> -> tensor<3x3xf32>
  %2 = nn.mul %1, %1 : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 1>, keepdims = true} : tensor<3x3xf32> -> tensor<3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<3x1xf32>, tensor<f32> -> tensor<3x1xf32>
  %6 = nn.rsqrt %5 : tensor<3x1xf32>
  %7 = nn.mul %1, %6 : tensor<3x3xf32>, tensor<3x1xf32> -> tensor<3x3xf32>
  %8 = nn.mul %7, %s : tensor<3x3xf32>, tensor<3x1xf32> -> tensor<3x3xf32>
  return %8 : tensor<3x3xf32>
}

// A scale per sample (adaptive norm) stays, and what is added with it.

// CHECK-LABEL: func.func @modulated
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]: tensor<2x1x8xf32>, %[[B:[^:]+]]:
// CHECK-NEXT:    %[[N:.+]] = nn.layer_norm %[[X]] {axis = 2 : i64, epsilon =
// CHECK-NEXT:    %[[M:.+]] = nn.mul %[[N]], %[[S]]
// CHECK-NEXT:    nn.add %[[M]], %[[B]]
func.func @modulated(%x: tensor<2x3x8xf32>, %s: tensor<2x1x8xf32>, %b: tensor<2x1x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %8 = nn.mul %7, %s : tensor<2x3x8xf32>, tensor<2x1x8xf32> -> tensor<2x3x8xf32>
  %9 = nn.add %8, %b : tensor<2x3x8xf32>, tensor<2x1x8xf32> -> tensor<2x3x8xf32>
  return %9 : tensor<2x3x8xf32>
}

// A scale of x's whole shape.

// CHECK-LABEL: func.func @full_scale
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3xf32>, %[[S:[^:]+]]:
// CHECK-NEXT:    %[[N:.+]] = nn.layer_norm %[[X]] {axis = 1
// CHECK-NEXT:    nn.mul %[[N]], %[[S]]
func.func @full_scale(%x: tensor<2x3xf32>, %s: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<2x3xf32> -> tensor<2x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3xf32>, tensor<2x1xf32> -> tensor<2x3xf32>
  %2 = nn.mul %1, %1 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 1>, keepdims = true} : tensor<2x3xf32> -> tensor<2x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x1xf32>, tensor<f32> -> tensor<2x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3xf32>, tensor<2x1xf32> -> tensor<2x3xf32>
  %8 = nn.mul %7, %s : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %8 : tensor<2x3xf32>
}

// A single number is no scale of eight either.

// CHECK-LABEL: func.func @scalar_scale
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]:
// CHECK-NEXT:    %[[N:.+]] = nn.layer_norm %[[X]] {axis = 2 : i64, epsilon =
// CHECK-NEXT:    nn.mul %[[N]], %[[S]]
func.func @scalar_scale(%x: tensor<2x3x8xf32>, %s: tensor<1xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %8 = nn.mul %7, %s : tensor<2x3x8xf32>, tensor<1xf32> -> tensor<2x3x8xf32>
  return %8 : tensor<2x3x8xf32>
}

// A bias without a scale stays an addition.

// CHECK-LABEL: func.func @bias_alone
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[B:[^:]+]]:
// CHECK-NEXT:    %[[N:.+]] = nn.layer_norm %[[X]] {axis = 2 : i64, epsilon =
// CHECK-NEXT:    nn.add %[[N]], %[[B]]
func.func @bias_alone(%x: tensor<2x3x8xf32>, %b: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %8 = nn.add %7, %b : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  return %8 : tensor<2x3x8xf32>
}

// Two scales of one norm: it is computed once.

// CHECK-LABEL: func.func @normalised_value_read_twice
// CHECK:         %[[N:.+]] = nn.layer_norm
// CHECK-NOT:     nn.layer_norm
// CHECK:         nn.mul %[[N]]
// CHECK:         nn.mul %[[N]]
func.func @normalised_value_read_twice(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>, %b: tensor<8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x8xf32>) {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %8 = nn.mul %7, %s : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  %9 = nn.mul %7, %b : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  return %8, %9 : tensor<2x3x8xf32>, tensor<2x3x8xf32>
}

// The chain's parts may be read elsewhere: they stay for those.

// CHECK-LABEL: func.func @mean_read_elsewhere
// CHECK:         %[[M:.+]] = nn.reduce_mean
// CHECK:         nn.layer_norm
// CHECK:         return %{{.+}}, %[[M]]
func.func @mean_read_elsewhere(%x: tensor<2x3x8xf32>) -> (tensor<2x3x8xf32>, tensor<2x3x1xf32>) {
  %0 = nn.reduce_mean %x {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %1 = nn.sub %x, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %2 = nn.mul %1, %1 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %3 = nn.reduce_mean %2 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %4 = nn.constant dense<1.0e-5> : tensor<f32>
  %5 = nn.add %3, %4 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %6 = nn.rsqrt %5 : tensor<2x3x1xf32>
  %7 = nn.mul %1, %6 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %7, %0 : tensor<2x3x8xf32>, tensor<2x3x1xf32>
}

// No mean to subtract: an RMS norm.

// CHECK-LABEL: func.func @rms
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.rms_norm %[[X]] scale %[[S]] : tensor<8xf32> {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @rms(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.mul %x, %x : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<f32>
  %3 = nn.add %1, %2 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %4 = nn.rsqrt %3 : tensor<2x3x1xf32>
  %5 = nn.mul %x, %4 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %6 = nn.mul %s, %5 : tensor<8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  return %6 : tensor<2x3x8xf32>
}

// With a power and a division.

// CHECK-LABEL: func.func @rms_quotient
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3x8xf32>, %[[S:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.rms_norm %[[X]] scale %[[S]] : tensor<8xf32> {axis = 2 : i64, epsilon = 9.9999997473787516E-6 : f64}
// CHECK-NEXT:    return %[[Y]]
func.func @rms_quotient(%x: tensor<2x3x8xf32>, %s: tensor<8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.constant dense<2.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x3x8xf32>, tensor<f32> -> tensor<2x3x8xf32>
  %2 = nn.reduce_mean %1 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %3 = nn.constant dense<1.0e-5> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %5 = nn.sqrt %4 : tensor<2x3x1xf32>
  %6 = nn.div %x, %5 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  %7 = nn.mul %6, %s : tensor<2x3x8xf32>, tensor<8xf32> -> tensor<2x3x8xf32>
  return %7 : tensor<2x3x8xf32>
}

// What is normalised may be a product.

// CHECK-LABEL: func.func @rms_of_a_product
// CHECK:         %[[U:.+]] = nn.mul
// CHECK-NEXT:    %[[Y:.+]] = nn.rms_norm %[[U]] {axis = 2
// CHECK-NEXT:    return %[[Y]]
func.func @rms_of_a_product(%x: tensor<2x3x8xf32>, %w: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %0 = nn.mul %x, %w : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %1 = nn.mul %0, %0 : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %2 = nn.reduce_mean %1 {axes = array<i64: 2>, keepdims = true} : tensor<2x3x8xf32> -> tensor<2x3x1xf32>
  %3 = nn.constant dense<1.0e-5> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x3x1xf32>, tensor<f32> -> tensor<2x3x1xf32>
  %5 = nn.rsqrt %4 : tensor<2x3x1xf32>
  %6 = nn.mul %0, %5 : tensor<2x3x8xf32>, tensor<2x3x1xf32> -> tensor<2x3x8xf32>
  return %6 : tensor<2x3x8xf32>
}

// One element with a scale of two: the result has two, so the scale stays out.

// CHECK-LABEL: func.func @rms_larger_result
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<1x1xf32>, %[[S:[^:]+]]: tensor<2xf32>)
// CHECK-NEXT:    %[[N:.+]] = nn.rms_norm %[[X]] {axis = 1
// CHECK-NEXT:    nn.mul %[[N]], %[[S]] : tensor<1x1xf32>, tensor<2xf32> -> tensor<1x2xf32>
func.func @rms_larger_result(%x: tensor<1x1xf32>, %s: tensor<2xf32>) -> tensor<1x2xf32> {
  %0 = nn.mul %x, %x : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 1>, keepdims = true} : tensor<1x1xf32> -> tensor<1x1xf32>
  %2 = nn.constant dense<1.0e-5> : tensor<f32>
  %3 = nn.add %1, %2 : tensor<1x1xf32>, tensor<f32> -> tensor<1x1xf32>
  %4 = nn.rsqrt %3 : tensor<1x1xf32>
  %5 = nn.mul %x, %4 : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  %6 = nn.mul %5, %s : tensor<1x1xf32>, tensor<2xf32> -> tensor<1x2xf32>
  return %6 : tensor<1x2xf32>
}

// GroupNorm by InstanceNormalization over reshaped groups, scale 1 and bias 0.

// CHECK-LABEL: func.func @groups
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x4x3x5xf32>, %[[S:[^:]+]]: tensor<4xf32>, %[[B:[^:]+]]: tensor<4xf32>)
// CHECK:         %[[Y:.+]] = nn.group_norm %[[X]] scale %{{.+}} : tensor<4xf32> bias %{{.+}} : tensor<4xf32> {epsilon = 1.000000e-05 : f64, groups = 2 : i64}
// CHECK-NEXT:    return %[[Y]]
func.func @groups(%x: tensor<2x4x3x5xf32>, %s: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<2x4x3x5xf32> {
  %0 = nn.reshape %x {shape = array<i64: 2, 2, 30>} : tensor<2x4x3x5xf32> -> tensor<2x2x30xf32>
  %1 = nn.constant dense<1.0> : tensor<2xf32>
  %2 = nn.constant dense<0.0> : tensor<2xf32>
  %3 = nn.group_norm %0 scale %1 : tensor<2xf32> bias %2 : tensor<2xf32> {epsilon = 1.0e-5 : f64, groups = 2 : i64} : tensor<2x2x30xf32> -> tensor<2x2x30xf32>
  %4 = nn.reshape %3 {shape = array<i64: 2, 4, 3, 5>} : tensor<2x2x30xf32> -> tensor<2x4x3x5xf32>
  %5 = nn.reshape %s {shape = array<i64: 4, 1, 1>} : tensor<4xf32> -> tensor<4x1x1xf32>
  %6 = nn.mul %4, %5 : tensor<2x4x3x5xf32>, tensor<4x1x1xf32> -> tensor<2x4x3x5xf32>
  %7 = nn.reshape %b {shape = array<i64: 1, 4, 1, 1>} : tensor<4xf32> -> tensor<1x4x1x1xf32>
  %8 = nn.add %6, %7 : tensor<2x4x3x5xf32>, tensor<1x4x1x1xf32> -> tensor<2x4x3x5xf32>
  return %8 : tensor<2x4x3x5xf32>
}

// The same groups by a chain over the rows of [N, G, ...].

// CHECK-LABEL: func.func @groups_by_rows
// CHECK:         %[[Y:.+]] = nn.group_norm %{{.+}} scale %{{.+}} bias %{{.+}} {epsilon = 9.9999997473787516E-6 : f64, groups = 2 : i64}
// CHECK-NEXT:    return %[[Y]]
func.func @groups_by_rows(%x: tensor<2x4x3x5xf32>, %s: tensor<4x1x1xf32>, %b: tensor<4x1x1xf32>) -> tensor<2x4x3x5xf32> {
  %0 = nn.reshape %x {shape = array<i64: 2, 2, 2, 15>} : tensor<2x4x3x5xf32> -> tensor<2x2x2x15xf32>
  %1 = nn.reduce_mean %0 {axes = array<i64: 2, 3>, keepdims = true} : tensor<2x2x2x15xf32> -> tensor<2x2x1x1xf32>
  %2 = nn.sub %0, %1 : tensor<2x2x2x15xf32>, tensor<2x2x1x1xf32> -> tensor<2x2x2x15xf32>
  %3 = nn.mul %2, %2 : tensor<2x2x2x15xf32>, tensor<2x2x2x15xf32> -> tensor<2x2x2x15xf32>
  %4 = nn.reduce_mean %3 {axes = array<i64: 2, 3>, keepdims = true} : tensor<2x2x2x15xf32> -> tensor<2x2x1x1xf32>
  %5 = nn.constant dense<1.0e-5> : tensor<f32>
  %6 = nn.add %4, %5 : tensor<2x2x1x1xf32>, tensor<f32> -> tensor<2x2x1x1xf32>
  %7 = nn.rsqrt %6 : tensor<2x2x1x1xf32>
  %8 = nn.mul %2, %7 : tensor<2x2x2x15xf32>, tensor<2x2x1x1xf32> -> tensor<2x2x2x15xf32>
  %9 = nn.reshape %8 {shape = array<i64: 2, 4, 3, 5>} : tensor<2x2x2x15xf32> -> tensor<2x4x3x5xf32>
  %10 = nn.mul %9, %s : tensor<2x4x3x5xf32>, tensor<4x1x1xf32> -> tensor<2x4x3x5xf32>
  %11 = nn.add %10, %b : tensor<2x4x3x5xf32>, tensor<4x1x1xf32> -> tensor<2x4x3x5xf32>
  return %11 : tensor<2x4x3x5xf32>
}

// Other spatial dimensions afterwards than before.

// CHECK-LABEL: func.func @groups_flattened
// CHECK:         nn.group_norm %{{.+}} scale %{{.+}} : tensor<4xf32> {epsilon = 1.000000e-05 : f64, groups = 2 : i64} : tensor<2x4x15xf32>
// CHECK-NEXT:    return
func.func @groups_flattened(%x: tensor<2x4x3x5xf32>, %s: tensor<4x1xf32>) -> tensor<2x4x15xf32> {
  %0 = nn.reshape %x {shape = array<i64: 2, 2, 30>} : tensor<2x4x3x5xf32> -> tensor<2x2x30xf32>
  %1 = nn.group_norm %0 {epsilon = 1.0e-5 : f64, groups = 2 : i64} : tensor<2x2x30xf32> -> tensor<2x2x30xf32>
  %2 = nn.reshape %1 {shape = array<i64: 2, 4, 15>} : tensor<2x2x30xf32> -> tensor<2x4x15xf32>
  %3 = nn.mul %2, %s : tensor<2x4x15xf32>, tensor<4x1xf32> -> tensor<2x4x15xf32>
  return %3 : tensor<2x4x15xf32>
}
