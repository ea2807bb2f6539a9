#include "compiler/import/WeightLayouts.h"

#include <algorithm>
#include <cstring>

namespace diffc {

std::string transposedBytes(const std::string &bytes, int64_t rows, int64_t columns) {
  std::string out(bytes.size(), '\0');
  size_t each = bytes.empty() ? 0 : bytes.size() / (rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      std::memcpy(&out[(j * rows + i) * each], &bytes[(i * columns + j) * each], each);
  return out;
}

bool isColumn(const Shape &shape) {
  return shape.size() >= 2 &&
         std::all_of(shape.begin() + 1, shape.end(), [](int64_t extent) { return extent == 1; });
}

int64_t biasExtent(const onnx::NodeProto &node, const Shape &weight) {
  auto attribute = [&](const char *name, int64_t fallback) {
    for (const auto &each : node.attribute())
      if (each.name() == name)
        return static_cast<int64_t>(each.i());
    return fallback;
  };
  if (node.op_type() == "Conv" && weight.size() >= 3)
    return weight[0];
  if (node.op_type() == "ConvTranspose" && weight.size() >= 3)
    return weight[1] * attribute("group", 1);
  if (node.op_type() == "Gemm" && weight.size() == 2)
    return weight[attribute("transB", 0) ? 0 : 1];
  return -1;
}

} // namespace diffc
