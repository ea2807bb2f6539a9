// Kernels of the train dialect's operators: draws, norm, update.
#include "runtime/evaluate/Indexing.h"
#include "runtime/random/Draws.h"

#include <cmath>

namespace diffrun::evaluate {
namespace {

/// Operands: seed, iteration, first sample. The f32 draw itself, to the bit.
Status draw(const Node &node, const Operands &in, Results &out) {
  DrawKey key;
  key.seed = static_cast<uint64_t>(in[0]->integer[0]);
  key.stream = static_cast<uint32_t>(node.integer("use"));
  key.iteration = static_cast<uint64_t>(in[1]->integer[0]);
  key.firstSample = static_cast<uint64_t>(in[2]->integer[0]);
  const auto &shape = out[0].type.shape;
  int64_t samples = shape.empty() ? 1 : shape[0];
  int64_t each = samples ? out[0].type.count() / samples : 0;
  std::vector<float> values(out[0].type.count());
  DIFFRUN_RETURN_IF_ERROR(node.text("distribution") == "uniform"
                              ? drawUniform(key, samples, each, values.data())
                              : drawNormal(key, samples, each, values.data()));
  out[0].real.assign(values.begin(), values.end());
  return {};
}

Status globalNorm(const Node &, const Operands &in, Results &out) {
  double sum = 0;
  for (const Tensor *gradient : in)
    for (double g : gradient->real)
      sum += g * g;
  out[0].real[0] = std::sqrt(sum);
  return {};
}

/// AdamW with decoupled weight decay. Operands: weight, m, v, gradient, lr,
/// step (of this update, from 1), gradient scale, ok. Results: weight, m, v.
/// Source: Loshchilov & Hutter 2019, arXiv:1711.05101; PyTorch's order of
/// operations.
Status update(const Node &node, const Operands &in, Results &out) {
  double b1 = node.real("beta1"), b2 = node.real("beta2"), eps = node.real("epsilon"),
         decay = node.real("weight_decay");
  double lr = in[4]->real[0], scale = in[6]->real[0];
  double step = static_cast<double>(in[5]->integer[0]);
  bool ok = in[7]->integer[0] != 0;
  double c1 = 1 - std::pow(b1, step), c2 = 1 - std::pow(b2, step);
  for (size_t i = 0; i < out[0].real.size(); ++i) {
    double w = in[0]->real[i], m = in[1]->real[i], v = in[2]->real[i];
    if (ok) {
      double g = in[3]->real[i] * scale;
      m = b1 * m + (1 - b1) * g;
      v = b2 * v + (1 - b2) * g * g;
      w -= lr * decay * w;
      w -= lr * (m / c1) / (std::sqrt(v / c2) + eps);
    }
    out[0].real[i] = w;
    out[1].real[i] = m;
    out[2].real[i] = v;
  }
  return {};
}

} // namespace

void registerTrain(Registry &r) {
  r["train.draw"] = draw;
  r["train.global_norm"] = globalNorm;
  r["train.update"] = update;
}

} // namespace diffrun::evaluate
