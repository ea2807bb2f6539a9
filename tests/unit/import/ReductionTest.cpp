// Reductions, places of extremes, running sums and losses: values by hand, edge
// cases, gradients.
#include "tests/unit/import/OperatorCheck.h"

#include <cmath>
#include <limits>

namespace diffc::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr auto kF32 = onnx::TensorProto::FLOAT;
constexpr auto kI32 = onnx::TensorProto::INT32;
constexpr auto kI64 = onnx::TensorProto::INT64;
constexpr auto kBool = onnx::TensorProto::BOOL;

/// A reduction over `axes` (none: all), named as its opset names them.
OnnxBuilder reduce(const std::string &op, const std::vector<std::string> &dims,
                   std::optional<Ints> axes, bool keep, int64_t opset,
                   onnx::TensorProto::DataType element = kF32) {
  OnnxBuilder m(opset);
  m.input("x", dims, element);
  bool operand = opset >= (op == "ReduceSum" ? 13 : 18);
  if (axes && operand)
    m.ints("axes", *axes);
  auto &node = axes && operand ? m.node(op, {"x", "axes"}) : m.node(op, {"x"});
  if (axes && !operand)
    m.attribute(node, "axes", *axes);
  m.attribute(node, "keepdims", int64_t{keep});
  return m;
}

struct Case {
  const char *op;
  double (*right)(const Values &);
};
double sum(const Values &v, double (*f)(double)) {
  double total = 0;
  for (double x : v)
    total += f(x);
  return total;
}
const Case kReductions[] = {
    {"ReduceSum", [](const Values &v) { return sum(v, [](double x) { return x; }); }},
    {"ReduceMean", [](const Values &v) { return sum(v, [](double x) { return x; }) / v.size(); }},
    {"ReduceL1", [](const Values &v) { return sum(v, std::fabs); }},
    {"ReduceL2", [](const Values &v) { return std::sqrt(sum(v, [](double x) { return x * x; })); }},
    {"ReduceSumSquare", [](const Values &v) { return sum(v, [](double x) { return x * x; }); }},
    {"ReduceLogSum", [](const Values &v) { return std::log(sum(v, [](double x) { return x; })); }},
    {"ReduceLogSumExp", [](const Values &v) { return std::log(sum(v, std::exp)); }},
    {"ReduceProd",
     [](const Values &v) {
       double product = 1;
       for (double x : v)
         product *= x;
       return product;
     }},
    {"ReduceMax", [](const Values &v) { return *std::max_element(v.begin(), v.end()); }},
    {"ReduceMin", [](const Values &v) { return *std::min_element(v.begin(), v.end()); }},
};

TEST(Reductions, OverEveryAxisInEachOpset) {
  Values x = randomValues(24, 5);
  for (double &v : x)
    v = std::fabs(v); // logarithms
  for (const Case &c : kReductions)
    for (int64_t opset : {11, 13, 18})
      for (bool keep : {false, true}) {
        SCOPED_TRACE(std::string(c.op) + "-" + std::to_string(opset));
        Values middle, all{c.right(x)};
        for (int i = 0; i < 2; ++i)
          for (int j = 0; j < 4; ++j)
            middle.push_back(c.right({x[i * 12 + j], x[i * 12 + 4 + j], x[i * 12 + 8 + j]}));
        expectBothWays(reduce(c.op, {"2", "3", "4"}, Ints{-2}, keep, opset), {{"x", x}},
                       keep ? Ints{2, 1, 4} : Ints{2, 4}, middle, 3e-6);
        expectBothWays(reduce(c.op, {"2", "3", "4"}, std::nullopt, keep, opset), {{"x", x}},
                       keep ? Ints{1, 1, 1} : Ints{}, all, 3e-6);
        if (opset == 18)
          checkOperator(reduce(c.op, {"2", "3", "4"}, Ints{2, 0}, keep, opset), {{"x", x}});
      }
}

