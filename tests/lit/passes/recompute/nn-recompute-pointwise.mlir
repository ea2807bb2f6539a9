// RUN: diffc-opt %s --split-input-file --nn-recompute-pointwise | FileCheck %s

// %h is read on both sides of the large value: computed again, from %a, which is there
// anyway.
// CHECK-LABEL: @again
// CHECK: %[[H:.*]] = nn.kernel "gelu"
// CHECK: nn.call "matmul" ({{.*}} = %[[H]],
// CHECK: nn.kernel "reduce_sum"
// CHECK: %[[AGAIN:.*]] = nn.kernel "gelu" ({{.*}} = %arg0)
// CHECK-NEXT: nn.gelu
// CHECK: nn.call "matmul" ({{.*}} = %[[AGAIN]], {{.*}} = %[[AGAIN]])
func.func @again(%a: tensor<64x64xf32>, %w: tensor<64x4096xf32>) -> (tensor<64x1xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %h = nn.kernel "gelu" (%x = %a) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.gelu %x {form = #nn.gelu_form<tanh>} : tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  %big = nn.call "matmul" (%x = %h, %y = %w) : (tensor<64x64xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32> {
    %0 = nn.matmul %x, %y : tensor<64x64xf32>, tensor<64x4096xf32> -> tensor<64x4096xf32>
    nn.yield %0 : tensor<64x4096xf32>
  }
  %s = nn.kernel "reduce_sum" (%x = %big) : (tensor<64x4096xf32>) -> tensor<64x1xf32> {
    %0 = nn.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : tensor<64x4096xf32> -> tensor<64x1xf32>
    nn.yield %0 : tensor<64x1xf32>
  }
  %m = nn.call "matmul" (%x = %h, %y = %h) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.matmul %x, %y : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  %g = nn.kernel "neg" (%x = %a) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.neg %x : tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  return %s, %m, %g : tensor<64x1xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// Nothing reads %a later: keeping it instead of %h would gain nothing.
// CHECK-LABEL: @source_would_stay
// CHECK: %[[H:.*]] = nn.kernel "gelu"
// CHECK: nn.kernel "reduce_sum"
// CHECK-NOT: nn.gelu
// CHECK: nn.call "matmul" ({{.*}} = %[[H]], {{.*}} = %[[H]])
func.func @source_would_stay(%a: tensor<64x64xf32>, %w: tensor<64x4096xf32>) -> (tensor<64x1xf32>, tensor<64x64xf32>) {
  %n = nn.kernel "neg" (%x = %a) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.neg %x : tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  %h = nn.kernel "gelu" (%x = %n) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.gelu %x {form = #nn.gelu_form<tanh>} : tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  %big = nn.call "matmul" (%x = %h, %y = %w) : (tensor<64x64xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32> {
    %0 = nn.matmul %x, %y : tensor<64x64xf32>, tensor<64x4096xf32> -> tensor<64x4096xf32>
    nn.yield %0 : tensor<64x4096xf32>
  }
  %s = nn.kernel "reduce_sum" (%x = %big) : (tensor<64x4096xf32>) -> tensor<64x1xf32> {
    %0 = nn.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : tensor<64x4096xf32> -> tensor<64x1xf32>
    nn.yield %0 : tensor<64x1xf32>
  }
  %m = nn.call "matmul" (%x = %h, %y = %h) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.matmul %x, %y : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  return %s, %m : tensor<64x1xf32>, tensor<64x64xf32>
}

// -----

// A row's mean is small: it is kept, and what is element-wise after it is done again.
// CHECK-LABEL: @statistics_are_kept
// CHECK: %[[H:.*]]:2 = nn.kernel "norm"
// CHECK: nn.kernel "reduce_sum"
// CHECK: %[[AGAIN:.*]] = nn.kernel "norm" ({{.*}} = {{%arg0|%.*#1}}, {{.*}} = {{%arg0|%.*#1}})
// CHECK-NOT: nn.reduce_mean
// CHECK: nn.sub
// CHECK: nn.call "matmul" ({{.*}} = %[[AGAIN]], {{.*}} = %[[AGAIN]])
func.func @statistics_are_kept(%a: tensor<64x64xf32>, %w: tensor<64x4096xf32>) -> (tensor<64x1xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %h, %mean = nn.kernel "norm" (%x = %a) : (tensor<64x64xf32>) -> (tensor<64x64xf32>, tensor<64x1xf32>) {
    %0 = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<64x64xf32> -> tensor<64x1xf32>
    %1 = nn.sub %x, %0 : tensor<64x64xf32>, tensor<64x1xf32> -> tensor<64x64xf32>
    nn.yield %1, %0 : tensor<64x64xf32>, tensor<64x1xf32>
  }
  %big = nn.call "matmul" (%x = %h, %y = %w) : (tensor<64x64xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32> {
    %0 = nn.matmul %x, %y : tensor<64x64xf32>, tensor<64x4096xf32> -> tensor<64x4096xf32>
    nn.yield %0 : tensor<64x4096xf32>
  }
  %s = nn.kernel "reduce_sum" (%x = %big) : (tensor<64x4096xf32>) -> tensor<64x1xf32> {
    %0 = nn.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : tensor<64x4096xf32> -> tensor<64x1xf32>
    nn.yield %0 : tensor<64x1xf32>
  }
  %m = nn.call "matmul" (%x = %h, %y = %h) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.matmul %x, %y : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  %g = nn.kernel "neg" (%x = %a) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.neg %x : tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  return %s, %m, %g : tensor<64x1xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}

// -----

// The mean is no result: to have it again would be a reduction.
// CHECK-LABEL: @reductions_are_not_done_again
// CHECK: %[[H:.*]] = nn.kernel "norm"
// CHECK: nn.kernel "reduce_sum"
// CHECK-NOT: nn.kernel "norm"
// CHECK: nn.call "matmul" ({{.*}} = %[[H]], {{.*}} = %[[H]])
func.func @reductions_are_not_done_again(%a: tensor<64x64xf32>, %w: tensor<64x4096xf32>) -> (tensor<64x1xf32>, tensor<64x64xf32>, tensor<64x64xf32>) {
  %h = nn.kernel "norm" (%x = %a) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.reduce_mean %x {axes = array<i64: 1>, keepdims = true} : tensor<64x64xf32> -> tensor<64x1xf32>
    %1 = nn.sub %x, %0 : tensor<64x64xf32>, tensor<64x1xf32> -> tensor<64x64xf32>
    nn.yield %1 : tensor<64x64xf32>
  }
  %big = nn.call "matmul" (%x = %h, %y = %w) : (tensor<64x64xf32>, tensor<64x4096xf32>) -> tensor<64x4096xf32> {
    %0 = nn.matmul %x, %y : tensor<64x64xf32>, tensor<64x4096xf32> -> tensor<64x4096xf32>
    nn.yield %0 : tensor<64x4096xf32>
  }
  %s = nn.kernel "reduce_sum" (%x = %big) : (tensor<64x4096xf32>) -> tensor<64x1xf32> {
    %0 = nn.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : tensor<64x4096xf32> -> tensor<64x1xf32>
    nn.yield %0 : tensor<64x1xf32>
  }
  %m = nn.call "matmul" (%x = %h, %y = %h) : (tensor<64x64xf32>, tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.matmul %x, %y : tensor<64x64xf32>, tensor<64x64xf32> -> tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  %g = nn.kernel "neg" (%x = %a) : (tensor<64x64xf32>) -> tensor<64x64xf32> {
    %0 = nn.neg %x : tensor<64x64xf32>
    nn.yield %0 : tensor<64x64xf32>
  }
  return %s, %m, %g : tensor<64x1xf32>, tensor<64x64xf32>, tensor<64x64xf32>
}
