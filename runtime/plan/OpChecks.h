// Checks of single operations of a plan: what they need of their buffers.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

namespace diffrun {

/// Operand and result counts, shapes against buffer sizes, strides in range.
/// The message says what is wrong; the caller says where.
Status checkOp(const proto::Op &op);

} // namespace diffrun
