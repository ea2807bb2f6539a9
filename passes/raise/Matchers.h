// What patterns of passes/raise look for: constants, means, polynomials.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

#include <map>
#include <optional>

namespace diffc {

/// The one value of a constant whose elements are all equal.
std::optional<double> splatOf(mlir::Value value);

/// True where `value` is `expected` up to what rounding a few constants to
/// `element` does to their product: two units in the last place, 1e-6 at least.
bool isNearly(double value, double expected, mlir::Type element);

/// A mean over `axes`, which stay as 1.
struct Mean {
  mlir::Value input;
  llvm::SmallVector<int64_t> axes;
};
/// `value` as a mean: nn.reduce_mean, or nn.reduce_sum divided by the number of
/// elements; axes that were dropped must come back by a reshape. Nullopt for
/// another divisor (a sample variance, say).
std::optional<Mean> meanOf(mlir::Value value);

/// The value whose square `value` is: x * x or pow(x, 2); null where it is none.
mlir::Value rootOfSquare(mlir::Value value);

/// A polynomial in two values: coefficients by the powers of the first and the
/// second; no entry is 0.
using Polynomial = std::map<std::pair<int, int>, double>;

/// `value` as a polynomial in `x` and `t` (t may be null), through sums,
/// differences, products, quotients by constants and small constant powers.
/// Nullopt where anything else goes in, or below `depth` operators.
std::optional<Polynomial> polynomialIn(mlir::Value value, mlir::Value x, mlir::Value t,
                                       int depth = 8);

/// Equal powers, nearly equal coefficients.
bool isNearly(const Polynomial &polynomial, const Polynomial &expected, mlir::Type element);

} // namespace diffc
