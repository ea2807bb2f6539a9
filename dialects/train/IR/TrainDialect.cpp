#include "dialects/train/IR/TrainDialect.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/IR/DialectImplementation.h>
#include <mlir/Interfaces/FunctionImplementation.h>

using namespace mlir;

#include "dialects/train/IR/TrainDialect.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/train/IR/TrainAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/train/IR/TrainOps.cpp.inc"

namespace diffc::train {

void TrainDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/train/IR/TrainAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/train/IR/TrainOps.cpp.inc"
      >();
}

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  auto buildFunctionType = [](Builder &builder, ArrayRef<Type> inputs,
                              ArrayRef<Type> results,
                              function_interface_impl::VariadicFlag, std::string &) {
    return builder.getFunctionType(inputs, results);
  };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, getFunctionTypeAttrName(result.name),
      buildFunctionType, getArgAttrsAttrName(result.name), getResAttrsAttrName(result.name));
}

void GraphOp::print(OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, *this, /*isVariadic=*/false,
                                           getFunctionTypeAttrName(), getArgAttrsAttrName(),
                                           getResAttrsAttrName());
}

LogicalResult GraphOp::verify() {
  auto model = (*this)->getParentOfType<ModelOp>();
  for (unsigned i = 0; i < getNumArguments(); ++i) {
    auto symbol = getArgAttrOfType<FlatSymbolRefAttr>(i, kParameterAttr);
    if (!symbol && !getArgAttrOfType<StringAttr>(i, kInputAttr))
      return emitOpError("argument ") << i << " names neither an input nor a parameter";
    if (!symbol)
      continue;
    auto parameter = dyn_cast_or_null<ParameterOp>(
        SymbolTable::lookupSymbolIn(model, symbol.getAttr()));
    if (!parameter)
      return emitOpError("argument ") << i << " names " << symbol
                                      << ", which the model does not have";
    if (parameter.getType() != getArgumentTypes()[i])
      return emitOpError("argument ") << i << " has type " << getArgumentTypes()[i]
                                      << ", its parameter " << parameter.getType();
  }
  return success();
}

LogicalResult ReturnOp::verify() {
  auto graph = (*this)->getParentOfType<GraphOp>();
  if (TypeRange(getOperandTypes()) != TypeRange(graph.getResultTypes()))
    return emitOpError("returns other types than its graph's");
  return success();
}

} // namespace diffc::train
