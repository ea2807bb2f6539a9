#include "runtime/verify/Tolerance.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace diffrun {
namespace {

namespace ev = evaluate;

const double kUnit = std::ldexp(1, -24);
constexpr int kSamples = 2;
constexpr int kSamplesOfIntegers = 8;

double largest(const std::vector<double> &x) {
  double most = 0;
  for (double value : x)
    if (std::isfinite(value))
      most = std::max(most, std::fabs(value));
  return most;
}

/// Terms of a contraction's sums.
double depthOf(const proto::Op &op) {
  if (op.has_matmul())
    return static_cast<double>(op.matmul().a_shape(op.matmul().a_shape_size() - 1));
  const proto::Convolution &c = op.convolution();
  auto product = [](const auto &shape) {
    double terms = 1;
    for (int64_t extent : shape)
      terms *= static_cast<double>(extent);
    return terms;
  };
  double outputs = static_cast<double>(c.w_shape(0)), taps = product(c.w_shape()) / outputs;
  switch (c.kind()) {
  case proto::Convolution::FORWARD:
    return taps;
  case proto::Convolution::INPUT_GRAD:
    return taps / static_cast<double>(c.w_shape(1)) * outputs;
  default: // every place of every picture
    return product(c.y_shape()) / outputs;
  }
}

std::vector<std::vector<double>> ofContraction(const proto::Op &op, const Values &operands,
                                               const Values &exact) {
  double depth = depthOf(op), scale = std::sqrt(depth);
  for (int k = 0; k < op.operands_size(); ++k) {
    double size = largest(operands[static_cast<size_t>(op.operand_values(k))]->real);
    scale = k < 2 ? scale * size : std::max(scale, size); // the third is a bias
  }
  std::vector<std::vector<double>> allowed;
  for (int64_t id : op.result_values()) {
    const std::vector<double> &result = exact[static_cast<size_t>(id)]->real;
    double size = std::max(scale, largest(result));
    allowed.emplace_back(result.size(), kUnit * (16 + 4 * std::sqrt(depth)) * size);
  }
  return allowed;
}

/// Signs from a counter (SplitMix64, Steele et al. 2014).
class Signs {
public:
  explicit Signs(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15u) {}
  double next() {
    if (left == 0) {
      uint64_t z = state += 0x9e3779b97f4a7c15u;
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      bits = z ^ (z >> 31);
      left = 64;
    }
    --left;
    double sign = bits & 1 ? 1 : -1;
    bits >>= 1;
    return sign;
  }

private:
  uint64_t state, bits = 0;
  int left = 0;
};

/// One node with every operand a little off.
Status evaluateOff(const ev::Graph &graph, int64_t index, Values &values, Signs &signs) {
  const ev::Node &node = graph.nodes[static_cast<size_t>(index)];
  std::vector<ev::Tensor> moved;
  moved.reserve(node.operands.size());
  ev::Operands operands;
  int64_t terms = 0;
  double sumOfSquares = 0;
  for (int64_t id : node.operands) {
    if (id < 0) {
      operands.push_back(nullptr);
      continue;
    }
    moved.push_back(*values[static_cast<size_t>(id)]);
    if (moved.back().type.dtype == DType::kF32)
      for (double &x : moved.back().real)
        x += x * kUnit * signs.next();
    operands.push_back(&moved.back());
  }
  std::vector<ev::TensorType> types;
  for (int64_t id : node.results)
    types.push_back(graph.values[static_cast<size_t>(id)]);
  DIFFRUN_ASSIGN(ev::Results results, ev::evaluate(node, operands, types));
  // A result of fewer elements is a sum (or a part: then this is a little more
  // room than it needs).
  if (!moved.empty() && !results.empty() && results[0].type.count() > 0)
    terms = moved[0].type.count() / results[0].type.count();
  if (terms > 1) {
    for (double x : moved[0].real)
      if (std::isfinite(x))
        sumOfSquares += x * x;
    double root = std::sqrt(static_cast<double>(terms));
    double walk = std::sqrt(sumOfSquares / static_cast<double>(results[0].type.count()));
    bool sums = !results[0].real.empty() && results[0].type.dtype == DType::kF32;
    for (size_t i = 0; sums && i < results[0].real.size(); ++i)
      results[0].real[i] +=
          kUnit * (1 + root / 4) * std::max(std::fabs(results[0].real[i]), walk) * signs.next();
  }
  for (size_t k = 0; k < node.results.size(); ++k)
    values[static_cast<size_t>(node.results[k])] = std::move(results[k]);
  return {};
}

double apart(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y)))
    return 0;
  double difference = std::fabs(x - y);
  // Not a number on one side only: at the edge of a function's domain.
  return std::isnan(difference) ? std::numeric_limits<double>::infinity() : difference;
}

