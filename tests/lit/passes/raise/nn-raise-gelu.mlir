// RUN: diffc-opt %s --nn-raise-gelu | FileCheck %s
//
// tests/unit/raise evaluates every function here before and after raising.

// The order of torch's own decomposition, sqrt 2 as a divisor.

// CHECK-LABEL: func.func @divisor
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<erf>}
// CHECK-NEXT:    return %[[Y]]
func.func @divisor(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<1.41421354> : tensor<f32>
  %1 = nn.div %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<f32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// 1 / sqrt 2 as a factor, half of x first, constants on the left.

// CHECK-LABEL: func.func @factor
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<erf>}
// CHECK-NEXT:    return %[[Y]]
func.func @factor(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.5> : tensor<f32>
  %1 = nn.mul %0, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %2 = nn.constant dense<0.70710678> : tensor<f32>
  %3 = nn.mul %2, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %4 = nn.erf %3 : tensor<2x8xf32>
  %5 = nn.constant dense<1.0> : tensor<f32>
  %6 = nn.add %5, %4 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = nn.mul %6, %1 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// The half beside the sum, and constants of one element.

// CHECK-LABEL: func.func @half_of_the_sum
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<erf>}
// CHECK-NEXT:    return %[[Y]]
func.func @half_of_the_sum(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<1xf32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<1xf32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<1xf32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<1xf32> -> tensor<2x8xf32>
  %5 = nn.constant dense<0.5> : tensor<1x1xf32>
  %6 = nn.mul %4, %5 : tensor<2x8xf32>, tensor<1x1xf32> -> tensor<2x8xf32>
  %7 = nn.mul %x, %6 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// Divided by 2 instead of multiplied.

// CHECK-LABEL: func.func @halved_at_last
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<erf>}
// CHECK-NEXT:    return %[[Y]]
func.func @halved_at_last(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %4, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<2.0> : tensor<f32>
  %7 = nn.div %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// x times the normal distribution, 0.5 + 0.5 erf.

// CHECK-LABEL: func.func @distribution
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<erf>}
// CHECK-NEXT:    return %[[Y]]
func.func @distribution(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<0.5> : tensor<f32>
  %4 = nn.mul %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.constant dense<0.5> : tensor<f32>
  %6 = nn.add %5, %4 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = nn.mul %6, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// x/2 + x/2 * erf.

// CHECK-LABEL: func.func @multiplied_out
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<erf>}
// CHECK-NEXT:    return %[[Y]]
func.func @multiplied_out(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<0.5> : tensor<f32>
  %4 = nn.mul %x, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %4, %2 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.add %5, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %6 : tensor<2x8xf32>
}

// The argument may be a product with constants itself.

// CHECK-LABEL: func.func @of_a_product
// CHECK:         %[[U:.+]] = nn.mul
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[U]] {form = #nn.gelu_form<erf>}
// CHECK-NEXT:    return %[[Y]]
func.func @of_a_product(%w: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<2.0> : tensor<f32>
  %1 = nn.mul %w, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.constant dense<0.70710678> : tensor<f32>
  %3 = nn.mul %1, %2 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %4 = nn.erf %3 : tensor<2x8xf32>
  %5 = nn.constant dense<1.0> : tensor<f32>
  %6 = nn.add %4, %5 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %7 = nn.mul %1, %6 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %8 = nn.constant dense<0.5> : tensor<f32>
  %9 = nn.mul %7, %8 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %9 : tensor<2x8xf32>
}

// A gate's other factor stays outside.

// CHECK-LABEL: func.func @gated
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x8xf32>, %[[H:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]]
// CHECK-NEXT:    nn.mul %[[H]], %[[Y]]
func.func @gated(%x: tensor<2x8xf32>, %h: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<f32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %8 = nn.mul %h, %7 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %8 : tensor<2x8xf32>
}

// In f16 the constants are off by more.

// CHECK-LABEL: func.func @half_precision
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    nn.gelu %[[X]]
func.func @half_precision(%x: tensor<8xf16>) -> tensor<8xf16> {
  %0 = nn.constant dense<0.70703125> : tensor<f16>
  %1 = nn.mul %x, %0 : tensor<8xf16>, tensor<f16> -> tensor<8xf16>
  %2 = nn.erf %1 : tensor<8xf16>
  %3 = nn.constant dense<1.0> : tensor<f16>
  %4 = nn.add %2, %3 : tensor<8xf16>, tensor<f16> -> tensor<8xf16>
  %5 = nn.mul %x, %4 : tensor<8xf16>, tensor<8xf16> -> tensor<8xf16>
  %6 = nn.constant dense<0.5> : tensor<f16>
  %7 = nn.mul %5, %6 : tensor<8xf16>, tensor<f16> -> tensor<8xf16>
  return %7 : tensor<8xf16>
}

// What others read stays for them.

// CHECK-LABEL: func.func @shared
// CHECK:         %[[T:.+]] = nn.erf
// CHECK:         %[[Y:.+]] = nn.gelu
// CHECK:         nn.add %[[Y]], %[[T]]
func.func @shared(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<f32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %8 = nn.add %7, %2 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %8 : tensor<2x8xf32>
}

// The cube as a power.

// CHECK-LABEL: func.func @tanh_power
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<tanh>}
// CHECK-NEXT:    return %[[Y]]
func.func @tanh_power(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<3.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.constant dense<4.471500e-02> : tensor<f32>
  %3 = nn.mul %2, %1 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %4 = nn.add %x, %3 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %5 = nn.constant dense<0.797884583> : tensor<f32>
  %6 = nn.mul %5, %4 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = nn.tanh %6 : tensor<2x8xf32>
  %8 = nn.constant dense<1.0> : tensor<f32>
  %9 = nn.add %8, %7 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %10 = nn.constant dense<0.5> : tensor<f32>
  %11 = nn.mul %10, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %12 = nn.mul %11, %9 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %12 : tensor<2x8xf32>
}

