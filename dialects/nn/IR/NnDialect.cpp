#include "dialects/nn/IR/NnDialect.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/IR/DialectImplementation.h>

using namespace mlir;

#include "dialects/nn/IR/NnDialect.cpp.inc"
#include "dialects/nn/IR/NnEnums.cpp.inc"
#include "dialects/nn/IR/NnInterfaces.cpp.inc"

// The dialect's only attribute is parsed and printed through its own mnemonic.
#define GET_ATTRDEF_CLASSES
#include "dialects/nn/IR/NnAttributes.cpp.inc"

#define GET_OP_CLASSES
#include "dialects/nn/IR/NnOps.cpp.inc"

namespace diffc::nn {

void NnDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/nn/IR/NnAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/nn/IR/NnOps.cpp.inc"
      >();
}

Operation *NnDialect::materializeConstant(OpBuilder &builder, Attribute value, Type type,
                                          Location loc) {
  auto elements = dyn_cast<ElementsAttr>(value);
  if (!elements || elements.getType() != type)
    return nullptr;
  return builder.create<ConstantOp>(loc, elements);
}

int64_t byteSize(Type type) {
  auto tensor = cast<RankedTensorType>(type);
  int64_t bits = tensor.getElementType().getIntOrFloatBitWidth();
  return tensor.getNumElements() * (bits == 1 ? 1 : bits / 8);
}

int64_t totalBytes(TypeRange types) {
  int64_t bytes = 0;
  for (Type type : types)
    bytes += byteSize(type);
  return bytes;
}

//===----------------------------------------------------------------------===//
// Region operators
//===----------------------------------------------------------------------===//

// nn.kernel "label" (%a = %x, ...) : (types) -> types { body }
static void printRegionOp(OpAsmPrinter &printer, Operation *op, StringRef label, Region &body) {
  printer << ' ';
  printer.printString(label);
  printer << " (";
  llvm::interleaveComma(llvm::zip(body.getArguments(), op->getOperands()), printer, [&](auto pair) {
    printer << std::get<0>(pair) << " = " << std::get<1>(pair);
  });
  printer << ") : ";
  printer.printFunctionalType(op);
  printer.printOptionalAttrDictWithKeyword(op->getAttrs(), {"label"});
  printer << ' ';
  printer.printRegion(body, /*printEntryBlockArgs=*/false,
                      /*printBlockTerminators=*/true);
}

static ParseResult parseRegionOp(OpAsmParser &parser, OperationState &result) {
  StringAttr label;
  SmallVector<OpAsmParser::Argument> arguments;
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  FunctionType type;
  SMLoc loc = parser.getCurrentLocation();
  auto parsePair = [&]() -> ParseResult {
    return failure(parser.parseArgument(arguments.emplace_back()) || parser.parseEqual() ||
                   parser.parseOperand(operands.emplace_back()));
  };
  if (parser.parseAttribute(label, "label", result.attributes) ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, parsePair) ||
      parser.parseColonType(type) || parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.resolveOperands(operands, type.getInputs(), loc, result.operands))
    return failure();
  for (auto [argument, argumentType] : llvm::zip(arguments, type.getInputs()))
    argument.type = argumentType;
  result.addTypes(type.getResults());
  return parser.parseRegion(*result.addRegion(), arguments);
}

static LogicalResult verifyRegionOp(Operation *op, Region &body) {
  Block &block = body.front();
  if (block.getArgumentTypes() != op->getOperandTypes())
    return op->emitOpError("block arguments must have the operands' types");
  if (block.getTerminator()->getOperandTypes() != op->getResultTypes())
    return op->emitOpError("yields other types than its results'");
  return success();
}

void KernelOp::print(OpAsmPrinter &printer) {
  printRegionOp(printer, *this, getLabel(), getBody());
}
ParseResult KernelOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseRegionOp(parser, result);
}
LogicalResult KernelOp::verify() { return verifyRegionOp(*this, getBody()); }

void CallOp::print(OpAsmPrinter &printer) { printRegionOp(printer, *this, getLabel(), getBody()); }
ParseResult CallOp::parse(OpAsmParser &parser, OperationState &result) {
  return parseRegionOp(parser, result);
}
LogicalResult CallOp::verify() { return verifyRegionOp(*this, getBody()); }

} // namespace diffc::nn
