// RUN: diffc-opt %s | diffc-opt | FileCheck %s

// One of everything that a plan can hold.

// CHECK-LABEL: plan.program @mlp version 1 compiler "diffc" {
plan.program @mlp version 1 compiler "diffc" {
  // CHECK: plan.target cpu "avx512" team 2 features ["avx512f", "fma"]
  plan.target cpu "avx512" team 2 features ["avx512f", "fma"]
  // CHECK: plan.space @state lives program bytes 1024
  plan.space @state lives program bytes 1024
  // CHECK: plan.space @constants lives program bytes 64 data crc32c 0x8A9136AA
  plan.space @constants lives program bytes 64 data crc32c 0x8a9136aa
  // CHECK: plan.space @arena lives entry bytes 8192
  plan.space @arena lives entry bytes 8192
  // CHECK: plan.slot @mlp::@fc1.weight weight in @state[0 : 96] : tensor<6x4xf32> trainable
  plan.slot @mlp::@fc1.weight weight in @state[0 : 96] : tensor<6x4xf32> trainable
  // CHECK: plan.slot @mlp::@fc1.weight "a role" in @state[128 : 96] : tensor<6x4xf32>
  plan.slot @mlp::@fc1.weight "a role" in @state[128 : 96] : tensor<6x4xf32>
  // CHECK: plan.slot @iteration value in @state[256 : 8] : tensor<i64>
  plan.slot @iteration value in @state[256 : 8] : tensor<i64>
  // CHECK: plan.code bytes 4096 crc32c 0x1A2B
  plan.code bytes 4096 crc32c 0x1A2B
  // CHECK: plan.kernel @k0 : 2 -> 1
  plan.kernel @k0 : 2 -> 1
  // CHECK: plan.entry @step of "mlp" batch 8 arena 4096 values 12 nodes 5 {
  plan.entry @step of "mlp" batch 8 arena 4096 values 12 nodes 5 {
    // CHECK: plan.input "clean" role "clean" value 0 in @arena[0 : 192] : tensor<8x6xf32>
    plan.input "clean" role "clean" value 0 in @arena[0 : 192] : tensor<8x6xf32>
    // CHECK: plan.input "lr" scalar 1.000000e-03 value 1 in @arena[192 : 4] : tensor<f32>
    plan.input "lr" scalar 1.0e-3 value 1 in @arena[192 : 4] : tensor<f32>
    // CHECK: plan.read @mlp::@fc1.weight weight value 2
    plan.read @mlp::@fc1.weight weight value 2
    // CHECK: plan.read @iteration value value 3
    plan.read @iteration value value 3
    // CHECK: plan.draw uniform stream 7 samples 8 of 6 "draw" (4 in @constants[0 : 8], 3 in @state[256 : 8], 4 in @constants[0 : 8]) -> (5 in @arena[256 : 192])
    // CHECK-NEXT: nodes [0 : 1] moves [24, 192] flops 480 at "fc1"
    plan.draw uniform stream 7 samples 8 of 6 "draw" (4 in @constants[0 : 8], 3 in @state[256 : 8], 4 in @constants[0 : 8]) -> (5 in @arena[256 : 192])
        nodes [0 : 1] moves [24, 192] flops 480 at "fc1"
    // CHECK: plan.launch @k0 chunks 3 "add" (0 in @arena[0 : 192], 5 in @arena[256 : 192]) -> (6 in @arena[0 : 192])
    plan.launch @k0 chunks 3 "add" (0 in @arena[0 : 192], 5 in @arena[256 : 192]) -> (6 in @arena[0 : 192])
        nodes [1 : 2] moves [384, 192] flops 48 at ""
    // CHECK: plan.matmul "matmul" (6 in @arena[0 : 192], 2 in @state[0 : 96]) -> (7 in @arena[512 : 128]) scratch (@arena[640 : 64]) a memref<8x6xf32, strided<[6, 1]>> b memref<6x4xf32, strided<[4, 1]>> c memref<8x4xf32>
    plan.matmul "matmul" (6 in @arena[0 : 192], 2 in @state[0 : 96]) -> (7 in @arena[512 : 128]) scratch (@arena[640 : 64])
        a memref<8x6xf32, strided<[6, 1]>> b memref<6x4xf32, strided<[4, 1]>> c memref<8x4xf32>
        nodes [3 : 1] moves [288, 128] flops 384 at "fc1/MatMul"
    // CHECK: plan.matmul "matmul_bias" {{.*}} bias
    plan.matmul "matmul_bias" (6 in @arena[0 : 192], 2 in @state[0 : 96], 8 in @arena[704 : 16]) -> (7 in @arena[512 : 128])
        a memref<8x6xf32, strided<[6, 1]>> b memref<6x4xf32, strided<[1, 6]>> c memref<8x4xf32> bias
        nodes [3 : 1] moves [288, 128] flops 384 at "fc1/MatMul"
    // CHECK: plan.convolution weight_grad "conv" ({{.*}}) -> ({{.*}}) x tensor<1x2x5x5xf32> w tensor<4x2x3x3xf32> y tensor<1x4x3x3xf32> strides [2, 2] pads [1, 1], [1, 1] dilations [1, 1] groups 1
    plan.convolution weight_grad "conv" (9 in @arena[768 : 200], 10 in @arena[1024 : 144]) -> (11 in @arena[1216 : 288])
        x tensor<1x2x5x5xf32> w tensor<4x2x3x3xf32> y tensor<1x4x3x3xf32>
        strides [2, 2] pads [1, 1], [1, 1] dilations [1, 1] groups 1
        nodes [4 : 1] moves [344, 288] flops 1296 at "conv"
    // CHECK: plan.copy "copy" (2 in @state[0 : 96]) -> (2 in @state[128 : 96])
    // CHECK-NEXT: nodes [0 : 0] moves [96, 96] flops 0 at "fc1.weight/ema0"
    plan.copy "copy" (2 in @state[0 : 96]) -> (2 in @state[128 : 96])
        nodes [0 : 0] moves [96, 96] flops 0 at "fc1.weight/ema0"
    // CHECK: plan.output "loss" value 7 in @arena[512 : 128] : tensor<8x4xf32>
    plan.output "loss" value 7 in @arena[512 : 128] : tensor<8x4xf32>
    // CHECK: plan.commit @mlp::@fc1.weight "a role" value 2
    plan.commit @mlp::@fc1.weight "a role" value 2
  }
  // An entry's name is not a symbol: it may be a space's too.
  // CHECK: plan.entry @state of "" batch 0 arena 0 values 0 nodes 0 {
  plan.entry @state of "" batch 0 arena 0 values 0 nodes 0 {
  }
  // CHECK: plan.objective "diffusion" predict "eps" schedule "linear" steps 1000 beta 1.000000e-04 to 2.000000e-02 null_label -1 classes 10 accumulate 4
  plan.objective "diffusion" predict "eps" schedule "linear" steps 1000 beta 1.0e-4 to 2.0e-2 null_label -1 classes 10 accumulate 4
  // CHECK: plan.weights "mlp.safetensors" bytes 123 crc32c 0xFFFFFFFF
  plan.weights "mlp.safetensors" bytes 123 crc32c 0xFFFFFFFF
  // CHECK: plan.remark "not fused" at "step: add" : "two readers"
  plan.remark "not fused" at "step: add" : "two readers"
  // CHECK: plan.recipe "model: mlp.onnx\0Abatch: 8\0A"
  plan.recipe "model: mlp.onnx\0Abatch: 8\0A"
  // CHECK: plan.decisions "precision f32\0A"
  plan.decisions "precision f32\0A"
}
