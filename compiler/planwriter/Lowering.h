// A fused program -> plan IR.
#pragma once

#include "compiler/codegen/ObjectCode.h"
#include "compiler/planwriter/PlanParts.h"
#include "compiler/recipe/Recipe.h"
#include "runtime/core/Status.h"

namespace diffc {

/// Gives state, constants and every entry's values their places, compiles the
/// kernels, and describes the whole. The result is verified; it names neither
/// weights nor decisions. Errors: Internal.
///
/// `plantFault` from 0 is for tests of `diffrun verify`: in the code of the kernel
/// of that number (counting those that have one) a constant is changed, and
/// nothing else. Errors: InvalidInput if there is no such kernel.
diffrun::Result<PlanParts> lowerToPlan(mlir::ModuleOp program, const Recipe &recipe,
                                       const CpuTarget &target, int64_t team,
                                       const std::string &name, int64_t plantFault = -1);

/// The version of the format that this compiler writes.
constexpr uint32_t kPlanVersion = 1;

} // namespace diffc
