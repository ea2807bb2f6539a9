// What the fusion phase leaves: regions that are one kernel or one library call.
#ifndef DIFFC_NN_REGION_OPS
#define DIFFC_NN_REGION_OPS

include "dialects/nn/IR/NnDialect.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"

def Nn_YieldOp : Op<Nn_Dialect, "yield", [Pure, ReturnLike, Terminator,
    ParentOneOf<["KernelOp", "CallOp"]>]> {
  let summary = "The results of a kernel or call";
  let arguments = (ins Variadic<Nn_Tensor>:$operands);
  let assemblyFormat = "$operands attr-dict `:` type($operands)";
}

class Nn_RegionOp<string mnemonic> : Op<Nn_Dialect, mnemonic,
    [Pure, IsolatedFromAbove, SingleBlockImplicitTerminator<"YieldOp">]> {
  let arguments = (ins StrAttr:$label, Variadic<Nn_Tensor>:$inputs);
  let results = (outs Variadic<Nn_Tensor>:$results);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::Block &getBlock() { return getBody().front(); }
  }];
}

def Nn_KernelOp : Nn_RegionOp<"kernel"> {
  let summary = "One generated kernel: its body in one pass over memory";
  let description = [{
    The body is nn operations on the block's arguments; the results are what
    it yields. Pure, so that recomputing a kernel is cloning it. The body keeps
    high-level operators: code generation decomposes a copy, the evaluator
    checks against the original.
  }];
}

def Nn_CallOp : Nn_RegionOp<"call"> {
  let summary = "One library call: a contraction or draw, with its epilogue";
  let description = [{
    The body is one operator with LibraryOpInterface and, after it, what the
    library does in the same call (a bias).
  }];
}

#endif
