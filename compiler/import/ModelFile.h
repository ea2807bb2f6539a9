// An ONNX file on disk: reading it, and the bytes of its tensors.
#pragma once

#include "runtime/core/Status.h"

#include <onnx/onnx_pb.h>

#include <map>
#include <memory>
#include <string>

namespace diffc {

/// A parsed ONNX file. Tensors may lie in it or in files beside it.
class ModelFile {
public:
  /// Reads and parses `path`. Errors: InvalidInput naming the file where it is
  /// missing, truncated, not ONNX, or has no graph.
  static diffrun::Result<ModelFile> open(const std::string &path);

  const std::string &path() const { return filePath; }
  const onnx::ModelProto &model() const { return *proto; }
  const onnx::GraphProto &graph() const { return proto->graph(); }
  /// Copies of this file share it.
  onnx::ModelProto &mutableModel() { return *proto; }

  /// The version of the default operator set.
  int64_t opset() const;

  /// The raw little-endian elements of a tensor, wherever they lie.
  /// Errors: InvalidInput naming the tensor (and the external file) where the
  /// data is missing, short, out of the file's bounds or of an unknown type.
  diffrun::Result<std::string> bytes(const onnx::TensorProto &tensor) const;

private:
  diffrun::Result<std::string> externalBytes(const onnx::TensorProto &tensor,
                                             int64_t expected) const;

  std::string filePath;
  std::shared_ptr<onnx::ModelProto> proto;
};

/// Bytes of one element of an ONNX data type; 0 for types that diffc lacks.
int64_t elementBytes(int32_t dataType);

} // namespace diffc
