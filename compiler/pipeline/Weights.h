// Weights beside the plan.
#pragma once

#include "compiler/import/ModelFile.h"
#include "compiler/recipe/Recipe.h"
#include "runtime/plan/plan.pb.h"

#include <mlir/IR/BuiltinOps.h>

namespace diffc {

/// Writes NAME.safetensors beside the plan with every parameter that has data
/// (of the model, or of the recipe's weights file) and notes it in `plan`;
/// nothing where every parameter is drawn. Errors: InvalidInput naming file and
/// tensor; Machine where it cannot be written.
diffrun::Status writeWeights(const ModelFile &file, const Recipe &recipe, mlir::ModuleOp program,
                             const std::string &planPath, diffrun::proto::Plan &plan);

} // namespace diffc
