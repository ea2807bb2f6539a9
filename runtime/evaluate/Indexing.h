// Walking over tensors: broadcasting offsets that kernels share.
#pragma once

#include "runtime/evaluate/Evaluate.h"

namespace diffrun::evaluate {

/// For each dimension of `to`, the stride in `from` (row-major, aligned at the
/// end): 0 where `from` is repeated. Fails where it does not broadcast.
Result<std::vector<int64_t>> broadcastStrides(const std::vector<int64_t> &from,
                                              const std::vector<int64_t> &to);

/// Calls visit(linear index, offsets) for every element of `shape` in
/// row-major order; offsets[k] is the dot product of the index with strides[k].
template <typename Visit>
void forEach(const std::vector<int64_t> &shape, const std::vector<std::vector<int64_t>> &strides,
             Visit visit) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  std::vector<int64_t> index(shape.size(), 0), offsets(strides.size(), 0);
  for (int64_t linear = 0; linear < count; ++linear) {
    visit(linear, offsets);
    for (size_t d = shape.size(); d-- > 0;) {
      ++index[d];
      for (size_t k = 0; k < strides.size(); ++k)
        offsets[k] += strides[k][d];
      if (index[d] < shape[d])
        break;
      for (size_t k = 0; k < strides.size(); ++k)
        offsets[k] -= strides[k][d] * shape[d];
      index[d] = 0;
    }
  }
}

/// A tensor seen as [outer, axis, inner] around one axis.
struct AxisView {
  int64_t outer = 1, extent = 1, inner = 1;
};
AxisView viewAround(const std::vector<int64_t> &shape, int64_t axis);

} // namespace diffrun::evaluate