TEST(Reductions, NoAxesMayMeanNone) {
  for (const Case &c : kReductions) {
    SCOPED_TRACE(c.op);
    for (bool named : {false, true}) {
      auto m = named ? reduce(c.op, {"3"}, Ints{}, true, 18)
                     : reduce(c.op, {"3"}, std::nullopt, true, 18);
      m.attribute(*m.graph().mutable_node(0), "noop_with_empty_axes", int64_t{1});
      Values x{1, 2, 3}, right;
      for (double v : x)
        right.push_back(c.right({v}));
      expectBothWays(m, {{"x", x}}, {3}, right);
    }
    // An empty list without it: all axes.
    expectBothWays(reduce(c.op, {"3"}, Ints{}, false, 18), {{"x", {1, 2, 3}}}, {},
                   {c.right({1, 2, 3})});
  }
}

TEST(Reductions, OfNothing) {
  auto empty = [](const char *op, onnx::TensorProto::DataType element = kF32) {
    return reduce(op, {"2", "0"}, Ints{1}, false, 20, element);
  };
  expectBothWays(empty("ReduceSum"), {{"x", {}}}, {2}, {0, 0});
  expectBothWays(empty("ReduceL2"), {{"x", {}}}, {2}, {0, 0});
  expectBothWays(empty("ReduceProd"), {{"x", {}}}, {2}, {1, 1});
  expectBothWays(empty("ReduceMax"), {{"x", {}}}, {2}, {-kInf, -kInf});
  expectBothWays(empty("ReduceMin"), {{"x", {}}}, {2}, {kInf, kInf});
  expectBothWays(empty("ReduceLogSumExp"), {{"x", {}}}, {2}, {-kInf, -kInf});
  expectBothWays(empty("ReduceMax", kI32), {{"x", {}}}, {2}, {-2147483648.0, -2147483648.0});
  expectBothWays(empty("ReduceMax", kBool), {{"x", {}}}, {2}, {0, 0});
  expectBothWays(empty("ReduceMin", kBool), {{"x", {}}}, {2}, {1, 1});
}

TEST(Reductions, OfIntegersAndBooleans) {
  Values x{1, -5, 3, 2};
  for (auto element : {kI32, kI64}) {
    auto of = [&](const char *op) { return reduce(op, {"4"}, Ints{0}, false, 20, element); };
    expectBothWays(of("ReduceMax"), {{"x", x}}, {}, {3});
    expectBothWays(of("ReduceMin"), {{"x", x}}, {}, {-5});
    expectBothWays(of("ReduceProd"), {{"x", x}}, {}, {-30});
    expectBothWays(of("ReduceL1"), {{"x", x}}, {}, {11});
    expectBothWays(of("ReduceSumSquare"), {{"x", x}}, {}, {39});
    expectBothWays(of("ReduceL2"), {{"x", {3, 4, 0, 0}}}, {}, {5});
  }
  expectBothWays(reduce("ReduceMax", {"2", "2"}, Ints{1}, false, 20, kBool), {{"x", {0, 1, 0, 0}}},
                 {2}, {1, 0});
  expectBothWays(reduce("ReduceMin", {"2", "2"}, Ints{1}, false, 20, kBool), {{"x", {0, 1, 1, 1}}},
                 {2}, {0, 1});
}

TEST(Reductions, LargeNumbersAndInfinities) {
  auto m = reduce("ReduceLogSumExp", {"5", "2"}, Ints{1}, false, 18);
  expectBothWays(m, {{"x", {1000, 1000, -1000, -1000, -kInf, -kInf, kInf, 0, kNaN, 1}}}, {5},
                 {1000 + std::log(2), -1000 + std::log(2), -kInf, kInf, kNaN});
  auto slopes =
      gradientOf(m, "x", {{"x", {1000, 1000, -1000, -kInf, 0, 0, 1, 1, 2, 2}}}, {1, 1, 1, 1, 1});
  ASSERT_TRUE(slopes.ok());
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR((*slopes)[i], (Values{0.5, 0.5, 1, 0})[i], 1e-12);
}

TEST(Reductions, GradientsWhereFormulasDivideByZero) {
  auto product = gradientOf(reduce("ReduceProd", {"3", "3"}, Ints{1}, false, 18), "x",
                            {{"x", {2, 0, 3, 0, 0, 5, 2, 3, 4}}}, {1, 1, 1});
  ASSERT_TRUE(product.ok());
  EXPECT_EQ(*product, (Values{0, 6, 0, 0, 0, 0, 12, 8, 6}));
  auto norm = gradientOf(reduce("ReduceL2", {"2", "2"}, Ints{1}, false, 18), "x",
                         {{"x", {0, 0, 3, 4}}}, {1, 1});
  ASSERT_TRUE(norm.ok());
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR((*norm)[i], (Values{0, 0, 0.6, 0.8})[i], 1e-12);
}

