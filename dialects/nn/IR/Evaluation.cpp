#include "dialects/nn/IR/Evaluation.h"

#include "dialects/nn/IR/NnDialect.h"

using namespace mlir;
using namespace diffrun;
namespace ev = diffrun::evaluate;

namespace diffc::nn {
namespace {

std::string locationText(Location loc) {
  if (auto name = loc->findInstanceOf<NameLoc>())
    return name.getName().str();
  if (auto file = loc->findInstanceOf<FileLineColLoc>())
    return (file.getFilename().getValue() + ":" + Twine(file.getLine())).str();
  return {};
}

/// An attribute in the evaluator's form; nullopt for what it has no use for
/// (types, dictionaries), which the result types carry already.
Result<std::optional<ev::Attribute>> toAttributeValue(Attribute attr) {
  using Maybe = std::optional<ev::Attribute>;
  if (auto flag = dyn_cast<BoolAttr>(attr))
    return Maybe(int64_t{flag.getValue()});
  if (auto integer = dyn_cast<IntegerAttr>(attr))
    return Maybe(integer.getValue().getSExtValue());
  if (auto real = dyn_cast<FloatAttr>(attr))
    return Maybe(real.getValueAsDouble());
  if (auto text = dyn_cast<StringAttr>(attr))
    return Maybe(text.getValue().str());
  if (auto list = dyn_cast<DenseI64ArrayAttr>(attr))
    return Maybe(std::vector<int64_t>(list.asArrayRef().begin(), list.asArrayRef().end()));
  if (auto form = dyn_cast<GeluFormAttr>(attr))
    return Maybe(stringifyGeluForm(form.getValue()).str());
  if (auto elements = dyn_cast<ElementsAttr>(attr)) {
    DIFFRUN_ASSIGN(ev::Tensor tensor, toTensor(elements));
    return Maybe(std::move(tensor));
  }
  return Maybe();
}

} // namespace

Result<ev::TensorType> evaluationType(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  if (!tensor || !tensor.hasStaticShape())
    return Status::internal("a value of the evaluator must be a static tensor");
  ev::TensorType result;
  result.shape.assign(tensor.getShape().begin(), tensor.getShape().end());
  Type element = tensor.getElementType();
  if (element.isF64())
    result.dtype = DType::kF64;
  else if (element.isF32())
    result.dtype = DType::kF32;
  else if (element.isF16())
    result.dtype = DType::kF16;
  else if (element.isBF16())
    result.dtype = DType::kBF16;
  else if (element.isSignlessInteger(64))
    result.dtype = DType::kI64;
  else if (element.isSignlessInteger(32))
    result.dtype = DType::kI32;
  else if (element.isSignlessInteger(1))
    result.dtype = DType::kBool;
  else
    return Status::invalid("an element type that diffc does not have");
  return result;
}

Result<ev::Tensor> toTensor(ElementsAttr value) {
  DIFFRUN_ASSIGN(ev::TensorType type, evaluationType(value.getType()));
  auto dense = dyn_cast<DenseElementsAttr>(value);
  if (!dense)
    return Status::internal("a constant without dense elements");
  ev::Tensor tensor(type);
  int64_t i = 0;
  if (tensor.isReal())
    for (const APFloat &element : dense.getValues<APFloat>()) {
      APFloat wide = element;
      bool lost;
      wide.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      tensor.real[i++] = wide.convertToDouble();
    }
  else
    for (const APInt &element : dense.getValues<APInt>())
      tensor.integer[i++] =
          element.getBitWidth() == 1 ? element.getZExtValue() : element.getSExtValue();
  return tensor;
}

DenseElementsAttr toAttribute(const ev::Tensor &tensor, RankedTensorType type) {
  Type element = type.getElementType();
  if (auto floatType = dyn_cast<FloatType>(element)) {
    SmallVector<APFloat> values;
    for (double value : tensor.real) {
      APFloat rounded(value);
      bool lost;
      rounded.convert(floatType.getFloatSemantics(), APFloat::rmNearestTiesToEven, &lost);
      values.push_back(rounded);
    }
    return DenseElementsAttr::get(type, values);
  }
  SmallVector<APInt> values;
  for (int64_t value : tensor.integer)
    values.emplace_back(element.getIntOrFloatBitWidth(), static_cast<uint64_t>(value),
                        /*isSigned=*/true);
  return DenseElementsAttr::get(type, values);
}

Result<int64_t> EvaluationGraph::number(Value value) {
  auto [entry, isNew] = numbers.try_emplace(value, built.values.size());
  if (isNew) {
    auto type = evaluationType(value.getType());
    if (!type) {
      numbers.erase(value);
      return type.status();
    }
    built.values.push_back(*type);
    return static_cast<int64_t>(built.values.size()) - 1;
  }
  return entry->second;
}

Status EvaluationGraph::append(Block &block) {
  for (Operation &op : block)
    if (!op.hasTrait<OpTrait::IsTerminator>())
      DIFFRUN_RETURN_IF_ERROR(append(&op));
  return {};
}

Status EvaluationGraph::appendRegion(Operation *op) {
  Block &body = op->getRegion(0).front();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), op->getOperands())) {
    DIFFRUN_ASSIGN(int64_t id, number(operand));
    numbers[argument] = id;
  }
  DIFFRUN_RETURN_IF_ERROR(append(body));
  for (auto [result, yielded] : llvm::zip(op->getResults(), body.getTerminator()->getOperands())) {
    DIFFRUN_ASSIGN(int64_t id, number(yielded));
    numbers[result] = id;
  }
  return {};
}

