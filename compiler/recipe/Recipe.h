// recipe.yaml as a structure: how a model is trained.
#pragma once

#include "runtime/core/Status.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace diffc {

struct NoiseScheduleRecipe {
  std::string kind = "linear"; ///< linear | scaled_linear | cosine | flow
  int64_t steps = 1000;
  double betaStart = -1, betaEnd = -1; ///< -1: the kind's usual values
};

struct ObjectiveRecipe {
  std::string kind = "diffusion"; ///< diffusion | regression | loss_output
  std::string predict = "eps";    ///< eps | v | x0 | flow
  NoiseScheduleRecipe schedule;
  std::string timesteps = "uniform"; ///< uniform | logit_normal
  std::string loss = "mse";          ///< mse | huber
  std::string weighting = "none";    ///< none | min_snr
  double gamma = 5;                  ///< of min_snr
  double labelDropout = 0;           ///< probability of the null label
  int64_t nullLabel = -1;            ///< -1: none
};

struct ParameterGroup {
  std::string match; ///< pattern over parameter names: * is any text
  double lrScale = 1;
  double weightDecay = -1; ///< -1: the optimizer's
};

struct OptimizerRecipe {
  std::string kind = "adamw";
  double lr = 1e-4, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0;
  double clip = 0;                   ///< global norm; 0: none
  std::string schedule = "constant"; ///< constant | cosine | linear
  int64_t warmup = 0, steps = 0;     ///< of the learning rate, in optimizer steps
  std::vector<ParameterGroup> groups;
};

struct ModelRecipe {
  std::string name = "model";                ///< in symbols: @name::@parameter
  std::string onnx;                          ///< relative to the recipe; empty: the command line's
  std::string weights = "model";             ///< model | init | FILE.safetensors
  std::string parameters;                    ///< nameParameters(); relative to the recipe
  std::map<std::string, std::string> inputs; ///< graph input -> role, or its own name for data

  /// Whether `weights` names a file (relative to the recipe).
  bool weightsAreFile() const { return weights != "model" && weights != "init"; }
};

struct EntryRecipe {
  std::string model; ///< whose output it is
  int64_t batch = 0;
  std::string weights = "weight"; ///< weight | ema0 | ema1 ...
};

struct Recipe {
  std::string path;                ///< for messages
  std::string text;                ///< as given
  std::vector<ModelRecipe> models; ///< at least one
  size_t trainedIndex = 0;         ///< which of them the objective trains; the others are frozen
  int64_t batch = 1, accumulate = 1;
  ObjectiveRecipe objective;
  OptimizerRecipe optimizer;
  std::vector<double> emaDecays;
  bool emaWarmup = true;
  std::map<std::string, EntryRecipe> entries; ///< eval, denoise, and others of any name
  int64_t threads = 0;                        ///< 0: this machine's cores
  std::vector<std::string> trainable = {"*"};
  std::string recompute = "auto"; ///< auto: element-wise values over the peak | none
  int64_t seed = 0;
  std::map<std::string, int64_t> dimensions; ///< symbolic dimensions beside the batch

  ModelRecipe &trained() { return models[trainedIndex]; }
  const ModelRecipe &trained() const { return models[trainedIndex]; }
  /// A file that the recipe names: relative to the recipe's own folder.
  std::string pathOf(const std::string &name) const;
};

/// Parses a recipe. Errors (InvalidInput) name file, line, key, and the
/// nearest known key or the values that are allowed. Keys and values that are
/// known but not implemented are refused, never ignored.
diffrun::Result<Recipe> parseRecipe(const std::string &text, const std::string &path);

/// Reads and parses a file.
diffrun::Result<Recipe> readRecipe(const std::string &path);

/// True if `pattern` (with * for any text) matches the whole of `name`.
bool matchesPattern(const std::string &pattern, const std::string &name);

} // namespace diffc
