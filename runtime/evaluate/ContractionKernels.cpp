// Kernels of matmul, convolution and attention.
//
// Double-precision loops in a blocked order that a compiler vectorises: enough
// to evaluate a whole training step of a small model in minutes.
#include "runtime/evaluate/Indexing.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diffrun::evaluate {
namespace {

/// C [m, n] += A [m, k] B [k, n], all row-major and dense.
void multiply(const double *a, const double *b, double *c, int64_t m, int64_t n, int64_t k) {
  constexpr int64_t kRows = 4, kDepth = 128, kColumns = 512;
#pragma omp parallel for schedule(static)
  for (int64_t i0 = 0; i0 < m; i0 += 32)
    for (int64_t k0 = 0; k0 < k; k0 += kDepth)
      for (int64_t j0 = 0; j0 < n; j0 += kColumns) {
        int64_t i1 = std::min(i0 + 32, m), k1 = std::min(k0 + kDepth, k),
                j1 = std::min(j0 + kColumns, n);
        for (int64_t i = i0; i < i1; i += kRows) {
          int64_t rows = std::min(kRows, i1 - i);
          for (int64_t p = k0; p < k1; ++p) {
            const double *bp = b + p * n;
            if (rows == kRows) {
              double a0 = a[i * k + p], a1 = a[(i + 1) * k + p], a2 = a[(i + 2) * k + p],
                     a3 = a[(i + 3) * k + p];
              double *c0 = c + i * n, *c1 = c0 + n, *c2 = c1 + n, *c3 = c2 + n;
#pragma omp simd
              for (int64_t j = j0; j < j1; ++j) {
                c0[j] += a0 * bp[j];
                c1[j] += a1 * bp[j];
                c2[j] += a2 * bp[j];
                c3[j] += a3 * bp[j];
              }
            } else {
              for (int64_t r = 0; r < rows; ++r)
                for (int64_t j = j0; j < j1; ++j)
                  c[(i + r) * n + j] += a[(i + r) * k + p] * bp[j];
            }
          }
        }
      }
}

/// A [rows, columns] matrix, transposed.
std::vector<double> transposed(const double *a, int64_t rows, int64_t columns) {
  std::vector<double> t(rows * columns);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t j = 0; j < columns; ++j)
      t[j * rows + i] = a[i * columns + j];
  return t;
}

Status matmul(const Node &node, const Operands &in, Results &out) {
  bool ta = node.integer("transpose_a"), tb = node.integer("transpose_b");
  std::vector<int64_t> as = in[0]->type.shape, bs = in[1]->type.shape, cs = out[0].type.shape;
  int64_t ar = as[as.size() - 2], ac = as.back(), br = bs[bs.size() - 2], bc = bs.back();
  int64_t m = ta ? ac : ar, k = ta ? ar : ac, n = tb ? br : bc;
  auto batchOf = [](std::vector<int64_t> shape) {
    shape.resize(shape.size() - 2);
    return shape;
  };
  std::vector<int64_t> batch = batchOf(cs);
  DIFFRUN_ASSIGN(auto aStrides, broadcastStrides(batchOf(as), batch));
  DIFFRUN_ASSIGN(auto bStrides, broadcastStrides(batchOf(bs), batch));
  forEach(batch, {aStrides, bStrides}, [&](int64_t i, const std::vector<int64_t> &at) {
    const double *a = in[0]->real.data() + at[0] * ar * ac;
    const double *b = in[1]->real.data() + at[1] * br * bc;
    std::vector<double> aPlain, bPlain;
    if (ta) {
      aPlain = transposed(a, ar, ac);
      a = aPlain.data();
    }
    if (tb) {
      bPlain = transposed(b, br, bc);
      b = bPlain.data();
    }
    multiply(a, b, out[0].real.data() + i * m * n, m, n, k);
  });
  return {};
}

