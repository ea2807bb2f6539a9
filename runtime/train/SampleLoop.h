// Pictures from a plan's denoise entry.
#pragma once

#include "runtime/execute/Program.h"

#include <functional>
#include <string>
#include <vector>

namespace diffrun {

struct SampleOptions {
  std::string from;              ///< a run's folder, or empty: the plan's own weights
  std::string weights = "ema";   ///< ema | ema0, ema1, ... | weight
  std::string sampler = "euler"; ///< ddim | euler | dpmpp2m
  int64_t steps = 50;
  double guidance = 1; ///< 1: none
  int64_t count = 80;
  std::vector<int64_t> labels; ///< given in turn; empty: every class, row by row
  uint64_t seed = 0;
  std::function<void(int64_t done, int64_t all)> progress;
};

struct Samples {
  std::vector<float> pictures; ///< [count, C, H, W], about [-1, 1]
  std::vector<int64_t> labels; ///< of each; empty for a model without labels
  int64_t channels = 0, height = 0, width = 0, columns = 0;
};

/// Samples. Errors: InvalidInput for a plan without denoise entry or with one that
/// does not give pictures as it takes them, weights that are not in the run,
/// guidance without a null label.
Result<Samples> samplePictures(Program &program, const SampleOptions &options);

} // namespace diffrun
