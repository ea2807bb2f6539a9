// Element-wise operators: values against the C library (evaluated to 1e-14,
// compiled to a few units in the last place of f32), special values, gradients.
#include "tests/unit/import/OperatorCheck.h"

#include <cmath>
#include <limits>

namespace diffc::test {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
constexpr auto kI32 = onnx::TensorProto::INT32;
constexpr auto kI64 = onnx::TensorProto::INT64;

OnnxBuilder one(const std::string &op, int64_t count,
                const std::vector<std::pair<std::string, double>> &reals = {}, int64_t opset = 24) {
  OnnxBuilder m(opset);
  m.input("x", {std::to_string(count)});
  auto &node = m.node(op, {"x"});
  for (const auto &[name, value] : reals)
    m.attribute(node, name, static_cast<float>(value));
  return m;
}

double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x))); }

struct Function {
  const char *op;
  std::vector<std::pair<std::string, double>> attributes;
  double (*right)(double);
  double low, high; ///< where it is tried
  double units;     ///< compiled error in units in the last place of f32
};
const Function kFunctions[] = {
    {"Elu", {{"alpha", 1.5}}, [](double x) { return x < 0 ? 1.5 * std::expm1(x) : x; }, -90, 90, 4},
    {"Selu",
     {{"alpha", 1.5}, {"gamma", 2}},
     [](double x) { return 2 * (x < 0 ? 1.5 * std::expm1(x) : x); },
     -90,
     90,
     4},
    {"Celu",
     {{"alpha", 2}},
     [](double x) { return x < 0 ? 2 * std::expm1(x / 2) : x; },
     -90,
     90,
     4},
    {"Mish", {}, [](double x) { return x * std::tanh(softplus(x)); }, -20, 90, 8},
    {"Swish", {{"alpha", 1.5}}, [](double x) { return x / (1 + std::exp(-1.5 * x)); }, -9, 90, 8},
    {"Softsign", {}, [](double x) { return x / (1 + std::fabs(x)); }, -1e6, 1e6, 2},
    {"Tan", {}, std::tan, -1.5, 1.5, 6},
    {"Asin", {}, std::asin, -1, 1, 6},
    {"Acos", {}, std::acos, -1, 1, 6},
    {"Atan", {}, std::atan, -1e6, 1e6, 6},
    {"Sinh", {}, std::sinh, -89, 89, 8},
    {"Cosh", {}, std::cosh, -89, 89, 8},
    {"Asinh", {}, std::asinh, -1e30, 1e30, 6},
    {"Acosh", {}, std::acosh, 1, 1e30, 6},
    {"Atanh", {}, std::atanh, -0.99999, 0.99999, 6},
};

/// Numbers of every size between the ends, on both sides of 0, as floats.
Values spread(double low, double high) {
  Values points{low, high};
  for (double size = 1e-20; size < 1e31; size *= 1.37)
    for (double x : {size, -size})
      if (low <= x && x <= high)
        points.push_back(x);
  for (int i = 1; i < 400; ++i)
    points.push_back(low + (high - low) * i / 400);
  for (double &x : points)
    x = std::fmin(std::fmax(static_cast<float>(x), low), high);
  return points;
}

TEST(Functions, ValuesInBothWays) {
  for (const Function &f : kFunctions) {
    SCOPED_TRACE(f.op);
    Values points = spread(f.low, f.high);
    for (double &x : points)
      x = static_cast<float>(x);
    auto both =
        runBothWays(one(f.op, static_cast<int64_t>(points.size()), f.attributes), {{"x", points}});
    ASSERT_TRUE(both.ok()) << both.status().message();
    double worst = 0, where = 0;
    for (size_t i = 0; i < points.size(); ++i) {
      double right = f.right(points[i]), evaluated = both->evaluated[0].real[i];
      EXPECT_NEAR(evaluated, right, 1e-9 * std::fabs(right)) << "at " << points[i];
      double unit = std::fmax(std::ldexp(std::fabs(right), -23), 0x1p-126);
      double error = std::fabs(both->compiled[0].real[i] - right) / unit;
      if (!(error <= worst))
        worst = error, where = points[i];
    }
    EXPECT_LE(worst, f.units) << "at " << where << ", where it should be " << f.right(where);
  }
}

