// RUN: diffc-opt %s --split-input-file --nn-fuse --verify-diagnostics

// Composite operators have to be decomposed first.

func.func @composite(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  // expected-error @+1 {{has no kernel and no library call}}
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  return %0 : tensor<2x3xf32>
}

// -----

// One that stands below what could be fused is found all the same.

func.func @last(%x: tensor<1x1x2x2xf32>) -> tensor<1x1x2x2xf32> {
  %0 = nn.exp %x : tensor<1x1x2x2xf32>
  // expected-error @+1 {{has no kernel and no library call}}
  %1 = nn.attention %0, %0, %0 {scale = 1.0} : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32> -> tensor<1x1x2x2xf32>
  return %1 : tensor<1x1x2x2xf32>
}
