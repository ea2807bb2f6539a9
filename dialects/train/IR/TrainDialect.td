#ifndef DIFFC_TRAIN_DIALECT
#define DIFFC_TRAIN_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/nn/IR/NnDialect.td"

def Train_Dialect : Dialect {
  let name = "train";
  let cppNamespace = "::diffc::train";
  let summary = "Models, their parameters, and the training step around them";
  let useDefaultAttributePrinterParser = 1;
}

class Train_Init<string name, string word> : AttrDef<Train_Dialect, name> {
  let mnemonic = word;
}
def Train_NormalInit : Train_Init<"NormalInit", "normal"> {
  let summary = "Drawn from a normal distribution";
  let parameters = (ins "::mlir::FloatAttr":$mean, "::mlir::FloatAttr":$deviation);
  let assemblyFormat = "`<` $mean `,` $deviation `>`";
}
def Train_UniformInit : Train_Init<"UniformInit", "uniform"> {
  let summary = "Drawn uniformly from [low, high)";
  let parameters = (ins "::mlir::FloatAttr":$low, "::mlir::FloatAttr":$high);
  let assemblyFormat = "`<` $low `,` $high `>`";
}
def Train_ConstantInit : Train_Init<"ConstantInit", "constant"> {
  let summary = "One value everywhere";
  let parameters = (ins "::mlir::FloatAttr":$value);
  let assemblyFormat = "`<` $value `>`";
}

class Train_Op<string mnemonic, list<Trait> traits = []>
    : Op<Train_Dialect, mnemonic, traits>;

def Train_Slot : AttrDef<Train_Dialect, "Slot"> {
  let mnemonic = "slot";
  let summary = "One tensor of state";
  let description = [{
    `parameter` of `model` in the role "weight", "m", "v", "grad", "ema0", ...;
    or a counter: no model, role "value".
  }];
  let parameters = (ins StringRefParameter<>:$model, StringRefParameter<>:$parameter,
                        StringRefParameter<>:$role);
  let assemblyFormat = "`<` $model `,` $parameter `,` $role `>`";
}

