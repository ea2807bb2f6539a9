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
  double worst = 0;       ///< largest error as a part of its tolerance
  std::string worstWhere; ///< that operation
  bool hasLoss = false;
  double loss = 0, lossEvaluated = 0; ///< the plan's; in double precision from the inputs on
};

/// Runs `entry` once, serially, on the program's state. Before each operation
/// its operands are kept; afterwards its results are compared with what the
/// evaluator makes of those operands: so rounding does not pile up and the
/// first operation that is wrong is named.
///
/// Tolerances: runtime/verify/Tolerance.h.
///
/// An entry with a loss is also evaluated from its inputs to the loss, end to end:
/// within 1e-4 relative and 2e-6 (rounding of f32, 6e-8, over the few hundred operations in
/// a row of a deep model, and room for what normalisation enlarges).
///
/// Errors: InvalidInput naming the operation that is wrong, the element, and
/// both values.
Result<VerifyReport> verifyEntry(Program &program, const InputData &data,
                                 const VerifyOptions &options);

} // namespace diffrun
