// Proves that a plan's buffers hold what its operations expect.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

#include <string>

namespace diffrun {

/// Replays every entry of a plan whose indices, offsets and sizes were checked
/// (LoadedPlan). It shares no code with the planner and trusts only the order
/// of operations: each byte range holds the value that was last put there.
///
///   - A result overlaps an operand of its operation only as exactly the same
///     range of a kernel (computed in place), another result or scratch never.
///   - An operand's range holds exactly its value; nothing is read that this
///     entry did not write, except constants, inputs and state as it was at the
///     start: so no reader of old state comes after its update.
///   - A constant's bytes are those of the nn program.
///   - The nn nodes of an operation compute its results from its operands.
///   - At the end outputs and committed slots hold their values, and slots that
///     are not committed are untouched.
///
/// Errors: InvalidInput naming file, entry and operation.
Status validatePlan(const proto::Plan &plan, const std::string &path);

} // namespace diffrun
