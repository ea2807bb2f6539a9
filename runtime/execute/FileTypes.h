// A plan's types in .safetensors files.
#pragma once

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/plan/plan.pb.h"

namespace diffrun {

inline FileDType fileType(proto::DType dtype) { return fileDType(static_cast<DType>(dtype)); }

inline std::vector<int64_t> shapeOf(const proto::TensorType &type) {
  return {type.shape().begin(), type.shape().end()};
}

/// Whether a tensor of a file has the element type and shape of a plan's.
inline bool holds(const SafetensorsView &view, const proto::TensorType &type) {
  return view.dtype == fileType(type.dtype()) && view.shape == shapeOf(type);
}

} // namespace diffrun
