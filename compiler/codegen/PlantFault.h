// A fault on purpose, for tests of `diffrun verify`.
#pragma once

#include "runtime/core/Status.h"

#include <mlir/IR/BuiltinOps.h>

#include <cstdint>

namespace diffc {

/// Multiplies one constant of kernel code by 1.25: in the `number`-th function of
/// `kernels` that has one which is neither 0 nor special, its first. Errors:
/// InvalidInput if there are not as many.
diffrun::Status changeConstant(mlir::ModuleOp kernels, int64_t number);

} // namespace diffc
