// A plan's element types in .safetensors files.
#pragma once

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/plan/plan.pb.h"

namespace diffrun {

inline FileDType fileType(proto::DType dtype) {
  switch (dtype) {
  case proto::F64:
    return FileDType::kF64;
  case proto::F16:
    return FileDType::kF16;
  case proto::BF16:
    return FileDType::kBF16;
  case proto::I64:
    return FileDType::kI64;
  case proto::I32:
    return FileDType::kI32;
  case proto::BOOL:
    return FileDType::kBool;
  default:
    return FileDType::kF32;
  }
}

} // namespace diffrun