def Train_ModelOp : Train_Op<"model", [Symbol, SymbolTable, NoTerminator,
    SingleBlock, IsolatedFromAbove]> {
  let summary = "One imported model: its parameters and graphs";
  let description = [{
    Holds a train.parameter per parameter, under the model's own names, and a
    train.graph per binding of its symbolic dimensions. Two models may have
    parameters of the same name.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, OptionalAttr<StrAttr>:$source);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
}

def Train_ParameterOp : Train_Op<"parameter", [Symbol, HasParent<"ModelOp">]> {
  let summary = "A parameter: name, type, and where its first value comes from";
  let description = [{
    Without `init` the value is data of the model file. A parameter whose value
    is drawn says how.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttr:$type,
                       OptionalAttr<AnyAttr>:$init);
  let assemblyFormat = "$sym_name `:` $type (`init` $init^)? attr-dict";
}

def Train_GraphOp : Train_Op<"graph", [Symbol, FunctionOpInterface,
    IsolatedFromAbove, HasParent<"ModelOp">]> {
  let summary = "The model's forward computation under one binding of its dimensions";
  let description = [{
    An argument is an input (attributes `train.input`, the model's name of it)
    or a parameter (`train.parameter`, a symbol of the model).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region MinSizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Train_EntryOp : Train_Op<"entry", [Symbol, FunctionOpInterface, IsolatedFromAbove]> {
  let summary = "One program over the shared state, with its own shapes";
  let description = [{
    Reads all state at its top, ends in one train.commit. Arguments are data
    (`train.role`) or plan scalars (`train.scalar`, the name, with
    `train.initial`, its value in the recipe).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<FunctionType>:$function_type,
                       OptionalAttr<DictArrayAttr>:$arg_attrs,
                       OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region MinSizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Train_ReadOp : Train_Op<"read", [Pure, HasParent<"EntryOp">]> {
  let summary = "The value of a slot when the entry starts";
  let arguments = (ins Train_Slot:$slot);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = "$slot attr-dict `:` type($result)";
}

def Train_CommitOp : Train_Op<"commit", [Terminator, HasParent<"EntryOp">,
    AttrSizedOperandSegments]> {
  let summary = "Ends an entry: new state, and what it returns by name";
  let arguments = (ins Variadic<Nn_Tensor>:$states, Variadic<Nn_Tensor>:$outputs,
                       TypedArrayAttrBase<Train_Slot, "slots">:$slots,
                       StrArrayAttr:$names);
  let assemblyFormat = [{
    ( $states^ `:` type($states) )? `to` $slots
    ( `outputs` $outputs^ `:` type($outputs) )? `named` $names attr-dict
  }];
  let hasVerifier = 1;
}

def Train_DrawOp : Train_Op<"draw", [Pure, DeclareOpInterfaceMethods<Nn_LibraryOpInterface>,
    DeclareOpInterfaceMethods<Nn_CostOpInterface>]> {
  let summary = "Random numbers, keyed by seed, use, iteration and sample";
  let description = [{
    [B, ...] f32, element bits as docs/random.md says. `use` names the draw
    within the program: two draws must differ in it. It fits 32 bits.
  }];
  let arguments = (ins Nn_Tensor:$seed, Nn_Tensor:$iteration, Nn_Tensor:$first_sample,
                       StrAttr:$distribution, I64Attr:$use);
  let results = (outs Nn_Tensor:$result);
  let assemblyFormat = [{
    $distribution `use` $use `(` $seed `,` $iteration `,` $first_sample `)` attr-dict `:`
    type($seed) `,` type($iteration) `,` type($first_sample) `->` type($result)
  }];
  let hasVerifier = 1;
}

def Train_GlobalNormOp : Train_Op<"global_norm", [Pure, Nn_Decomposable, Nn_CostOpInterface]> {
  let summary = "The 2-norm of all gradients together";
  let arguments = (ins Variadic<Nn_FloatTensor>:$gradients);
  let results = (outs Nn_FloatTensor:$result);
  let assemblyFormat = "$gradients attr-dict `:` type($gradients) `->` type($result)";
}

def Train_UpdateOp : Train_Op<"update", [Pure, Nn_Decomposable, Nn_CostOpInterface,
    AllTypesMatch<["weight", "m", "v", "gradient", "new_weight", "new_m", "new_v"]>]> {
  let summary = "AdamW: new weight and moments";
  let description = [{
    The gradient counts times `scale` (unscaling and clipping in one factor).
    `step` counts this update, from 1. Weight decay is decoupled. Where `ok`
    is false everything keeps its old value. Source: Loshchilov & Hutter 2019,
    arXiv:1711.05101; order of operations as in PyTorch.
  }];
  let arguments = (ins Nn_FloatTensor:$weight, Nn_FloatTensor:$m, Nn_FloatTensor:$v,
      Nn_FloatTensor:$gradient, Nn_FloatTensor:$lr, Nn_IntTensor:$step,
      Nn_FloatTensor:$scale, Nn_BoolTensor:$ok, F64Attr:$beta1, F64Attr:$beta2,
      F64Attr:$epsilon, F64Attr:$weight_decay);
  let results = (outs Nn_FloatTensor:$new_weight, Nn_FloatTensor:$new_m,
                      Nn_FloatTensor:$new_v);
  let assemblyFormat = [{
    $weight `,` $m `,` $v `,` $gradient `lr` $lr `step` $step `scale` $scale `if` $ok
    attr-dict `:` type($weight) `,` type($lr) `,` type($step) `,` type($scale) `,` type($ok)
  }];
}

def Train_ReturnOp : Train_Op<"return", [Pure, Terminator, HasParent<"GraphOp">]> {
  let summary = "The model's outputs";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "$operands attr-dict `:` type($operands)";
  let hasVerifier = 1;
}

#endif
