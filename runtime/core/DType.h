// Element types as the plan, the checkpoint and the evaluator name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace diffrun {

/// Element type of a tensor. kBool is one byte (0 or 1) in memory.
enum class DType : uint8_t { kF64, kF32, kF16, kBF16, kI64, kI32, kBool };

/// Bytes of one element in memory.
int64_t byteSize(DType dtype);

/// True for the floating-point types.
bool isFloat(DType dtype);

/// "f32", "bf16", "i64", "bool", ...: the spelling in plans and messages.
std::string_view name(DType dtype);
std::optional<DType> dtypeFromName(std::string_view name);

// Conversions of single 16-bit values; round to nearest even.
float halfToFloat(uint16_t bits);
uint16_t floatToHalf(float value);
float bfloat16ToFloat(uint16_t bits);
uint16_t floatToBfloat16(float value);

} // namespace diffrun
