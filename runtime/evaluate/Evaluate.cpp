#include "runtime/evaluate/Evaluate.h"

#include "runtime/evaluate/NodeChecks.h"

#include <new>
#include <stdexcept>

namespace diffrun::evaluate {
namespace {
template <typename T> T attributeOr(const Node &node, const std::string &key, T fallback) {
  auto found = node.attributes.find(key);
  if (found == node.attributes.end())
    return fallback;
  const T *value = std::get_if<T>(&found->second);
  return value ? *value : fallback;
}
} // namespace

int64_t Node::integer(const std::string &key, int64_t fallback) const {
  return attributeOr<int64_t>(*this, key, fallback);
}
double Node::real(const std::string &key, double fallback) const {
  return attributeOr<double>(*this, key, fallback);
}
std::string Node::text(const std::string &key, const std::string &fallback) const {
  return attributeOr<std::string>(*this, key, fallback);
}
std::vector<int64_t> Node::integers(const std::string &key) const {
  return attributeOr<std::vector<int64_t>>(*this, key, {});
}

const Registry &registry() {
  static const Registry kernels = [] {
    Registry all;
    registerElementwise(all);
    registerTensor(all);
    registerContraction(all);
    registerNorm(all);
    registerTrain(all);
    return all;
  }();
  return kernels;
}

Result<Results> evaluate(const Node &node, const Operands &operands,
                         const std::vector<TensorType> &types) {
  std::string where = node.location.empty() ? node.op : node.op + " (" + node.location + ")";
  auto kernel = registry().find(node.op);
  if (kernel == registry().end())
    return Status::internal(where + ": no evaluation kernel of this name");
  std::vector<const TensorType *> given;
  for (const Tensor *operand : operands)
    given.push_back(operand ? &operand->type : nullptr);
  if (Status status = checkNode(node, given, types); !status)
    return status.withContext(where);
  try {
    Results results;
    for (const TensorType &type : types)
      results.emplace_back(type);
    if (Status status = kernel->second(node, operands, results); !status)
      return status.withContext(where);
    return results;
  } catch (const std::bad_alloc &) {
    return Status::machine(where + ": not enough memory to evaluate it");
  } catch (const std::length_error &) {
    return Status::machine(where + ": not enough memory to evaluate it");
  }
}

Status evaluate(const Graph &graph, int64_t first, int64_t count,
                std::vector<std::optional<Tensor>> &values) {
  values.resize(graph.values.size());
  for (int64_t i = first; i < first + count; ++i) {
    const Node &node = graph.nodes[i];
    Operands operands;
    for (int64_t id : node.operands) {
      if (id >= 0 && !values[id])
        return Status::internal(node.op + " (" + node.location + "): value " + std::to_string(id) +
                                " is used before it is made");
      operands.push_back(id < 0 ? nullptr : &*values[id]);
    }
    std::vector<TensorType> types;
    for (int64_t id : node.results)
      types.push_back(graph.values[id]);
    DIFFRUN_ASSIGN(Results results, evaluate(node, operands, types));
    for (size_t k = 0; k < results.size(); ++k)
      values[node.results[k]] = std::move(results[k]);
  }
  return {};
}

} // namespace diffrun::evaluate
