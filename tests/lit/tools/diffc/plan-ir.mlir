// What diffc would write is IR like any other phase's: it prints, parses and
// verifies; a plan file prints as the same, with what was added since.

// RUN: rm -rf %t && mkdir -p %t
// RUN: diffc %models/unet_small.onnx --recipe %models/unet_small.yaml -o %t/u.plan --stop-after=plan > %t/compiled.mlir
// RUN: not ls %t/u.plan %t/u.safetensors
// RUN: diffc-opt %t/compiled.mlir | FileCheck %s
// RUN: diffc %models/unet_small.onnx --recipe %models/unet_small.yaml -o %t/u.plan
// RUN: diffc inspect %t/u.plan --ir > %t/read.mlir
// RUN: diffc-opt %t/read.mlir | FileCheck %s --check-prefixes=CHECK,FILE
// RUN: grep -v -e plan.weights -e plan.decisions %t/read.mlir > %t/same.mlir
// RUN: diff %t/compiled.mlir %t/same.mlir

// CHECK: plan.program @u version 1 compiler "diffc {{.*}}" {
// CHECK: plan.target cpu "{{.*}}" team {{[0-9]+}} features [
// CHECK: plan.space @state lives program bytes [[#STATE:]]{{$}}
// CHECK: plan.space @constants lives program bytes {{[0-9]+}} data crc32c 0x
// CHECK: plan.space @arena lives entry bytes
// CHECK: plan.slot @model::@{{.*}} weight in @state[0 : {{[0-9]+}}] : tensor<{{.*}}> trainable
// CHECK: plan.code bytes {{[0-9]+}} crc32c 0x
// CHECK: plan.kernel @k0 :
// CHECK: plan.entry @step of "model"
// CHECK: plan.convolution weight_grad
// CHECK-NEXT: nodes [{{.*}}] moves [{{.*}}] flops {{[1-9][0-9]*}} at "
// FILE: plan.weights "u.safetensors"
