#ifndef DIFFC_PASSES_ATTENTION
#define DIFFC_PASSES_ATTENTION

include "mlir/Pass/PassBase.td"

def DecomposeAttention : Pass<"nn-decompose-attention"> {
  let summary = "Write nn.attention as matmul, scale, mask, softmax, matmul";
  let description = [{
    Before: %o = nn.attention %q, %k, %v {scale = s}
    After:  %s = nn.matmul %q, %k {transpose_b} ; %s' = nn.mul %s, s
            %p = nn.softmax %s' {axis = 3} ; %o = nn.matmul %p, %v

    For targets without a flash-attention kernel, and what its results are
    compared with. Masks are added, causal ones selected before the softmax.
    Run after raising and before autodiff, which refuses nn.attention itself.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
}

#endif
