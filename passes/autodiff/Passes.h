// Passes that build derivatives. Contracts: Passes.td.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

#include <mlir/IR/BuiltinOps.h>
#include <mlir/Pass/Pass.h>

namespace diffc {
#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "passes/autodiff/Passes.h.inc"

} // namespace diffc
