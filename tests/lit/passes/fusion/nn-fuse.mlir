// RUN: diffc-opt %s --nn-fuse | FileCheck %s
//
// What is gathered into one kernel or call, and what is not, with the reason.
// One kernel per operator: nn-fuse-off.mlir. Refusals: nn-fuse-invalid.mlir.

// Element-wise operators of one shape are one kernel; splat constants move in,
// other constants stay memory.

// CHECK-LABEL: func.func @chain
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x3xf32>)
// CHECK-NEXT:    %[[C:.+]] = nn.constant dense<[1.000000e+00, 2.000000e+00, 3.000000e+00]>
// CHECK-NEXT:    %[[Y:.+]] = nn.kernel "mul+add+tanh" (%[[A:.+]] = %[[X]], %[[B:.+]] = %[[C]])
// CHECK-NEXT:    %[[H:.+]] = nn.constant dense<5.000000e-01>
// CHECK-NEXT:    %[[M:.+]] = nn.mul %[[A]], %[[H]]
// CHECK-NEXT:    %[[S:.+]] = nn.add %[[M]], %[[B]]
// CHECK-NEXT:    %[[T:.+]] = nn.tanh %[[S]]
// CHECK-NEXT:    nn.yield %[[T]]
// CHECK:         return %[[Y]]
func.func @chain(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.constant dense<0.5> : tensor<f32>
  %1 = nn.mul %x, %0 : tensor<2x3xf32>, tensor<f32> -> tensor<2x3xf32>
  %2 = nn.constant dense<[1.0, 2.0, 3.0]> : tensor<3xf32>
  %3 = nn.add %1, %2 : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %4 = nn.tanh %3 : tensor<2x3xf32>
  return %4 : tensor<2x3xf32>
}

// What is read outside becomes a result, beside the last value.

