#include "runtime/sampling/Sampler.h"

#include <algorithm>
#include <cmath>

namespace diffrun {
namespace {

struct Level {
  double alpha = 1, sigma = 0; // the end: clean
};

// Next value of DDIM; `noise` may be null when eta is 0.
void stepDdim(Level from, Level to, double eta, const std::vector<double> &clean,
              const std::vector<double> &noise, const float *fresh, std::vector<double> &x) {
  double spread = 0;
  if (eta > 0 && to.sigma > 0) {
    double ratio = (from.alpha * from.alpha) / (to.alpha * to.alpha);
    spread = eta * to.sigma / from.sigma * std::sqrt(std::max(0.0, 1.0 - ratio));
  }
  double along = std::sqrt(std::max(0.0, to.sigma * to.sigma - spread * spread));
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = to.alpha * clean[i] + along * noise[i] + (spread > 0 ? spread * fresh[i] : 0.0);
}

// Second order where there is a previous estimate and the end is not clean.
void stepDpm(const Level *before, Level from, Level to, const std::vector<double> &clean,
             const std::vector<double> &previous, std::vector<double> &x) {
  if (to.sigma == 0) {
    x = clean;
    return;
  }
  auto lambda = [](Level level) { return std::log(level.alpha) - std::log(level.sigma); };
  double h = lambda(to) - lambda(from);
  // A start at pure noise has alpha 0: x is all noise and h is infinite.
  double keep = to.sigma / from.sigma, grow = -to.alpha * std::expm1(-h);
  double weight = 0;
  if (before && before->alpha > 0)
    weight = h / (2 * (lambda(from) - lambda(*before)));
  for (size_t i = 0; i < x.size(); ++i) {
    double target = clean[i] + (weight == 0 ? 0.0 : weight * (clean[i] - previous[i]));
    x[i] = keep * x[i] + grow * target;
  }
}

} // namespace

Result<SamplerKind> samplerFromName(const std::string &name) {
  if (name == "ddim")
    return SamplerKind::kDdim;
  if (name == "euler")
    return SamplerKind::kEuler;
  if (name == "dpmpp2m")
    return SamplerKind::kDpmPlusPlus2M;
  return Status::usage("unknown sampler \"" + name + "\"", "use ddim, euler or dpmpp2m");
}

Estimate estimate(Predict predict, double alpha, double sigma, double x, double output) {
  switch (predict) {
  case Predict::kEps:
    return {(x - sigma * output) / alpha, output};
  case Predict::kX0:
    return {output, (x - alpha * output) / sigma};
  case Predict::kV: {
    double norm = alpha * alpha + sigma * sigma;
    return {(alpha * x - sigma * output) / norm, (sigma * x + alpha * output) / norm};
  }
  case Predict::kFlow:
    // x = a c + s n, output = n - c.
    return {(x - sigma * output) / (alpha + sigma), (x + alpha * output) / (alpha + sigma)};
  }
  return {0, 0};
}

double startScale(const NoiseSchedule &schedule, int64_t firstTime, Spacing spacing) {
  if (schedule.kind() == ScheduleKind::kFlow || spacing == Spacing::kLeading)
    return 1.0;
  return schedule.sigma(firstTime);
}

void guide(const float *conditional, const float *unconditional, float scale, float *out,
           size_t count) {
  for (size_t i = 0; i < count; ++i)
    out[i] = unconditional[i] + scale * (conditional[i] - unconditional[i]);
}

Status sample(const NoiseSchedule &schedule, const std::vector<int64_t> &times,
              const SamplerOptions &options, const ModelFunction &model, float *x, size_t count) {
  if (times.empty())
    return Status::invalid("sampling needs at least one timestep");
  for (size_t i = 0; i < times.size(); ++i)
    if (times[i] < 0 || times[i] >= schedule.steps() || (i > 0 && times[i] >= times[i - 1]))
      return Status::invalid("timesteps must fall and be in 0.." +
                             std::to_string(schedule.steps() - 1));
  if (options.eta > 0 && (!options.noise || options.kind != SamplerKind::kDdim))
    return Status::invalid("eta above 0 needs DDIM and a source of noise");
  if (options.predict == Predict::kEps && schedule.alpha(times[0]) == 0)
    return Status::invalid("a model that predicts eps cannot start at pure noise",
                           "start at a lower timestep, or predict v, x0 or flow");

  std::vector<double> value(x, x + count), clean(count), noise(count), previous;
  std::vector<float> output(count), fresh;
  for (size_t step = 0; step < times.size(); ++step) {
    int64_t t = times[step];
    Level from{schedule.alpha(t), schedule.sigma(t)}, to, before;
    if (step + 1 < times.size())
      to = {schedule.alpha(times[step + 1]), schedule.sigma(times[step + 1])};
    for (size_t i = 0; i < count; ++i)
      x[i] = static_cast<float>(value[i]);
    DIFFRUN_RETURN_IF_ERROR(model(x, t, output.data(), count));
    for (size_t i = 0; i < count; ++i) {
      Estimate e = estimate(options.predict, from.alpha, from.sigma, value[i], output[i]);
      if (options.clip > 0 && std::fabs(e.clean) > options.clip) {
        e.clean = std::clamp(e.clean, -options.clip, options.clip);
        e.noise = (value[i] - from.alpha * e.clean) / from.sigma;
      }
      clean[i] = e.clean;
      noise[i] = e.noise;
    }
    if (options.kind == SamplerKind::kDpmPlusPlus2M) {
      if (step > 0)
        before = {schedule.alpha(times[step - 1]), schedule.sigma(times[step - 1])};
      stepDpm(step > 0 ? &before : nullptr, from, to, clean, previous, value);
      previous = clean;
    } else {
      // Euler on d(x / alpha)/d(sigma / alpha) = noise, and for flow on
      // dx/dsigma = noise - clean, is to.alpha * clean + to.sigma * noise:
      // exactly DDIM without fresh noise.
      if (options.eta > 0) {
        fresh.resize(count);
        options.noise(static_cast<int64_t>(step), fresh.data(), count);
      }
      stepDdim(from, to, options.eta, clean, noise, fresh.data(), value);
    }
    if (options.progress)
      options.progress(static_cast<int64_t>(step + 1), static_cast<int64_t>(times.size()));
  }
  for (size_t i = 0; i < count; ++i)
    x[i] = static_cast<float>(value[i]);
  return {};
}

} // namespace diffrun
