#include "compiler/import/NodeImport.h"

#include <mlir/IR/Matchers.h>

using namespace mlir;
using diffrun::Status;

namespace diffc {

const onnx::AttributeProto *NodeImport::find(const char *name) const {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return &attribute;
  return nullptr;
}
int64_t NodeImport::integer(const char *name, int64_t fallback) const {
  const auto *attribute = find(name);
  return attribute ? attribute->i() : fallback;
}
double NodeImport::real(const char *name, double fallback) const {
  const auto *attribute = find(name);
  return attribute ? attribute->f() : fallback;
}
std::string NodeImport::text(const char *name, const std::string &fallback) const {
  const auto *attribute = find(name);
  return attribute ? attribute->s() : fallback;
}
SmallVector<int64_t> NodeImport::integers(const char *name) const {
  const auto *attribute = find(name);
  if (!attribute)
    return {};
  return SmallVector<int64_t>(attribute->ints().begin(), attribute->ints().end());
}

static DenseElementsAttr constantOperand(Value value) {
  DenseElementsAttr attr;
  if (value)
    matchPattern(value, m_Constant(&attr));
  return attr;
}

std::optional<SmallVector<int64_t>> NodeImport::constantIntegers(size_t i) const {
  DenseElementsAttr attr = constantOperand(operand(i));
  if (!attr || !isa<IntegerType>(attr.getElementType()))
    return std::nullopt;
  SmallVector<int64_t> elements;
  for (const APInt &element : attr.getValues<APInt>())
    elements.push_back(element.getBitWidth() == 1 ? element.getZExtValue()
                                                  : element.getSExtValue());
  return elements;
}

std::optional<SmallVector<double>> NodeImport::constantReals(size_t i) const {
  DenseElementsAttr attr = constantOperand(operand(i));
  if (!attr || !isa<FloatType>(attr.getElementType()))
    return std::nullopt;
  SmallVector<double> elements;
  for (APFloat element : attr.getValues<APFloat>()) {
    bool lost;
    element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
    elements.push_back(element.convertToDouble());
  }
  return elements;
}

Value NodeImport::constant(ArrayRef<int64_t> elements, ArrayRef<int64_t> shape) const {
  auto type = RankedTensorType::get(shape, builder.getI64Type());
  return builder.create<nn::ConstantOp>(loc, DenseElementsAttr::get(type, elements));
}

std::optional<int64_t> NodeImport::wrapAxis(int64_t axis, int64_t rank) {
  int64_t wrapped = axis < 0 ? axis + rank : axis;
  if (wrapped < 0 || wrapped >= rank)
    return std::nullopt;
  return wrapped;
}

Status NodeImport::fail(const std::string &what, const std::string &help) const {
  return Status::invalid(file.path() + ": node \"" + node.name() + "\" (" + node.op_type() + "-" +
                             std::to_string(opset) + "): " + what,
                         help);
}

const HandlerTable &handlers() {
  static const HandlerTable table = [] {
    HandlerTable all;
    addElementwiseHandlers(all);
    addActivationHandlers(all);
    addReductionHandlers(all);
    addIndexHandlers(all);
    addEinsumHandlers(all);
    addSearchHandlers(all);
    addTensorHandlers(all);
    addContractionHandlers(all);
    addAttentionHandlers(all);
    addSequenceHandlers(all);
    addConvHandlers(all);
    addNormHandlers(all);
    addPadHandlers(all);
    addResizeHandlers(all);
    addPoolHandlers(all);
    addBlockHandlers(all);
    addSampleHandlers(all);
    addChannelNormHandlers(all);
    addRegionHandlers(all);
    addConstantHandlers(all);
    return all;
  }();
  return table;
}

} // namespace diffc
