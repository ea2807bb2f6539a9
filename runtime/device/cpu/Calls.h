// oneDNN primitives for a plan's matmuls and convolutions.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

#include <memory>
#include <vector>

namespace diffrun {

/// A library call made ready: run() executes it on given memory, without
/// allocating.
class LibraryCall {
public:
  virtual ~LibraryCall() = default;
  /// Bytes of scratch memory that run() needs, 64-byte aligned.
  virtual int64_t scratchBytes() const = 0;
  /// `operands` and `results` in the plan's order.
  virtual void run(const std::vector<void *> &operands, const std::vector<void *> &results,
                   void *scratch) = 0;
};

/// Caps oneDNN's instructions at the plan's level, so that a plan computes the
/// same on every machine that can run it. Once a process, before any call is
/// made; a second level is refused.
Status capLibrary(const std::string &level);

/// Makes ready a matmul or convolution that the plan's checks accepted.
/// Errors: Machine if oneDNN has no implementation.
Result<std::unique_ptr<LibraryCall>> makeMatmul(const proto::Matmul &matmul);
Result<std::unique_ptr<LibraryCall>> makeConvolution(const proto::Convolution &convolution);

} // namespace diffrun
