#include "runtime/evaluate/Tensor.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

namespace diffrun::evaluate {

int64_t TensorType::count() const {
  int64_t product = 1;
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(product, extent, &product))
      return std::numeric_limits<int64_t>::max();
  return product;
}

std::string TensorType::str() const {
  std::string text(name(dtype));
  text += '[';
  for (size_t i = 0; i < shape.size(); ++i)
    text += (i ? "," : "") + std::to_string(shape[i]);
  return text + ']';
}

Tensor::Tensor(TensorType tensorType) : type(std::move(tensorType)) {
  if (isReal())
    real.assign(type.count(), 0.0);
  else
    integer.assign(type.count(), 0);
}

std::vector<int64_t> rowMajorStrides(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t i = shape.size(); i-- > 1;)
    strides[i - 1] = strides[i] * shape[i];
  return strides;
}

double roundTo(double value, DType dtype) {
  int bits, least;
  double largest;
  switch (dtype) {
  case DType::kF32:
    return static_cast<float>(value);
  case DType::kF16:
    bits = 10, least = -14, largest = 65504;
    break;
  case DType::kBF16:
    bits = 7, least = -126, largest = 0x1.fep127;
    break;
  default:
    return value;
  }
  if (value == 0 || !std::isfinite(value))
    return value;
  int exponent;
  std::frexp(value, &exponent); // |value| in [2^(exponent - 1), 2^exponent)
  int unit = std::max(exponent - 1, least) - bits;
  double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -unit)), unit);
  if (std::fabs(rounded) > largest)
    return std::copysign(std::numeric_limits<double>::infinity(), value);
  return rounded;
}

int64_t wrapTo(int64_t value, DType dtype) {
  return dtype == DType::kI32 ? static_cast<int32_t>(value) : value;
}

int64_t saturate(double value, DType dtype) {
  if (dtype == DType::kBool)
    return value != 0; // NaN is not
  if (std::isnan(value))
    return 0;
  auto clamp = [&](auto limits) -> int64_t {
    double low = static_cast<double>(limits.min());
    // max() of 64 bits is not a double: compare with the power of two above.
    double high = -low;
    if (value <= low)
      return limits.min();
    if (value >= high)
      return limits.max();
    return static_cast<int64_t>(value);
  };
  return dtype == DType::kI32 ? clamp(std::numeric_limits<int32_t>())
                              : clamp(std::numeric_limits<int64_t>());
}

namespace {
template <typename T, typename Out, typename Convert>
void read(const void *bytes, std::vector<Out> &out, Convert convert) {
  const char *from = static_cast<const char *>(bytes);
  for (size_t i = 0; i < out.size(); ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    out[i] = convert(value);
  }
}
template <typename T, typename In, typename Convert>
void write(const std::vector<In> &in, void *bytes, Convert convert) {
  char *to = static_cast<char *>(bytes);
  for (size_t i = 0; i < in.size(); ++i) {
    T value = convert(in[i]);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}
} // namespace

Tensor fromBytes(const TensorType &type, const void *bytes) {
  Tensor tensor(type);
  switch (type.dtype) {
  case DType::kF64:
    read<double>(bytes, tensor.real, [](double v) { return v; });
    break;
  case DType::kF32:
    read<float>(bytes, tensor.real, [](float v) { return static_cast<double>(v); });
    break;
  case DType::kF16:
    read<uint16_t>(bytes, tensor.real,
                   [](uint16_t v) { return static_cast<double>(halfToFloat(v)); });
    break;
  case DType::kBF16:
    read<uint16_t>(bytes, tensor.real,
                   [](uint16_t v) { return static_cast<double>(bfloat16ToFloat(v)); });
    break;
  case DType::kI64:
    read<int64_t>(bytes, tensor.integer, [](int64_t v) { return v; });
    break;
  case DType::kI32:
    read<int32_t>(bytes, tensor.integer, [](int32_t v) { return static_cast<int64_t>(v); });
    break;
  case DType::kBool:
    read<uint8_t>(bytes, tensor.integer, [](uint8_t v) { return static_cast<int64_t>(v != 0); });
    break;
  }
  return tensor;
}

void toBytes(const Tensor &tensor, void *bytes) {
  switch (tensor.type.dtype) {
  case DType::kF64:
    write<double>(tensor.real, bytes, [](double v) { return v; });
    break;
  case DType::kF32:
    write<float>(tensor.real, bytes, [](double v) { return static_cast<float>(v); });
    break;
  case DType::kF16:
    write<uint16_t>(tensor.real, bytes, [](double v) {
      return floatToHalf(static_cast<float>(roundTo(v, DType::kF16)));
    });
    break;
  case DType::kBF16:
    write<uint16_t>(tensor.real, bytes, [](double v) {
      return floatToBfloat16(static_cast<float>(roundTo(v, DType::kBF16)));
    });
    break;
  case DType::kI64:
    write<int64_t>(tensor.integer, bytes, [](int64_t v) { return v; });
    break;
  case DType::kI32:
    write<int32_t>(tensor.integer, bytes, [](int64_t v) {
      return static_cast<int32_t>(saturate(static_cast<double>(v), DType::kI32));
    });
    break;
  case DType::kBool:
    write<uint8_t>(tensor.integer, bytes, [](int64_t v) { return static_cast<uint8_t>(v != 0); });
    break;
  }
}

} // namespace diffrun::evaluate
