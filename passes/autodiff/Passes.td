#ifndef DIFFC_PASSES_AUTODIFF
#define DIFFC_PASSES_AUTODIFF

include "mlir/Pass/PassBase.td"

def DifferentiateFunctions : Pass<"nn-differentiate", "::mlir::ModuleOp"> {
  let summary = "Add to each function that asks for it the gradients of its scalar";
  let description = [{
    For a func.func with the unit attribute `nn.differentiate`, whose last
    result is a scalar float L: appends dL/dx as a result for each argument
    that has the unit attribute `nn.trainable`, in argument order.

    Before: func.func @f(%x: tensor<4xf32> {nn.trainable}) -> tensor<f32>
              attributes {nn.differentiate}
    After:  func.func @f(%x: tensor<4xf32>) -> (tensor<f32>, tensor<4xf32>)

    Only operations between a trainable argument and L get a derivative; an
    argument that L does not depend on gets zeros. Refuses, at the operation,
    one on such a path that has no derivative. Run after raising (a raised
    operator's derivative is cheaper) and after attention is rewritten.
  }];
  let dependentDialects = ["::diffc::nn::NnDialect"];
}

#endif
