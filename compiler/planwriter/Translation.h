// Plan IR <-> the plan file's message. Each field has its place in the other.
#pragma once

#include "compiler/planwriter/PlanParts.h"
#include "runtime/core/Status.h"

namespace diffc {

/// The message of verified plan IR; takes the blobs. Errors: Internal where a
/// blob is not what the IR says of it.
diffrun::Result<diffrun::proto::Plan> toProto(plan::ProgramOp program, PlanBlobs blobs);

/// The IR of a plan whose numbers were checked (LoadedPlan); verified. Errors:
/// InvalidInput with the verifier's reason.
diffrun::Result<PlanParts> fromProto(const diffrun::proto::Plan &plan, mlir::MLIRContext &context);

/// Runs MLIR's verifier; its first diagnostic becomes the error, of `code`.
diffrun::Status verifyPlan(mlir::ModuleOp module, diffrun::ErrorCode code);

} // namespace diffc
