// RUN: diffc-opt %s --split-input-file --nn-raise-silu | FileCheck %s

// Either order of the factors is a SiLU.

// CHECK-LABEL: func.func @commuted
// CHECK-SAME:    (%[[X:.+]]: tensor
// CHECK-NEXT:    %[[Y:.+]] = nn.silu %[[X]]
// CHECK-NEXT:    return %[[Y]]
func.func @commuted(%x: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %s = nn.sigmoid %x : tensor<2x8xf32>
  %y = nn.mul %s, %x : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// A gate: the sigmoid of another value. Leave it.

// CHECK-LABEL: func.func @refused_gate
// CHECK:         nn.sigmoid
// CHECK-NOT:     nn.silu
func.func @refused_gate(%x: tensor<2x8xf32>, %z: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %s = nn.sigmoid %z : tensor<2x8xf32>
  %y = nn.mul %x, %s : tensor<2x8xf32>, tensor<2x8xf32> -> tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// Others read the sigmoid: it stays, the product is a SiLU all the same.

// CHECK-LABEL: func.func @shared
// CHECK:         %[[S:.+]] = nn.sigmoid
// CHECK:         %[[Y:.+]] = nn.silu
// CHECK:         nn.add %[[Y]], %[[S]]
func.func @shared(%x: tensor<8xf32>) -> tensor<8xf32> {
  %s = nn.sigmoid %x : tensor<8xf32>
  %y = nn.mul %x, %s : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  %z = nn.add %y, %s : tensor<8xf32>, tensor<8xf32> -> tensor<8xf32>
  return %z : tensor<8xf32>
}