TEST(Functions, Gradients) {
  for (const Function &f : kFunctions) {
    SCOPED_TRACE(f.op);
    double low = std::fmax(f.low, -3), high = std::fmin(f.high, 3);
    Values points;
    for (int i = 1; i < 24; ++i)
      points.push_back(low + (high - low) * (i + 0.3) / 25);
    points.push_back(low < 0 ? 0.013 : 1.013); // near where branches meet
    checkOperator(one(f.op, 24, f.attributes), {{"x", points}});
  }
}

TEST(Functions, GradientsFarOutAreFinite) {
  // The branch that is not taken overflows: it must not reach the gradient.
  struct {
    const char *op;
    double x, slope;
  } cases[] = {{"Elu", 1e30, 1},        {"Selu", 1e30, 1.0507010221481323},
               {"Celu", 1e30, 1},       {"Elu", -1e30, 0},
               {"Mish", 1e10, 1},       {"Asinh", 1e30, 1e-30},
               {"Asinh", -1e30, 1e-30}, {"Acosh", 1e30, 1e-30},
               {"Asinh", 0, 1},         {"Atanh", 0, 1},
               {"Sinh", 0, 1},          {"Cosh", 0, 0}};
  for (const auto &c : cases) {
    auto slope = gradientOf(one(c.op, 1), "x", {{"x", {c.x}}}, {1});
    ASSERT_TRUE(slope.ok()) << slope.status().message();
    EXPECT_NEAR((*slope)[0], c.slope, 1e-6 * (c.slope ? c.slope : 1)) << c.op << " at " << c.x;
  }
}

TEST(Functions, AtInfinityAndNaN) {
  struct {
    const char *op;
    Values right;
  } cases[] = {// of inf, -inf, NaN
               {"Elu", {kInf, -1, kNaN}},         {"Celu", {kInf, -1, kNaN}},
               {"Atan", {M_PI_2, -M_PI_2, kNaN}}, {"Sinh", {kInf, -kInf, kNaN}},
               {"Cosh", {kInf, kInf, kNaN}},      {"Asinh", {kInf, -kInf, kNaN}},
               {"Acosh", {kInf, kNaN, kNaN}},     {"Atanh", {kNaN, kNaN, kNaN}},
               {"Asin", {kNaN, kNaN, kNaN}},      {"Acos", {kNaN, kNaN, kNaN}},
               {"HardSigmoid", {1, 0, kNaN}},     {"Sign", {1, -1, kNaN}},
               {"Relu", {kInf, 0, kNaN}},         {"LeakyRelu", {kInf, -kInf, kNaN}}};
  for (const auto &c : cases) {
    SCOPED_TRACE(c.op);
    expectBothWays(one(c.op, 3), {{"x", {kInf, -kInf, kNaN}}}, {3}, c.right);
  }
  expectBothWays(one("Atanh", 2), {{"x", {1, -1}}}, {2}, {kInf, -kInf});
  expectBothWays(one("Asin", 2), {{"x", {1, -1}}}, {2}, {M_PI_2, -M_PI_2});
  expectBothWays(one("Acos", 2), {{"x", {1, -1}}}, {2}, {0, M_PI});
}

TEST(Functions, PiecewiseByHand) {
  expectBothWays(one("HardSigmoid", 3, {{"alpha", 0.5}, {"beta", 0.6}}), {{"x", {-2, 0.1, 2}}}, {3},
                 {0, 0.65, 1});
  expectBothWays(one("HardSwish", 4), {{"x", {-4, -1, 1, 4}}}, {4}, {0, -1 / 3.0, 2 / 3.0, 4});
  expectBothWays(one("ThresholdedRelu", 3, {{"alpha", 2}}), {{"x", {2, 2.5, -3}}}, {3},
                 {0, 2.5, 0});
  expectBothWays(one("Shrink", 4, {{"lambd", 1.5}, {"bias", 1.5}}), {{"x", {-2, -1, 1.5, 2}}}, {4},
                 {-0.5, 0, 0, 0.5});
  checkOperator(one("HardSwish", 4), {{"x", {-4, -1, 1, 4}}});
  checkOperator(one("Shrink", 4, {{"lambd", 1.4}, {"bias", 0.5}}), {{"x", {-2, -1, 1, 2}}});
  OnnxBuilder m(16);
  m.input("x", {"2", "2"});
  m.input("slope", {"2", "1"});
  m.node("PRelu", {"x", "slope"});
  expectBothWays(m, {{"x", {-1, 2, -3, 4}}, {"slope", {0.5, 2}}}, {2, 2}, {-0.5, 2, -6, 4});
  checkOperator(m, {{"x", {-1, 2, -3, 4}}, {"slope", {0.5, 2}}});
  OnnxBuilder wide(16);
  wide.input("x", {"2"});
  wide.input("slope", {"2", "2"});
  wide.node("PRelu", {"x", "slope"});
  expectError(wide.run({}), {"PRelu_1", "slope does not broadcast"});
  expectError(one("Celu", 2, {{"alpha", 0}}).run({}), {"Celu_1", "alpha is 0"});
}

