// The evaluator's kernels on values worked out by hand.
#include "runtime/evaluate/Evaluate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

namespace diffrun::evaluate {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
using Shape = std::vector<int64_t>;
using Values = std::vector<double>;

Tensor real(Shape shape, Values values) {
  Tensor tensor({DType::kF32, std::move(shape)});
  EXPECT_EQ(tensor.real.size(), values.size());
  tensor.real = std::move(values);
  return tensor;
}
Tensor ramp(Shape shape, double first = 0) {
  Tensor tensor({DType::kF32, std::move(shape)});
  std::iota(tensor.real.begin(), tensor.real.end(), first);
  return tensor;
}
Tensor integers(Shape shape, std::vector<int64_t> values) {
  Tensor tensor({DType::kI64, std::move(shape)});
  tensor.integer = std::move(values);
  return tensor;
}

Result<Results> tryRun(std::string op, std::map<std::string, Attribute> attributes,
                       const std::vector<Tensor> &operands, std::vector<TensorType> types) {
  Node node;
  node.op = std::move(op);
  node.attributes = std::move(attributes);
  node.location = "here";
  Operands pointers;
  for (const Tensor &operand : operands)
    pointers.push_back(&operand);
  return evaluate(node, pointers, types);
}

Results run(std::string op, std::map<std::string, Attribute> attributes,
            const std::vector<Tensor> &operands, std::vector<Shape> shapes,
            DType dtype = DType::kF32) {
  std::vector<TensorType> types;
  for (Shape &shape : shapes)
    types.push_back({dtype, shape});
  auto results = tryRun(op, attributes, operands, types);
  EXPECT_TRUE(results.ok()) << op << ": " << results.status().message();
  return results.ok() ? *results : Results();
}

void expectNear(const Tensor &tensor, const Values &expected, double tolerance = 1e-12) {
  ASSERT_EQ(tensor.real.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    EXPECT_NEAR(tensor.real[i], expected[i], tolerance) << "element " << i;
}

TEST(Evaluate, BroadcastsBinaryOperands) {
  auto out = run("nn.add", {}, {ramp({2, 3}), real({2, 1}, {10, 20})}, {{2, 3}});
  expectNear(out[0], {10, 11, 12, 23, 24, 25});
  EXPECT_FALSE(tryRun("nn.add", {}, {ramp({2, 3}), ramp({2})}, {{DType::kF32, {2, 3}}}).ok());
}

TEST(Evaluate, ErrorsNameOperatorAndLocation) {
  auto out = tryRun("nn.gather", {{"axis", int64_t{0}}}, {ramp({3}), integers({1}, {3})},
                    {{DType::kF32, {1}}});
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.status().message().find("nn.gather (here)"), std::string::npos);
  EXPECT_NE(out.status().message().find("index 3 is out of range for 3 rows"), std::string::npos);
}

TEST(Evaluate, SliceWithNegativeStride) {
  auto slice = [&](int64_t start, int64_t stride, int64_t size) {
    return run("nn.slice", {{"starts", Shape{start}}, {"strides", Shape{stride}}}, {ramp({10})},
               {{size}})[0];
  };
  expectNear(slice(9, -1, 9), {9, 8, 7, 6, 5, 4, 3, 2, 1});
  expectNear(slice(9, -3, 3), {9, 6, 3});
  expectNear(slice(0, -1, 0), {});
}

TEST(Evaluate, PadCropsAndInterleaves) {
  auto pad = [&](int64_t low, int64_t high, int64_t interior, int64_t size) {
    return run(
        "nn.pad",
        {{"low", Shape{low}}, {"high", Shape{high}}, {"interior", Shape{interior}}, {"value", 9.0}},
        {real({4}, {1, 2, 3, 4})}, {{size}})[0];
  };
  expectNear(pad(2, 1, 0, 7), {9, 9, 1, 2, 3, 4, 9});
  expectNear(pad(-1, 0, 0, 3), {2, 3, 4});
  expectNear(pad(0, 0, 1, 7), {1, 9, 2, 9, 3, 9, 4});
}

TEST(Evaluate, DepthwiseStridedConvolutionAndItsGradients) {
  std::map<std::string, Attribute> attributes{{"strides", Shape{2, 2}},
                                              {"pads_low", Shape{1, 1}},
                                              {"pads_high", Shape{1, 1}},
                                              {"dilations", Shape{1, 1}},
                                              {"groups", int64_t{4}}};
  Tensor x = ramp({1, 4, 4, 4}), w = ramp({4, 1, 3, 3});
  Tensor ones = real({1, 4, 2, 2}, Values(16, 1));
  auto y = run("nn.convolution", attributes, {x, w}, {{1, 4, 2, 2}});
  EXPECT_EQ(Values(y[0].real.begin(), y[0].real.begin() + 4), (Values{73, 154, 279, 438}));
  auto dw = run("nn.convolution_weight_grad", attributes, {x, ones}, {{4, 1, 3, 3}});
  EXPECT_EQ(Values(dw[0].real.begin(), dw[0].real.begin() + 9),
            (Values{5, 10, 12, 10, 20, 24, 18, 36, 40}));
  EXPECT_EQ(Values(dw[0].real.begin() + 27, dw[0].real.end()),
            (Values{53, 106, 108, 106, 212, 216, 114, 228, 232}));
  auto dx = run("nn.convolution_input_grad", attributes, {ones, w}, {{1, 4, 4, 4}});
  EXPECT_EQ(Values(dx[0].real.begin(), dx[0].real.begin() + 16),
            (Values{4, 8, 4, 5, 8, 16, 8, 10, 4, 8, 4, 5, 7, 14, 7, 8}));
}

TEST(Evaluate, MatmulFlagsAndBroadcast) {
  Tensor a = ramp({2, 3}), at = real({3, 2}, {0, 3, 1, 4, 2, 5}), b = ramp({3, 2});
  Values expected{10, 13, 28, 40};
  expectNear(run("nn.matmul", {}, {a, b}, {{2, 2}})[0], expected);
  expectNear(run("nn.matmul", {{"transpose_a", int64_t{1}}}, {at, b}, {{2, 2}})[0], expected);
  Tensor bt = real({2, 3}, {0, 2, 4, 1, 3, 5});
  expectNear(run("nn.matmul", {{"transpose_b", int64_t{1}}}, {a, bt}, {{2, 2}})[0], expected);
  auto batched = run("nn.matmul", {}, {ramp({2, 1, 2, 3}), ramp({4, 3, 2})}, {{2, 4, 2, 2}});
  EXPECT_EQ(batched[0].real.size(), 32u);
}

TEST(Evaluate, LayerNormOfLargeMeans) {
  std::map<std::string, Attribute> attributes{{"axis", int64_t{0}}, {"epsilon", 1e-5}};
  auto y = run("nn.layer_norm", attributes, {real({4}, {40000, 40001, 40002, 40003})}, {{4}});
  expectNear(y[0], {-1.341635, -0.447212, 0.447212, 1.341635}, 1e-6);
  auto flat = run("nn.layer_norm", attributes, {real({256}, Values(256, 1234))}, {{256}});
  for (double value : flat[0].real)
    EXPECT_LT(std::fabs(value), 1e-2);
}

TEST(Evaluate, SoftmaxRows) {
  auto y = run("nn.softmax", {{"axis", int64_t{1}}},
               {real({2, 2}, {std::log(1), std::log(3), -kInf, -kInf})}, {{2, 2}});
  expectNear(y[0], {0.25, 0.75, 0, 0});
}

TEST(Evaluate, AttentionRowWithEverythingMasked) {
  Tensor q = real({1, 1, 2, 1}, {1, 1}), v = real({1, 1, 2, 1}, {1, 3});
  Tensor mask = real({2, 2}, {-kInf, -kInf, 0, 0});
  auto y = run("nn.attention", {{"scale", 1.0}}, {q, q, v, mask}, {{1, 1, 2, 1}});
  expectNear(y[0], {0, 2});
  Tensor soft = real({1, 1, 2, 2}, {-10000, -10000, 0, 0});
  expectNear(run("nn.attention", {{"scale", 1.0}}, {q, q, v, soft}, {{1, 1, 2, 1}})[0], {2, 2});
}

TEST(Evaluate, CastSaturatesAndTruncates) {
  auto out = run("nn.cast", {}, {real({4}, {-2.7, 2.7, 1e30, NAN})}, {{4}}, DType::kI32);
  EXPECT_EQ(out[0].integer, (std::vector<int64_t>{-2, 2, 2147483647, 0}));
}

TEST(Evaluate, RemaindersHaveTheDividendsSign) {
  expectNear(
      run("nn.remainder", {}, {real({4}, {-7, 7, 5.5, 1}), real({4}, {3, -3, 2, kInf})}, {{4}})[0],
      {-1, 1, 1.5, 1});
  Tensor least = integers({3}, {-7, std::numeric_limits<int64_t>::min(), 7});
  auto rest = run("nn.remainder", {}, {least, integers({3}, {3, -1, -3})}, {{3}}, DType::kI64);
  EXPECT_EQ(rest[0].integer, (std::vector<int64_t>{-1, 0, 1}));
  auto byZero = tryRun("nn.remainder", {}, {least, integers({}, {0})}, {{DType::kI64, {3}}});
  ASSERT_FALSE(byZero.ok());
  EXPECT_NE(byZero.status().message().find("division by zero"), std::string::npos);
}

TEST(Evaluate, NaNWinsMaximumAndMinimum) {
  Tensor a = real({3}, {NAN, 1, 2}), b = real({3}, {1, NAN, 3});
  for (const char *op : {"nn.maximum", "nn.minimum"}) {
    auto y = run(op, {}, {a, b}, {{3}});
    EXPECT_TRUE(std::isnan(y[0].real[0]) && std::isnan(y[0].real[1])) << op;
    EXPECT_EQ(y[0].real[2], op[4] == 'a' ? 3 : 2);
  }
}

TEST(Evaluate, SmallArgumentsKeepTheirDigits) {
  expectNear(run("nn.log1p", {}, {real({2}, {1e-20, -0.5})}, {{2}})[0], {1e-20, std::log(0.5)});
  EXPECT_EQ(run("nn.log1p", {}, {real({1}, {1e-20})}, {{1}})[0].real[0], 1e-20);
  expectNear(run("nn.atan", {}, {real({3}, {1, -kInf, 0})}, {{3}})[0], {M_PI / 4, -M_PI / 2, 0});
  auto bits = run("nn.bitwise_and", {}, {integers({2}, {-1, 12}), integers({2}, {6, 10})}, {{2}},
                  DType::kI64);
  EXPECT_EQ(bits[0].integer, (std::vector<int64_t>{6, 8}));
}

// L = -mean(w x): the gradient is -1, so AdamW at lr 1 adds 1 per step.
TEST(Evaluate, AdamWCountsSteps) {
  Tensor w = real({}, {0}), m = w, v = w;
  for (int64_t step = 1; step <= 5; ++step) {
    Tensor ok({DType::kBool, {}});
    ok.integer[0] = 1;
    auto next =
        run("train.update",
            {{"beta1", 0.9}, {"beta2", 0.999}, {"epsilon", 1e-8}, {"weight_decay", 0.0}},
            {w, m, v, real({}, {-1}), real({}, {1}), integers({}, {step}), real({}, {1}), ok},
            {{}, {}, {}});
    ASSERT_EQ(next.size(), 3u);
    w = next[0], m = next[1], v = next[2];
    EXPECT_NEAR(w.real[0], static_cast<double>(step), 1e-6);
  }
}

TEST(Evaluate, MeanOfIntegersIsRefused) {
  auto out =
      tryRun("nn.reduce_mean", {{"axes", Shape{0}}}, {integers({2}, {7, 7})}, {{DType::kI64, {}}});
  ASSERT_FALSE(out.ok());
  EXPECT_NE(out.status().message().find("the mean of"), std::string::npos);
}

TEST(Evaluate, GlobalNorm) {
  Values five(5, 1), seven(7, 1);
  auto norm =
      run("train.global_norm", {}, {real({5}, five), real({7}, seven), real({1}, {1})}, {{}});
  EXPECT_NEAR(norm[0].real[0], 3.605551275463989, 1e-12);
}

// The specified bits (docs/random.md), through the operator.
TEST(Evaluate, DrawsAreTheSpecifiedBits) {
  struct Golden {
    uint64_t seed;
    uint32_t stream;
    uint64_t iteration, sample, element;
    uint32_t normal, uniform;
  };
  const Golden table[] = {
#include "tests/unit/random/GoldenDraws.inc"
  };
  auto scalar = [](uint64_t value) { return integers({}, {static_cast<int64_t>(value)}); };
  for (const Golden &g : table)
    for (bool normal : {true, false}) {
      auto count = static_cast<int64_t>(g.element) + 1;
      Results drawn = run("train.draw",
                          {{"use", int64_t{g.stream}},
                           {"distribution", std::string(normal ? "normal" : "uniform")}},
                          {scalar(g.seed), scalar(g.iteration), scalar(g.sample)}, {{1, count}});
      auto value = static_cast<float>(drawn[0].real.back());
      uint32_t bits;
      std::memcpy(&bits, &value, sizeof(bits));
      EXPECT_EQ(bits, normal ? g.normal : g.uniform)
          << "element " << g.element << " of seed " << g.seed;
    }
  Tensor zero = scalar(0);
  auto wide =
      tryRun("train.draw", {{"use", int64_t{1} << 32}, {"distribution", std::string("normal")}},
             {zero, zero, zero}, {{DType::kF32, {1, 4}}});
  ASSERT_FALSE(wide.ok());
  EXPECT_NE(wide.status().message().find("use 4294967296 does not fit 32 bits"), std::string::npos)
      << wide.status().message();
}

TEST(Evaluate, MemoryFormsRoundTrip) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kF16, DType::kBF16}) {
    Tensor tensor({dtype, {4}});
    tensor.real = {-1.5, 0, 0.25, 96};
    std::vector<char> bytes(4 * byteSize(dtype));
    toBytes(tensor, bytes.data());
    EXPECT_EQ(fromBytes(tensor.type, bytes.data()).real, tensor.real) << name(dtype);
  }
}

} // namespace
} // namespace diffrun::evaluate
