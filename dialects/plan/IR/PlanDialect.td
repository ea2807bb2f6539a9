#ifndef DIFFC_PLAN_DIALECT
#define DIFFC_PLAN_DIALECT

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "dialects/plan/IR/PlanInterfaces.td"

def Plan_Dialect : Dialect {
  let name = "plan";
  let cppNamespace = "::diffc::plan";
  let summary = "What the runtime executes: the plan file as IR";
  let description = [{
    One to one with runtime/plan/plan.proto, except for what is only bytes: see
    dialects/plan/README.md.
  }];
  let useDefaultAttributePrinterParser = 1;
}

def Plan_Buffer : AttrDef<Plan_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "A byte range of a space";
  let description = [{
    In operations it prints bare: `@arena[4096 : 256]` is 256 bytes at offset
    4096 of the space @arena.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$space, "int64_t":$offset,
                        "int64_t":$bytes);
  let assemblyFormat = "`<` $space `[` $offset `:` $bytes `]` `>`";
}
def Plan_Buffers : TypedArrayAttrBase<Plan_Buffer, "buffers">;

def Plan_SlotName : AttrDef<Plan_Dialect, "SlotName"> {
  let mnemonic = "slot_name";
  let summary = "One tensor of state: a model's parameter in a role, or a counter";
  let description = [{
    In operations it prints bare: `@unet::@"conv_in.weight" ema0`, or without a
    model `@iteration value`.
  }];
  let parameters = (ins "::mlir::SymbolRefAttr":$tensor, StringRefParameter<>:$role);
  let builders = [AttrBuilder<(ins "::llvm::StringRef":$model, "::llvm::StringRef":$parameter,
                                   "::llvm::StringRef":$role)>];
  let assemblyFormat = "`<` $tensor `,` $role `>`";
  let extraClassDeclaration = [{
    /// Empty for a counter.
    ::llvm::StringRef getModel() const;
    ::llvm::StringRef getParameter() const;
  }];
}

class Plan_Enum<string name, string text, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, text, cases> {
  let cppNamespace = "::diffc::plan";
}
// Numbers as in plan.proto.
def Plan_Lifetime : Plan_Enum<"Lifetime", "how long a space lives",
    [I32EnumAttrCase<"Program", 0, "program">, I32EnumAttrCase<"Entry", 1, "entry">]>;
def Plan_ConvolutionKind : Plan_Enum<"ConvolutionKind", "which convolution",
    [I32EnumAttrCase<"Forward", 0, "forward">, I32EnumAttrCase<"InputGrad", 1, "input_grad">,
     I32EnumAttrCase<"WeightGrad", 2, "weight_grad">]>;
def Plan_Distribution : Plan_Enum<"Distribution", "what is drawn",
    [I32EnumAttrCase<"Normal", 0, "normal">, I32EnumAttrCase<"Uniform", 1, "uniform">]>;

class Plan_TypeAttr<string type, string text> : TypeAttrBase<type, text> {
  let constBuilderCall = "::mlir::TypeAttr::get($0)";
}
def Plan_TensorType : Plan_TypeAttr<"::mlir::RankedTensorType", "a tensor type">;
def Plan_MatrixType : Plan_TypeAttr<"::mlir::MemRefType", "shape and strides of a matrix">;

#endif
