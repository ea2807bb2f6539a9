// RUN: diffc-opt %s --canonicalize | FileCheck %s
//
// Rewrites to a simpler form of the same operators; folds are in fold.mlir.

// Powers with small constant exponents are products,

// CHECK-LABEL: func.func @square
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.mul %[[X]], %[[X]]
// CHECK-NEXT:    return %[[Y]]
func.func @square(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<2.0> : tensor<1xf32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<1xf32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @cube
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Q:.+]] = nn.mul %[[X]], %[[X]]
// CHECK-NEXT:    %[[Y:.+]] = nn.mul %[[X]], %[[Q]]
// CHECK-NEXT:    return %[[Y]]
func.func @cube(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<3.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @fourth
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Q:.+]] = nn.mul %[[X]], %[[X]]
// CHECK-NEXT:    %[[Y:.+]] = nn.mul %[[Q]], %[[Q]]
// CHECK-NEXT:    return %[[Y]]
func.func @fourth(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<4.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @first
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    return %[[X]]
func.func @first(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<1.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @zeroth
// CHECK:         %[[Y:.+]] = nn.constant dense<1.000000e+00> : tensor<2x8xf32>
// CHECK-NEXT:    return %[[Y]]
func.func @zeroth(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// roots,

// CHECK-LABEL: func.func @half
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.sqrt %[[X]]
// CHECK-NEXT:    return %[[Y]]
func.func @half(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.5> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @minus_half
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.rsqrt %[[X]]
// CHECK-NEXT:    return %[[Y]]
func.func @minus_half(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<-0.5> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// and reciprocals.

// CHECK-LABEL: func.func @minus_one
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.reciprocal %[[X]]
// CHECK-NEXT:    return %[[Y]]
func.func @minus_one(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<-1.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// CHECK-LABEL: func.func @minus_two
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Q:.+]] = nn.mul %[[X]], %[[X]]
// CHECK-NEXT:    nn.reciprocal %[[Q]]
func.func @minus_two(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<-2.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// Other exponents stay,

// CHECK-LABEL: func.func @other_exponent
// CHECK:         nn.pow
func.func @other_exponent(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<1.7> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// so does one that makes the result larger, or that is no constant.

// CHECK-LABEL: func.func @larger_result
// CHECK:         nn.pow
func.func @larger_result(%x: tensor<2x8xf32>) -> tensor<3x2x8xf32> {
  %0 = nn.constant dense<2.0> : tensor<3x1x1xf32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<3x1x1xf32> -> tensor<3x2x8xf32>
  return %1 : tensor<3x2x8xf32>
}

// CHECK-LABEL: func.func @variable_exponent
// CHECK:         nn.pow
func.func @variable_exponent(%x: tensor<2x8xf32>, %y: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.pow %x, %y : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// A norm's scale of 1 and bias of 0 disappear,

// CHECK-LABEL: func.func @neutral_affine
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    nn.layer_norm %[[X]] {axis
func.func @neutral_affine(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<1.0> : tensor<8xf32>
  %1 = nn.constant dense<0.0> : tensor<8xf32>
  %2 = nn.layer_norm %x scale %0 : tensor<8xf32> bias %1 : tensor<8xf32> {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<2x8xf32> -> tensor<2x8xf32>
  return %2 : tensor<2x8xf32>
}

// a bias of 0 also beside another scale,

// CHECK-LABEL: func.func @neutral_bias
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x8x3xf32>, %[[S:[^:]+]]:
// CHECK-NEXT:    nn.group_norm %[[X]] scale %[[S]] : tensor<8xf32> {epsilon
func.func @neutral_bias(%x: tensor<2x8x3xf32>, %s: tensor<8xf32>) -> tensor<2x8x3xf32> {
  %0 = nn.constant dense<0.0> : tensor<8xf32>
  %1 = nn.group_norm %x scale %s : tensor<8xf32> bias %0 : tensor<8xf32> {epsilon = 1.0e-5 : f64, groups = 2 : i64} : tensor<2x8x3xf32> -> tensor<2x8x3xf32>
  return %1 : tensor<2x8x3xf32>
}

// but a scale of 1 stays where there is a bias.

// CHECK-LABEL: func.func @bias_needs_scale
// CHECK:         nn.layer_norm %{{.+}} scale %{{.+}} bias %{{.+}}
func.func @bias_needs_scale(%x: tensor<2x8xf32>, %b: tensor<8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<1.0> : tensor<8xf32>
  %1 = nn.layer_norm %x scale %0 : tensor<8xf32> bias %b : tensor<8xf32> {axis = 1 : i64, epsilon = 1.0e-5 : f64} : tensor<2x8xf32> -> tensor<2x8xf32>
  return %1 : tensor<2x8xf32>
}

// Transposes of a product's operands become flags,

// CHECK-LABEL: func.func @operand_transposes
// CHECK-SAME:    (%[[A:[^:]+]]: tensor<2x4x3xf32>, %[[B:[^:]+]]: tensor<2x5x4xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.matmul %[[A]], %[[B]] {transpose_a = true, transpose_b = true}
// CHECK-NEXT:    return %[[Y]]
func.func @operand_transposes(%a: tensor<2x4x3xf32>, %b: tensor<2x5x4xf32>) -> tensor<2x3x5xf32> {
  %0 = nn.transpose %a {permutation = array<i64: 0, 2, 1>} : tensor<2x4x3xf32> -> tensor<2x3x4xf32>
  %1 = nn.transpose %b {permutation = array<i64: 0, 2, 1>} : tensor<2x5x4xf32> -> tensor<2x4x5xf32>
  %2 = nn.matmul %0, %1 : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>
  return %2 : tensor<2x3x5xf32>
}

// and a flag goes where the operand is transposed again;

// CHECK-LABEL: func.func @transpose_twice
// CHECK-SAME:    (%[[A:[^:]+]]: tensor<3x4xf32>, %[[B:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.matmul %[[A]], %[[B]] :
// CHECK-NEXT:    return %[[Y]]
func.func @transpose_twice(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) -> tensor<3x5xf32> {
  %0 = nn.transpose %a {permutation = array<i64: 1, 0>} : tensor<3x4xf32> -> tensor<4x3xf32>
  %1 = nn.matmul %0, %b {transpose_a = true} : tensor<4x3xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  return %1 : tensor<3x5xf32>
}

// the transpose of a product exchanges its operands.

// CHECK-LABEL: func.func @result_transpose
// CHECK-SAME:    (%[[A:[^:]+]]: tensor<3x4xf32>, %[[B:[^:]+]]: tensor<4x5xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.matmul %[[B]], %[[A]] {transpose_a = true, transpose_b = true}
// CHECK-NEXT:    return %[[Y]]
func.func @result_transpose(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) -> tensor<5x3xf32> {
  %0 = nn.matmul %a, %b : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<3x5xf32> -> tensor<5x3xf32>
  return %1 : tensor<5x3xf32>
}

// Not if others read the product (it would be computed twice),

// CHECK-LABEL: func.func @product_read_elsewhere
// CHECK:         nn.matmul
// CHECK:         nn.transpose
func.func @product_read_elsewhere(%a: tensor<3x4xf32>, %b: tensor<4x5xf32>) -> (tensor<5x3xf32>, tensor<3x5xf32>) {
  %0 = nn.matmul %a, %b : tensor<3x4xf32>, tensor<4x5xf32> -> tensor<3x5xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<3x5xf32> -> tensor<5x3xf32>
  return %1, %0 : tensor<5x3xf32>, tensor<3x5xf32>
}

// nor for a transpose that moves a leading dimension.

// CHECK-LABEL: func.func @transpose_of_batch
// CHECK:         %[[T:.+]] = nn.transpose
// CHECK:         nn.matmul %[[T]], %{{[^ ]+}} :
func.func @transpose_of_batch(%a: tensor<4x2x3xf32>, %b: tensor<2x3x5xf32>) -> tensor<2x4x5xf32> {
  %0 = nn.transpose %a {permutation = array<i64: 1, 0, 2>} : tensor<4x2x3xf32> -> tensor<2x4x3xf32>
  %1 = nn.matmul %0, %b : tensor<2x4x3xf32>, tensor<2x3x5xf32> -> tensor<2x4x5xf32>
  return %1 : tensor<2x4x5xf32>
}

// A transpose of matrices whose leading dimensions are reshaped reaches its product.

// CHECK-LABEL: func.func @reshaped_matrices
// CHECK-SAME:    (%[[A:[^:]+]]: tensor<2x3x4x8xf32>, %[[B:[^:]+]]: tensor<2x3x5x8xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.matmul %[[A]], %[[B]] {transpose_b = true}
// CHECK-NEXT:    return %[[Y]]
func.func @reshaped_matrices(%a: tensor<2x3x4x8xf32>, %b: tensor<2x3x5x8xf32>) -> tensor<2x3x4x5xf32> {
  %0 = nn.reshape %b {shape = array<i64: 6, 5, 8>} : tensor<2x3x5x8xf32> -> tensor<6x5x8xf32>
  %1 = nn.transpose %0 {permutation = array<i64: 0, 2, 1>} : tensor<6x5x8xf32> -> tensor<6x8x5xf32>
  %2 = nn.reshape %1 {shape = array<i64: 2, 3, 8, 5>} : tensor<6x8x5xf32> -> tensor<2x3x8x5xf32>
  %3 = nn.matmul %a, %2 : tensor<2x3x4x8xf32>, tensor<2x3x8x5xf32> -> tensor<2x3x4x5xf32>
  return %3 : tensor<2x3x4x5xf32>
}

// One that goes across the matrices does not.

// CHECK-LABEL: func.func @reshaped_across
// CHECK:         nn.transpose %{{.+}} {permutation = array<i64: 0, 2, 1>}
// CHECK:         nn.reshape
func.func @reshaped_across(%a: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
  %0 = nn.transpose %a {permutation = array<i64: 0, 2, 1>} : tensor<2x4x8xf32> -> tensor<2x8x4xf32>
  %1 = nn.reshape %0 {shape = array<i64: 2, 4, 8>} : tensor<2x8x4xf32> -> tensor<2x4x8xf32>
  return %1 : tensor<2x4x8xf32>
}
