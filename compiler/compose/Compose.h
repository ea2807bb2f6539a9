// From a model and a recipe to a program: entries over shared state.
#pragma once

#include "compiler/import/ModelFile.h"
#include "compiler/recipe/Recipe.h"

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/OwningOpRef.h>

#include <string>
#include <vector>

namespace diffc {

struct Composed {
  mlir::OwningOpRef<mlir::ModuleOp> program;
  /// What was guessed or chosen, for the user: one line each.
  std::vector<std::string> decisions;
};

/// Composes the entries that the recipe asks for:
///
///   init      draws or copies the first state
///   step      noise, forward, loss, backward, clip, update, averages
///   accumulate, apply   with accumulate > 1: the step in two parts
///   step_fed  the same with noise and timestep as inputs (verify --feed)
///   eval      the loss alone      denoise   the model alone
///   others    a model alone, on its inputs (roles, or the inputs' own names)
///
/// `files` are those of recipe.models, in their order. Each is imported once per
/// batch size. Errors: InvalidInput naming the file, input, dimension or recipe
/// key.
diffrun::Result<Composed> compose(mlir::MLIRContext &context, llvm::ArrayRef<ModelFile> files,
                                  const Recipe &recipe);

} // namespace diffc
