// The plan's nn program in the evaluator's form.
#include "runtime/plan/LoadedPlan.h"

namespace diffrun {
namespace {

Result<evaluate::TensorType> typeOf(const proto::TensorType &type) {
  if (bytesOf(type) < 0)
    return Status::invalid("a tensor type of the nn program is impossible");
  evaluate::TensorType made;
  made.dtype = static_cast<DType>(type.dtype());
  made.shape.assign(type.shape().begin(), type.shape().end());
  return made;
}

Result<evaluate::Attribute> attributeOf(const proto::Attribute &attribute) {
  switch (attribute.value_case()) {
  case proto::Attribute::kInteger:
    return evaluate::Attribute(attribute.integer());
  case proto::Attribute::kReal:
    return evaluate::Attribute(attribute.real());
  case proto::Attribute::kText:
    return evaluate::Attribute(attribute.text());
  case proto::Attribute::kIntegers:
    return evaluate::Attribute(std::vector<int64_t>(attribute.integers().values().begin(),
                                                    attribute.integers().values().end()));
  case proto::Attribute::kReals:
    return evaluate::Attribute(
        std::vector<double>(attribute.reals().values().begin(), attribute.reals().values().end()));
  case proto::Attribute::kTensor: {
    DIFFRUN_ASSIGN(auto type, typeOf(attribute.tensor().type()));
    if (static_cast<int64_t>(attribute.tensor().data().size()) !=
        bytesOf(attribute.tensor().type()))
      return Status::invalid("a constant of the nn program does not have its type's size");
    return evaluate::Attribute(evaluate::fromBytes(type, attribute.tensor().data().data()));
  }
  default:
    return Status::invalid("an attribute of the nn program has no value");
  }
}

} // namespace

Result<evaluate::Graph> programOf(const proto::Entry &entry) {
  evaluate::Graph graph;
  for (const proto::TensorType &type : entry.program().values()) {
    DIFFRUN_ASSIGN(auto made, typeOf(type));
    graph.values.push_back(std::move(made));
  }
  auto count = static_cast<int64_t>(graph.values.size());
  for (const proto::Node &node : entry.program().nodes()) {
    evaluate::Node made;
    made.op = node.op();
    made.location = node.location();
    for (auto &[key, value] : node.attributes()) {
      DIFFRUN_ASSIGN(auto attribute, attributeOf(value));
      made.attributes[key] = std::move(attribute);
    }
    made.operands.assign(node.operands().begin(), node.operands().end());
    made.results.assign(node.results().begin(), node.results().end());
    for (int64_t id : made.operands)
      if (id < -1 || id >= count)
        return Status::invalid("a value number of the nn program is out of range");
    for (int64_t id : made.results)
      if (id < 0 || id >= count)
        return Status::invalid("a value number of the nn program is out of range");
    graph.nodes.push_back(std::move(made));
  }
  return graph;
}

} // namespace diffrun
