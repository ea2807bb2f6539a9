// Operators that move, combine or reduce elements.
#ifndef DIFFC_NN_TENSOR_OPS
#define DIFFC_NN_TENSOR_OPS

include "dialects/nn/IR/NnDialect.td"

def Nn_ConstantOp : Nn_Op<"constant", [ConstantLike]> {
  let summary = "A tensor known at compile time";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$value attr-dict";
  let hasFolder = 1;
}

def Nn_IotaOp : Nn_Op<"iota", [Nn_CostOpInterface]> {
  let summary = "result[i] = i[axis]";
  let arguments = (ins ConfinedAttr<I64Attr, [IntNonNegative]>:$axis, TypeAttr:$type);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "attr-dict `:` type($result)";
  let hasVerifier = 1;
}

class Nn_ReduceOp<string mnemonic, list<Trait> traits = []>
    : Nn_Op<mnemonic, !listconcat([Nn_Costed, Nn_Differentiable], traits)> {
  let description = [{
    Over `axes` (sorted, distinct, within the rank); a reduced dimension stays
    as 1 with `keepdims`. No axes: the input itself.
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$axes,
                       DefaultValuedAttr<BoolAttr, "false">:$keepdims);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}
def Nn_ReduceSumOp : Nn_ReduceOp<"reduce_sum"> { let summary = "Sum over axes"; }
def Nn_ReduceMeanOp : Nn_ReduceOp<"reduce_mean", [Nn_Decomposable]> {
  let summary = "Mean over axes";
}
def Nn_ReduceMaxOp : Nn_ReduceOp<"reduce_max"> {
  let summary = "Maximum over axes, NaN if there is one; equal maxima share the gradient";
}
def Nn_ReduceMinOp : Nn_ReduceOp<"reduce_min"> {
  let summary = "Minimum over axes, NaN if there is one; equal minima share the gradient";
}

def Nn_BroadcastToOp : Nn_Op<"broadcast_to", [Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "Repeat dimensions of 1 (and new leading ones) up to a shape";
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$shape);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Nn_ReshapeOp : Nn_Op<"reshape", [Nn_Differentiable]> {
  let summary = "The same elements in row-major order under another shape";
  let description = [{ Free at run time: result and input share their bytes. }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$shape);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
  let hasCanonicalizer = 1; // goes in front of a transpose of matrices
}

def Nn_TransposeOp : Nn_Op<"transpose", [Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "result dimension i is input dimension permutation[i]";
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$permutation);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Nn_SliceOp : Nn_Op<"slice", [Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "result[i] = input[starts + i * strides], sizes elements a dimension";
  let description = [{
    Strides may be negative, not zero. Every element read lies in the input;
    a size may be 0.
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$starts,
                       DenseI64ArrayAttr:$sizes, DenseI64ArrayAttr:$strides);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
  let hasFolder = 1;
}

def Nn_ConcatOp : Nn_Op<"concat", [Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "Join along an axis";
  let arguments = (ins Variadic<Nn_Tensor>:$inputs,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$axis);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$inputs attr-dict `:` type($inputs) `->` type($result)";
  let hasFolder = 1;
}

def Nn_PadOp : Nn_Op<"pad", [Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "Surround and interleave with a constant";
  let description = [{
    Per dimension: `interior` constants between neighbours, then `low` before
    and `high` after; negative low or high crops (after interleaving).
  }];
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$low,
                       DenseI64ArrayAttr:$high, DenseI64ArrayAttr:$interior,
                       F64Attr:$value);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Nn_ReverseOp : Nn_Op<"reverse", [Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "Last element first, along axes";
  let arguments = (ins Nn_Tensor:$input, DenseI64ArrayAttr:$axes);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input) `->` type($result)";
}

def Nn_GatherOp : Nn_Op<"gather", [Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "Rows of a table by index";
  let description = [{
    result[a..., i..., b...] = table[a..., indices[i...], b...], `axis` = number
    of leading dimensions a. Negative indices count from the end; an index out
    of range is an error at run time.
  }];
  let arguments = (ins Nn_Tensor:$table, Nn_IntTensor:$indices,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$axis);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat =
      "$table `,` $indices attr-dict `:` type($table) `,` type($indices) `->` type($result)";
}

def Nn_ScatterAddOp : Nn_Op<"scatter_add", [Nn_Differentiable, Nn_CostOpInterface]> {
  let summary = "The transpose of gather: zeros, plus updates at their rows";
  let description = [{
    Rows are added in the order of `indices`, so that the result does not
    depend on the number of threads. `size` is the table's extent on `axis`.
  }];
  let arguments = (ins Nn_IntTensor:$indices, Nn_FloatTensor:$updates,
                       ConfinedAttr<I64Attr, [IntNonNegative]>:$axis,
                       ConfinedAttr<I64Attr, [IntPositive]>:$size);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat =
      "$indices `,` $updates attr-dict `:` type($indices) `,` type($updates) `->` type($result)";
}

#endif
