#ifndef DIFFC_PASSES_FUSION
#define DIFFC_PASSES_FUSION

include "mlir/Pass/PassBase.td"

def DecomposeOps : Pass<"nn-decompose"> {
  let summary = "Write composite operators as element-wise ones, reductions and contractions";
  let description = [{
    Before: %y = nn.softmax %x
    After:  reduce_max, sub, exp, reduce_sum, reciprocal, mul on the same shape

    Every operator with DecomposableOpInterface goes, until none is left; equal
    parts (a norm's statistics in forward and backward) become one by CSE. A sum
    over several leading dimensions becomes two, the outermost last. Products and
    convolutions of f16, bf16 and f64 become f32 ones between casts: the library
    computes no other type here. What has no elements becomes a
    constant, and so does a reduction of it.
    Run after autodiff and before fusion, which puts the parts together again
    with their neighbours.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
}

def FuseKernels : Pass<"nn-fuse"> {
  let summary = "Gather operators into kernels and library calls";
  let description = [{
    Leaves in each train.entry and func.func only nn.kernel, nn.call,
    nn.reshape (a view) and nn.constant beside reads and the terminator.

    A kernel is a set of operators over one loop nest: element-wise ones of one
    shape, reductions of that shape over the same axes, and what follows from
    them. An operator joins the kernel of a producer if that makes no cycle.
    Slices, reversals and transposes that keep the last dimension are read
    through in their consumers. A bias that is added to a library call's result
    and nothing else becomes part of the call.

    With `fuse=false` every operator is a kernel of its own. Refuses an
    operator that is neither a kernel's nor a library's.
    Each edge that was not fused leaves a reason in `nn.unfused` on the consumer.
  }];
  let options = [Option<"fuse", "fuse", "bool", "true", "put operators together">];
  let dependentDialects = ["::diffc::nn::NnDialect"];
}

#endif
