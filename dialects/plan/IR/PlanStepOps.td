// The operations of an entry.
#ifndef DIFFC_PLAN_STEP_OPS
#define DIFFC_PLAN_STEP_OPS

include "dialects/plan/IR/PlanDialect.td"

class Plan_StepOp<string mnemonic, dag own, string head, string tail = "">
    : Op<Plan_Dialect, mnemonic, [HasParent<"EntryOp">,
          DeclareOpInterfaceMethods<Plan_StepOpInterface>]> {
  // (S1) every buffer lies within its space, an arena buffer within its entry's
  // share. (S2) one value per buffer, in range. (S3) its nodes are the
  // program's. (S4) nothing writes to a space with data.
  let arguments = !con(own, (ins StrAttr:$label,
      Plan_Buffers:$inputs, DenseI64ArrayAttr:$input_values,
      Plan_Buffers:$outputs, DenseI64ArrayAttr:$output_values, Plan_Buffers:$scratch,
      I64Attr:$first_node, I64Attr:$node_count, I64Attr:$bytes_read, I64Attr:$bytes_written,
      I64Attr:$flops, StrAttr:$location));
  let assemblyFormat = head # [{ $label
      custom<Buffers>($inputs, $input_values, $outputs, $output_values, $scratch) }] # tail # [{
      `\n` custom<Work>($first_node, $node_count, $bytes_read, $bytes_written, $flops, $location)
      attr-dict }];
}

def Plan_LaunchOp : Plan_StepOp<"launch",
    (ins FlatSymbolRefAttr:$kernel, I64Attr:$chunks), "$kernel `chunks` $chunks"> {
  let summary = "Runs a kernel once per chunk, in parallel";
  let description = [{
    The kernel gets inputs, outputs and scratch in this order.
    (L1) the kernel is there, (L2) with this many buffers. (L3) 1 <= chunks.
  }];
  let hasVerifier = 1; // L3; the rest by plan.program
}

def Plan_MatmulOp : Plan_StepOp<"matmul",
    (ins Plan_MatrixType:$a, Plan_MatrixType:$b, Plan_MatrixType:$c, UnitAttr:$bias),
    "", "`a` $a `b` $b `c` $c (`bias` $bias^)?"> {
  let summary = "C = A B (+ bias over columns)";
  let description = [{
    a [batch..., m, k], b [batch..., k, n], c [batch..., m, n] dense; strides in
    elements. Inputs a, b[, bias]; output c.
    (M1) two inputs, three with a bias, and one output. (M2) one float type.
    (M3) m, k, n agree; a batch extent of a or b is c's, or 1. (M4) a and b stay
    within their buffers, bias and c fill theirs.
  }];
  let hasVerifier = 1;
}

def Plan_ConvolutionOp : Plan_StepOp<"convolution",
    (ins Plan_ConvolutionKind:$kind, Plan_TensorType:$x, Plan_TensorType:$w, Plan_TensorType:$y,
         DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads_low, DenseI64ArrayAttr:$pads_high,
         DenseI64ArrayAttr:$dilations, I64Attr:$groups, UnitAttr:$bias),
    "$kind", [{`x` $x `w` $w `y` $y `strides` $strides `pads` $pads_low `,` $pads_high
      `dilations` $dilations `groups` $groups (`bias` $bias^)?}]> {
  let summary = "A convolution or one of its derivatives";
  let description = [{
    x [N, C, spatial...], w [O, C / groups, kernel...], y [N, O, spatial...].
    forward: x, w[, bias] -> y; input_grad: dy, w -> dx; weight_grad: x, dy -> dw.
    (V1) two inputs, three with a bias (forward only), and one output. (V2) one
    float type, one rank of 3 to 5, as many strides, pads and dilations as
    spatial dimensions. (V3) channels and groups agree. (V4) y's extents follow
    from x's. (V5) the tensors fill their buffers.
  }];
  let hasVerifier = 1;
}

def Plan_DrawOp : Plan_StepOp<"draw",
    (ins Plan_Distribution:$distribution, I64Attr:$stream, I64Attr:$samples, I64Attr:$elements),
    "$distribution `stream` $stream `samples` $samples `of` $elements"> {
  let summary = "A random tensor (docs/random.md)";
  let description = [{
    Inputs seed, iteration, first sample; output [samples, elements] f32.
    (D1) three inputs of 8 bytes, one output. (D2) the output has this size.
    (D3) the stream fits 32 bits.
  }];
  let hasVerifier = 1;
}

def Plan_CopyOp : Plan_StepOp<"copy", (ins), ""> {
  let summary = "Copies a buffer";
  let description = "(C1) one input and one output of the same size.";
  let hasVerifier = 1;
}

#endif