OnnxBuilder place(const char *op, const std::vector<std::string> &dims, int64_t axis, bool keep,
                  bool last, onnx::TensorProto::DataType element = kF32) {
  OnnxBuilder m(13);
  m.input("x", dims, element);
  auto &node = m.node(op, {"x"});
  m.attribute(node, "axis", axis);
  m.attribute(node, "keepdims", int64_t{keep});
  m.attribute(node, "select_last_index", int64_t{last});
  return m;
}

TEST(ArgMax, FirstOrLastOfEqual) {
  Values x{2, 5, 5, 1, 1, 3};
  for (auto element : {kF32, kI32, kI64}) {
    expectBothWays(place("ArgMax", {"2", "3"}, 1, false, false, element), {{"x", x}}, {2}, {1, 2});
    expectBothWays(place("ArgMax", {"2", "3"}, -1, true, true, element), {{"x", x}}, {2, 1},
                   {2, 2});
    expectBothWays(place("ArgMin", {"2", "3"}, 1, false, false, element), {{"x", x}}, {2}, {0, 0});
    expectBothWays(place("ArgMin", {"2", "3"}, 1, false, true, element), {{"x", x}}, {2}, {0, 1});
    expectBothWays(place("ArgMax", {"2", "3"}, 0, false, false, element), {{"x", x}}, {3},
                   {0, 0, 0});
  }
  expectBothWays(place("ArgMax", {"2", "3"}, 1, false, false),
                 {{"x", {1, kNaN, 7, -kInf, -kInf, -kInf}}}, {2}, {1, 0});
  expectError(place("ArgMax", {"2", "0"}, 1, false, false).run({}), {"ArgMax_1", "empty"});
}

// The tail of a CLIP text encoder: the state at the end-of-text token, which has
// the largest number; padding repeats it.
TEST(ArgMax, PoolsAtTheEndOfText) {
  for (bool casts : {false, true}) {
    OnnxBuilder m(14);
    m.input("ids", {"2", "4"}, kI64);
    m.input("hidden", {"2", "4"});
    if (casts)
      m.attribute(m.node("Cast", {"ids"}, {"narrow"}), "to", int64_t{kI32});
    auto &arg = m.node("ArgMax", {casts ? "narrow" : "ids"}, {"at"});
    m.attribute(arg, "axis", int64_t{1});
    m.attribute(arg, "keepdims", int64_t{0});
    auto *one = m.graph().add_initializer();
    one->set_name("one");
    one->set_data_type(kI64);
    one->add_dims(1);
    one->add_int64_data(1);
    m.node("Unsqueeze", {"at", "one"}, {"column"});
    m.attribute(m.node("GatherND", {"hidden", "column"}), "batch_dims", int64_t{1});
    Values hidden{0, 1, 2, 3, 10, 11, 12, 13};
    expectBothWays(m, {{"ids", {49406, 320, 49407, 49407, 49406, 49407, 0, 0}}, {"hidden", hidden}},
                   {2}, {2, 11});
  }
}

TEST(Hardmax, OnePerLineOrPerFlattenedRow) {
  OnnxBuilder m(13);
  m.input("x", {"2", "2", "2"});
  m.attribute(m.node("Hardmax", {"x"}), "axis", int64_t{1});
  Values x{1, 4, 3, 2, 5, 5, 5, 5};
  expectBothWays(m, {{"x", x}}, {2, 2, 2}, {0, 1, 1, 0, 1, 1, 0, 0});
  OnnxBuilder old(11);
  old.input("x", {"2", "2", "2"});
  old.node("Hardmax", {"x"});
  expectBothWays(old, {{"x", x}}, {2, 2, 2}, {0, 1, 0, 0, 1, 0, 0, 0});
}

