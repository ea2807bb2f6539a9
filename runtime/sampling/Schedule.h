// Noise schedules and the timesteps a sampler visits.
#pragma once

#include "runtime/core/Status.h"

#include <cstdint>
#include <string>
#include <vector>

namespace diffrun {

enum class ScheduleKind { kLinear, kScaledLinear, kCosine, kFlow };
enum class Predict { kEps, kV, kX0, kFlow };
enum class Spacing { kLinspace, kLeading, kTrailing };

/// noisy = alpha(t) * clean + sigma(t) * noise, t in steps, 0 <= t < steps.
///
///   linear, scaled_linear: alpha^2 = prod(1 - beta), sigma^2 = 1 - alpha^2
///   cosine: alpha-bar of Nichol & Dhariwal, offset 0.008, beta at most 0.999
///   flow: alpha = 1 - (t + 1) / steps, sigma = (t + 1) / steps
class NoiseSchedule {
public:
  /// Errors: invalid for steps < 1 or betas outside 0 < first <= last < 1.
  static Result<NoiseSchedule> create(ScheduleKind kind, int64_t steps, double betaFirst = 1e-4,
                                      double betaLast = 2e-2);
  static Result<ScheduleKind> kindFromName(const std::string &name);

  ScheduleKind kind() const { return scheduleKind; }
  int64_t steps() const { return static_cast<int64_t>(alphas.size()); }
  double alpha(int64_t t) const { return alphas[static_cast<size_t>(t)]; }
  double sigma(int64_t t) const { return sigmas[static_cast<size_t>(t)]; }
  /// sigma / alpha: the noise level where clean pictures have scale 1.
  double noiseLevel(int64_t t) const { return sigma(t) / alpha(t); }

private:
  ScheduleKind scheduleKind = ScheduleKind::kLinear;
  std::vector<double> alphas, sigmas;
};

/// `count` timesteps, falling.
///   linspace: round(linspace(steps - 1, 0, count)); one step: steps - 1
///   leading:  (steps / count) * i + offset
///   trailing: round(steps - i * steps / count) - 1
/// Errors: invalid unless 1 <= count <= steps, or if the offset leaves the range.
Result<std::vector<int64_t>> timesteps(const NoiseSchedule &schedule, int64_t count,
                                       Spacing spacing, int64_t offset = 0);

} // namespace diffrun
