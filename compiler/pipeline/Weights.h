// Weights beside the plan.
#pragma once

#include "compiler/import/ModelFile.h"
#include "compiler/recipe/Recipe.h"
#include "runtime/plan/plan.pb.h"

#include <mlir/IR/BuiltinOps.h>

namespace diffc {

/// Writes NAME.safetensors beside the plan with every parameter that has data
/// (of its model, or of the recipe's weights file) and notes it in `plan`;
/// nothing where every parameter is drawn. `files` are those of recipe.models.
/// Tensors have the models' own names, in a program of several models
/// MODEL::NAME. Errors: InvalidInput naming file and
/// tensor; Machine where it cannot be written.
diffrun::Status writeWeights(llvm::ArrayRef<ModelFile> files, const Recipe &recipe,
                             mlir::ModuleOp program, const std::string &planPath,
                             diffrun::proto::Plan &plan);

} // namespace diffc
