// How weights lie in a file, for those who trace them back to their module.
#pragma once

#include <onnx/onnx_pb.h>

#include <string>
#include <vector>

namespace diffc {

using Shape = std::vector<int64_t>;

/// The elements of a [rows, columns] matrix as those of its transpose.
std::string transposedBytes(const std::string &bytes, int64_t rows, int64_t columns);

/// Whether a shape is [C, 1, ...]: a vector made to fit channels.
bool isColumn(const Shape &shape);

/// How many values the bias of a Conv, ConvTranspose or Gemm has by the shape of its
/// weight; -1 for operators that take none and for other shapes.
int64_t biasExtent(const onnx::NodeProto &node, const Shape &weight);

} // namespace diffc
