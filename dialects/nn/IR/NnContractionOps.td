// Operators that multiply and accumulate, and attention.
#ifndef DIFFC_NN_CONTRACTION_OPS
#define DIFFC_NN_CONTRACTION_OPS

include "dialects/nn/IR/NnDialect.td"

def Nn_Library : DeclareOpInterfaceMethods<Nn_LibraryOpInterface, ["acceptsBiasOver"]>;

def Nn_MatmulOp : Nn_Op<"matmul", [Nn_Differentiable, Nn_Costed, Nn_Library]> {
  let summary = "Matrix product over the last two dimensions";
  let description = [{
    result[..., i, j] = sum_k a[..., i, k] * b[..., k, j]; a flag says that the
    operand is stored with these two dimensions exchanged. Leading dimensions
    broadcast. Rank >= 2 on both sides.
  }];
  let arguments = (ins Nn_FloatTensor:$lhs, Nn_FloatTensor:$rhs,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_a,
                       DefaultValuedAttr<BoolAttr, "false">:$transpose_b);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat =
      "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($result)";
  let hasCanonicalizer = 1; // a transposed operand or result becomes flags
}

class Nn_ConvolutionBase<string mnemonic, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat([Nn_Costed, Nn_Library], traits)> {
  code shape = [{
    Layout: x [N, C, spatial...], w [O, C / groups, kernel...],
    y [N, O, spatial...]; one to three spatial dimensions. `strides`,
    `dilations`, `pads_low`, `pads_high` have one entry per spatial dimension.
    This is cross-correlation, as in ONNX Conv and PyTorch.
  }];
  let results = (outs Nn_FloatTensor:$result);
}

def Nn_ConvolutionOp : Nn_ConvolutionBase<"convolution", [Nn_Differentiable]> {
  let summary = "Convolution, NCHW";
  let description = shape;
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$weight,
      DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads_low,
      DenseI64ArrayAttr:$pads_high, DenseI64ArrayAttr:$dilations,
      ConfinedAttr<I64Attr, [IntPositive]>:$groups);
  let assemblyFormat =
      "$input `,` $weight attr-dict `:` type($input) `,` type($weight) `->` type($result)";
}

def Nn_ConvolutionInputGradOp
    : Nn_ConvolutionBase<"convolution_input_grad", [Nn_Differentiable]> {
  let summary = "Gradient of a convolution for its input; transposed convolution";
  let description = shape;
  let arguments = (ins Nn_FloatTensor:$output_grad, Nn_FloatTensor:$weight,
      DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads_low,
      DenseI64ArrayAttr:$pads_high, DenseI64ArrayAttr:$dilations,
      ConfinedAttr<I64Attr, [IntPositive]>:$groups,
      DenseI64ArrayAttr:$input_shape);
  let assemblyFormat = [{
    $output_grad `,` $weight attr-dict `:` type($output_grad) `,` type($weight)
    `->` type($result)
  }];
}

def Nn_ConvolutionWeightGradOp
    : Nn_ConvolutionBase<"convolution_weight_grad", [Nn_Differentiable]> {
  let summary = "Gradient of a convolution for its weight";
  let description = shape;
  let arguments = (ins Nn_FloatTensor:$input, Nn_FloatTensor:$output_grad,
      DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$pads_low,
      DenseI64ArrayAttr:$pads_high, DenseI64ArrayAttr:$dilations,
      ConfinedAttr<I64Attr, [IntPositive]>:$groups,
      DenseI64ArrayAttr:$weight_shape);
  let assemblyFormat = [{
    $input `,` $output_grad attr-dict `:` type($input) `,` type($output_grad)
    `->` type($result)
  }];
}

def Nn_AttentionOp : Nn_Op<"attention", [Nn_Decomposable, Nn_Costed]> {
  let summary = "softmax(scale * q k^T + mask) v, per batch and head";
  let description = [{
    q [B, H, Tq, d], k [B, H, Tk, d], v [B, H, Tk, dv] -> [B, H, Tq, dv]. `mask`
    is added to the scores and broadcasts to [B, H, Tq, Tk]; `causal` masks
    key j > i. A row with every key masked gives 0. Not differentiated itself:
    it is rewritten (decomposed, or to flash attention) before autodiff.
    Source: Vaswani et al. 2017, arXiv:1706.03762; ONNX Attention-23.
  }];
  let arguments = (ins Nn_FloatTensor:$query, Nn_FloatTensor:$key,
      Nn_FloatTensor:$value, Optional<Nn_FloatTensor>:$mask, F64Attr:$scale,
      DefaultValuedAttr<BoolAttr, "false">:$causal);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = [{
    $query `,` $key `,` $value (`mask` $mask^)? attr-dict `:` type($query) `,`
    type($key) `,` type($value) (`,` type($mask)^)? `->` type($result)
  }];
}

#endif
