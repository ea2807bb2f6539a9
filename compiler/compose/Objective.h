// What is minimised: noise, targets and losses from the recipe's objective.
#pragma once

#include "compiler/compose/EntryBuilder.h"
#include "compiler/recipe/Recipe.h"

#include <functional>

namespace diffc {

/// One graph input with what it is.
struct GraphInput {
  std::string name, role;
  mlir::RankedTensorType type;
};

/// How an entry gets its noise and timesteps.
enum class NoiseSource {
  kDraw, ///< drawn inside the entry
  kFed,  ///< inputs of roles noise and timestep (labels as given, too)
};

/// Runs the model on its inputs (in the graph's order); its outputs.
using RunModel = std::function<llvm::SmallVector<mlir::Value>(mlir::ValueRange)>;

struct LossResult {
  mlir::Value loss;    ///< f32 scalar: sum / samples
  mlir::Value first;   ///< the model's first output
  mlir::Value sum;     ///< f32 scalar: over the samples that count
  mlir::Value samples; ///< f32 scalar: how many count
};

/// Builds the objective's loss for one batch into `entry`.
///
/// diffusion: noisy = alpha(t) clean + sigma(t) noise, the model's output
/// against eps, v, x0 or noise - clean; regression: the output against role
/// target; loss_output: the last output is the loss. Per-sample losses are
/// weighed by role sample_weight and divided by its sum.
///
/// Draws are counted by `iteration` and, within it, from `firstSample` on (i64
/// scalars).
///
/// Errors: InvalidInput where the model's inputs or outputs do not suit.
diffrun::Result<LossResult> buildLoss(EntryBuilder &entry, const Recipe &recipe,
                                      llvm::ArrayRef<GraphInput> inputs, NoiseSource source,
                                      mlir::Value iteration, mlir::Value firstSample,
                                      const RunModel &run);

} // namespace diffc
