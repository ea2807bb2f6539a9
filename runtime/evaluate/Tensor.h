// Tensors of the double-precision evaluator.
#pragma once

#include "runtime/core/DType.h"

#include <cstdint>
#include <string>
#include <vector>

namespace diffrun::evaluate {

/// Element type and static shape.
struct TensorType {
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;

  /// Elements; the largest number where there are more.
  int64_t count() const;
  /// "f32[2,3]"
  std::string str() const;
  bool operator==(const TensorType &other) const {
    return dtype == other.dtype && shape == other.shape;
  }
  bool operator!=(const TensorType &other) const { return !(*this == other); }
};

/// A tensor in row-major order. Floating-point types of any width are held in
/// double precision, integers and booleans in 64 bits.
struct Tensor {
  TensorType type;
  std::vector<double> real;     ///< count() elements if the type is a float
  std::vector<int64_t> integer; ///< count() elements otherwise

  Tensor() = default;
  /// Zeros of `type`.
  explicit Tensor(TensorType type);
  bool isReal() const { return isFloat(type.dtype); }
};

/// Reads the memory form of `type` (byteSize(dtype) * count() bytes).
Tensor fromBytes(const TensorType &type, const void *bytes);

/// Writes the memory form: floats rounded to nearest even, integers saturated.
void toBytes(const Tensor &tensor, void *bytes);

/// Row-major strides in elements.
std::vector<int64_t> rowMajorStrides(const std::vector<int64_t> &shape);

/// `value` rounded once, to nearest even, to what a float type can hold; beyond its
/// largest number infinity.
double roundTo(double value, DType dtype);

/// `value` as an integer type holds it after wrapping around.
int64_t wrapTo(int64_t value, DType dtype);

/// `value` to an integer type's range: truncated toward zero, saturated, 0 for NaN.
int64_t saturate(double value, DType dtype);

} // namespace diffrun::evaluate
