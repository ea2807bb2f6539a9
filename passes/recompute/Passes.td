#ifndef DIFFC_PASSES_RECOMPUTE
#define DIFFC_PASSES_RECOMPUTE

include "mlir/Pass/PassBase.td"

def RecomputePointwise : Pass<"nn-recompute-pointwise"> {
  let summary = "Compute element-wise results again instead of keeping them over the peak";
  let description = [{
    Runs after nn-fuse. Where most of an entry's memory is live, a value that is
    read both before and after that point is not kept if the second reader can
    have it again for next to nothing: by element-wise operators alone (no
    reduction, no library call) from values that are there anyway, results of
    the same kernel included. That part of its kernel is cloned in front of the
    second reader. Repeated until nothing at the peak can go.

    Before: %h = kernel gelu(%a);  ... peak ...;  call(%h); kernel gelu_grad(%a)
    After:  %h = kernel gelu(%a);  ... peak ...;  %g = kernel gelu(%a); call(%g); ...

    Sources that would be kept longer for it may have a quarter of the bytes. State
    that the entry updates is no source once the updates begin. Values of less
    than 1/512 of the peak stay.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
}

#endif
