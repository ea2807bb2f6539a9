// Passes that trade work for memory. Contracts: Passes.td.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

#include <mlir/Pass/Pass.h>

namespace diffc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/recompute/Passes.h.inc"
} // namespace diffc