TEST(Normalizing, LpAndMeanVariance) {
  for (int64_t p : {1, 2}) {
    OnnxBuilder m(22);
    m.input("x", {"2", "2"});
    m.attribute(m.node("LpNormalization", {"x"}), "p", p);
    expectBothWays(m, {{"x", {3, -4, 0, 0}}}, {2, 2},
                   p == 1 ? Values{3 / 7.0, -4 / 7.0, 0, 0} : Values{0.6, -0.8, 0, 0});
    checkOperator(m, {{"x", {3, -4, 1, 2}}});
    auto slope = gradientOf(m, "x", {{"x", {3, -4, 0, 0}}}, {1, 1, 1, 1});
    ASSERT_TRUE(slope.ok());
    EXPECT_TRUE(std::isfinite((*slope)[2]) && std::isfinite((*slope)[3]));
  }
  OnnxBuilder m(13);
  m.input("x", {"2", "2", "1", "2"});
  m.node("MeanVarianceNormalization", {"x"});
  Values x{40000, 40001, 0, 0, 40002, 40003, 0, 0}; // the second channel is constant
  double s = std::sqrt(1.25);
  expectBothWays(m, {{"x", x}}, {2, 2, 1, 2}, {-1.5 / s, -0.5 / s, 0, 0, 0.5 / s, 1.5 / s, 0, 0},
                 1e-5);
  checkOperator(m, {{"x", {1, -2, 0.3, 4, 0.5, 3, 2, 1}}});
}

TEST(Cumulative, EveryDirection) {
  struct {
    bool exclusive, reverse;
    Values sum, product;
  } cases[] = {{false, false, {1, 3, 6, 10, 15}, {1, 2, 6, 24, 120}},
               {true, false, {0, 1, 3, 6, 10}, {1, 1, 2, 6, 24}},
               {false, true, {15, 14, 12, 9, 5}, {120, 120, 60, 20, 5}},
               {true, true, {14, 12, 9, 5, 0}, {120, 60, 20, 5, 1}}};
  for (const auto &c : cases)
    for (const char *op : {"CumSum", "CumProd"})
      for (auto element : {kF32, kI64}) {
        OnnxBuilder m(26);
        m.input("x", {"5"}, element);
        m.ints("axis", {-1});
        auto &node = m.node(op, {"x", "axis"});
        m.attribute(node, "exclusive", int64_t{c.exclusive});
        m.attribute(node, "reverse", int64_t{c.reverse});
        expectBothWays(m, {{"x", {1, 2, 3, 4, 5}}}, {5}, op[3] == 'S' ? c.sum : c.product);
        if (element == kF32)
          checkOperator(m, {{"x", {1, 0, 3, -4, 5}}});
      }
  OnnxBuilder rows(14);
  rows.input("x", {"2", "3"});
  rows.ints("axis", {0});
  rows.node("CumSum", {"x", "axis"});
  expectBothWays(rows, {{"x", {1, 2, 3, 4, kInf, 6}}}, {2, 3}, {1, 2, 3, 5, kInf, 9});
  OnnxBuilder open(14);
  open.input("x", {"2"});
  open.input("axis", {"1"}, kI64);
  open.node("CumSum", {"x", "axis"});
  expectError(open.run({}), {"CumSum_1", "axis"});
}

TEST(CrossEntropy, WeightsIgnoredTargetsReductions) {
  Values x{1, 2, 0.5, -1, 0.3, 2};
  auto logSoftmax = [&](size_t row, size_t c) {
    double all = 0;
    for (size_t k = 0; k < 3; ++k)
      all += std::exp(x[row * 3 + k]);
    return x[row * 3 + c] - std::log(all);
  };
  double a = -logSoftmax(0, 2), b = -logSoftmax(1, 0);
  for (bool weighted : {false, true})
    for (bool ignores : {false, true})
      for (const char *reduction : {"none", "sum", "mean"}) {
        SCOPED_TRACE(reduction);
        OnnxBuilder m(13);
        m.input("x", {"2", "3"});
        m.input("t", {"2"}, kI64);
        if (weighted)
          m.floats("w", {3}, {4, 3, 2});
        auto &node = weighted ? m.node("SoftmaxCrossEntropyLoss", {"x", "t", "w"}, {"y", "log"})
                              : m.node("SoftmaxCrossEntropyLoss", {"x", "t"}, {"y", "log"});
        m.output("log");
        m.attribute(node, "reduction", reduction);
        if (ignores)
          m.attribute(node, "ignore_index", int64_t{-1});
        double wa = weighted ? 2 : 1, wb = ignores ? 0 : weighted ? 4 : 1;
        Values right{wa * a, wb * b};
        if (reduction[0] != 'n')
          right = {(wa * a + wb * b) / (reduction[0] == 'm' ? wa + wb : 1)};
        std::map<std::string, Values> feeds{{"x", x}, {"t", {2, ignores ? -1.0 : 0}}};
        if (weighted)
          feeds["w"] = {4, 3, 2};
        expectBothWays(m, feeds, reduction[0] == 'n' ? Ints{2} : Ints{}, right, 1e-5);
        auto both = runBothWays(m, feeds);
        ASSERT_TRUE(both.ok());
        EXPECT_NEAR(both->compiled[1].real[4], logSoftmax(1, 1), 1e-5);
        // One target's weighted mean does not depend on its weight: a gradient of
        // 0 has no relative error.
        if (!(weighted && ignores && reduction[0] == 'm'))
          checkOperator(m, feeds);
      }
}

