// Samplers over a model given as a function.
#pragma once

#include "runtime/sampling/Schedule.h"

#include <functional>

namespace diffrun {

/// Writes the model's output for the noisy pictures `x` at timestep `t` (in
/// steps) to `out`; both have `count` floats. `x` is alpha * clean + sigma *
/// noise, whatever form the sampler keeps inside.
using ModelFunction = std::function<Status(const float *x, int64_t t, float *out, size_t count)>;
/// Fills `out` with `count` standard normals for sampler step `step`.
using NoiseFunction = std::function<void(int64_t step, float *out, size_t count)>;

enum class SamplerKind { kDdim, kEuler, kDpmPlusPlus2M };

/// "ddim", "euler", "dpmpp2m"; errors: usage.
Result<SamplerKind> samplerFromName(const std::string &name);

struct SamplerOptions {
  SamplerKind kind = SamplerKind::kDdim;
  Predict predict = Predict::kEps;
  double eta = 0.0;    ///< DDIM only: 0 deterministic, 1 as DDPM
  double clip = 0.0;   ///< > 0: the estimated clean value is clamped to +-clip
  NoiseFunction noise; ///< needed for eta > 0
  std::function<void(int64_t step, int64_t count)> progress;
};

/// Runs `model` over `times` (falling) and ends at noise level 0.
///
/// `x` is overwritten: on entry standard normals times startScale(), or any
/// value of alpha * clean + sigma * noise at times[0]; on return clean.
/// Errors: invalid for an empty or not falling list, t out of range, or eta
/// without noise; the model's own.
Status sample(const NoiseSchedule &schedule, const std::vector<int64_t> &times,
              const SamplerOptions &options, const ModelFunction &model, float *x, size_t count);

/// The factor for standard normals at times[0] in the alpha/sigma form of
/// sample(): sigma_max / sqrt(sigma_max^2 + 1) for linspace and trailing (the
/// sigma form's sigma_max), 1 for leading.
double startScale(const NoiseSchedule &schedule, int64_t firstTime, Spacing spacing);

/// conditional and unconditional combined: u + scale * (c - u), into `out`
/// (which may be either input).
void guide(const float *conditional, const float *unconditional, float scale, float *out,
           size_t count);

/// The clean value and the noise that a model output stands for, where
/// x = alpha * clean + sigma * noise.
///   eps: output is noise;  x0: clean;  v: alpha * noise - sigma * clean;
///   flow: noise - clean
struct Estimate {
  double clean, noise;
};
Estimate estimate(Predict predict, double alpha, double sigma, double x, double output);

} // namespace diffrun