/// Geometry of a convolution, its spatial dimensions padded to three by 1s.
struct Geometry {
  int64_t batch, channels, outputs, groups;
  int64_t in[3], out[3], kernel[3], stride[3], pad[3], dilation[3];
  int64_t pixels() const { return out[0] * out[1] * out[2]; }
  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t inPixels() const { return in[0] * in[1] * in[2]; }
};

Geometry geometry(const Node &node, const std::vector<int64_t> &x, const std::vector<int64_t> &w,
                  const std::vector<int64_t> &y) {
  std::vector<int64_t> strides = node.integers("strides"), low = node.integers("pads_low"),
                       dilations = node.integers("dilations");
  size_t spatial = x.size() - 2;
  Geometry g{x[0],      x[1],      w[0],      node.integer("groups", 1),
             {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1},
             {0, 0, 0}, {1, 1, 1}};
  for (size_t i = 0; i < spatial; ++i) {
    size_t to = 3 - spatial + i;
    g.in[to] = x[2 + i];
    g.out[to] = y[2 + i];
    g.kernel[to] = w[2 + i];
    g.stride[to] = strides[i];
    g.pad[to] = low[i];
    g.dilation[to] = dilations[i];
  }
  return g;
}

/// Visits every (row, column, input pixel) of one channel block's column
/// matrix [channels * taps, output pixels]; taps in the padding are skipped.
template <typename Visit> void forEachTap(const Geometry &g, int64_t channels, Visit visit) {
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t kz = 0; kz < g.kernel[0]; ++kz)
      for (int64_t ky = 0; ky < g.kernel[1]; ++ky)
        for (int64_t kx = 0; kx < g.kernel[2]; ++kx) {
          int64_t row = ((c * g.kernel[0] + kz) * g.kernel[1] + ky) * g.kernel[2] + kx;
          for (int64_t oz = 0; oz < g.out[0]; ++oz)
            for (int64_t oy = 0; oy < g.out[1]; ++oy)
              for (int64_t ox = 0; ox < g.out[2]; ++ox) {
                int64_t z = oz * g.stride[0] - g.pad[0] + kz * g.dilation[0];
                int64_t y = oy * g.stride[1] - g.pad[1] + ky * g.dilation[1];
                int64_t x = ox * g.stride[2] - g.pad[2] + kx * g.dilation[2];
                if (z < 0 || z >= g.in[0] || y < 0 || y >= g.in[1] || x < 0 || x >= g.in[2])
                  continue;
                visit(row, (oz * g.out[1] + oy) * g.out[2] + ox,
                      ((c * g.in[0] + z) * g.in[1] + y) * g.in[2] + x);
              }
        }
}

std::vector<double> columns(const Geometry &g, const double *x, int64_t channels) {
  std::vector<double> matrix(channels * g.taps() * g.pixels(), 0.0);
  forEachTap(g, channels, [&](int64_t row, int64_t column, int64_t pixel) {
    matrix[row * g.pixels() + column] = x[pixel];
  });
  return matrix;
}

/// Calls visit(x block, y block, w block, channels, outputs) per sample and group.
template <typename Visit> void forEachGroup(const Geometry &g, Visit visit) {
  int64_t channels = g.channels / g.groups, outputs = g.outputs / g.groups;
  for (int64_t n = 0; n < g.batch; ++n)
    for (int64_t group = 0; group < g.groups; ++group)
      visit((n * g.channels + group * channels) * g.inPixels(),
            (n * g.outputs + group * outputs) * g.pixels(), group * outputs * channels * g.taps(),
            channels, outputs);
}

Status convolution(const Node &node, const Operands &in, Results &out) {
  Geometry g = geometry(node, in[0]->type.shape, in[1]->type.shape, out[0].type.shape);
  forEachGroup(g, [&](int64_t x, int64_t y, int64_t w, int64_t channels, int64_t outputs) {
    std::vector<double> matrix = columns(g, in[0]->real.data() + x, channels);
    multiply(in[1]->real.data() + w, matrix.data(), out[0].real.data() + y, outputs, g.pixels(),
             channels * g.taps());
  });
  return {};
}

