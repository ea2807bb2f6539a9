// Nodes of a damaged plan: evaluated or refused, never out of bounds.
#include "runtime/evaluate/NodeChecks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <set>

namespace diffrun::evaluate {
namespace {

using Ints = std::vector<int64_t>;
constexpr DType F = DType::kF32, I = DType::kI64, B = DType::kBool;

struct Sample {
  const char *op;
  std::vector<TensorType> operands, results;
  std::map<std::string, Attribute> attributes = {};
};

/// A valid node of every operator.
std::vector<Sample> samples() {
  std::vector<Sample> all;
  TensorType x{F, {2, 3, 4}}, b{B, {2, 3, 4}}, n{I, {2, 3, 4}};
  for (const char *op :
       {"nn.neg",     "nn.abs",        "nn.sign", "nn.floor",   "nn.ceil", "nn.round",
        "nn.exp",     "nn.expm1",      "nn.log",  "nn.log1p",   "nn.atan", "nn.sqrt",
        "nn.rsqrt",   "nn.reciprocal", "nn.sin",  "nn.cos",     "nn.tanh", "nn.erf",
        "nn.sigmoid", "nn.relu",       "nn.silu", "nn.softplus"})
    all.push_back({op, {x}, {x}});
  all.push_back({"nn.logical_not", {b}, {b}});
  all.push_back({"nn.gelu", {x}, {x}, {{"form", std::string("erf")}}});
  all.push_back({"nn.gelu_grad", {x, x}, {x}, {{"form", std::string("tanh")}}});
  all.push_back({"nn.silu_grad", {x, x}, {x}});
  all.push_back({"nn.cast", {x}, {n}});
  for (const char *op : {"nn.add", "nn.sub", "nn.mul", "nn.div", "nn.maximum", "nn.minimum",
                         "nn.pow", "nn.remainder"})
    all.push_back({op, {x, {F, {3, 1}}}, {x}});
  all.push_back({"nn.mul", {n, {I, {4}}}, {n}});
  for (const char *op :
       {"nn.less", "nn.less_equal", "nn.greater", "nn.greater_equal", "nn.equal", "nn.not_equal"})
    all.push_back({op, {x, {F, {1, 4}}}, {b}});
  for (const char *op : {"nn.logical_and", "nn.logical_or"})
    all.push_back({op, {b, b}, {b}});
  all.push_back({"nn.bitwise_and", {n, {I, {4}}}, {n}});
  all.push_back({"nn.select", {b, x, {F, {4}}}, {x}});
  all.push_back({"nn.constant", {}, {x}, {{"value", Tensor(x)}}});
  all.push_back({"nn.iota", {}, {n}, {{"axis", int64_t{1}}}});
  for (const char *op : {"nn.reduce_sum", "nn.reduce_mean", "nn.reduce_max", "nn.reduce_min"})
    all.push_back({op, {x}, {{F, {2, 4}}}, {{"axes", Ints{1}}}});
  all.push_back({"nn.broadcast_to", {{F, {3, 1}}}, {x}});
  all.push_back({"nn.reshape", {x}, {{F, {6, 4}}}});
  all.push_back({"nn.transpose", {x}, {{F, {4, 2, 3}}}, {{"permutation", Ints{2, 0, 1}}}});
  all.push_back({"nn.slice",
                 {x},
                 {{F, {1, 2, 2}}},
                 {{"starts", Ints{1, 2, 0}}, {"strides", Ints{1, -1, 3}}}});
  all.push_back({"nn.concat", {x, {F, {2, 1, 4}}}, {{F, {2, 4, 4}}}, {{"axis", int64_t{1}}}});
  all.push_back({"nn.pad",
                 {x},
                 {{F, {3, 5, 4}}},
                 {{"low", Ints{1, 0, -1}}, {"interior", Ints{0, 1, 0}}, {"value", 1.5}}});
  all.push_back({"nn.reverse", {x}, {x}, {{"axes", Ints{0, 2}}}});
  all.push_back({"nn.gather", {x, {I, {5}}}, {{F, {2, 5, 4}}}, {{"axis", int64_t{1}}}});
  all.push_back({"nn.scatter_add", {{I, {5}}, {F, {2, 5, 4}}}, {x}, {{"axis", int64_t{1}}}});
  TensorType image{F, {2, 4, 3, 3}}, channels{F, {4}}, row{F, {4}};
  for (const char *op : {"nn.layer_norm", "nn.rms_norm"})
    all.push_back({op, {x, row, row}, {x}, {{"axis", int64_t{2}}, {"epsilon", 1e-5}}});
  for (const char *op : {"nn.layer_norm_grad", "nn.rms_norm_grad"})
    all.push_back({op, {x, row, x}, {x, row, row}, {{"axis", int64_t{2}}, {"epsilon", 1e-5}}});
  all.push_back({"nn.group_norm",
                 {image, channels, channels},
                 {image},
                 {{"groups", int64_t{2}}, {"epsilon", 1e-5}}});
  all.push_back({"nn.group_norm_grad",
                 {image, channels, image},
                 {image, channels, channels},
                 {{"groups", int64_t{2}}, {"epsilon", 1e-5}}});
  for (const char *op : {"nn.softmax", "nn.log_softmax"})
    all.push_back({op, {x}, {x}, {{"axis", int64_t{1}}}});
  all.push_back({"nn.softmax_grad", {x, x}, {x}, {{"axis", int64_t{1}}}});
  all.push_back({"nn.matmul",
                 {{F, {2, 5, 3}}, {F, {2, 4, 5}}},
                 {{F, {2, 3, 4}}},
                 {{"transpose_a", int64_t{1}}, {"transpose_b", int64_t{1}}}});
  std::map<std::string, Attribute> conv = {{"strides", Ints{2, 1}},
                                           {"pads_low", Ints{1, 1}},
                                           {"dilations", Ints{1, 2}},
                                           {"groups", int64_t{2}}};
  TensorType w{F, {6, 2, 3, 2}}, y{F, {2, 6, 2, 3}};
  all.push_back({"nn.convolution", {image, w}, {y}, conv});
  all.push_back({"nn.convolution_input_grad", {y, w}, {image}, conv});
  all.push_back({"nn.convolution_weight_grad", {image, y}, {w}, conv});
  TensorType q{F, {1, 2, 3, 4}}, v{F, {1, 2, 5, 6}};
  all.push_back({"nn.attention",
                 {q, {F, {1, 2, 5, 4}}, v, {F, {3, 5}}},
                 {{F, {1, 2, 3, 6}}},
                 {{"scale", 0.5}, {"causal", int64_t{0}}}});
  all.push_back({"train.draw",
                 {{I, {}}, {I, {}}, {I, {}}},
                 {{F, {4, 3}}},
                 {{"use", int64_t{7}}, {"distribution", std::string("normal")}}});
  all.push_back({"train.global_norm", {x, row}, {{F, {}}}});
  all.push_back({"train.update",
                 {x, x, x, x, {F, {}}, {I, {}}, {F, {}}, {B, {}}},
                 {x, x, x},
                 {{"beta1", 0.9}, {"beta2", 0.99}, {"epsilon", 1e-8}, {"weight_decay", 0.1}}});
  return all;
}

/// Evaluates; what is too large for a test's memory counts as refused.
Status attempt(const Sample &sample, std::mt19937 &random) {
  Node node;
  node.op = sample.op;
  node.attributes = sample.attributes;
  std::vector<Tensor> tensors;
  for (const TensorType &type : sample.operands) {
    if (type.count() < 0 || type.count() > (1 << 20))
      return Status::internal("large");
    tensors.emplace_back(type);
    for (double &value : tensors.back().real)
      value = 0.1 + random() % 100 / 50.0;
    for (int64_t &value : tensors.back().integer)
      value = type.dtype == DType::kBool ? random() % 2 : random() % 3;
  }
  for (const TensorType &type : sample.results)
    if (type.count() > (1 << 20))
      return Status::internal("large");
  Operands operands;
  for (Tensor &tensor : tensors)
    operands.push_back(&tensor);
  if (random() % 64 == 0 && !operands.empty())
    operands[random() % operands.size()] = nullptr;
  return evaluate(node, operands, sample.results).status();
}

TEST(DamagedNodes, EveryOperatorHasACheckAndASample) {
  std::set<std::string> sampled;
  for (const Sample &sample : samples())
    sampled.insert(sample.op);
  for (const auto &[name, kernel] : registry()) {
    EXPECT_TRUE(sampled.count(name)) << name << " has no sample";
    auto checked = checkedOperators();
    EXPECT_TRUE(std::find(checked.begin(), checked.end(), name) != checked.end())
        << name << " is not checked";
  }
}

TEST(DamagedNodes, SoundOnesAreEvaluated) {
  std::mt19937 random(3);
  for (const Sample &sample : samples()) {
    Node node;
    node.op = sample.op;
    node.attributes = sample.attributes;
    std::vector<Tensor> tensors;
    Operands operands;
    for (const TensorType &type : sample.operands)
      tensors.emplace_back(type);
    for (Tensor &tensor : tensors) {
      std::fill(tensor.integer.begin(), tensor.integer.end(), 1);
      operands.push_back(&tensor);
    }
    auto results = evaluate(node, operands, sample.results);
    EXPECT_TRUE(results.ok()) << results.status().message();
  }
}

/// A number that is near, odd, or enormous.
int64_t strange(std::mt19937 &random, int64_t near) {
  constexpr int64_t kOdd[] = {-1,
                              0,
                              1,
                              2,
                              3,
                              7,
                              1 << 20,
                              int64_t{1} << 31,
                              int64_t{1} << 40,
                              std::numeric_limits<int64_t>::min(),
                              std::numeric_limits<int64_t>::max()};
  if (random() % 2)
    return kOdd[random() % std::size(kOdd)];
  int64_t moved = near;
  if (__builtin_add_overflow(near, static_cast<int64_t>(random() % 5) - 2, &moved))
    return near;
  return moved;
}

void damage(TensorType &type, std::mt19937 &random) {
  switch (random() % 4) {
  case 0:
    type.dtype = static_cast<DType>(random() % 7);
    break;
  case 1:
    if (!type.shape.empty())
      type.shape.pop_back();
    break;
  case 2:
    type.shape.push_back(strange(random, 2));
    break;
  default:
    if (!type.shape.empty()) {
      int64_t &extent = type.shape[random() % type.shape.size()];
      extent = strange(random, extent);
    }
  }
}

void damage(Sample &sample, std::mt19937 &random) {
  switch (random() % 4) {
  case 0:
    if (!sample.operands.empty())
      damage(sample.operands[random() % sample.operands.size()], random);
    break;
  case 1:
    damage(sample.results[random() % sample.results.size()], random);
    break;
  case 2: {
    if (sample.attributes.empty())
      break;
    auto at = std::next(sample.attributes.begin(), random() % sample.attributes.size());
    if (random() % 4 == 0) {
      sample.attributes.erase(at);
    } else if (auto *number = std::get_if<int64_t>(&at->second)) {
      *number = strange(random, *number);
    } else if (auto *numbers = std::get_if<Ints>(&at->second)) {
      if (random() % 4 == 0 || numbers->empty())
        numbers->resize(random() % 5, 1);
      else
        (*numbers)[random() % numbers->size()] = strange(random, 1);
    } else {
      at->second = strange(random, 0); // another kind of value
    }
    break;
  }
  default:
    if (random() % 2 && !sample.operands.empty())
      sample.operands.erase(sample.operands.begin() + random() % sample.operands.size());
    else
      sample.operands.push_back({F, {2}});
  }
}

TEST(DamagedNodes, AreEvaluatedOrRefused) {
  std::mt19937 random(17);
  int refused = 0, evaluated = 0;
  std::vector<Sample> sound = samples();
  for (int round = 0; round < 300; ++round)
    for (const Sample &sample : sound) {
      Sample damaged = sample;
      for (int hits = 1 + random() % 2; hits > 0; --hits)
        damage(damaged, random);
      ++(attempt(damaged, random) ? evaluated : refused);
    }
  EXPECT_GT(refused, 5000);
  EXPECT_GT(evaluated, 500); // the damage is not always fatal
}

TEST(Numbers, IntegersWrapAround) {
  auto run = [](const char *op, DType dtype, int64_t a, int64_t b) {
    Node node;
    node.op = op;
    TensorType type{dtype, {1}};
    Tensor x(type), y(type);
    x.integer[0] = a, y.integer[0] = b;
    return evaluate(node, {&x, &y}, {type})->at(0).integer[0];
  };
  constexpr int64_t kMax = std::numeric_limits<int64_t>::max(), kMin = -kMax - 1;
  EXPECT_EQ(run("nn.add", DType::kI64, kMax, 1), kMin);
  EXPECT_EQ(run("nn.sub", DType::kI64, kMin, 1), kMax);
  EXPECT_EQ(run("nn.mul", DType::kI64, kMin, -1), kMin);
  EXPECT_EQ(run("nn.div", DType::kI64, kMin, -1), kMin);
  EXPECT_EQ(run("nn.add", DType::kI32, 2147483647, 1), -2147483648LL);
  EXPECT_EQ(run("nn.mul", DType::kI32, 65536, 65536), 0);
}

TEST(Numbers, NarrowFloatsRoundOnce) {
  // 1 + 2^-11 is halfway between two halves: to even, 1. A little more goes up, also
  // where rounding to f32 first would lose the little.
  EXPECT_EQ(roundTo(1 + std::ldexp(1, -11), DType::kF16), 1);
  EXPECT_EQ(roundTo(1 + std::ldexp(1, -11) + std::ldexp(1, -40), DType::kF16),
            1 + std::ldexp(1, -10));
  EXPECT_EQ(roundTo(1 + std::ldexp(1, -8) + std::ldexp(1, -40), DType::kBF16),
            1 + std::ldexp(1, -7));
  EXPECT_EQ(roundTo(65519.9, DType::kF16), 65504);
  EXPECT_TRUE(std::isinf(roundTo(65520, DType::kF16)));
  EXPECT_EQ(roundTo(std::ldexp(1.5, -25), DType::kF16), std::ldexp(1, -24)); // subnormal
  EXPECT_EQ(roundTo(std::ldexp(1, -25), DType::kF16), 0);                    // tie to even
  EXPECT_TRUE(std::isnan(roundTo(std::nan(""), DType::kBF16)));
}

} // namespace
} // namespace diffrun::evaluate
