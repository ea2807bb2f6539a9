// The dialect itself, and how its operations are written.
#include "dialects/plan/IR/PlanDialect.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/IR/DialectImplementation.h>

using namespace mlir;
using namespace diffc::plan;

#include "dialects/plan/IR/PlanDialect.cpp.inc"
#include "dialects/plan/IR/PlanEnums.cpp.inc"
#include "dialects/plan/IR/PlanInterfaces.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "dialects/plan/IR/PlanAttributes.cpp.inc"

// The pieces of the assembly format that several operations share.

/// `@space[offset : bytes]`
static ParseResult parseBuffer(AsmParser &parser, BufferAttr &buffer) {
  FlatSymbolRefAttr space;
  int64_t offset, bytes;
  if (parser.parseAttribute(space) || parser.parseLSquare() || parser.parseInteger(offset) ||
      parser.parseColon() || parser.parseInteger(bytes) || parser.parseRSquare())
    return failure();
  buffer = BufferAttr::get(parser.getContext(), space, offset, bytes);
  return success();
}
static void printBuffer(OpAsmPrinter &printer, Operation *, BufferAttr buffer) {
  printer << buffer.getSpace() << '[' << buffer.getOffset() << " : " << buffer.getBytes() << ']';
}

/// `(12 in @arena[0 : 64], 13 in @state[64 : 64])`
static ParseResult parsePlaces(OpAsmParser &parser, ArrayAttr &buffers, DenseI64ArrayAttr &values) {
  SmallVector<Attribute> places;
  SmallVector<int64_t> numbers;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&]() -> ParseResult {
        BufferAttr buffer;
        if (parser.parseInteger(numbers.emplace_back()) || parser.parseKeyword("in") ||
            parseBuffer(parser, buffer))
          return failure();
        places.push_back(buffer);
        return success();
      }))
    return failure();
  buffers = parser.getBuilder().getArrayAttr(places);
  values = parser.getBuilder().getDenseI64ArrayAttr(numbers);
  return success();
}
static void printPlaces(OpAsmPrinter &printer, Operation *op, ArrayAttr buffers,
                        DenseI64ArrayAttr values) {
  printer << '(';
  llvm::interleaveComma(llvm::zip(values.asArrayRef(), buffers), printer, [&](auto place) {
    printer << std::get<0>(place) << " in ";
    printBuffer(printer, op, cast<BufferAttr>(std::get<1>(place)));
  });
  printer << ')';
}

/// Inputs `->` outputs, and where there is any `scratch (@arena[0 : 64])`
static ParseResult parseBuffers(OpAsmParser &parser, ArrayAttr &inputs,
                                DenseI64ArrayAttr &inputValues, ArrayAttr &outputs,
                                DenseI64ArrayAttr &outputValues, ArrayAttr &scratch) {
  SmallVector<Attribute> places;
  if (parsePlaces(parser, inputs, inputValues) || parser.parseArrow() ||
      parsePlaces(parser, outputs, outputValues))
    return failure();
  if (succeeded(parser.parseOptionalKeyword("scratch")) &&
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&]() -> ParseResult {
        BufferAttr buffer;
        if (parseBuffer(parser, buffer))
          return failure();
        places.push_back(buffer);
        return success();
      }))
    return failure();
  scratch = parser.getBuilder().getArrayAttr(places);
  return success();
}
static void printBuffers(OpAsmPrinter &printer, Operation *op, ArrayAttr inputs,
                         DenseI64ArrayAttr inputValues, ArrayAttr outputs,
                         DenseI64ArrayAttr outputValues, ArrayAttr scratch) {
  printPlaces(printer, op, inputs, inputValues);
  printer << " -> ";
  printPlaces(printer, op, outputs, outputValues);
  if (scratch.empty())
    return;
  printer << " scratch (";
  llvm::interleaveComma(scratch, printer, [&](Attribute buffer) {
    printBuffer(printer, op, cast<BufferAttr>(buffer));
  });
  printer << ')';
}

/// On a line of its own: `nodes [first : count] moves [read, written] flops N at "..."`
static ParseResult parseWork(OpAsmParser &parser, IntegerAttr &firstNode, IntegerAttr &nodeCount,
                             IntegerAttr &bytesRead, IntegerAttr &bytesWritten, IntegerAttr &flops,
                             StringAttr &location) {
  int64_t first, count, read, written, work;
  if (parser.parseKeyword("nodes") || parser.parseLSquare() || parser.parseInteger(first) ||
      parser.parseColon() || parser.parseInteger(count) || parser.parseRSquare() ||
      parser.parseKeyword("moves") || parser.parseLSquare() || parser.parseInteger(read) ||
      parser.parseComma() || parser.parseInteger(written) || parser.parseRSquare() ||
      parser.parseKeyword("flops") || parser.parseInteger(work) || parser.parseKeyword("at") ||
      parser.parseAttribute(location))
    return failure();
  Builder &builder = parser.getBuilder();
  firstNode = builder.getI64IntegerAttr(first), nodeCount = builder.getI64IntegerAttr(count);
  bytesRead = builder.getI64IntegerAttr(read), bytesWritten = builder.getI64IntegerAttr(written);
  flops = builder.getI64IntegerAttr(work);
  return success();
}
static void printWork(OpAsmPrinter &printer, Operation *, IntegerAttr firstNode,
                      IntegerAttr nodeCount, IntegerAttr bytesRead, IntegerAttr bytesWritten,
                      IntegerAttr flops, StringAttr location) {
  printer << "   nodes [" << firstNode.getInt() << " : " << nodeCount.getInt() << "] moves ["
          << bytesRead.getInt() << ", " << bytesWritten.getInt() << "] flops " << flops.getInt()
          << " at ";
  printer.printAttribute(location);
}