OnnxBuilder pair(const std::string &op, int64_t count, onnx::TensorProto::DataType element,
                 int64_t opset = 24) {
  OnnxBuilder m(opset);
  m.input("a", {std::to_string(count)}, element);
  m.input("b", {std::to_string(count)}, element);
  m.node(op, {"a", "b"});
  return m;
}
constexpr auto kF32 = onnx::TensorProto::FLOAT;

TEST(MaxMin, EitherNaNIsTheResult) {
  Values a{1, kNaN, 2, kNaN, kInf, -kInf}, b{kNaN, 1, 3, kNaN, kNaN, 0};
  expectBothWays(pair("Max", 6, kF32), {{"a", a}, {"b", b}}, {6}, {kNaN, kNaN, 3, kNaN, kNaN, 0});
  expectBothWays(pair("Min", 6, kF32), {{"a", a}, {"b", b}}, {6},
                 {kNaN, kNaN, 2, kNaN, kNaN, -kInf});
  expectBothWays(pair("Max", 2, kI64), {{"a", {-5, 3}}, {"b", {4, 2}}}, {2}, {4, 3});
  for (const char *op : {"Max", "Min", "Sum", "Mean"})
    expectBothWays(one(op, 2), {{"x", {kNaN, -1}}}, {2}, {kNaN, -1});
  OnnxBuilder m(13);
  for (const char *name : {"a", "b", "c"})
    m.input(name, {"2"});
  m.node("Mean", {"a", "b", "c"});
  expectBothWays(m, {{"a", {1, 2}}, {"b", {4, 5}}, {"c", {4, 11}}}, {2}, {3, 6});
}

TEST(Clip, BoundsAreOptional) {
  Values x{-5, 3, 9};
  auto clip = [&](const std::vector<std::string> &operands) {
    OnnxBuilder m(13);
    m.input("x", {"3"});
    m.floats("six", {}, {6});
    m.floats("zero", {}, {0});
    m.node("Clip", operands);
    return m;
  };
  expectBothWays(clip({"x", "", "six"}), {{"x", x}}, {3}, {-5, 3, 6});
  expectBothWays(clip({"x", "zero", ""}), {{"x", x}}, {3}, {0, 3, 9});
  expectBothWays(clip({"x", "zero"}), {{"x", x}}, {3}, {0, 3, 9});
  expectBothWays(clip({"x"}), {{"x", x}}, {3}, x);
  expectBothWays(clip({"x", "zero", "six"}), {{"x", {kNaN, kInf, -kInf}}}, {3}, {kNaN, 6, 0});
  expectBothWays(one("Clip", 3, {{"min", 0}, {"max", 6}}, 6), {{"x", x}}, {3}, {0, 3, 6});
  expectBothWays(one("Clip", 3, {{"max", 6}}, 6), {{"x", x}}, {3}, {-5, 3, 6});
  auto slope = gradientOf(clip({"x", "", "six"}), "x", {{"x", x}}, {1, 1, 1});
  ASSERT_TRUE(slope.ok());
  EXPECT_EQ(*slope, (Values{1, 1, 0}));
  OnnxBuilder whole(13);
  whole.input("x", {"3"}, kI64);
  whole.input("low", {}, kI64);
  whole.node("Clip", {"x", "low"});
  expectBothWays(whole, {{"x", x}, {"low", {-2}}}, {3}, {-2, 3, 9});
}

TEST(Clip, OfHalfPrecision) {
  OnnxBuilder m(13);
  m.input("x", {"3"}, onnx::TensorProto::FLOAT16);
  m.input("high", {}, onnx::TensorProto::FLOAT16);
  m.node("Clip", {"x", "", "high"});
  expectBothWays(m, {{"x", {-5, 3, 9}}, {"high", {6}}}, {3}, {-5, 3, 6});
}

