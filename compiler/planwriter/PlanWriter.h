// A fused program -> the plan file.
#pragma once

#include "compiler/codegen/ObjectCode.h"
#include "compiler/recipe/Recipe.h"
#include "runtime/plan/plan.pb.h"

#include <mlir/IR/BuiltinOps.h>

namespace diffc {

/// Lowers every entry of `program`, compiles its kernels, and describes the
/// whole. Weights are not in it.
diffrun::Result<diffrun::proto::Plan> makePlan(mlir::ModuleOp program, const Recipe &recipe,
                                               const CpuTarget &target, int64_t team,
                                               const std::string &name);

/// Writes `plan` to `path`: a temporary file first, then renamed.
diffrun::Status writePlan(const diffrun::proto::Plan &plan, const std::string &path);

/// The version of the format that this compiler writes.
constexpr uint32_t kPlanVersion = 1;

} // namespace diffc