/// Differences of two samples to what is allowed. One element's signs may cancel by
/// chance: none is taken to be surer than the tensor's mean square.
void widen(std::vector<double> &room, const std::vector<double> &exact) {
  double squares = 0, count = 0;
  for (double difference : room)
    if (std::isfinite(difference)) {
      squares += difference * difference;
      ++count;
    }
  double typical = count > 0 ? std::sqrt(squares / count) : 0;
  // Below the smallest normal number f32 has no relative precision.
  constexpr double kLeast = std::numeric_limits<float>::min();
  // A function such as (1 + erf x) / 2 cancels within its kernel: it is as exact as
  // its largest values are.
  double always = 4 * kUnit * largest(exact) + kLeast;
  for (size_t i = 0; i < room.size(); ++i)
    room[i] = 32 * std::max(room[i], typical) + 16 * kUnit * std::fabs(exact[i]) + always;
}

} // namespace

Result<std::vector<std::vector<double>>> tolerancesOf(const ev::Graph &graph, const proto::Op &op,
                                                      const Values &operands, const Values &exact) {
  if (op.has_matmul() || op.has_convolution())
    return ofContraction(op, operands, exact);
  std::vector<std::vector<double>> allowed;
  int samples = kSamples;
  for (int64_t id : op.result_values()) {
    const ev::Tensor &result = *exact[static_cast<size_t>(id)];
    allowed.emplace_back(std::max(result.real.size(), result.integer.size()), 0.0);
  }
  // A comparison flips or not: there is no typical size.
  for (int64_t n = op.first_node(); n < op.first_node() + op.node_count(); ++n)
    for (int64_t id : graph.nodes[static_cast<size_t>(n)].results)
      if (!isFloat(graph.values[static_cast<size_t>(id)].dtype))
        samples = kSamplesOfIntegers;
  if (op.has_draw())
    return allowed;
  for (int sample = 0; sample < samples; ++sample) {
    Values values = operands;
    Signs signs(static_cast<uint64_t>(op.first_node() * kSamplesOfIntegers + sample + 1));
    for (int64_t n = op.first_node(); n < op.first_node() + op.node_count(); ++n)
      DIFFRUN_RETURN_IF_ERROR(evaluateOff(graph, n, values, signs));
    for (int r = 0; r < op.result_values_size(); ++r) {
      auto id = static_cast<size_t>(op.result_values(r));
      std::vector<double> &room = allowed[static_cast<size_t>(r)];
      const ev::Tensor &off = *values[id], &right = *exact[id];
      for (size_t i = 0; i < room.size(); ++i)
        room[i] = std::max(room[i], right.isReal() ? apart(off.real[i], right.real[i])
                                                   : apart(static_cast<double>(off.integer[i]),
                                                           static_cast<double>(right.integer[i])));
    }
  }
  for (int r = 0; r < op.result_values_size(); ++r)
    if (const ev::Tensor &result = *exact[static_cast<size_t>(op.result_values(r))];
        result.isReal())
      widen(allowed[static_cast<size_t>(r)], result.real);
  return allowed;
}

} // namespace diffrun
