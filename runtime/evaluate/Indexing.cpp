#include "runtime/evaluate/Indexing.h"

namespace diffrun::evaluate {

Result<std::vector<int64_t>> broadcastStrides(const std::vector<int64_t> &from,
                                              const std::vector<int64_t> &to) {
  Status mismatch = Status::internal(TensorType{DType::kF64, from}.str() +
                                     " does not broadcast to " + TensorType{DType::kF64, to}.str());
  if (from.size() > to.size())
    return mismatch;
  std::vector<int64_t> own = rowMajorStrides(from), strides(to.size(), 0);
  size_t shift = to.size() - from.size();
  for (size_t i = 0; i < from.size(); ++i) {
    if (from[i] == to[shift + i])
      strides[shift + i] = from[i] == 1 ? 0 : own[i];
    else if (from[i] != 1)
      return mismatch;
  }
  return strides;
}

AxisView viewAround(const std::vector<int64_t> &shape, int64_t axis) {
  AxisView view;
  for (size_t i = 0; i < shape.size(); ++i) {
    int64_t &extent = static_cast<int64_t>(i) < axis    ? view.outer
                      : static_cast<int64_t>(i) == axis ? view.extent
                                                        : view.inner;
    extent *= shape[i];
  }
  return view;
}

} // namespace diffrun::evaluate