Status EvaluationGraph::append(Operation *op) {
  if (isa<KernelOp, CallOp>(op))
    return appendRegion(op);
  ev::Node node;
  node.op = op->getName().getStringRef().str();
  node.location = locationText(op->getLoc());
  auto noteAttributes = [&](ArrayRef<NamedAttribute> attributes) -> Status {
    for (NamedAttribute named : attributes) {
      DIFFRUN_ASSIGN(auto value, toAttributeValue(named.getValue()));
      if (value)
        node.attributes[named.getName().str()] = std::move(*value);
    }
    return {};
  };
  DIFFRUN_RETURN_IF_ERROR(noteAttributes(op->getAttrs()));
  if (auto properties = dyn_cast_or_null<DictionaryAttr>(op->getPropertiesAsAttribute()))
    DIFFRUN_RETURN_IF_ERROR(noteAttributes(properties.getValue()));
  for (Value operand : op->getOperands()) {
    DIFFRUN_ASSIGN(int64_t id, number(operand));
    node.operands.push_back(id);
  }
  for (Value result : op->getResults()) {
    DIFFRUN_ASSIGN(int64_t id, number(result));
    node.results.push_back(id);
  }
  built.nodes.push_back(std::move(node));
  return {};
}

SmallVector<DenseElementsAttr> evaluateConstants(Operation *op, ArrayRef<Attribute> operands) {
  EvaluationGraph graph;
  if (!ev::registry().count(op->getName().getStringRef().str()) || !graph.append(op))
    return {};
  const ev::Node &node = graph.graph().nodes.front();
  std::vector<std::optional<ev::Tensor>> values(graph.graph().values.size());
  for (auto [id, attr] : llvm::zip_equal(node.operands, operands)) {
    auto elements = dyn_cast_or_null<ElementsAttr>(attr);
    if (!elements)
      return {};
    auto tensor = toTensor(elements);
    if (!tensor)
      return {};
    values[id] = std::move(*tensor);
  }
  if (!ev::evaluate(graph.graph(), 0, 1, values))
    return {};
  SmallVector<DenseElementsAttr> results;
  for (auto [id, result] : llvm::zip_equal(node.results, op->getResults()))
    results.push_back(toAttribute(*values[id], cast<RankedTensorType>(result.getType())));
  return results;
}

} // namespace diffc::nn
