// Every index, offset and size of a plan, before anything is computed from it.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

#include <string>

namespace diffrun {

/// Checks a parsed plan: version, CPU features, spaces, slots, inputs, outputs,
/// operations, value numbers. After it nothing in the plan can lead out of its
/// own arrays and spaces; what the buffers hold is validatePlan's question.
///
/// Errors: InvalidInput naming `path` and the entry or operation; Machine
/// naming the CPU feature that the plan needs and this machine lacks.
Status checkPlan(const proto::Plan &plan, const std::string &path);

} // namespace diffrun