/// `@model::@"fc1.weight" ema0`
static ParseResult parseSlotName(OpAsmParser &parser, SlotNameAttr &slot) {
  SymbolRefAttr tensor;
  std::string role;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseAttribute(tensor) || parser.parseKeywordOrString(&role))
    return failure();
  if (tensor.getNestedReferences().size() > 1)
    return parser.emitError(loc, "expects @model::@parameter or @counter");
  slot = SlotNameAttr::get(parser.getContext(), tensor, role);
  return success();
}
static void printSlotName(OpAsmPrinter &printer, Operation *, SlotNameAttr slot) {
  printer << slot.getTensor() << ' ';
  printer.printKeywordOrString(slot.getRole());
}

static ParseResult parseHex(OpAsmParser &parser, IntegerAttr &number) {
  int64_t value;
  if (parser.parseInteger(value))
    return failure();
  number = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}
static void printHex(OpAsmPrinter &printer, Operation *, IntegerAttr number) {
  printer << "0x" << llvm::utohexstr(static_cast<uint64_t>(number.getInt()));
}

/// `64`, or with content `64 data crc32c 0x1234`
static ParseResult parseBytes(OpAsmParser &parser, IntegerAttr &bytes, IntegerAttr &checksum) {
  int64_t size;
  if (parser.parseInteger(size))
    return failure();
  bytes = parser.getBuilder().getI64IntegerAttr(size);
  if (failed(parser.parseOptionalKeyword("data")))
    return success();
  return failure(parser.parseKeyword("crc32c") || parseHex(parser, checksum));
}
static void printBytes(OpAsmPrinter &printer, Operation *op, IntegerAttr bytes,
                       IntegerAttr checksum) {
  printer << bytes.getInt();
  if (!checksum)
    return;
  printer << " data crc32c ";
  printHex(printer, op, checksum);
}

#define GET_OP_CLASSES
#include "dialects/plan/IR/PlanOps.cpp.inc"

namespace diffc::plan {

void PlanDialect::initialize() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/plan/IR/PlanAttributes.cpp.inc"
      >();
  addOperations<
#define GET_OP_LIST
#include "dialects/plan/IR/PlanOps.cpp.inc"
      >();
}

SlotNameAttr SlotNameAttr::get(MLIRContext *context, StringRef model, StringRef parameter,
                               StringRef role) {
  auto leaf = FlatSymbolRefAttr::get(context, parameter);
  SymbolRefAttr tensor = leaf;
  if (!model.empty())
    tensor = SymbolRefAttr::get(context, model, {leaf});
  return get(context, tensor, role);
}

StringRef SlotNameAttr::getModel() const {
  return getTensor().getNestedReferences().empty() ? StringRef()
                                                   : getTensor().getRootReference().getValue();
}

StringRef SlotNameAttr::getParameter() const { return getTensor().getLeafReference().getValue(); }

SmallVector<NamedAttribute> StepParts::attributes(Builder &builder) const {
  auto number = [&](int64_t value) { return builder.getI64IntegerAttr(value); };
  return {builder.getNamedAttr("label", builder.getStringAttr(label)),
          builder.getNamedAttr("inputs", builder.getArrayAttr(inputs)),
          builder.getNamedAttr("input_values", builder.getDenseI64ArrayAttr(inputValues)),
          builder.getNamedAttr("outputs", builder.getArrayAttr(outputs)),
          builder.getNamedAttr("output_values", builder.getDenseI64ArrayAttr(outputValues)),
          builder.getNamedAttr("scratch", builder.getArrayAttr(scratch)),
          builder.getNamedAttr("first_node", number(firstNode)),
          builder.getNamedAttr("node_count", number(nodeCount)),
          builder.getNamedAttr("bytes_read", number(bytesRead)),
          builder.getNamedAttr("bytes_written", number(bytesWritten)),
          builder.getNamedAttr("flops", number(flops)),
          builder.getNamedAttr("location", builder.getStringAttr(location))};
}

} // namespace diffc::plan
