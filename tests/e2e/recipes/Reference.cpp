#include "tests/e2e/recipes/Reference.h"

#include "runtime/random/Draws.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace diffc::test {

std::string Asked::recipe() const {
  std::string text =
      fmt::format("batch: {}\naccumulate: {}\nseed: {}\nthreads: 1\n", kBatch, accumulate, kSeed);
  std::string x = kind == "diffusion" ? "noisy" : "clean";
  text += fmt::format("inputs: {{x: {}, t: timestep, label: label{}}}\n", x,
                      kind == "loss_output" ? ", target: target" : "");
  text += "objective: {kind: " + kind;
  if (kind != "loss_output")
    text += ", loss: " + loss;
  if (kind == "diffusion") {
    text += fmt::format(", predict: {}, timesteps: {}, weighting: {}, schedule: {{kind: {}}}",
                        predict, timesteps, weighting, schedule);
    if (labelDropout > 0)
      text += fmt::format(", label_dropout: {}, null_label: {}", labelDropout, kNullLabel);
  }
  text += "}\n";
  text += fmt::format("optimizer: {{lr: {}, betas: [{}, {}], eps: {}, weight_decay: {}, clip: {}, "
                      "schedule: {{kind: {}, warmup: {}{}}}",
                      kRate, kBeta1, kBeta2, kEpsilon, weightDecay, clip, rate, warmup,
                      rate == "constant" ? "" : fmt::format(", steps: {}", kRateSteps));
  if (groups)
    text += ", groups: [{match: \"*.bias\", lr_scale: 0.5, weight_decay: 0}]";
  text += "}\n";
  if (!decays.empty())
    text += fmt::format("ema: {{decays: [{}], warmup: {}}}\n", fmt::join(decays, ", "), emaWarmup);
  text += fmt::format("trainable: [\"{}\"]\nentries: {{eval: {{batch: {}, weights: {}}}}}\n",
                      trainable, kBatch, decays.empty() ? "weight" : "ema0");
  return text;
}

std::string Asked::describe() const {
  std::string text = recipe();
  std::replace(text.begin(), text.end(), '\n', ';');
  return text;
}

Parameters firstParameters() {
  Parameters made{{"body.weight", {0.5, -0.25, 1, 0.75}},
                  {"body.bias", {0.125, 0, -0.5, 0.25}},
                  {"time.weight", {-0.75}},
                  {"label.weight", {}}};
  for (int i = 0; i < kLabels * kEach; ++i)
    made["label.weight"].push_back((i * 5 % 12 - 6) / 16.0);
  return made;
}

Sample sampleOf(int64_t k, bool masked) {
  Sample made;
  for (int64_t i = 0; i < kBatch * kEach; ++i) {
    made.x.push_back(static_cast<float>((i * 37 + k * 53) % 101 - 50) / 40);
    made.target.push_back(static_cast<float>((i * 29 + k * 71) % 97 - 48) / 24);
  }
  for (int64_t n = 0; n < kBatch; ++n) {
    made.t.push_back(static_cast<float>((n * 311 + k * 173) % kSteps));
    made.weight.push_back(masked && k % 2 && n == kBatch - 1 ? 0.0f : 1.0f);
    made.label.push_back((n + k) % 2);
  }
  return made;
}

Reference::Reference(const Asked &asked) : weights(firstParameters()), asked(asked) {
  for (auto &[name, values] : weights)
    if (trains(name))
      m[name] = v[name] = gradients[name] = std::vector<double>(values.size(), 0);
  averages.assign(asked.decays.size(), weights);
  double product = 1;
  auto bar = [](double t) { // Nichol & Dhariwal 2021, arXiv:2102.09672
    double c = std::cos((t / kSteps + 0.008) / 1.008 * M_PI / 2);
    return c * c;
  };
  for (int64_t t = 0; t < kSteps; ++t) {
    double part = static_cast<double>(t) / (kSteps - 1), beta;
    if (asked.schedule == "linear")
      beta = 1e-4 * (1 - part) + 2e-2 * part;
    else if (asked.schedule == "scaled_linear")
      beta = std::pow(std::sqrt(0.00085) * (1 - part) + std::sqrt(0.012) * part, 2);
    else
      beta = std::min(0.999, 1 - bar(double(t + 1)) / bar(double(t)));
    product *= 1 - beta;
    alphas.push_back(std::sqrt(product));
    sigmas.push_back(std::sqrt(1 - product));
  }
}

bool Reference::trains(const std::string &name) const {
  return name.rfind(asked.trainable.substr(0, asked.trainable.size() - 1), 0) == 0;
}

