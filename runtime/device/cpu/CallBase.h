// What the oneDNN calls share: engine, stream, types, and carving scratch.
#pragma once

#include "runtime/device/cpu/Calls.h"

#include <dnnl.hpp>

namespace diffrun {

inline dnnl::engine &cpuEngine() {
  static dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}
inline dnnl::stream &cpuStream() {
  static dnnl::stream stream(cpuEngine());
  return stream;
}

inline dnnl::memory::data_type dnnlType(proto::DType dtype) {
  switch (dtype) {
  case proto::BF16:
    return dnnl::memory::data_type::bf16;
  case proto::F16:
    return dnnl::memory::data_type::f16;
  default:
    return dnnl::memory::data_type::f32;
  }
}

template <typename List> dnnl::memory::dims toDims(const List &list) {
  return dnnl::memory::dims(list.begin(), list.end());
}

/// Plain row-major order.
inline dnnl::memory::desc dense(const dnnl::memory::dims &shape, dnnl::memory::data_type type) {
  dnnl::memory::dims strides(shape.size(), 1);
  for (size_t i = shape.size() - 1; i-- > 0;)
    strides[i] = strides[i + 1] * shape[i + 1];
  return dnnl::memory::desc(shape, type, strides);
}

/// oneDNN reports by exceptions; the runtime by values.
template <typename Work> Status guarded(const char *what, Work work) {
  try {
    work();
    return {};
  } catch (const dnnl::error &error) {
    return Status::machine(std::string("oneDNN fails at a ") + what + ": " + error.what());
  }
}

inline int64_t aligned64(int64_t bytes) { return (bytes + 63) / 64 * 64; }

} // namespace diffrun
