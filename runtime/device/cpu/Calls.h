// oneDNN primitives for a plan's matmuls and convolutions.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/plan/plan.pb.h"

#include <memory>
#include <vector>

namespace diffrun {

/// A library call made ready. bind() once, then run() as often as wanted.
class LibraryCall {
public:
  virtual ~LibraryCall() = default;
  /// Bytes of scratch memory that run() works in, a multiple of 64.
  virtual int64_t scratchBytes() const = 0;
  /// The memory that every run() reads and writes, operands in the plan's
  /// order; `scratch` is aligned to 64 and may be written here already.
  virtual Status bind(const std::vector<void *> &operands, void *result, void *scratch) = 0;
  /// Computes. Allocates no tensor.
  virtual Status run() = 0;
};

/// Sets up oneDNN and OpenMP for a plan: instructions capped at `level`, so
/// that the plan computes the same on every machine that can run it, and a team
/// of exactly `team` threads for calls from this thread.
///
/// Errors: Machine if the process is set to another level already (oneDNN takes
/// one), or if OpenMP grants a smaller team.
Status configureLibrary(const std::string &level, int team);

/// Makes ready a matmul or convolution that the plan's checks accepted.
/// Errors: Machine if oneDNN has no implementation.
Result<std::unique_ptr<LibraryCall>> makeMatmul(const proto::Matmul &matmul);
Result<std::unique_ptr<LibraryCall>> makeConvolution(const proto::Convolution &convolution);

} // namespace diffrun
