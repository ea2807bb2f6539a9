// The plan's nn program in the evaluator's form.
#include "runtime/plan/LoadedPlan.h"

#include <algorithm>
#include <set>

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

int64_t rowsIndexedBy(const proto::Entry &entry, int input, int64_t otherwise) {
  const proto::Program &program = entry.program();
  auto isReal = [&](int64_t value) {
    return isFloat(static_cast<DType>(program.values(static_cast<int>(value)).dtype()));
  };
  std::set<int64_t> reached = {entry.input_values(input)};
  int64_t rows = otherwise;
  for (const proto::Node &node : program.nodes()) {
    bool leads = false, fromReal = false;
    for (int64_t value : node.operands())
      if (reached.count(value)) {
        leads = true;
        fromReal |= isReal(value);
      }
    if (!leads)
      continue;
    for (int64_t value : node.results())
      if (fromReal || !isReal(value)) // a float made of integers is a row, no index
        reached.insert(value);
    auto axis = node.attributes().find("axis");
    if (node.op() != "nn.gather" || node.operands_size() != 2 || !reached.count(node.operands(1)) ||
        axis == node.attributes().end())
      continue;
    const proto::TensorType &table = program.values(static_cast<int>(node.operands(0)));
    if (int64_t at = axis->second.integer(); at >= 0 && at < table.shape_size())
      rows = std::min(rows, table.shape(static_cast<int>(at)));
  }
  return rows;
}

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
