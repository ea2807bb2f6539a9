// Known results of samplers with models simple enough to compute by hand.
#include "runtime/sampling/Sampler.h"

#include <gtest/gtest.h>

#include <cmath>

using namespace diffrun;

namespace {

Status halfOf(const float *x, int64_t, float *out, size_t count) {
  for (size_t i = 0; i < count; ++i)
    out[i] = 0.5f * x[i];
  return {};
}

NoiseSchedule make(ScheduleKind kind, double first = 1e-4, double last = 2e-2) {
  return *NoiseSchedule::create(kind, 1000, first, last);
}

float run(const NoiseSchedule &schedule, const std::vector<int64_t> &times, SamplerKind kind,
          float start) {
  SamplerOptions options;
  options.kind = kind;
  EXPECT_TRUE(sample(schedule, times, options, halfOf, &start, 1).ok());
  return start;
}

TEST(Timesteps, Spacings) {
  NoiseSchedule schedule = make(ScheduleKind::kLinear);
  using List = std::vector<int64_t>;
  EXPECT_EQ(*timesteps(schedule, 13, Spacing::kTrailing),
            (List{999, 922, 845, 768, 691, 614, 537, 461, 384, 307, 230, 153, 76}));
  EXPECT_EQ(*timesteps(schedule, 5, Spacing::kLinspace), (List{999, 749, 500, 250, 0}));
  EXPECT_EQ(*timesteps(schedule, 10, Spacing::kLeading, 1),
            (List{901, 801, 701, 601, 501, 401, 301, 201, 101, 1}));
  EXPECT_EQ(*timesteps(schedule, 1, Spacing::kTrailing), (List{999}));
  EXPECT_EQ(timesteps(schedule, 1000, Spacing::kLinspace)->size(), 1000u);
  EXPECT_FALSE(timesteps(schedule, 1001, Spacing::kLinspace).ok());
  EXPECT_FALSE(timesteps(schedule, 0, Spacing::kLinspace).ok());
}

TEST(Ddim, PreviousTimestepIsTheNextOfTheList) {
  NoiseSchedule schedule = make(ScheduleKind::kLinear);
  EXPECT_NEAR(run(schedule, *timesteps(schedule, 13, Spacing::kTrailing), SamplerKind::kDdim, 1),
              12.134855, 2e-5);
  EXPECT_NEAR(run(schedule, *timesteps(schedule, 5, Spacing::kLinspace), SamplerKind::kDdim, 1),
              22.425389, 4e-5);
}

TEST(DpmPlusPlus2M, KnownResults) {
  NoiseSchedule schedule = make(ScheduleKind::kScaledLinear, 0.00085, 0.012);
  auto kind = SamplerKind::kDpmPlusPlus2M;
  EXPECT_NEAR(run(schedule, {999, 749, 500, 250, 0}, kind, 1), 2.250579, 5e-6);
  EXPECT_NEAR(run(schedule, {999, 500, 0}, kind, 1), 2.330483, 5e-6);
  EXPECT_NEAR(run(schedule, *timesteps(schedule, 11, Spacing::kLinspace), kind, 1), 2.741234, 5e-6);
  for (int64_t count : {1, 2, 3, 5, 11, 14, 15, 50})
    EXPECT_TRUE(
        std::isfinite(run(schedule, *timesteps(schedule, count, Spacing::kLinspace), kind, 1)));
}

TEST(Euler, InputAndFirstNoiseAreScaled) {
  NoiseSchedule schedule = make(ScheduleKind::kScaledLinear, 0.00085, 0.012);
  auto times = *timesteps(schedule, 4, Spacing::kLinspace);
  double levels[] = {14.614641, 2.918307, 0.932358, 0.029167};
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(schedule.noiseLevel(times[i]), levels[i], 1e-5);
  // sigma_max * 1 in the sigma form is startScale * 1 here.
  auto start = static_cast<float>(startScale(schedule, 999, Spacing::kLinspace));
  EXPECT_NEAR(run(schedule, times, SamplerKind::kEuler, start), 3.929217, 1e-5);
}

TEST(Samplers, ConstantNoiseEndsAtTheCleanValue) {
  for (ScheduleKind schedule : {ScheduleKind::kLinear, ScheduleKind::kScaledLinear,
                                ScheduleKind::kCosine, ScheduleKind::kFlow})
    for (SamplerKind kind : {SamplerKind::kDdim, SamplerKind::kEuler, SamplerKind::kDpmPlusPlus2M})
      for (Predict predict : {Predict::kEps, Predict::kV, Predict::kX0, Predict::kFlow})
        for (int64_t count : {1, 2, 5, 50}) {
          NoiseSchedule noise = make(schedule);
          auto times = *timesteps(noise, count, Spacing::kTrailing);
          if (schedule == ScheduleKind::kFlow && predict == Predict::kEps)
            continue; // refused at pure noise
          auto model = [&](const float *, int64_t t, float *out, size_t) -> Status {
            double a = noise.alpha(t), s = noise.sigma(t);
            double outputs[] = {0.25, a * 0.25 - s * 0.5, 0.5, 0.25 - 0.5};
            *out = static_cast<float>(outputs[static_cast<int>(predict)]);
            return {};
          };
          SamplerOptions options;
          options.kind = kind;
          options.predict = predict;
          double start = noise.alpha(times[0]) * 0.5 + noise.sigma(times[0]) * 0.25;
          auto x = static_cast<float>(start);
          ASSERT_TRUE(sample(noise, times, options, model, &x, 1).ok());
          // A float input at a tiny alpha loses digits before the model is asked.
          double slack = predict == Predict::kEps ? 1e-7 / noise.alpha(times[0]) : 0;
          EXPECT_NEAR(x, 0.5, 1e-5 + slack);
        }
}

TEST(Samplers, WrongUseIsRefused) {
  NoiseSchedule schedule = make(ScheduleKind::kLinear);
  SamplerOptions options;
  float x = 1;
  EXPECT_FALSE(sample(schedule, {}, options, halfOf, &x, 1).ok());
  EXPECT_FALSE(sample(schedule, {1000}, options, halfOf, &x, 1).ok());
  EXPECT_FALSE(sample(schedule, {5, 5}, options, halfOf, &x, 1).ok());
  options.eta = 1;
  EXPECT_FALSE(sample(schedule, {5}, options, halfOf, &x, 1).ok());
}

TEST(Guidance, Combines) {
  float c = 3, u = 1, out = 0;
  guide(&c, &u, 2, &out, 1);
  EXPECT_EQ(out, 5);
}

} // namespace
