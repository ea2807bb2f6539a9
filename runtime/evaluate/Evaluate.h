// The double-precision evaluator: what every nn and train operator means.
//
// Slow, obviously right, and free of MLIR: the compiler folds constants with
// it, tests compare kernels with it, `diffrun verify` checks a plan with it.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/evaluate/Tensor.h"

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

namespace diffrun::evaluate {

/// An operator's attribute. Booleans are 0 or 1.
using Attribute =
    std::variant<int64_t, double, std::string, std::vector<int64_t>, std::vector<double>, Tensor>;

/// One operation. Values are known by number; an operand of -1 is an optional
/// one that is absent.
struct Node {
  std::string op; ///< as in the IR: "nn.add"
  std::map<std::string, Attribute> attributes;
  std::vector<int64_t> operands;
  std::vector<int64_t> results;
  std::string location; ///< the user's node, for messages

  // The attribute, or `fallback` where it is absent or of another kind.
  int64_t integer(const std::string &key, int64_t fallback = 0) const;
  double real(const std::string &key, double fallback = 0) const;
  std::string text(const std::string &key, const std::string &fallback = {}) const;
  std::vector<int64_t> integers(const std::string &key) const;
};

/// Operations in an order in which they can be evaluated.
struct Graph {
  std::vector<TensorType> values; ///< by value number
  std::vector<Node> nodes;
};

using Operands = std::vector<const Tensor *>; ///< nullptr where absent
using Results = std::vector<Tensor>;          ///< types set, elements zero

/// Computes `results` from `operands`, of which checkNode() (NodeChecks.h) has found
/// that they fit the node. Fails where their values do not: an index out of range.
using Kernel = Status (*)(const Node &node, const Operands &operands, Results &results);
using Registry = std::map<std::string, Kernel>;

/// Every operator's kernel by name.
const Registry &registry();

/// Evaluates one node on given operands; `types` are its results' types.
/// Errors name the operator and the node's location.
Result<Results> evaluate(const Node &node, const Operands &operands,
                         const std::vector<TensorType> &types);

/// Evaluates nodes [first, first + count) of `graph` over `values` (indexed by
/// value number; those that no node in the range makes must be there).
Status evaluate(const Graph &graph, int64_t first, int64_t count,
                std::vector<std::optional<Tensor>> &values);

// One function per file of kernels.
void registerElementwise(Registry &registry);
void registerTensor(Registry &registry);
void registerContraction(Registry &registry);
void registerNorm(Registry &registry);
void registerTrain(Registry &registry);

} // namespace diffrun::evaluate