TEST(CrossEntropy, OfProbabilitiesThatAreZero) {
  OnnxBuilder m(13);
  m.input("x", {"1", "2", "2"});
  m.input("t", {"1", "2"}, kI32);
  m.attribute(m.node("NegativeLogLikelihoodLoss", {"x", "t"}), "reduction", "none");
  // -infinity belongs to the class that is not the target.
  expectBothWays(m, {{"x", {-1, -kInf, -kInf, -2}}, {"t", {0, 1}}}, {1, 2}, {1, 2});
  OnnxBuilder wrong(13);
  wrong.input("x", {"2", "3"});
  wrong.input("t", {"3"}, kI64);
  wrong.node("NegativeLogLikelihoodLoss", {"x", "t"});
  expectError(wrong.run({}), {"NegativeLogLikelihoodLoss_1", "targets"});
}

// Before opset 13 an axis flattens; its default is 1, not -1.
TEST(Softmax, MeansWhatItsOpsetSays) {
  Values x;
  for (double p : {1, 2, 3, 4})
    x.push_back(std::log(p));
  auto softmax = [](const char *op, int64_t opset, std::optional<int64_t> axis) {
    OnnxBuilder m(opset);
    m.input("x", {"1", "2", "2"});
    auto &node = m.node(op, {"x"});
    if (axis)
      m.attribute(node, "axis", *axis);
    return m;
  };
  Values flat{.1, .2, .3, .4}, columns{.25, 1 / 3.0, .75, 2 / 3.0},
      rows{1 / 3.0, 2 / 3.0, 3 / 7.0, 4 / 7.0};
  struct {
    int64_t opset;
    std::optional<int64_t> axis;
    Values right;
  } cases[] = {{11, 1, flat}, {11, std::nullopt, flat}, {13, 1, columns}, {13, std::nullopt, rows}};
  for (const auto &c : cases) {
    expectBothWays(softmax("Softmax", c.opset, c.axis), {{"x", x}}, {1, 2, 2}, c.right);
    Values logs;
    for (double p : c.right)
      logs.push_back(std::log(p));
    expectBothWays(softmax("LogSoftmax", c.opset, c.axis), {{"x", x}}, {1, 2, 2}, logs);
    checkOperator(softmax("Softmax", c.opset, c.axis), {{"x", x}});
    checkOperator(softmax("LogSoftmax", c.opset, c.axis), {{"x", x}});
  }
}

/// 1.3, 1.6, ...: no divisor of 0, no maximum's tie.
Values above(size_t count) {
  Values values;
  for (size_t i = 0; i < count; ++i)
    values.push_back(1.3 + 0.3 * static_cast<double>(i));
  return values;
}

