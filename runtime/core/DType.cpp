#include "runtime/core/DType.h"

#include <array>
#include <cmath>
#include <cstring>

namespace diffrun {
namespace {

struct DTypeInfo {
  DType dtype;
  std::string_view name;
  int64_t bytes;
  bool isFloat;
};

constexpr std::array<DTypeInfo, 7> kInfos = {{
    {DType::kF64, "f64", 8, true},
    {DType::kF32, "f32", 4, true},
    {DType::kF16, "f16", 2, true},
    {DType::kBF16, "bf16", 2, true},
    {DType::kI64, "i64", 8, false},
    {DType::kI32, "i32", 4, false},
    {DType::kBool, "bool", 1, false},
}};

const DTypeInfo &info(DType dtype) { return kInfos[static_cast<size_t>(dtype)]; }

} // namespace

int64_t byteSize(DType dtype) { return info(dtype).bytes; }
bool isFloat(DType dtype) { return info(dtype).isFloat; }
std::string_view name(DType dtype) { return info(dtype).name; }

std::optional<DType> dtypeFromName(std::string_view name) {
  for (const DTypeInfo &entry : kInfos)
    if (entry.name == name)
      return entry.dtype;
  return std::nullopt;
}

float bfloat16ToFloat(uint16_t bits) {
  uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof(value));
  return value;
}

uint16_t floatToBfloat16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if (std::isnan(value))
    return static_cast<uint16_t>((bits >> 16) | 0x40);
  // Round to nearest, ties to even: add half of the last kept bit.
  bits += 0x7fff + ((bits >> 16) & 1);
  return static_cast<uint16_t>(bits >> 16);
}

float halfToFloat(uint16_t bits) {
  int exponent = (bits >> 10) & 0x1f;
  int mantissa = bits & 0x3ff;
  float sign = (bits & 0x8000) ? -1.0f : 1.0f;
  if (exponent == 31)
    return mantissa ? std::nanf("") : sign * INFINITY;
  if (exponent == 0)
    return sign * std::ldexp(static_cast<float>(mantissa), -24);
  return sign * std::ldexp(static_cast<float>(mantissa | 0x400), exponent - 25);
}

uint16_t floatToHalf(float value) {
  uint16_t sign = std::signbit(value) ? 0x8000 : 0;
  if (std::isnan(value))
    return sign | 0x7e00;
  float magnitude = std::fabs(value);
  if (magnitude >= 65520.0f) // halfway between 65504 and the next step
    return sign | 0x7c00;
  int exponent;
  std::frexp(magnitude, &exponent);
  // The spacing of halves at this magnitude: 2^(exponent - 11), at least 2^-24.
  int scale = exponent - 11 < -24 ? -24 : exponent - 11;
  float units = std::nearbyint(std::ldexp(magnitude, -scale));
  if (units == 0)
    return sign;
  // Renormalise: rounding may have carried into the next binade.
  if (units >= 2048) {
    units = 1024;
    ++scale;
  }
  if (units < 1024)
    return sign | static_cast<uint16_t>(units);
  return sign | static_cast<uint16_t>(((scale + 25) << 10) | (static_cast<int>(units) - 1024));
}

} // namespace diffrun
