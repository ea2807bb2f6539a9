#ifndef DIFFC_NN_DIALECT
#define DIFFC_NN_DIALECT

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "dialects/nn/IR/NnInterfaces.td"

def Nn_Dialect : Dialect {
  let name = "nn";
  let cppNamespace = "::diffc::nn";
  let summary = "Differentiable tensor operators";
  let description = [{
    Value semantics, static shapes (symbolic dimensions are bound on import),
    accumulation in f32. See dialects/nn/README.md for what an operator owes.
  }];
  let hasConstantMaterializer = 1;
  let useDefaultAttributePrinterParser = 1;
}

/// Any tensor of the dialect: a static shape and an element type that the
/// plan can hold.
def Nn_Tensor : StaticShapeTensorOf<[F64, F32, F16, BF16, I64, I32, I1]>;
def Nn_FloatTensor : StaticShapeTensorOf<[F64, F32, F16, BF16]>;
def Nn_IntTensor : StaticShapeTensorOf<[I64, I32]>;
def Nn_BoolTensor : StaticShapeTensorOf<[I1]>;

def Nn_GeluErf : I32EnumAttrCase<"Erf", 0, "erf">;
def Nn_GeluTanh : I32EnumAttrCase<"Tanh", 1, "tanh">;
def Nn_GeluFormEnum : I32EnumAttr<"GeluForm",
    "exact (erf) or by tanh", [Nn_GeluErf, Nn_GeluTanh]> {
  let genSpecializedAttr = 0;
  let cppNamespace = "::diffc::nn";
}
def Nn_GeluForm : EnumAttr<Nn_Dialect, Nn_GeluFormEnum, "gelu_form"> {
  let assemblyFormat = "`<` $value `>`";
}

class Nn_Op<string mnemonic, list<Trait> traits = []>
    : Op<Nn_Dialect, mnemonic, !listconcat([Pure,
          DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)>;

/// An operator that states its own FLOPs.
def Nn_Costed : DeclareOpInterfaceMethods<Nn_CostOpInterface, ["getFlops"]>;
def Nn_Differentiable : DeclareOpInterfaceMethods<Nn_DifferentiableOpInterface>;
def Nn_Pointwise : DeclareOpInterfaceMethods<Nn_PointwiseOpInterface>;
def Nn_Decomposable : DeclareOpInterfaceMethods<Nn_DecomposableOpInterface>;

#endif
