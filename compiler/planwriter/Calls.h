// Library calls of a fused entry as the plan's operations.
#pragma once

#include "dialects/nn/IR/NnDialect.h"
#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

namespace diffc {

/// Fills the kind of `op` (matmul, convolution, draw), its scratch needs and
/// FLOPs from the call's body. Errors: Internal for a body that no library
/// call computes.
diffrun::Status describeCall(nn::CallOp call, diffrun::proto::Op &op);

} // namespace diffc