// CHECK-LABEL: func.func @two_results
// CHECK:         %[[R:.+]]:2 = nn.kernel "exp+neg"
// CHECK:         nn.yield %{{.+}}, %{{.+}} : tensor<4xf32>, tensor<4xf32>
// CHECK:         return %[[R]]#0, %[[R]]#1
func.func @two_results(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.exp %x : tensor<4xf32>
  %1 = nn.neg %0 : tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// Reductions over the same axes, what they are made of and what follows, also of
// the rows' own shape.

// CHECK-LABEL: func.func @rows
// CHECK-NEXT:    nn.kernel
// CHECK:         reduce_max
// CHECK:         nn.sub
// CHECK:         nn.exp
// CHECK:         reduce_sum
// CHECK:         nn.reciprocal
// CHECK:         nn.mul
// CHECK-NEXT:    nn.yield
// CHECK-NOT:     nn.kernel
// CHECK:         return
func.func @rows(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = nn.reduce_max %x {axes = array<i64: 1>, keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %1 = nn.sub %x, %0 : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %2 = nn.exp %1 : tensor<4x8xf32>
  %3 = nn.reduce_sum %2 {axes = array<i64: 1>, keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %4 = nn.reciprocal %3 : tensor<4x1xf32>
  %5 = nn.mul %2, %4 : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// A reshape is a view: it stays outside, and ends a kernel.

// CHECK-LABEL: func.func @views
// CHECK:         %[[A:.+]] = nn.kernel "exp"
// CHECK:         %[[R:.+]] = nn.reshape %[[A]]
// CHECK:         nn.kernel "neg" (%{{.+}} = %[[R]])
func.func @views(%x: tensor<2x3xf32>) -> tensor<6xf32> {
  %0 = nn.exp %x : tensor<2x3xf32>
  %1 = nn.reshape %0 {shape = array<i64: 6>} : tensor<2x3xf32> -> tensor<6xf32>
  %2 = nn.neg %1 : tensor<6xf32>
  return %2 : tensor<6xf32>
}

// A slice, and a transpose that keeps the last dimension, are read in place by the
// kernel that uses them.

// CHECK-LABEL: func.func @read_through
// CHECK-NEXT:    %[[Y:.+]] = nn.kernel "add" (%[[A:.+]] = %{{.+}}, %[[B:.+]] = %{{.+}})
// CHECK:         nn.slice %[[A]]
// CHECK:         nn.transpose %[[B]]
// CHECK:         nn.add
// CHECK-NOT:     nn.kernel
// CHECK:         return %[[Y]]
func.func @read_through(%x: tensor<3x2x8xf32>, %y: tensor<2x3x4xf32>) -> tensor<3x2x4xf32> {
  %s0 = nn.slice %x {starts = array<i64: 0, 0, 4>, sizes = array<i64: 3, 2, 4>, strides = array<i64: 1, 1, 1>} : tensor<3x2x8xf32> -> tensor<3x2x4xf32>
  %0 = nn.transpose %y {permutation = array<i64: 1, 0, 2>} : tensor<2x3x4xf32> -> tensor<3x2x4xf32>
  %1 = nn.add %s0, %0 : tensor<3x2x4xf32>, tensor<3x2x4xf32> -> tensor<3x2x4xf32>
  return %1 : tensor<3x2x4xf32>
}

// A transpose that moves the last dimension is a kernel of its own.

// CHECK-LABEL: func.func @transposed_rows
// CHECK:         %[[T:.+]] = nn.kernel "transpose"
// CHECK:         nn.kernel "exp" (%{{.+}} = %[[T]]) {{.+}} attributes {nn.unfused = "the producer is nn.transpose"}
func.func @transposed_rows(%x: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32>
  %1 = nn.exp %0 : tensor<3x2xf32>
  return %1 : tensor<3x2xf32>
}

// A library call takes memory as it is: the slice before it is written.

// CHECK-LABEL: func.func @move_for_a_call
// CHECK:         %[[S:.+]] = nn.kernel "slice"
// CHECK:         nn.call "matmul" (%{{.+}} = %[[S]],
func.func @move_for_a_call(%x: tensor<4x8xf32>, %w: tensor<4x3xf32>) -> tensor<4x3xf32> {
  %s0 = nn.slice %x {starts = array<i64: 0, 4>, sizes = array<i64: 4, 4>, strides = array<i64: 1, 1>} : tensor<4x8xf32> -> tensor<4x4xf32>
  %0 = nn.matmul %s0, %w : tensor<4x4xf32>, tensor<4x3xf32> -> tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// A bias over the columns joins the product, on either side of the sum.

// CHECK-LABEL: func.func @bias
// CHECK-SAME:    (%[[X:[^:]+]]: tensor<2x4xf32>, %[[W:[^:]+]]: tensor<4x3xf32>, %[[B:[^:]+]]: tensor<3xf32>)
// CHECK-NEXT:    %[[Y:.+]] = nn.call "matmul" (%[[A0:.+]] = %[[X]], %[[A1:.+]] = %[[W]], %[[A2:.+]] = %[[B]])
// CHECK-NEXT:    %[[P:.+]] = nn.matmul %[[A0]], %[[A1]]
// CHECK-NEXT:    %[[S:.+]] = nn.add %[[P]], %[[A2]]
// CHECK-NEXT:    nn.yield %[[S]]
// CHECK:         return %[[Y]]
func.func @bias(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = nn.matmul %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %1 = nn.add %b, %0 : tensor<3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// A convolution's bias runs over the channels.

// CHECK-LABEL: func.func @channel_bias
// CHECK-NEXT:    %{{.+}} = nn.reshape
// CHECK-NEXT:    %[[Y:.+]] = nn.call "convolution" ({{.+}}, {{.+}}, {{.+}})
// CHECK:         nn.convolution
// CHECK-NEXT:    %{{.+}} = nn.add
// CHECK:         return %[[Y]]
func.func @channel_bias(%x: tensor<1x2x4x4xf32>, %w: tensor<3x2x1x1xf32>, %b: tensor<3xf32>) -> tensor<1x3x4x4xf32> {
  %0 = nn.reshape %b {shape = array<i64: 3, 1, 1>} : tensor<3xf32> -> tensor<3x1x1xf32>
  %y0 = nn.convolution %x, %w {strides = array<i64: 1, 1>, pads_low = array<i64: 0, 0>, pads_high = array<i64: 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64} : tensor<1x2x4x4xf32>, tensor<3x2x1x1xf32> -> tensor<1x3x4x4xf32>
  %1 = nn.add %y0, %0 : tensor<1x3x4x4xf32>, tensor<3x1x1xf32> -> tensor<1x3x4x4xf32>
  return %1 : tensor<1x3x4x4xf32>
}

// Not a bias of the call: the product is read elsewhere,

// CHECK-LABEL: func.func @product_read_elsewhere
// CHECK:         nn.call "matmul" (%{{[^=]+}} = %{{[^=]+}}, %{{[^=]+}} = %{{[^,]+}})
// CHECK-NEXT:    %[[P:.+]] = nn.matmul
// CHECK-NEXT:    nn.yield %[[P]]
// CHECK:         nn.kernel "add"
func.func @product_read_elsewhere(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<3xf32>) -> (tensor<2x3xf32>, tensor<2x3xf32>) {
  %0 = nn.matmul %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %1 = nn.add %0, %b : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  return %1, %0 : tensor<2x3xf32>, tensor<2x3xf32>
}

// the addend runs over the rows,

// CHECK-LABEL: func.func @bias_of_rows
// CHECK:         nn.call "matmul" (%{{[^=]+}} = %{{[^=]+}}, %{{[^=]+}} = %{{[^,]+}})
// CHECK-NEXT:    %[[P:.+]] = nn.matmul
// CHECK-NEXT:    nn.yield %[[P]]
// CHECK:         nn.kernel "add"
func.func @bias_of_rows(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<2x1xf32>) -> tensor<2x3xf32> {
  %0 = nn.matmul %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %1 = nn.add %0, %b : tensor<2x3xf32>, tensor<2x1xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// it is a whole matrix,

// CHECK-LABEL: func.func @full_addend
// CHECK:         nn.call "matmul" (%{{[^=]+}} = %{{[^=]+}}, %{{[^=]+}} = %{{[^,]+}})
// CHECK-NEXT:    %[[P:.+]] = nn.matmul
// CHECK-NEXT:    nn.yield %[[P]]
// CHECK:         nn.kernel "add"
func.func @full_addend(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.matmul %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %1 = nn.add %0, %b : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// a single number,

// CHECK-LABEL: func.func @scalar_addend
// CHECK:         nn.call "matmul" (%{{[^=]+}} = %{{[^=]+}}, %{{[^=]+}} = %{{[^,]+}})
// CHECK-NEXT:    %[[P:.+]] = nn.matmul
// CHECK-NEXT:    nn.yield %[[P]]
// CHECK:         nn.kernel "add"
func.func @scalar_addend(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.matmul %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %1 = nn.constant dense<0.5> : tensor<f32>
  %2 = nn.add %0, %1 : tensor<2x3xf32>, tensor<f32> -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// or the product itself.

// CHECK-LABEL: func.func @with_itself
// CHECK:         nn.call "matmul" (%{{[^=]+}} = %{{[^=]+}}, %{{[^=]+}} = %{{[^,]+}})
// CHECK-NEXT:    %[[P:.+]] = nn.matmul
// CHECK-NEXT:    nn.yield %[[P]]
// CHECK:         nn.kernel "add"
func.func @with_itself(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.matmul %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %1 = nn.add %0, %0 : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// A bias that is made after the call stays outside.

// CHECK-LABEL: func.func @bias_made_later
// CHECK:         nn.call "matmul" (%{{[^=]+}} = %{{[^=]+}}, %{{[^=]+}} = %{{[^,]+}})
// CHECK-NEXT:    %[[P:.+]] = nn.matmul
// CHECK-NEXT:    nn.yield %[[P]]
// CHECK:         nn.kernel
func.func @bias_made_later(%x: tensor<2x4xf32>, %w: tensor<4x3xf32>, %b: tensor<3xf32>) -> tensor<2x3xf32> {
  %0 = nn.matmul %x, %w : tensor<2x4xf32>, tensor<4x3xf32> -> tensor<2x3xf32>
  %1 = nn.exp %b : tensor<3xf32>
  %2 = nn.add %0, %1 : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  return %2 : tensor<2x3xf32>
}

// Operators of another shape do not join, and say so.

// CHECK-LABEL: func.func @another_shape
// CHECK:         nn.kernel "exp"
// CHECK:         nn.kernel "add" {{.+}} attributes {nn.unfused = "its shape is not the kernel's"}
func.func @another_shape(%x: tensor<3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = nn.exp %x : tensor<3xf32>
  %1 = nn.add %y, %0 : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  return %1 : tensor<2x3xf32>
}

// Nor does a reduction over other axes,

// CHECK-LABEL: func.func @other_axes
// CHECK:         nn.kernel "reduce_sum+mul"
// CHECK:         nn.kernel "reduce_sum" {{.+}} attributes {nn.unfused = "the kernel reduces over other axes"}
func.func @other_axes(%x: tensor<4x8xf32>) -> tensor<1x8xf32> {
  %0 = nn.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %1 = nn.mul %x, %0 : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %2 = nn.reduce_sum %1 {axes = array<i64: 0>, keepdims = true} : tensor<4x8xf32> -> tensor<1x8xf32>
  return %2 : tensor<1x8xf32>
}

// what follows a reduction that drops its axes,

// CHECK-LABEL: func.func @dropped_axes
// CHECK:         nn.kernel "reduce_sum"
// CHECK:         nn.kernel "exp" {{.+}} attributes {nn.unfused = "the producer drops the axes that it reduces"}
func.func @dropped_axes(%x: tensor<4x8xf32>) -> tensor<4xf32> {
  %0 = nn.reduce_sum %x {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4xf32>
  %1 = nn.exp %0 : tensor<4xf32>
  return %1 : tensor<4xf32>
}

// a reduction of the rows' own shape,

// CHECK-LABEL: func.func @other_loops
// CHECK:         nn.kernel "reduce_sum"
// CHECK:         nn.kernel "reduce_max" {{.+}} attributes {nn.unfused = "the reduction's input has another shape than the kernel's loops"}
func.func @other_loops(%x: tensor<4x8xf32>) -> tensor<1x1xf32> {
  %0 = nn.reduce_sum %x {axes = array<i64: 1>, keepdims = true} : tensor<4x8xf32> -> tensor<4x1xf32>
  %1 = nn.reduce_max %0 {axes = array<i64: 0>, keepdims = true} : tensor<4x1xf32> -> tensor<1x1xf32>
  return %1 : tensor<1x1xf32>
}

// and a consumer of what is no loop nest.

// CHECK-LABEL: func.func @concat
// CHECK:         nn.kernel "concat"
// CHECK:         nn.kernel "exp" {{.+}} attributes {nn.unfused = "the producer is nn.concat"}
func.func @concat(%x: tensor<2x3xf32>) -> tensor<4x3xf32> {
  %c0 = nn.concat %x, %x {axis = 0 : i64} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<4x3xf32>
  %0 = nn.exp %c0 : tensor<4x3xf32>
  return %0 : tensor<4x3xf32>
}

// The product stands between exp and add: joined, the kernel would wait for a call
// that waits for the kernel.

// CHECK-LABEL: func.func @cycle
// CHECK:         %[[E:.+]] = nn.kernel "exp"
// CHECK:         %[[P:.+]] = nn.call "matmul" (%{{.+}} = %[[E]],
// CHECK:         nn.kernel "add" (%{{.+}} = %[[E]], %{{.+}} = %[[P]]) {{.+}} attributes {nn.unfused = "another operator between them would depend on the kernel it feeds"}
func.func @cycle(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = nn.exp %x : tensor<3x3xf32>
  %1 = nn.matmul %0, %w : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %2 = nn.add %0, %1 : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// Operators in between that the kernel does not feed are no hindrance.

// CHECK-LABEL: func.func @no_cycle
// CHECK:         nn.call "matmul"
// CHECK:         %[[Y:.+]] = nn.kernel "exp+add"
// CHECK-NOT:     nn.kernel
// CHECK:         return %[[Y]]
func.func @no_cycle(%x: tensor<3x3xf32>, %w: tensor<3x3xf32>) -> tensor<3x3xf32> {
  %0 = nn.exp %x : tensor<3x3xf32>
  %1 = nn.matmul %x, %w : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  %2 = nn.add %0, %1 : tensor<3x3xf32>, tensor<3x3xf32> -> tensor<3x3xf32>
  return %2 : tensor<3x3xf32>
}

// What nothing reads is not computed.

// CHECK-LABEL: func.func @unread
// CHECK-NOT:     nn.kernel
// CHECK:         return %{{.+}}
func.func @unread(%x: tensor<3xf32>) -> tensor<3xf32> {
  %d0 = nn.slice %x {starts = array<i64: 0>, sizes = array<i64: 1>, strides = array<i64: 1>} : tensor<3xf32> -> tensor<1xf32>
  return %x : tensor<3xf32>
}

// A model's own graph is what entries are made from, not a program: it stays.

// CHECK-LABEL: train.model @model
// CHECK:         train.graph @graph
// CHECK-NEXT:      nn.exp
// CHECK-NEXT:      train.return
train.model @model attributes {source = "model.onnx"} {
  train.graph @graph(%x: tensor<2xf32> {train.input = "x"}) -> tensor<2xf32> {
    %0 = nn.exp %x : tensor<2xf32>
    train.return %0 : tensor<2xf32>
  }
}

// Each of two kernels would need the other: %p and %m are one, so %c and %o, which
// reads a view of %p, are not.

// CHECK-LABEL: func.func @kernels_that_need_each_other
// CHECK-NEXT:    %[[C:.+]] = nn.kernel "exp" (%{{.+}} = %{{.+}}) : (tensor<2x2xf32>)
// CHECK:         nn.kernel "exp+add" {{.+}} (tensor<4xf32>, tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
// CHECK:         nn.kernel "add"
// CHECK-SAME:    another operator between them would depend on the kernel it feeds
func.func @kernels_that_need_each_other(%x: tensor<4xf32>, %y: tensor<2x2xf32>) -> (tensor<4xf32>, tensor<2x2xf32>) {
  %p = nn.exp %x : tensor<4xf32>
  %v = nn.reshape %p {shape = array<i64: 2, 2>} : tensor<4xf32> -> tensor<2x2xf32>
  %c = nn.exp %y : tensor<2x2xf32>
  %w = nn.reshape %c {shape = array<i64: 4>} : tensor<2x2xf32> -> tensor<4xf32>
  %m = nn.add %p, %w : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %o = nn.add %c, %v : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  return %m, %o : tensor<4xf32>, tensor<2x2xf32>
}