// The cube as two products.

// CHECK-LABEL: func.func @tanh_products
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<tanh>}
// CHECK-NEXT:    return %[[Y]]
func.func @tanh_products(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.mul %x, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %1 = nn.mul %0, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %2 = nn.constant dense<4.471500e-02> : tensor<f32>
  %3 = nn.mul %1, %2 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %4 = nn.add %3, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %5 = nn.constant dense<0.797884583> : tensor<f32>
  %6 = nn.mul %4, %5 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %7 = nn.tanh %6 : tensor<2x8xf32>
  %8 = nn.constant dense<1.0> : tensor<f32>
  %9 = nn.add %8, %7 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %10 = nn.constant dense<0.5> : tensor<f32>
  %11 = nn.mul %10, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %12 = nn.mul %11, %9 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %12 : tensor<2x8xf32>
}

// x in front: x * (1 + 0.044715 x^2), as JAX writes it.

// CHECK-LABEL: func.func @tanh_horner
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<tanh>}
// CHECK-NEXT:    return %[[Y]]
func.func @tanh_horner(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<4.471500e-02> : tensor<f32>
  %1 = nn.mul %0, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %2 = nn.mul %1, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %3 = nn.constant dense<0.797884583> : tensor<f32>
  %4 = nn.mul %x, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.constant dense<1.0> : tensor<f32>
  %6 = nn.add %5, %2 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = nn.mul %4, %6 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %8 = nn.tanh %7 : tensor<2x8xf32>
  %9 = nn.constant dense<1.0> : tensor<f32>
  %10 = nn.add %8, %9 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %11 = nn.constant dense<0.5> : tensor<f32>
  %12 = nn.mul %10, %11 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %13 = nn.mul %x, %12 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %13 : tensor<2x8xf32>
}

// Both terms with their own constant.

// CHECK-LABEL: func.func @tanh_multiplied_out
// CHECK-SAME:    (%[[X:[^:]+]]:
// CHECK-NEXT:    %[[Y:.+]] = nn.gelu %[[X]] {form = #nn.gelu_form<tanh>}
// CHECK-NEXT:    return %[[Y]]
func.func @tanh_multiplied_out(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<3.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.constant dense<0.797884583> : tensor<f32>
  %3 = nn.mul %x, %2 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %4 = nn.constant dense<0.0356774081> : tensor<f32>
  %5 = nn.mul %1, %4 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %6 = nn.add %3, %5 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = nn.tanh %6 : tensor<2x8xf32>
  %8 = nn.constant dense<1.0> : tensor<f32>
  %9 = nn.add %8, %7 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %10 = nn.constant dense<0.5> : tensor<f32>
  %11 = nn.mul %10, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %12 = nn.mul %11, %9 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %12 : tensor<2x8xf32>
}

// 0.7 is not 1 / sqrt 2.

