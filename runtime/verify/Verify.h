// A plan's operations against the double-precision evaluator, one by one.
#pragma once

#include "runtime/execute/Program.h"

#include <functional>
#include <string>
#include <vector>

namespace diffrun {

struct VerifyOptions {
  std::string entry = "step";
  /// Called before the first and after each operation, for progress.
  std::function<void(int done, int all)> progress;
};

struct VerifyReport {
  int operations = 0;
  double worst = 0;                   ///< largest error as a part of its tolerance
  std::string worstWhere;             ///< that operation
  double loss = 0, lossEvaluated = 0; ///< if the entry has a loss
};

/// Runs `entry` once, serially, on the program's state. Before each operation
/// its operands are kept; afterwards its results are compared with what the
/// evaluator makes of those operands: so rounding does not pile up and the
/// first operation that is wrong is named.
///
/// Tolerance of an f32 result: 2^-24 * (64 + 4 sqrt(K)) * S, K the terms of its
/// longest sum, S the largest magnitude among what is summed (by the
/// evaluator, with absolute values, for contractions; the largest result
/// otherwise). Integers and booleans must be equal.
///
/// Errors: InvalidInput naming the operation that is wrong, the element, and
/// both values.
Result<VerifyReport> verifyEntry(Program &program, const InputData &data,
                                 const VerifyOptions &options);

} // namespace diffrun