TEST(Mod, SignsOfBothKinds) {
  Values a{-7, 7, -7, 7, 6, 0, 5}, b{3, -3, -3, 3, 3, 3, -1};
  for (auto element : {kI32, kI64}) {
    expectBothWays(pair("Mod", 7, element), {{"a", a}, {"b", b}}, {7}, {2, -2, -1, 1, 0, 0, 0});
    auto m = pair("Mod", 7, element);
    m.attribute(*m.graph().mutable_node(0), "fmod", int64_t{1});
    expectBothWays(m, {{"a", a}, {"b", b}}, {7}, {-1, 1, -1, 1, 0, 0, 0});
  }
  auto real = pair("Mod", 7, kF32);
  real.attribute(*real.graph().mutable_node(0), "fmod", int64_t{1});
  expectBothWays(
      real, {{"a", {-4.3, 7.2, 5, 1e30, kInf, 3, 1}}, {"b", {2.1, -3.4, 8, 3, 2, kInf, 0}}}, {7},
      {std::fmod(-4.3f, 2.1f), std::fmod(7.2f, -3.4f), 5, std::fmod(1e30f, 3.f), kNaN, 3, kNaN});
  checkOperator(real, {{"a", {-4.3, 7.2, 5, 6.5, 2, 3, 1}}, {"b", {2.1, -3.4, 8, 3, 1.5, 9, 0.3}}});
  expectError(pair("Mod", 2, kF32).run({}), {"Mod_1", "fmod"});
  expectBothWays(pair("Mod", 4, kF32, 28),
                 {{"a", {-4.25, 4.25, 3, -3}}, {"b", {2, -2, kInf, kInf}}}, {4},
                 {1.75, -1.75, 3, kInf});
}

TEST(Integers, DivisionByZeroEndsNoProgram) {
  // Fewer elements than a vector has: the rest of its lanes divide by 0.
  expectBothWays(pair("Div", 3, kI32), {{"a", {7, -7, -2147483648.0}}, {"b", {2, 2, -1}}}, {3},
                 {3, -3, -2147483648.0});
  expectError(runBothWays(pair("Div", 2, kI32), {{"a", {1, 1}}, {"b", {1, 0}}}),
              {"integer division by zero"});
}

TEST(Pow, OfEveryPairOfTypes) {
  Values a{2, -2, 3, 0, -1, 7, -3}, b{10, 3, -1, 0, -3, 2, 5};
  Values right{1024, -8, 0, 1, -1, 49, -243};
  for (auto base : {kI32, kI64})
    for (auto exponent : {kI32, kI64}) {
      OnnxBuilder m(15);
      m.input("a", {"7"}, base);
      m.input("b", {"7"}, exponent);
      m.node("Pow", {"a", "b"});
      expectBothWays(m, {{"a", a}, {"b", b}}, {7}, right);
    }
  OnnxBuilder mixed(15);
  mixed.input("a", {"4"}, kI64);
  mixed.input("b", {"4"});
  mixed.node("Pow", {"a", "b"});
  expectBothWays(mixed, {{"a", {4, 9, 2, 3}}, {"b", {0.5, 1.5, -1, 5}}}, {4}, {2, 27, 0, 243});
  OnnxBuilder whole(15);
  whole.input("a", {"4"});
  whole.input("b", {"4"}, kI32);
  whole.node("Pow", {"a", "b"});
  expectBothWays(whole, {{"a", {-2, 0, 1.5, 1e20}}, {"b", {3, 0, -2, 0}}}, {4},
                 {-8, 1, 1 / 2.25, 1});
  // A negative base has no real power; large and small ones keep their digits.
  expectBothWays(pair("Pow", 5, kF32),
                 {{"a", {-8, 0, 1e30, 1.0001f, kNaN}}, {"b", {1.0f / 3, 2.5, 1.2, 100000, 0}}}, {5},
                 {kNaN, 0, std::pow(1e30f, 1.2f), std::pow(double{1.0001f}, 100000.0), 1}, 2e-7);
}