// CHECK-LABEL: func.func @refused_constant
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_constant(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.7> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<f32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// Nor is 0.7071, which is another function, off by 1e-5.

// CHECK-LABEL: func.func @refused_four_digits
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_four_digits(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.7071> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<f32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// Without the half it is twice a GELU.

// CHECK-LABEL: func.func @refused_no_half
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_no_half(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %5 : tensor<2x8xf32>
}

// erf - 1 instead of erf + 1.

// CHECK-LABEL: func.func @refused_minus_one
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_minus_one(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.sub %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<f32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// 1 - erf: the other tail.

// CHECK-LABEL: func.func @refused_complement
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_complement(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.sub %3, %2 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<f32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// The outer factor is another value.

// CHECK-LABEL: func.func @refused_other_x
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_other_x(%x: tensor<2x8xf32>, %w: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %w, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<f32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  return %7 : tensor<2x8xf32>
}

// A constant makes the result larger than x.

// CHECK-LABEL: func.func @refused_larger
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_larger(%x: tensor<2x8xf32>) -> tensor<3x2x8xf32> {
  %0 = nn.constant dense<0.70710678> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.erf %1 : tensor<2x8xf32>
  %3 = nn.constant dense<1.0> : tensor<f32>
  %4 = nn.add %2, %3 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %5 = nn.mul %x, %4 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %6 = nn.constant dense<0.5> : tensor<3x1x1xf32>
  %7 = nn.mul %5, %6 : tensor<2x8xf32>, tensor<3x1x1xf32> -> tensor<3x2x8xf32>
  return %7 : tensor<3x2x8xf32>
}

// 0.045 is not 0.044715.

// CHECK-LABEL: func.func @refused_tanh_constant
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_tanh_constant(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<3.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.constant dense<0.045> : tensor<f32>
  %3 = nn.mul %2, %1 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %4 = nn.add %x, %3 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %5 = nn.constant dense<0.797884583> : tensor<f32>
  %6 = nn.mul %5, %4 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = nn.tanh %6 : tensor<2x8xf32>
  %8 = nn.constant dense<1.0> : tensor<f32>
  %9 = nn.add %8, %7 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %10 = nn.constant dense<0.5> : tensor<f32>
  %11 = nn.mul %10, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %12 = nn.mul %11, %9 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %12 : tensor<2x8xf32>
}

// A square where the cube should be.

// CHECK-LABEL: func.func @refused_tanh_square
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_tanh_square(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<2.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.constant dense<4.471500e-02> : tensor<f32>
  %3 = nn.mul %2, %1 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %4 = nn.add %x, %3 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %5 = nn.constant dense<0.797884583> : tensor<f32>
  %6 = nn.mul %5, %4 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = nn.tanh %6 : tensor<2x8xf32>
  %8 = nn.constant dense<1.0> : tensor<f32>
  %9 = nn.add %8, %7 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %10 = nn.constant dense<0.5> : tensor<f32>
  %11 = nn.mul %10, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %12 = nn.mul %11, %9 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %12 : tensor<2x8xf32>
}

// The inner polynomial of one form under the function of the other.

// CHECK-LABEL: func.func @refused_tanh_of_erf
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_tanh_of_erf(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<3.0> : tensor<f32>
  %1 = nn.pow %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.constant dense<4.471500e-02> : tensor<f32>
  %3 = nn.mul %2, %1 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %4 = nn.add %x, %3 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %5 = nn.constant dense<0.797884583> : tensor<f32>
  %6 = nn.mul %5, %4 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %7 = nn.erf %6 : tensor<2x8xf32>
  %8 = nn.constant dense<1.0> : tensor<f32>
  %9 = nn.add %8, %7 : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %10 = nn.constant dense<0.5> : tensor<f32>
  %11 = nn.mul %10, %x : tensor<f32>, tensor<2x8xf32> -> tensor<2x8xf32>
  %12 = nn.mul %11, %9 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %12 : tensor<2x8xf32>
}

// The quick approximation x * sigmoid(1.702 x) is another function.

// CHECK-LABEL: func.func @refused_sigmoid
// CHECK-NOT:     nn.gelu
// CHECK:         return
func.func @refused_sigmoid(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = nn.constant dense<1.702> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x8xf32>, tensor<f32> -> tensor<2x8xf32>
  %2 = nn.sigmoid %1 : tensor<2x8xf32>
  %3 = nn.mul %x, %2 : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %3 : tensor<2x8xf32>
}
