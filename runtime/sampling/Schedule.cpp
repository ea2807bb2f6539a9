#include "runtime/sampling/Schedule.h"

#include <algorithm>
#include <cmath>

namespace diffrun {

Result<ScheduleKind> NoiseSchedule::kindFromName(const std::string &name) {
  if (name == "linear")
    return ScheduleKind::kLinear;
  if (name == "scaled_linear")
    return ScheduleKind::kScaledLinear;
  if (name == "cosine")
    return ScheduleKind::kCosine;
  if (name == "flow")
    return ScheduleKind::kFlow;
  return Status::invalid("unknown noise schedule \"" + name + "\"",
                         "use linear, scaled_linear, cosine or flow");
}

Result<NoiseSchedule> NoiseSchedule::create(ScheduleKind kind, int64_t steps, double betaFirst,
                                            double betaLast) {
  if (steps < 1 || steps > 1'000'000)
    return Status::invalid("noise schedule: steps must be in 1..1000000, is " +
                           std::to_string(steps));
  if (!(betaFirst > 0 && betaFirst <= betaLast && betaLast < 1))
    return Status::invalid("noise schedule: betas must be 0 < first <= last < 1");
  NoiseSchedule schedule;
  schedule.scheduleKind = kind;
  auto bar = [&](double t) {
    double angle = std::cos((t / double(steps) + 0.008) / 1.008 * M_PI / 2);
    return angle * angle;
  };
  double product = 1.0;
  for (int64_t t = 0; t < steps; ++t) {
    if (kind == ScheduleKind::kFlow) {
      double sigma = double(t + 1) / double(steps);
      schedule.alphas.push_back(1.0 - sigma);
      schedule.sigmas.push_back(sigma);
      continue;
    }
    double part = steps == 1 ? 0.0 : double(t) / double(steps - 1);
    double beta = 0;
    if (kind == ScheduleKind::kLinear) {
      beta = betaFirst + (betaLast - betaFirst) * part;
    } else if (kind == ScheduleKind::kScaledLinear) {
      double root = std::sqrt(betaFirst) + (std::sqrt(betaLast) - std::sqrt(betaFirst)) * part;
      beta = root * root;
    } else {
      beta = std::min(1.0 - bar(double(t + 1)) / bar(double(t)), 0.999);
    }
    product *= 1.0 - beta;
    schedule.alphas.push_back(std::sqrt(product));
    schedule.sigmas.push_back(std::sqrt(1.0 - product));
  }
  return schedule;
}

Result<std::vector<int64_t>> timesteps(const NoiseSchedule &schedule, int64_t count,
                                       Spacing spacing, int64_t offset) {
  int64_t steps = schedule.steps();
  if (count < 1 || count > steps)
    return Status::invalid("sampling steps must be in 1.." + std::to_string(steps) + ", got " +
                           std::to_string(count));
  std::vector<int64_t> times;
  for (int64_t i = 0; i < count; ++i) {
    int64_t t = 0;
    switch (spacing) {
    case Spacing::kLinspace: // half to even, as numpy rounds
      t = count == 1 ? steps - 1
                     : std::llrint(double(steps - 1) * double(count - 1 - i) / double(count - 1));
      break;
    case Spacing::kLeading:
      t = steps / count * (count - 1 - i) + offset;
      break;
    case Spacing::kTrailing:
      t = std::llrint(double(steps) - double(i) * double(steps) / double(count)) - 1;
      break;
    }
    if (t < 0 || t >= steps)
      return Status::invalid("timestep " + std::to_string(t) + " is outside of the schedule");
    times.push_back(t);
  }
  return times;
}

} // namespace diffrun
