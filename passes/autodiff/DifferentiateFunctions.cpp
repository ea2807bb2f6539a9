// Adds gradients to functions that ask for them. Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
#include "passes/autodiff/Gradient.h"
#include "passes/autodiff/Passes.h"

#include <mlir/Dialect/Func/IR/FuncOps.h>

namespace diffc {
#define GEN_PASS_DEF_DIFFERENTIATEFUNCTIONS
#include "passes/autodiff/Passes.h.inc"
namespace {
using namespace mlir;

constexpr StringLiteral kDifferentiate = "nn.differentiate";
constexpr StringLiteral kTrainable = "nn.trainable";

LogicalResult differentiateFunction(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  if (terminator->getNumOperands() == 0)
    return function.emitError("returns nothing to differentiate");
  Value scalar = terminator->getOperands().back();
  auto type = dyn_cast<RankedTensorType>(scalar.getType());
  if (!type || type.getRank() != 0 || !isa<FloatType>(type.getElementType()))
    return function.emitError("the last result must be a scalar float tensor, is ")
           << scalar.getType();

  SmallVector<Value> inputs;
  for (BlockArgument argument : function.getArguments())
    if (function.removeArgAttr(argument.getArgNumber(), kTrainable))
      inputs.push_back(argument);
  OpBuilder builder(terminator);
  auto gradients = buildGradients(builder, scalar, inputs);
  if (failed(gradients))
    return failure();

  SmallVector<Value> results(terminator->getOperands());
  for (auto [input, gradient] : llvm::zip_equal(inputs, *gradients))
    results.push_back(gradient ? gradient
                               : nn::zeros(builder, function.getLoc(), nn::tensorType(input)));
  terminator->setOperands(results);
  function->removeAttr(kDifferentiate);
  function.setFunctionType(
      builder.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
  return success();
}

struct DifferentiateFunctions final : impl::DifferentiateFunctionsBase<DifferentiateFunctions> {
  void runOnOperation() override {
    for (auto function : getOperation().getOps<func::FuncOp>())
      if (function->hasAttr(kDifferentiate) && !function.isExternal() &&
          failed(differentiateFunction(function)))
        return signalPassFailure();
  }
};

} // namespace
} // namespace diffc
