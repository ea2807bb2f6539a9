// From emitted functions to a shared object for one x86 level.
#pragma once

#include "runtime/core/Status.h"

#include <mlir/IR/BuiltinOps.h>

#include <string>
#include <vector>

namespace diffc {

/// An x86 level that a plan can name, and what code for it needs.
struct CpuTarget {
  std::string level;                 ///< "avx2", "avx512", "avx512bf16", "amx"
  std::vector<std::string> features; ///< LLVM's names, without "+"
};

/// The target of `text`: "cpu" or "cpu:LEVEL"; without a level, the best that
/// this machine has. Errors: Usage for an unknown level.
diffrun::Result<CpuTarget> parseCpuTarget(const std::string &text);

/// Lowers `module` (functions over raw pointers) and links a shared object that
/// exports them. Deterministic. Errors: Internal.
diffrun::Result<std::string> compileToSharedObject(mlir::ModuleOp module, const CpuTarget &target);

} // namespace diffc
