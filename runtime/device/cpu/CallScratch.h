// How much scratch memory library calls need, for the compiler to plan.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

namespace diffrun {

/// Bytes of the scratch buffer of a call, a multiple of 64; 0: none. The answer
/// depends on level and team: call configureLibrary (Calls.h) first with the
/// plan's. Errors: Machine if oneDNN has no implementation.
Result<int64_t> matmulScratchBytes(const proto::Matmul &matmul);
Result<int64_t> convolutionScratchBytes(const proto::Convolution &convolution);

} // namespace diffrun
