#ifndef DIFFC_PASSES_RAISE
#define DIFFC_PASSES_RAISE

include "mlir/Pass/PassBase.td"

def RaiseSilu : Pass<"nn-raise-silu"> {
  let summary = "Name x * sigmoid(x) what it is: nn.silu";
  let description = [{
    Before: %s = nn.sigmoid %x ; %y = nn.mul %x, %s   (either order)
    After:  %y = nn.silu %x

    One value is kept for the backward pass instead of two, and one kernel
    computes it. Skips a sigmoid of another value, and a product that
    broadcasts; leaves a sigmoid that others read in place.
    Run before autodiff: a raised derivative is cheaper than a composed one.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
  let statistics = [Statistic<"numRaised", "num-raised", "SiLU found">];
}

def RaiseGelu : Pass<"nn-raise-gelu"> {
  let summary = "Name x/2 * (1 + erf(x / sqrt 2)) and its tanh form what they are: nn.gelu";
  let description = [{
    Before: %z = x / 1.41421 ; %t = nn.erf %z ; %y = x * 0.5 * (%t + 1)
            %z = 0.797885 * (x + 0.044715 * x^3) ; %t = nn.tanh %z ; the same %y
    After:  %y = nn.gelu %x {form = erf or tanh}

    Both sides of erf or tanh are compared as polynomials in x, so that operands
    may stand in any order, constants may be factors or divisors anywhere, and
    x^3 may be a power or products. Constants may be off by their own rounding.
    Skips other constants (quick approximations) and an outer x that is another
    value. Values that others read stay for them.
    Run before autodiff, which then keeps x alone for the backward pass.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
  let statistics = [Statistic<"numRaised", "num-raised", "GELU found">];
}

def RaiseNorm : Pass<"nn-raise-norm"> {
  let summary = "Name chains of means, squares and roots what they are: layer, RMS and group norm";
  let description = [{
    Before: %c = x - mean(x) ; %y = %c / sqrt(mean(%c * %c) + eps) * scale + bias
    After:  %y = nn.layer_norm %x scale %scale bias %bias

    The same without a mean to subtract: nn.rms_norm. The root divides or its
    inverse multiplies, squares are products or powers, operands stand in any
    order; the variance may be mean(x^2) - mean(x)^2, which is the same number
    but for what it loses to rounding, and clamped at 0, below which it never is.
    Means over other dimensions than the last (channels first) put a transpose
    before the norm and one after it.
    Scale and bias are taken in if they run over exactly the normalised
    dimensions and nothing else reads the norm; another scale (one per row, one
    that makes the result larger) stays a multiplication.

    Before: reshape(group_norm(reshape x to [N, G, ...], G groups)) * scale + bias
    After:  nn.group_norm %x scale bias {groups = G}: what exporters write with
            InstanceNormalization, or with a chain over rows as above

    Skips a mean and a variance over different axes (the mean stays, the rest is
    an RMS norm), a divisor other than the number of elements (sample variance),
    an epsilon that is missing, negative, outside the root or no constant, a
    variance clamped elsewhere than at 0.
    Run after canonicalization and CSE, since values are compared for identity;
    before autodiff: the operators' derivatives need no chain of intermediates,
    and their lowering keeps large means exact.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
  let statistics = [Statistic<"numRaised", "num-raised", "norms found">];
}

def RaiseAttention : Pass<"nn-raise-attention"> {
  let summary = "Name matmul, softmax, matmul what it is: nn.attention";
  let description = [{
    Before: %s = nn.matmul %q, %k {transpose_b} ; %p = nn.softmax (%s * scale + mask)
            %o = nn.matmul %p, %v
    After:  %o = nn.attention %q, %k, %v mask %mask {scale}

    The scale may stand on q, on k, on both, on the scores, as a factor or a
    divisor; there may be none. k may be transposed by a flag or an operation.
    Operands of two or three dimensions get dimensions of 1 for batch and heads;
    heads may be folded into the batch around the products. Several masks are
    added up; a select of -inf in place of scores is a mask of -inf and 0.
    Skips a softmax over another axis than the keys', scores or weights that
    something else reads (they would be computed twice), a mask that is scaled
    with the scores, a select of any other number (a row that it hides whole
    weighs all keys alike, which no addition does), masks on scores of two
    shapes, and q, k, v whose leading dimensions broadcast.
    Run after canonicalization, before attention is rewritten for the target.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
  let statistics = [Statistic<"numRaised", "num-raised", "attentions found">];
}

#endif
