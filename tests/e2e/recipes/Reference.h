// Training in double precision, written down once more: what recipes are tested
// against. Nothing here is the compiler's; random numbers are the runtime's.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace diffc::test {

/// What a recipe asks for, of the model
///
///   y = x * body.weight + body.bias + 0.001 t * time.weight + label.weight[label]
///
/// on samples of four numbers and three labels.
struct Asked {
  std::string kind = "diffusion", predict = "eps", schedule = "linear", timesteps = "uniform",
              loss = "mse", weighting = "none";
  double labelDropout = 0;
  int64_t accumulate = 1;
  std::string rate = "constant";
  int64_t warmup = 0;
  double clip = 0, weightDecay = 0;
  bool groups = false; ///< "*.bias": half the rate, no decay
  std::vector<double> decays;
  bool emaWarmup = false;
  std::string trainable = "*"; ///< or a prefix with *

  std::string recipe() const;
  std::string describe() const;
};

constexpr int64_t kBatch = 3, kEach = 4, kLabels = 3, kNullLabel = 2, kSteps = 1000;
constexpr int64_t kRateSteps = 4, kSeed = 11;
constexpr double kRate = 0.05, kBeta1 = 0.8, kBeta2 = 0.9, kEpsilon = 1e-3, kGamma = 5;

using Parameters = std::map<std::string, std::vector<double>>;

/// The first values.
Parameters firstParameters();

/// One batch as given to a step.
struct Sample {
  std::vector<float> x, target, t, weight; ///< x: clean, or the model's input
  std::vector<int64_t> label;
};
/// The k-th one; the last sample of every second one has weight 0 if `masked`.
Sample sampleOf(int64_t k, bool masked);

class Reference {
public:
  explicit Reference(const Asked &asked);

  /// A micro-step: its mean loss. Adds up gradients.
  double accumulate(const Sample &sample);
  /// The update at the end of a window.
  void apply();
  /// The mean loss alone, of averages if there are any; draws are of `stream` on.
  double evaluate(const Sample &sample, uint32_t stream) const;

  bool trains(const std::string &name) const;

  Parameters weights;
  std::vector<Parameters> averages;
  double loss = 0, norm = 0, rate = 0; ///< of the last window

private:
  struct Loss {
    double sum = 0, samples = 0;
    Parameters gradients; ///< of the sum
  };
  Loss lossOf(const Sample &sample, const Parameters &at, uint32_t stream, int64_t iteration,
              int64_t first) const;

  Asked asked;
  std::vector<double> alphas, sigmas;
  Parameters m, v, gradients;
  double lossSum = 0, samples = 0;
  int64_t step = 0, micro = 0;
};

} // namespace diffc::test
