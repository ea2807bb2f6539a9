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

// Both function-like operators read and print as func.func does.
template <typename Op>
static ParseResult parseFunction(OpAsmParser &parser, OperationState &result) {
  auto buildFunctionType = [](Builder &builder, ArrayRef<Type> inputs, ArrayRef<Type> results,
                              function_interface_impl::VariadicFlag,
                              std::string &) { return builder.getFunctionType(inputs, results); };
  return function_interface_impl::parseFunctionOp(
      parser, result, /*allowVariadic=*/false, Op::getFunctionTypeAttrName(result.name),
      buildFunctionType, Op::getArgAttrsAttrName(result.name),
      Op::getResAttrsAttrName(result.name));
}

template <typename Op> static void printFunction(Op op, OpAsmPrinter &printer) {
  function_interface_impl::printFunctionOp(printer, op, /*isVariadic=*/false,
                                           op.getFunctionTypeAttrName(), op.getArgAttrsAttrName(),
                                           op.getResAttrsAttrName());
}

ParseResult GraphOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<GraphOp>(parser, result);
}
void GraphOp::print(OpAsmPrinter &printer) { printFunction(*this, printer); }
ParseResult EntryOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseFunction<EntryOp>(parser, result);
}
void EntryOp::print(OpAsmPrinter &printer) { printFunction(*this, printer); }

LogicalResult GraphOp::verify() {
  auto model = (*this)->getParentOfType<ModelOp>();
  for (unsigned i = 0; i < getNumArguments(); ++i) {
    auto symbol = getArgAttrOfType<FlatSymbolRefAttr>(i, kParameterAttr);
    if (!symbol && !getArgAttrOfType<StringAttr>(i, kInputAttr))
      return emitOpError("argument ") << i << " names neither an input nor a parameter";
    if (!symbol)
      continue;
    auto parameter =
        dyn_cast_or_null<ParameterOp>(SymbolTable::lookupSymbolIn(model, symbol.getAttr()));
    if (!parameter)
      return emitOpError("argument ")
             << i << " names " << symbol << ", which the model does not have";
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
