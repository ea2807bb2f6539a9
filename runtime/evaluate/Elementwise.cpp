// Kernels of the element-wise operators.
#include "runtime/evaluate/Indexing.h"

#include <cmath>

namespace diffrun::evaluate {
namespace {

/// -x; integers wrap around.
double negative(double x) { return -x; }
int64_t negative(int64_t x) { return static_cast<int64_t>(0 - static_cast<uint64_t>(x)); }

/// Sum, difference and product; integers wrap around, as in memory.
struct Plus {
  double operator()(double a, double b) const { return a + b; }
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
  }
};
struct Minus {
  double operator()(double a, double b) const { return a - b; }
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
  }
};
struct Times {
  double operator()(double a, double b) const { return a * b; }
  int64_t operator()(int64_t a, int64_t b) const {
    return static_cast<int64_t>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double gelu(double x, bool tanhForm) {
  if (tanhForm)
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
  return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

double geluDerivative(double x, bool tanhForm) {
  if (tanhForm) {
    double c = std::sqrt(2 / M_PI), t = std::tanh(c * (x + 0.044715 * x * x * x));
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * c * (1 + 3 * 0.044715 * x * x);
  }
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}

/// result = F(x), floats only.
template <double (*F)(double)> Status unaryReal(const Node &, const Operands &in, Results &out) {
  for (size_t i = 0; i < out[0].real.size(); ++i)
    out[0].real[i] = F(in[0]->real[i]);
  return {};
}

/// result = f(x), for floats or integers alike.
template <typename F> Status unaryAny(const Operands &in, Results &out, F f) {
  for (size_t i = 0; i < out[0].real.size(); ++i)
    out[0].real[i] = f(in[0]->real[i]);
  for (size_t i = 0; i < out[0].integer.size(); ++i)
    out[0].integer[i] = wrapTo(f(in[0]->integer[i]), out[0].type.dtype);
  return {};
}

Status neg(const Node &, const Operands &in, Results &out) {
  return unaryAny(in, out, [](auto x) { return negative(x); });
}
Status absolute(const Node &, const Operands &in, Results &out) {
  return unaryAny(in, out, [](auto x) { return x < 0 ? negative(x) : x; });
}
Status sign(const Node &, const Operands &in, Results &out) {
  return unaryAny(in, out, [](auto x) {
    return x > 0 ? decltype(x)(1) : x < 0 ? decltype(x)(-1) : x;
  });
}
Status logicalNot(const Node &, const Operands &in, Results &out) {
  return unaryAny(in, out, [](auto x) { return decltype(x)(x == 0); });
}

Status geluKernel(const Node &node, const Operands &in, Results &out) {
  bool tanhForm = node.text("form") == "tanh";
  for (size_t i = 0; i < out[0].real.size(); ++i)
    out[0].real[i] = gelu(in[0]->real[i], tanhForm);
  return {};
}
Status geluGrad(const Node &node, const Operands &in, Results &out) {
  bool tanhForm = node.text("form") == "tanh";
  for (size_t i = 0; i < out[0].real.size(); ++i)
    out[0].real[i] = in[1]->real[i] * geluDerivative(in[0]->real[i], tanhForm);
  return {};
}
Status siluGrad(const Node &, const Operands &in, Results &out) {
  for (size_t i = 0; i < out[0].real.size(); ++i) {
    double x = in[0]->real[i], s = sigmoid(x);
    out[0].real[i] = in[1]->real[i] * s * (1 + x * (1 - s));
  }
  return {};
}

Status cast(const Node &, const Operands &in, Results &out) {
  DType to = out[0].type.dtype;
  for (int64_t i = 0, n = out[0].type.count(); i < n; ++i) {
    if (in[0]->isReal() && out[0].isReal())
      out[0].real[i] = roundTo(in[0]->real[i], to);
    else if (in[0]->isReal())
      out[0].integer[i] = saturate(in[0]->real[i], to);
    else if (out[0].isReal())
      out[0].real[i] = roundTo(static_cast<double>(in[0]->integer[i]), to);
    else if (to == DType::kBool)
      out[0].integer[i] = in[0]->integer[i] != 0;
    else // wraps, as a narrowing conversion in memory does
      out[0].integer[i] = wrapTo(in[0]->integer[i], to);
  }
  return {};
}

/// Calls visit(i, offset in a, offset in b) over the broadcast of two operands.
template <typename Visit>
Status broadcastBinary(const Operands &in, const Results &out, Visit visit) {
  const auto &shape = out[0].type.shape;
  DIFFRUN_ASSIGN(auto a, broadcastStrides(in[0]->type.shape, shape));
  DIFFRUN_ASSIGN(auto b, broadcastStrides(in[1]->type.shape, shape));
  forEach(shape, {a, b},
          [&](int64_t i, const std::vector<int64_t> &at) { visit(i, at[0], at[1]); });
  return {};
}

template <typename F> Status arithmetic(const Operands &in, Results &out, F f) {
  return broadcastBinary(in, out, [&](int64_t i, int64_t a, int64_t b) {
    if (out[0].isReal())
      out[0].real[i] = f(in[0]->real[a], in[1]->real[b]);
    else
      out[0].integer[i] = wrapTo(f(in[0]->integer[a], in[1]->integer[b]), out[0].type.dtype);
  });
}
template <typename F> Status compare(const Operands &in, Results &out, F f) {
  return broadcastBinary(in, out, [&](int64_t i, int64_t a, int64_t b) {
    out[0].integer[i] = in[0]->isReal() ? f(in[0]->real[a], in[1]->real[b])
                                        : f(in[0]->integer[a], in[1]->integer[b]);
  });
}

#define DIFFRUN_ARITHMETIC(NAME, EXPRESSION)                                                       \
  Status NAME(const Node &, const Operands &in, Results &out) {                                    \
    return arithmetic(in, out, [](auto a, auto b) { return EXPRESSION; });                         \
  }
#define DIFFRUN_COMPARE(NAME, EXPRESSION)                                                          \
  Status NAME(const Node &, const Operands &in, Results &out) {                                    \
    return compare(in, out, [](auto a, auto b) -> int64_t { return EXPRESSION; });                 \
  }
DIFFRUN_ARITHMETIC(add, Plus()(a, b))
DIFFRUN_ARITHMETIC(sub, Minus()(a, b))
DIFFRUN_ARITHMETIC(mul, Times()(a, b))
// The larger (smaller) one; NaN where either is NaN.
DIFFRUN_ARITHMETIC(maximum, a < b || b != b ? b : a)
DIFFRUN_ARITHMETIC(minimum, b < a || b != b ? b : a)
DIFFRUN_ARITHMETIC(bitwiseAnd, static_cast<int64_t>(a) & static_cast<int64_t>(b))
DIFFRUN_COMPARE(less, a < b)
DIFFRUN_COMPARE(lessEqual, a <= b)
DIFFRUN_COMPARE(greater, a > b)
DIFFRUN_COMPARE(greaterEqual, a >= b)
DIFFRUN_COMPARE(equal, a == b)
DIFFRUN_COMPARE(notEqual, a != b)
DIFFRUN_COMPARE(logicalAnd, a != 0 && b != 0)
DIFFRUN_COMPARE(logicalOr, a != 0 || b != 0)

Status refuseZero(const Tensor &divisor) {
  for (int64_t b : divisor.integer)
    if (b == 0)
      return Status::invalid("integer division by zero");
  return {};
}
Status div(const Node &, const Operands &in, Results &out) {
  DIFFRUN_RETURN_IF_ERROR(refuseZero(*in[1]));
  return arithmetic(in, out, [](auto a, auto b) {
    if constexpr (std::is_integral_v<decltype(a)>)
      return b == -1 ? negative(a) : a / b;
    else
      return a / b;
  });
}

Status remainder(const Node &, const Operands &in, Results &out) {
  DIFFRUN_RETURN_IF_ERROR(refuseZero(*in[1]));
  return arithmetic(in, out, [](auto a, auto b) {
    if constexpr (std::is_integral_v<decltype(a)>)
      return b == -1 ? int64_t{0} : a % b;
    else
      return std::fmod(a, b);
  });
}

Status power(const Node &, const Operands &in, Results &out) {
  return broadcastBinary(in, out, [&](int64_t i, int64_t a, int64_t b) {
    out[0].real[i] = std::pow(in[0]->real[a], in[1]->real[b]);
  });
}

Status select(const Node &, const Operands &in, Results &out) {
  const auto &shape = out[0].type.shape;
  DIFFRUN_ASSIGN(auto c, broadcastStrides(in[0]->type.shape, shape));
  DIFFRUN_ASSIGN(auto a, broadcastStrides(in[1]->type.shape, shape));
  DIFFRUN_ASSIGN(auto b, broadcastStrides(in[2]->type.shape, shape));
  forEach(shape, {c, a, b}, [&](int64_t i, const std::vector<int64_t> &at) {
    bool yes = in[0]->integer[at[0]] != 0;
    const Tensor &from = yes ? *in[1] : *in[2];
    int64_t offset = yes ? at[1] : at[2];
    if (out[0].isReal())
      out[0].real[i] = from.real[offset];
    else
      out[0].integer[i] = from.integer[offset];
  });
  return {};
}

double reluOf(double x) { return x < 0 ? 0 : x; }
double siluOf(double x) { return x * sigmoid(x); }
double rsqrtOf(double x) { return 1 / std::sqrt(x); }
double reciprocalOf(double x) { return 1 / x; }
double softplusOf(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

} // namespace

void registerElementwise(Registry &r) {
  r["nn.neg"] = neg;
  r["nn.abs"] = absolute;
  r["nn.sign"] = sign;
  r["nn.logical_not"] = logicalNot;
  r["nn.floor"] = unaryReal<std::floor>;
  r["nn.ceil"] = unaryReal<std::ceil>;
  r["nn.round"] = unaryReal<std::nearbyint>;
  r["nn.exp"] = unaryReal<std::exp>;
  r["nn.expm1"] = unaryReal<std::expm1>;
  r["nn.log"] = unaryReal<std::log>;
  r["nn.log1p"] = unaryReal<std::log1p>;
  r["nn.sqrt"] = unaryReal<std::sqrt>;
  r["nn.rsqrt"] = unaryReal<rsqrtOf>;
  r["nn.reciprocal"] = unaryReal<reciprocalOf>;
  r["nn.sin"] = unaryReal<std::sin>;
  r["nn.cos"] = unaryReal<std::cos>;
  r["nn.atan"] = unaryReal<std::atan>;
  r["nn.tanh"] = unaryReal<std::tanh>;
  r["nn.erf"] = unaryReal<std::erf>;
  r["nn.sigmoid"] = unaryReal<sigmoid>;
  r["nn.relu"] = unaryReal<reluOf>;
  r["nn.silu"] = unaryReal<siluOf>;
  r["nn.softplus"] = unaryReal<softplusOf>;
  r["nn.gelu"] = geluKernel;
  r["nn.gelu_grad"] = geluGrad;
  r["nn.silu_grad"] = siluGrad;
  r["nn.cast"] = cast;
  r["nn.add"] = add;
  r["nn.sub"] = sub;
  r["nn.mul"] = mul;
  r["nn.div"] = div;
  r["nn.remainder"] = remainder;
  r["nn.pow"] = power;
  r["nn.maximum"] = maximum;
  r["nn.minimum"] = minimum;
  r["nn.bitwise_and"] = bitwiseAnd;
  r["nn.less"] = less;
  r["nn.less_equal"] = lessEqual;
  r["nn.greater"] = greater;
  r["nn.greater_equal"] = greaterEqual;
  r["nn.equal"] = equal;
  r["nn.not_equal"] = notEqual;
  r["nn.logical_and"] = logicalAnd;
  r["nn.logical_or"] = logicalOr;
  r["nn.select"] = select;
}

} // namespace diffrun::evaluate
