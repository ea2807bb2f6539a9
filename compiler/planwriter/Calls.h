// Library calls of a fused entry as the plan's operations.
#pragma once

#include "dialects/nn/IR/NnDialect.h"
#include "dialects/plan/IR/PlanDialect.h"
#include "runtime/core/Status.h"

namespace diffc {

/// Makes the plan's operation (matmul, convolution, draw) of a call's body, with
/// the body's FLOPs. Errors: Internal for a body that no library call computes.
diffrun::Status lowerCall(nn::CallOp call, plan::StepParts parts, mlir::OpBuilder &builder);

} // namespace diffc