Reference::Loss Reference::lossOf(const Sample &sample, const Parameters &at, uint32_t stream,
                                  int64_t iteration, int64_t first) const {
  auto drawn = [&](uint32_t use, int64_t elements, bool normal) {
    std::vector<float> values(static_cast<size_t>(kBatch * elements));
    diffrun::DrawKey key{kSeed, stream + use, static_cast<uint64_t>(iteration),
                         static_cast<uint64_t>(first)};
    auto status = normal ? diffrun::drawNormal(key, kBatch, elements, values.data())
                         : diffrun::drawUniform(key, kBatch, elements, values.data());
    EXPECT_TRUE(status.ok());
    return values;
  };
  bool diffuses = asked.kind == "diffusion", flows = asked.schedule == "flow";
  std::vector<float> noise, times, dropped;
  if (diffuses) { // in this order: noise, times, labels
    noise = drawn(0, kEach, true);
    times = drawn(1, 1, asked.timesteps == "logit_normal");
    if (asked.labelDropout > 0)
      dropped = drawn(2, 1, false);
  }
  Loss made;
  for (auto &[name, values] : at)
    made.gradients[name] = std::vector<double>(values.size(), 0);
  for (size_t n = 0; n < kBatch; ++n) {
    double t = sample.t[n], alpha = 1, sigma = 0, weight = 1;
    if (diffuses && flows) {
      sigma = asked.timesteps == "uniform" ? times[n] : 1 / (1 + std::exp(-double(times[n])));
      alpha = 1 - sigma;
      t = sigma * kSteps;
    } else if (diffuses) {
      auto index = static_cast<size_t>(times[n] * float(kSteps)); // rounded as the step does
      index = std::min<size_t>(index, kSteps - 1);
      t = double(index), alpha = alphas[index], sigma = sigmas[index];
      double snr = alpha * alpha / (sigma * sigma), capped = std::min(snr, kGamma);
      if (asked.weighting == "min_snr")
        weight = asked.predict == "eps" ? capped / snr
                 : asked.predict == "v" ? capped / (snr + 1)
                                        : capped;
    }
    auto label = static_cast<size_t>(sample.label[n]);
    if (!dropped.empty() && dropped[n] < static_cast<float>(asked.labelDropout))
      label = kNullLabel;
    bool counts = asked.kind == "loss_output" || sample.weight[n] != 0;
    if (!counts)
      continue;
    made.samples += 1;
    for (size_t j = 0; j < kEach; ++j) {
      size_t i = n * kEach + j, l = label * kEach + j;
      double clean = sample.x[i], x = clean, target = sample.target[i];
      if (diffuses) {
        double e = noise[i];
        x = alpha * clean + sigma * e;
        target = asked.predict == "eps"  ? e
                 : asked.predict == "x0" ? clean
                 : asked.predict == "v"  ? alpha * e - sigma * clean
                                         : e - clean;
      }
      double y = x * at.at("body.weight")[j] + at.at("body.bias")[j] +
                 0.001 * t * at.at("time.weight")[0] + at.at("label.weight")[l];
      double d = y - target, part = weight / kEach; // of the sample's mean
      bool huber = asked.kind != "loss_output" && asked.loss == "huber";
      made.sum += part * (!huber ? d * d : std::fabs(d) < 1.0 ? d * d / 2 : std::fabs(d) - 0.5);
      double g = part * (!huber ? 2 * d : std::max(-1.0, std::min(1.0, d)));
      made.gradients["body.weight"][j] += g * x;
      made.gradients["body.bias"][j] += g;
      made.gradients["time.weight"][0] += g * 0.001 * t;
      made.gradients["label.weight"][l] += g;
    }
  }
  return made;
}

double Reference::accumulate(const Sample &sample) {
  // Draws are counted by updates; within one, samples go on over its micro-steps.
  Loss made = lossOf(sample, weights, 0, step, micro * kBatch);
  ++micro;
  lossSum += made.sum, samples += made.samples;
  for (auto &[name, sum] : gradients)
    for (size_t i = 0; i < sum.size(); ++i)
      sum[i] += made.gradients.at(name)[i];
  return made.sum / made.samples;
}

void Reference::apply() {
  loss = lossSum / samples, norm = 0;
  for (auto &[name, sum] : gradients)
    for (double &g : sum) {
      g /= samples;
      norm += g * g;
    }
  norm = std::sqrt(norm);
  double scale = asked.clip > 0 ? std::min(1.0, asked.clip / (norm + 1e-6)) : 1;
  auto done = static_cast<double>(step);
  rate = kRate;
  if (asked.warmup)
    rate *= std::min(1.0, (done + 1) / static_cast<double>(asked.warmup));
  double progress = std::max(
      0.0, std::min(1.0, (done - double(asked.warmup)) / double(kRateSteps - asked.warmup)));
  if (asked.rate == "linear")
    rate *= 1 - progress;
  else if (asked.rate == "cosine")
    rate *= (1 + std::cos(M_PI * progress)) / 2;
  ++step;
  for (auto &[name, sum] : gradients) {
    bool isBias = asked.groups && name == "body.bias";
    double lr = isBias ? rate / 2 : rate, decay = isBias ? 0 : asked.weightDecay;
    for (size_t i = 0; i < sum.size(); ++i) {
      double g = sum[i] * scale, &w = weights[name][i];
      m[name][i] = kBeta1 * m[name][i] + (1 - kBeta1) * g;
      v[name][i] = kBeta2 * v[name][i] + (1 - kBeta2) * g * g;
      double mean = m[name][i] / (1 - std::pow(kBeta1, double(step)));
      double square = v[name][i] / (1 - std::pow(kBeta2, double(step)));
      w = w * (1 - lr * decay) - lr * mean / (std::sqrt(square) + kEpsilon);
      for (size_t k = 0; k < averages.size(); ++k) {
        double d = asked.decays[k];
        if (asked.emaWarmup)
          d = std::min(d, (1.0 + double(step)) / (10.0 + double(step)));
        averages[k][name][i] = d * averages[k][name][i] + (1 - d) * w;
      }
      sum[i] = 0;
    }
  }
  lossSum = samples = 0, micro = 0;
}

double Reference::evaluate(const Sample &sample, uint32_t stream) const {
  Loss made = lossOf(sample, averages.empty() ? weights : averages[0], stream, 0, 0);
  return made.sum / made.samples;
}

} // namespace diffc::test