// The gradient of what is broadcast has its own shape: summed over what repeats,
// not over a dimension that is 1 on both sides.
TEST(Broadcast, GradientsHaveTheOperandsShape) {
  Values a(12);
  for (size_t i = 0; i < 12; ++i)
    a[i] = static_cast<double>(i + 1);
  auto half = [](const std::vector<std::string> &left, const std::vector<std::string> &right) {
    OnnxBuilder m(13);
    m.input("a", left);
    m.input("b", right);
    m.node("Add", {"a", "b"}, {"s"});
    m.node("Mul", {"s", "s"}, {"q"});
    m.attribute(m.node("ReduceSum", {"q"}), "keepdims", int64_t{0});
    return m;
  };
  struct {
    std::vector<std::string> shape;
    Values right;
  } cases[] = {{{"1", "4"}, {15, 18, 21, 24}},
               {{"4"}, {15, 18, 21, 24}},
               {{"3", "1"}, {10, 26, 42}},
               {{"1", "1"}, {78}},
               {{}, {78}}};
  for (const auto &c : cases) {
    auto m = half({"3", "4"}, c.shape);
    std::map<std::string, Values> feeds{{"a", a}, {"b", Values(c.right.size(), 0)}};
    auto slope = gradientOf(m, "b", feeds, {0.5});
    ASSERT_TRUE(slope.ok()) << slope.status().message();
    EXPECT_EQ(*slope, c.right);
    checkOperator(m, feeds); // compiled too
  }
  Values row{1, 2, 3, 4};
  auto slope =
      gradientOf(half({"1", "4"}, {"1", "4"}), "b", {{"a", row}, {"b", {0, 0, 0, 0}}}, {0.5});
  ASSERT_TRUE(slope.ok());
  EXPECT_EQ(*slope, row);
  for (const char *op : {"Mul", "Div", "Max", "Pow"})
    for (const auto &c : cases) {
      OnnxBuilder m(13);
      m.input("a", {"3", "4"});
      m.input("b", c.shape);
      m.node(op, {"a", "b"});
      checkOperator(m, {{"a", a}, {"b", above(c.right.size())}});
    }
  OnnxBuilder where(13);
  where.input("c", {"3", "1"}, kBool);
  where.input("a", {"1", "4"});
  where.input("b", {});
  where.node("Where", {"c", "a", "b"});
  checkOperator(where, {{"c", {1, 0, 1}}, {"a", row}, {"b", {7}}});
  OnnxBuilder expand(13);
  expand.input("a", {"3", "1"});
  expand.ints("shape", {2, 1, 4});
  expand.node("Expand", {"a", "shape"});
  checkOperator(expand, {{"a", {1, 2, 3}}});
  OnnxBuilder matmul(13);
  matmul.input("a", {"2", "3", "4"});
  matmul.input("b", {"4", "5"});
  matmul.node("MatMul", {"a", "b"});
  checkOperator(matmul, {{"a", randomValues(24, 1)}, {"b", randomValues(20, 2)}});
}

TEST(Weights, UsedTwiceAddTheirGradients) {
  OnnxBuilder m(13);
  m.input("x", {"1"});
  m.floats("w", {1}, {3});
  m.node("Mul", {"w", "x"}, {"once"});
  m.node("Mul", {"w", "once"});
  auto slope = gradientOf(m, "w", {{"x", {2}}, {"w", {3}}}, {1});
  ASSERT_TRUE(slope.ok());
  EXPECT_EQ(*slope, (Values{12}));
  OnnxBuilder matrix(13);
  matrix.input("x", {"2", "2"});
  matrix.floats("w", {2, 2}, {1, 2, 3, 4});
  matrix.node("MatMul", {"x", "w"}, {"h"});
  matrix.node("Transpose", {"w"}, {"wt"});
  matrix.node("MatMul", {"h", "wt"});
  checkOperator(matrix, {{"x", {1, -1, 0.5, 2}}, {"w", {1, 2, 3, 4}}});
  // Two of equal values stay two.
  OnnxBuilder twins(13);
  twins.input("x", {"2"});
  twins.floats("u", {2}, {1, 2});
  twins.floats("v", {2}, {1, 2});
  twins.node("Mul", {"x", "u"}, {"h"});
  twins.node("Sub", {"h", "v"});
  std::map<std::string, Values> feeds{{"x", {5, 7}}, {"u", {1, 2}}, {"v", {1, 2}}};
  EXPECT_EQ(*gradientOf(twins, "u", feeds, {1, 1}), (Values{5, 7}));
  EXPECT_EQ(*gradientOf(twins, "v", feeds, {1, 1}), (Values{-1, -1}));
}

} // namespace
} // namespace diffc::test
