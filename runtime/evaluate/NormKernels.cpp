// Kernels of normalisations and softmax.
#include "runtime/evaluate/Indexing.h"

#include <cmath>
#include <limits>

namespace diffrun::evaluate {
namespace {

/// A tensor as rows that are normalised one by one; element i of a row belongs
/// to entry `affine(row, i)` of scale and bias.
struct RowView {
  int64_t rows, length;
  int64_t groups, perEntry; ///< group norm: entry = row % groups * (length/perEntry) + i/perEntry
  int64_t affine(int64_t row, int64_t i) const {
    return row % groups * (length / perEntry) + i / perEntry;
  }
};

RowView tailRows(const Node &node, const TensorType &x) {
  int64_t length = 1;
  for (size_t i = node.integer("axis"); i < x.shape.size(); ++i)
    length *= x.shape[i];
  return {length ? x.count() / length : 0, length, 1, 1};
}

RowView groupRows(const Node &node, const TensorType &x) {
  int64_t groups = node.integer("groups", 1), pixels = 1;
  for (size_t i = 2; i < x.shape.size(); ++i)
    pixels *= x.shape[i];
  return {x.shape[0] * groups, x.shape[1] / groups * pixels, groups, pixels};
}

/// Writes x normalised to `out`; returns 1 / sqrt(variance + epsilon).
/// Mean first, then the mean square of the differences.
double normaliseRow(const double *x, int64_t n, double epsilon, bool centre, double *out) {
  double mean = 0, square = 0;
  for (int64_t i = 0; centre && i < n; ++i)
    mean += x[i] / n;
  for (int64_t i = 0; i < n; ++i)
    square += (x[i] - mean) * (x[i] - mean) / n;
  double rstd = 1 / std::sqrt(square + epsilon);
  for (int64_t i = 0; i < n; ++i)
    out[i] = (x[i] - mean) * rstd;
  return rstd;
}

Status normalise(const Node &node, const Operands &in, Results &out, RowView view, bool centre) {
  const Tensor *scale = in.size() > 1 ? in[1] : nullptr, *bias = in.size() > 2 ? in[2] : nullptr;
  for (int64_t row = 0; row < view.rows; ++row) {
    double *y = out[0].real.data() + row * view.length;
    normaliseRow(in[0]->real.data() + row * view.length, view.length, node.real("epsilon"), centre,
                 y);
    for (int64_t i = 0; i < view.length; ++i) {
      if (scale)
        y[i] *= scale->real[view.affine(row, i)];
      if (bias)
        y[i] += bias->real[view.affine(row, i)];
    }
  }
  return {};
}

/// Operands: input, scale or absent, output gradient. Results: dx, dscale, dbias.
Status normaliseGrad(const Node &node, const Operands &given, Results &out, RowView view,
                     bool centre) {
  Operands in = given;
  if (in.size() == 2) // an absent optional operand in the middle may be left out
    in.insert(in.begin() + 1, nullptr);
  const Tensor *scale = in[1];
  std::vector<double> hat(view.length), g(view.length);
  for (int64_t row = 0; row < view.rows; ++row) {
    const double *dy = in[2]->real.data() + row * view.length;
    double rstd = normaliseRow(in[0]->real.data() + row * view.length, view.length,
                               node.real("epsilon"), centre, hat.data());
    double meanG = 0, meanGHat = 0;
    for (int64_t i = 0; i < view.length; ++i) {
      int64_t entry = view.affine(row, i);
      g[i] = dy[i] * (scale ? scale->real[entry] : 1);
      meanG += centre ? g[i] / view.length : 0;
      meanGHat += g[i] * hat[i] / view.length;
      if (out.size() > 1)
        out[1].real[entry] += dy[i] * hat[i];
      if (out.size() > 2)
        out[2].real[entry] += dy[i];
    }
    for (int64_t i = 0; i < view.length; ++i)
      out[0].real[row * view.length + i] = rstd * (g[i] - meanG - hat[i] * meanGHat);
  }
  return {};
}

Status layerNorm(const Node &node, const Operands &in, Results &out) {
  return normalise(node, in, out, tailRows(node, in[0]->type), true);
}
Status layerNormGrad(const Node &node, const Operands &in, Results &out) {
  return normaliseGrad(node, in, out, tailRows(node, in[0]->type), true);
}
Status rmsNorm(const Node &node, const Operands &in, Results &out) {
  return normalise(node, in, out, tailRows(node, in[0]->type), false);
}
Status rmsNormGrad(const Node &node, const Operands &in, Results &out) {
  return normaliseGrad(node, in, out, tailRows(node, in[0]->type), false);
}
Status groupNorm(const Node &node, const Operands &in, Results &out) {
  return normalise(node, in, out, groupRows(node, in[0]->type), true);
}
Status groupNormGrad(const Node &node, const Operands &in, Results &out) {
  return normaliseGrad(node, in, out, groupRows(node, in[0]->type), true);
}

/// Calls visit(base, stride, extent) for each line along the node's axis.
template <typename Visit> void forEachLine(const Node &node, const TensorType &type, Visit visit) {
  AxisView view = viewAround(type.shape, node.integer("axis"));
  for (int64_t o = 0; o < view.outer; ++o)
    for (int64_t i = 0; i < view.inner; ++i)
      visit(o * view.extent * view.inner + i, view.inner, view.extent);
}

/// The line's maximum and its sum of e^(x - maximum); 0 for a line of -inf.
std::pair<double, double> lineSum(const std::vector<double> &x, int64_t base, int64_t stride,
                                  int64_t extent) {
  double top = -std::numeric_limits<double>::infinity(), sum = 0;
  for (int64_t j = 0; j < extent; ++j)
    top = std::fmax(top, x[base + j * stride]);
  if (std::isinf(top) && top < 0)
    return {top, 0};
  for (int64_t j = 0; j < extent; ++j)
    sum += std::exp(x[base + j * stride] - top);
  return {top, sum};
}

Status softmax(const Node &node, const Operands &in, Results &out) {
  const auto &x = in[0]->real;
  forEachLine(node, in[0]->type, [&](int64_t base, int64_t stride, int64_t extent) {
    auto [top, sum] = lineSum(x, base, stride, extent);
    for (int64_t j = 0; j < extent; ++j)
      out[0].real[base + j * stride] = sum == 0 ? 0 : std::exp(x[base + j * stride] - top) / sum;
  });
  return {};
}

Status logSoftmax(const Node &node, const Operands &in, Results &out) {
  const auto &x = in[0]->real;
  forEachLine(node, in[0]->type, [&](int64_t base, int64_t stride, int64_t extent) {
    auto [top, sum] = lineSum(x, base, stride, extent);
    for (int64_t j = 0; j < extent; ++j)
      out[0].real[base + j * stride] = x[base + j * stride] - top - std::log(sum);
  });
  return {};
}

Status softmaxGrad(const Node &node, const Operands &in, Results &out) {
  const auto &y = in[0]->real, &dy = in[1]->real;
  forEachLine(node, in[0]->type, [&](int64_t base, int64_t stride, int64_t extent) {
    double dot = 0;
    for (int64_t j = 0; j < extent; ++j)
      dot += y[base + j * stride] * dy[base + j * stride];
    for (int64_t j = 0; j < extent; ++j)
      out[0].real[base + j * stride] = y[base + j * stride] * (dy[base + j * stride] - dot);
  });
  return {};
}

} // namespace

void registerNorm(Registry &r) {
  r["nn.layer_norm"] = layerNorm;
  r["nn.layer_norm_grad"] = layerNormGrad;
  r["nn.rms_norm"] = rmsNorm;
  r["nn.rms_norm_grad"] = rmsNormGrad;
  r["nn.group_norm"] = groupNorm;
  r["nn.group_norm_grad"] = groupNormGrad;
  r["nn.softmax"] = softmax;
  r["nn.softmax_grad"] = softmaxGrad;
  r["nn.log_softmax"] = logSoftmax;
}

} // namespace diffrun::evaluate