TEST(Bits, OperatorsAndShifts) {
  Values a{12, -1, 5, -8}, b{10, 6, -3, 3};
  for (auto element : {kI32, kI64}) {
    expectBothWays(pair("BitwiseAnd", 4, element), {{"a", a}, {"b", b}}, {4}, {8, 6, 5, 0});
    expectBothWays(pair("BitwiseOr", 4, element), {{"a", a}, {"b", b}}, {4}, {14, -1, -3, -5});
    expectBothWays(pair("BitwiseXor", 4, element), {{"a", a}, {"b", b}}, {4}, {6, -7, -8, -5});
    double bits = element == kI32 ? 32 : 64;
    for (const char *direction : {"LEFT", "RIGHT"}) {
      auto m = pair("BitShift", 6, element, 28);
      m.attribute(*m.graph().mutable_node(0), "direction", direction);
      bool left = direction[0] == 'L';
      expectBothWays(
          m, {{"a", {1, -7, 5, -5, -9, 3}}, {"b", {bits - 1, 1, bits, -1, bits - 1, 2}}}, {6},
          left ? Values{-std::ldexp(1, bits - 1), -14, 0, 0, -std::ldexp(1, bits - 1), 12}
               : Values{0, -4, 0, -1, -1, 0});
    }
  }
  OnnxBuilder m(18);
  m.input("x", {"3"}, kI32);
  m.node("BitwiseNot", {"x"});
  expectBothWays(m, {{"x", {0, -1, 5}}}, {3}, {-1, 0, -6});
}

TEST(Questions, NaNInfinityXor) {
  expectBothWays(one("IsNaN", 3), {{"x", {1, kNaN, kInf}}}, {3}, {0, 1, 0});
  for (int ask = 0; ask < 4; ++ask) {
    auto m = one("IsInf", 4);
    m.attribute(*m.graph().mutable_node(0), "detect_positive", int64_t{ask & 1});
    m.attribute(*m.graph().mutable_node(0), "detect_negative", int64_t{ask >> 1});
    expectBothWays(m, {{"x", {1, kInf, -kInf, kNaN}}}, {4},
                   {0, double(ask & 1), double(ask >> 1), 0});
  }
  expectBothWays(pair("Xor", 4, onnx::TensorProto::BOOL),
                 {{"a", {0, 0, 1, 1}}, {"b", {0, 1, 0, 1}}}, {4}, {0, 1, 1, 0});
}

TEST(Cast, OfNumbersThatDoNotFit) {
  auto cast = [](onnx::TensorProto::DataType from, int64_t to, int64_t count) {
    OnnxBuilder m(19);
    m.input("x", {std::to_string(count)}, from);
    m.attribute(m.node("Cast", {"x"}), "to", to);
    return m;
  };
  Values x{1.9, -1.9, 0, kNaN, 1e30, -kInf, 0.3};
  expectBothWays(cast(kF32, kI32, 7), {{"x", x}}, {7}, {1, -1, 0, 0, 2147483647, -2147483648.0, 0});
  expectBothWays(cast(kF32, onnx::TensorProto::BOOL, 7), {{"x", x}}, {7}, {1, 1, 0, 1, 1, 1, 1});
  expectBothWays(cast(onnx::TensorProto::BOOL, kF32, 2), {{"x", {0, 1}}}, {2}, {0, 1});
  expectBothWays(cast(kI64, kI32, 2), {{"x", {4294967297.0, -3}}}, {2}, {1, -3});
  expectBothWays(cast(onnx::TensorProto::BOOL, kI64, 2), {{"x", {0, 1}}}, {2}, {0, 1});
}

TEST(Dropout, PassesOnUnlessItTrains) {
  OnnxBuilder m(13);
  m.input("x", {"2"});
  m.node("Dropout", {"x"}, {"y", "mask"});
  m.output("mask");
  auto both = runBothWays(m, {{"x", {3, 4}}});
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->compiled[0].real, (Values{3, 4}));
  EXPECT_EQ(both->compiled[1].integer, (Ints{1, 1}));
  for (double ratio : {0.0, 0.5}) {
    OnnxBuilder trains(13);
    trains.input("x", {"2"});
    trains.floats("ratio", {}, {ratio});
    auto *mode = trains.graph().add_initializer();
    mode->set_name("mode");
    mode->set_data_type(onnx::TensorProto::BOOL);
    mode->add_int32_data(1);
    trains.node("Dropout", {"x", "ratio", "mode"});
    if (ratio == 0)
      expectBothWays(trains, {{"x", {3, 4}}}, {2}, {3, 4});
    else
      expectError(trains.run({}), {"Dropout_1", "training mode"});
  }
}

TEST(Types, WrongElementTypesNameTheNode) {
  OnnxBuilder m(13);
  m.input("x", {"2"}, kI64);
  m.node("Exp", {"x"});
  auto result = m.run({});
  expectError(result, {"Exp_1", "nn.exp"});
  EXPECT_EQ(result.status().code(), diffrun::ErrorCode::kInvalidInput);
}

} // namespace
} // namespace diffc::test
