// Passes that name what exporters decomposed. Contracts: Passes.td.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

#include <mlir/Pass/Pass.h>

namespace diffc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/raise/Passes.h.inc"

/// All of raising, in order, on a module as it was imported: what the compiler
/// runs, and `diffc-opt --nn-raise`.
void buildRaisePipeline(mlir::OpPassManager &pm);
void registerRaisePipeline();
} // namespace diffc
