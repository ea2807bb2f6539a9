// Normalisations and softmax, with their derivatives.
#ifndef DIFFC_NN_NORM_OPS
#define DIFFC_NN_NORM_OPS

include "dialects/nn/IR/NnDialect.td"

class Nn_NormOp<string mnemonic, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat([Nn_Decomposable, Nn_Costed], traits)>;

def Nn_LayerNormOp : Nn_NormOp<"layer_norm",
    [Nn_Differentiable, AttrSizedOperandSegments]> {
  let summary = "Normalise the dimensions from axis on to mean 0, variance 1";
  let description = [{
    y = (x - mean) / sqrt(var + epsilon) * scale + bias; the variance is the
    mean square of x - mean. scale and bias have the normalised dimensions'
    shape; bias needs scale. Source: Ba et al. 2016, arXiv:1607.06450.
  }];
  let arguments = (ins Nn_FloatTensor:$input, Optional<Nn_FloatTensor>:$scale,
      Optional<Nn_FloatTensor>:$bias, ConfinedAttr<I64Attr, [IntNonNegative]>:$axis,
      F64Attr:$epsilon);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? (`bias` $bias^ `:` type($bias))?
    attr-dict `:` type($input) `->` type($result)
  }];
  let hasCanonicalizer = 1; // a scale of 1 and a bias of 0 go
}

def Nn_LayerNormGradOp : Nn_NormOp<"layer_norm_grad"> {
  let summary = "Derivatives of layer_norm: dx and, with a scale, dscale and dbias";
  let arguments = (ins Nn_FloatTensor:$input, Optional<Nn_FloatTensor>:$scale,
      Nn_FloatTensor:$output_grad, ConfinedAttr<I64Attr, [IntNonNegative]>:$axis,
      F64Attr:$epsilon);
  let results = (outs Variadic<Nn_FloatTensor>:$results);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? `grad` $output_grad attr-dict `:`
    type($input) `,` type($output_grad) `->` type($results)
  }];
}

def Nn_RmsNormOp : Nn_NormOp<"rms_norm", [Nn_Differentiable]> {
  let summary = "x / sqrt(mean(x^2) + epsilon) * scale over the dimensions from axis on";
  let description = [{ Source: Zhang & Sennrich 2019, arXiv:1910.07467. }];
  let arguments = (ins Nn_FloatTensor:$input, Optional<Nn_FloatTensor>:$scale,
      ConfinedAttr<I64Attr, [IntNonNegative]>:$axis, F64Attr:$epsilon);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat =
      "$input (`scale` $scale^ `:` type($scale))? attr-dict `:` type($input) `->` type($result)";
  let hasCanonicalizer = 1; // a scale of 1 goes
}

def Nn_RmsNormGradOp : Nn_NormOp<"rms_norm_grad"> {
  let summary = "Derivatives of rms_norm: dx and, with a scale, dscale";
  let arguments = (ins Nn_FloatTensor:$input, Optional<Nn_FloatTensor>:$scale,
      Nn_FloatTensor:$output_grad, ConfinedAttr<I64Attr, [IntNonNegative]>:$axis,
      F64Attr:$epsilon);
  let results = (outs Variadic<Nn_FloatTensor>:$results);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? `grad` $output_grad attr-dict `:`
    type($input) `,` type($output_grad) `->` type($results)
  }];
}

def Nn_GroupNormOp : Nn_NormOp<"group_norm",
    [Nn_Differentiable, AttrSizedOperandSegments]> {
  let summary = "Normalise groups of channels of an [N, C, ...] tensor";
  let description = [{
    Per sample and group (C / groups consecutive channels) to mean 0 and
    variance 1 over the group and all spatial dimensions, then * scale[c] +
    bias[c]; bias needs scale. groups divides C; groups = C is instance norm.
    Source: Wu & He 2018, arXiv:1803.08494; per-channel scale as in ONNX
    GroupNormalization-21.
  }];
  let arguments = (ins Nn_FloatTensor:$input, Optional<Nn_FloatTensor>:$scale,
      Optional<Nn_FloatTensor>:$bias, ConfinedAttr<I64Attr, [IntPositive]>:$groups,
      F64Attr:$epsilon);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? (`bias` $bias^ `:` type($bias))?
    attr-dict `:` type($input) `->` type($result)
  }];
  let hasCanonicalizer = 1; // a scale of 1 and a bias of 0 go
}

def Nn_GroupNormGradOp : Nn_NormOp<"group_norm_grad"> {
  let summary = "Derivatives of group_norm: dx and, with a scale, dscale and dbias";
  let arguments = (ins Nn_FloatTensor:$input, Optional<Nn_FloatTensor>:$scale,
      Nn_FloatTensor:$output_grad, ConfinedAttr<I64Attr, [IntPositive]>:$groups,
      F64Attr:$epsilon);
  let results = (outs Variadic<Nn_FloatTensor>:$results);
  let assemblyFormat = [{
    $input (`scale` $scale^ `:` type($scale))? `grad` $output_grad attr-dict `:`
    type($input) `,` type($output_grad) `->` type($results)
  }];
}

def Nn_SoftmaxOp : Nn_NormOp<"softmax", [Nn_Differentiable]> {
  let summary = "e^x / sum e^x over one axis";
  let description = [{ The maximum is subtracted first; a row of -inf alone gives 0. }];
  let arguments = (ins Nn_FloatTensor:$input,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$axis);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Nn_SoftmaxGradOp : Nn_NormOp<"softmax_grad"> {
  let summary = "y * (dy - sum(y * dy)) over one axis, y being softmax's result";
  let arguments = (ins Nn_FloatTensor:$output, Nn_FloatTensor:$output_grad,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$axis);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat =
      "$output `,` $output_grad attr-dict `:` type($output) `,` type($output_grad) `->` type($result)";
}

def Nn_LogSoftmaxOp : Nn_NormOp<"log_softmax", [Nn_Differentiable]> {
  let summary = "x - log(sum e^x) over one axis, the maximum subtracted first";
  let arguments = (ins Nn_FloatTensor:$input,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$axis);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

#endif
