// Passes that name what exporters decomposed. Contracts: Passes.td.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

#include <mlir/Pass/Pass.h>

namespace diffc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/raise/Passes.h.inc"
} // namespace diffc
