// RUN: diffc-opt %s | diffc-opt | FileCheck %s

// CHECK-LABEL: train.model @mlp attributes {source = "mlp.onnx"} {
train.model @mlp attributes {source = "mlp.onnx"} {
  // CHECK: train.parameter @fc1.weight : tensor<3x4xf32> init #train.normal<0.000000e+00 : f64, 2.000000e-02 : f64>
  train.parameter @fc1.weight : tensor<3x4xf32> init #train.normal<0.0 : f64, 0.02 : f64>
  // CHECK: train.graph @b2(%{{.*}}: tensor<2x4xf32> {train.input = "x"}, %{{.*}}: tensor<3x4xf32> {train.parameter = @fc1.weight}) -> tensor<2x3xf32>
  train.graph @b2(%x: tensor<2x4xf32> {train.input = "x"}, %w: tensor<3x4xf32> {train.parameter = @fc1.weight}) -> tensor<2x3xf32> {
    %0 = nn.matmul %x, %w {transpose_b = true} : tensor<2x4xf32>, tensor<3x4xf32> -> tensor<2x3xf32>
    // CHECK: train.return
    train.return %0 : tensor<2x3xf32>
  }
}
