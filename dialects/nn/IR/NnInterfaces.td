// What an operator of the nn dialect can do. Each capability is an interface,
// so that a pass asks an operation and never compares names.
#ifndef DIFFC_NN_INTERFACES
#define DIFFC_NN_INTERFACES

include "mlir/IR/OpBase.td"

def Nn_DifferentiableOpInterface : OpInterface<"DifferentiableOpInterface"> {
  let cppNamespace = "::diffc::nn";
  let description = [{
    The vector-Jacobian product of an operator, as nn operations: fused,
    evaluated and costed like everything else.
  }];
  let methods = [
    InterfaceMethod<[{
        Appends one value per operand to `operandGrads`: the gradient with the
        operand's own type, or a null Value where `needed[i]` is false or the
        gradient is identically zero. `resultGrads[i]` is null for a result
        that nothing differentiable reads; at least one is not null.
        Fails, having emitted the reason on the operation, where the operator
        has no gradient for an operand that needs one.
      }],
      "::mlir::LogicalResult", "buildGradient",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$resultGrads,
           "::llvm::ArrayRef<bool>":$needed,
           "::llvm::SmallVectorImpl<::mlir::Value> &":$operandGrads)>
  ];
}

def Nn_PointwiseOpInterface : OpInterface<"PointwiseOpInterface"> {
  let cppNamespace = "::diffc::nn";
  let description = [{
    result[i] = f(operands[i broadcast]): an operator that a loop nest computes
    element by element.
  }];
  let methods = [
    InterfaceMethod<[{
        Emits f on scalars or on vectors of one shape (`operands`, already
        broadcast and of the operands' element types) with arith and math
        operations; returns the result, of the result's element type.
      }],
      "::mlir::Value", "emitPointwise",
      (ins "::mlir::OpBuilder &":$builder, "::mlir::ValueRange":$operands)>
  ];
}

def Nn_DecomposableOpInterface : OpInterface<"DecomposableOpInterface"> {
  let cppNamespace = "::diffc::nn";
  let description = [{
    An operator that code generation writes as simpler ones (pointwise,
    reductions, broadcasts, reshapes, matmuls).
  }];
  let methods = [
    InterfaceMethod<[{
        Builds the same values from simpler operators, one per result, at the
        builder's insertion point. The operation itself is left in place.
      }],
      "::llvm::SmallVector<::mlir::Value>", "decompose",
      (ins "::mlir::OpBuilder &":$builder)>
  ];
}

def Nn_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::diffc::nn";
  let description = [{ The work of an operator, for reports and cost models. }];
  let methods = [
    InterfaceMethod<"Floating-point operations (a multiply-add counts two).",
      "int64_t", "getFlops", (ins), "", [{
        // Without a better answer: one per element of the first result.
        auto type = ::llvm::cast<::mlir::RankedTensorType>($_op->getResult(0).getType());
        return type.getNumElements();
      }]>,
    InterfaceMethod<"Bytes read: every operand once.", "int64_t", "getBytesRead",
      (ins), "", [{ return ::diffc::nn::totalBytes($_op->getOperandTypes()); }]>,
    InterfaceMethod<"Bytes written: every result once.", "int64_t",
      "getBytesWritten", (ins), "",
      [{ return ::diffc::nn::totalBytes($_op->getResultTypes()); }]>
  ];
}

def Nn_LibraryOpInterface : OpInterface<"LibraryOpInterface"> {
  let cppNamespace = "::diffc::nn";
  let description = [{
    An operator that a library call computes (matmul, convolution, draws);
    everything else belongs in a generated kernel.
  }];
  let methods = [
    InterfaceMethod<"True if the library's call can add a bias over the result's "
                    "dimension `axis` (oneDNN's bias argument).",
      "bool", "acceptsBiasOver", (ins "int64_t":$axis), "", [{ return false; }]>
  ];
}

#endif
