#include "compiler/codegen/PlantFault.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Interfaces/FunctionInterfaces.h>

#include <optional>

using namespace mlir;
using diffrun::Status;

namespace diffc {
namespace {

std::optional<APFloat> valueOf(arith::ConstantOp constant) {
  if (auto number = dyn_cast<FloatAttr>(constant.getValue()))
    return number.getValue();
  auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
  if (dense && dense.isSplat() && isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<APFloat>();
  return std::nullopt;
}

arith::ConstantOp firstConstant(Operation *function) {
  arith::ConstantOp found;
  function->walk([&](arith::ConstantOp constant) {
    auto value = valueOf(constant);
    if (!value || !value->isFiniteNonZero())
      return WalkResult::advance();
    found = constant;
    return WalkResult::interrupt();
  });
  return found;
}

} // namespace

Status changeConstant(ModuleOp kernels, int64_t number) {
  int64_t seen = 0;
  for (auto function : kernels.getOps<FunctionOpInterface>()) {
    arith::ConstantOp constant = firstConstant(function);
    if (!constant || seen++ != number)
      continue;
    Type type = constant.getType();
    auto changed =
        FloatAttr::get(getElementTypeOrSelf(type), valueOf(constant)->convertToDouble() * 1.25);
    if (auto vector = dyn_cast<VectorType>(type))
      constant.setValueAttr(DenseElementsAttr::get(vector, changed.getValue()));
    else
      constant.setValueAttr(changed);
    return {};
  }
  return Status::invalid("there are only " + std::to_string(seen) +
                         " kernels with a constant to change");
}

} // namespace diffc
