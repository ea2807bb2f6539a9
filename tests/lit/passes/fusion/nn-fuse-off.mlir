// RUN: diffc-opt %s --nn-fuse=fuse=false | FileCheck %s

// Without fusion every operator is a kernel or call of its own, moves are
// written, and there are no reasons to give.

// CHECK-LABEL: func.func @each
// CHECK-NOT:     nn.unfused
// CHECK:         %[[P:.+]] = nn.call "matmul"
// CHECK-NEXT:      nn.matmul
// CHECK-NEXT:      nn.yield
// CHECK:         %[[S:.+]] = nn.kernel "add" ({{.+}} = %[[P]],
// CHECK-NEXT:      nn.add
// CHECK-NEXT:      nn.yield
// CHECK:         %[[T:.+]] = nn.kernel "slice" ({{.+}} = %[[S]])
// CHECK-NEXT:      nn.slice
// CHECK-NEXT:      nn.yield
// CHECK:         %[[E:.+]] = nn.kernel "exp" ({{.+}} = %[[T]])
// CHECK-NEXT:      nn.exp
// CHECK-NEXT:      nn.yield
// CHECK:         return %[[E]]
func.func @each(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<3xf32>) -> tensor<2x1xf32> {
  %0 = nn.matmul %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %1 = nn.add %0, %b : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %2 = nn.slice %1 {starts = array<i64: 0, 1>, sizes = array<i64: 2, 1>, strides = array<i64: 1, 1>} : tensor<2x3xf32> -> tensor<2x1xf32>
  %3 = nn.exp %2 : tensor<2x1xf32>
  return %3 : tensor<2x1xf32>
}
