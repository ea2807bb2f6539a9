#ifndef DIFFC_TRAIN_DIALECT
#define DIFFC_TRAIN_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/ControlFlowInterfaces.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

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

def Train_ReturnOp : Train_Op<"return", [Pure, Terminator, HasParent<"GraphOp">]> {
  let summary = "The model's outputs";
  let arguments = (ins Variadic<AnyRankedTensor>:$operands);
  let assemblyFormat = "$operands attr-dict `:` type($operands)";
  let hasVerifier = 1;
}

#endif
