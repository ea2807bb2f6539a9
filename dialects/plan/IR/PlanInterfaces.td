// What all operations of an entry have in common.
#ifndef DIFFC_PLAN_INTERFACES
#define DIFFC_PLAN_INTERFACES

include "mlir/IR/OpBase.td"

def Plan_StepOpInterface : OpInterface<"StepOpInterface"> {
  let cppNamespace = "::diffc::plan";
  let description = [{
    One step of an entry: it reads buffers, writes buffers, and says which nodes
    of the entry's nn program it computes.
  }];
  let methods = [
    InterfaceMethod<"What it is, for people", "::llvm::StringRef", "getLabel">,
    InterfaceMethod<"Buffers that are read", "::mlir::ArrayAttr", "getInputs">,
    InterfaceMethod<"The program's value behind each", "::llvm::ArrayRef<int64_t>",
                    "getInputValues">,
    InterfaceMethod<"Buffers that are written", "::mlir::ArrayAttr", "getOutputs">,
    InterfaceMethod<"The program's value behind each", "::llvm::ArrayRef<int64_t>",
                    "getOutputValues">,
    InterfaceMethod<"Buffers that it may spoil", "::mlir::ArrayAttr", "getScratch">,
    InterfaceMethod<"First node of the program that it computes", "uint64_t", "getFirstNode">,
    InterfaceMethod<"How many", "uint64_t", "getNodeCount">,
    InterfaceMethod<"Cost", "uint64_t", "getBytesRead">,
    InterfaceMethod<"Cost", "uint64_t", "getBytesWritten">,
    InterfaceMethod<"Cost", "uint64_t", "getFlops">,
    InterfaceMethod<"The user's nodes", "::llvm::StringRef", "getLocation">,
  ];
  let verify = [{ return ::diffc::plan::verifyStep($_op); }];
}

#endif
