// What must hold of a node before its kernel may touch memory.
#pragma once

#include "runtime/evaluate/Evaluate.h"

namespace diffrun::evaluate {

/// Whether operands of these types (null where absent) and results of these fit
/// the node's operator and attributes, so that its kernel reads and writes only
/// elements that exist. Index values, which only a run knows, are the kernels' own
/// to check. Errors: Internal; a compiler's node never fails this, a damaged plan's
/// may.
Status checkNode(const Node &node, const std::vector<const TensorType *> &operands,
                 const std::vector<TensorType> &results);

/// The operators that checkNode() knows.
std::vector<std::string> checkedOperators();

} // namespace diffrun::evaluate