Status convolutionInputGrad(const Node &node, const Operands &in, Results &out) {
  Geometry g = geometry(node, out[0].type.shape, in[1]->type.shape, in[0]->type.shape);
  forEachGroup(g, [&](int64_t x, int64_t y, int64_t w, int64_t channels, int64_t outputs) {
    std::vector<double> wt = transposed(in[1]->real.data() + w, outputs, channels * g.taps());
    std::vector<double> matrix(channels * g.taps() * g.pixels(), 0.0);
    multiply(wt.data(), in[0]->real.data() + y, matrix.data(), channels * g.taps(), g.pixels(),
             outputs);
    double *dx = out[0].real.data() + x;
    forEachTap(g, channels, [&](int64_t row, int64_t column, int64_t pixel) {
      dx[pixel] += matrix[row * g.pixels() + column];
    });
  });
  return {};
}

Status convolutionWeightGrad(const Node &node, const Operands &in, Results &out) {
  Geometry g = geometry(node, in[0]->type.shape, out[0].type.shape, in[1]->type.shape);
  forEachGroup(g, [&](int64_t x, int64_t y, int64_t w, int64_t channels, int64_t outputs) {
    std::vector<double> matrix = columns(g, in[0]->real.data() + x, channels);
    std::vector<double> mt = transposed(matrix.data(), channels * g.taps(), g.pixels());
    multiply(in[1]->real.data() + y, mt.data(), out[0].real.data() + w, outputs,
             channels * g.taps(), g.pixels());
  });
  return {};
}

Status attention(const Node &node, const Operands &in, Results &out) {
  if (in.size() == 3)
    return attention(node, {in[0], in[1], in[2], nullptr}, out);
  const auto &q = in[0]->type.shape, &k = in[1]->type.shape, &v = in[2]->type.shape;
  int64_t heads = q[0] * q[1], rows = q[2], keys = k[2], depth = q[3], width = v[3];
  double scale = node.real("scale", 1);
  bool causal = node.integer("causal");
  std::vector<int64_t> maskStrides(4, 0);
  if (in[3]) {
    DIFFRUN_ASSIGN(maskStrides, broadcastStrides(in[3]->type.shape, {q[0], q[1], rows, keys}));
  }
  std::vector<double> scores(keys);
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t i = 0; i < rows; ++i) {
      double top = -std::numeric_limits<double>::infinity(), sum = 0;
      for (int64_t j = 0; j < keys; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < depth; ++d)
          dot += in[0]->real[(h * rows + i) * depth + d] * in[1]->real[(h * keys + j) * depth + d];
        double mask = in[3] ? in[3]->real[h / q[1] * maskStrides[0] + h % q[1] * maskStrides[1] +
                                          i * maskStrides[2] + j * maskStrides[3]]
                            : 0;
        scores[j] = causal && j > i ? -std::numeric_limits<double>::infinity() : scale * dot + mask;
        top = std::max(top, scores[j]);
      }
      for (double &score : scores)
        sum += score = std::isinf(top) && top < 0 ? 0 : std::exp(score - top);
      for (int64_t j = 0; j < keys && sum > 0; ++j)
        for (int64_t d = 0; d < width; ++d)
          out[0].real[(h * rows + i) * width + d] +=
              scores[j] / sum * in[2]->real[(h * keys + j) * width + d];
    }
  return {};
}

} // namespace

void registerContraction(Registry &r) {
  r["nn.matmul"] = matmul;
  r["nn.convolution"] = convolution;
  r["nn.convolution_input_grad"] = convolutionInputGrad;
  r["nn.convolution_weight_grad"] = convolutionWeightGrad;
  r["nn.attention"] = attention;
}

} // namespace diffrun::evaluate
