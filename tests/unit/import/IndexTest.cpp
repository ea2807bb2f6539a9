// Operators that read and write by index: values by hand, edge cases, gradients;
// Slice and Split at their edges.
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

Values ramp(int64_t count, double first = 0) {
  Values values;
  for (int64_t i = 0; i < count; ++i)
    values.push_back(first + static_cast<double>(i));
  return values;
}

void scalarTensor(OnnxBuilder &m, const std::string &name, onnx::TensorProto::DataType type,
                  double value) {
  auto *tensor = m.graph().add_initializer();
  tensor->set_name(name);
  tensor->set_data_type(type);
  if (type == kF32)
    tensor->add_float_data(static_cast<float>(value));
  else if (type == kI64)
    tensor->add_int64_data(static_cast<int64_t>(value));
  else if (type == onnx::TensorProto::DOUBLE)
    tensor->add_double_data(value);
  else
    tensor->add_int32_data(static_cast<int32_t>(value));
}

TEST(Gather, ElementsByNegativeAndNarrowIndices) {
  for (auto element : {kI32, kI64}) {
    OnnxBuilder m(13);
    m.input("x", {"3", "3"});
    m.input("i", {"2", "2"}, element);
    m.attribute(m.node("GatherElements", {"x", "i"}), "axis", int64_t{1});
    std::map<std::string, Values> feeds{{"x", ramp(9)}, {"i", {0, -1, 2, 2}}};
    expectBothWays(m, feeds, {2, 2}, {0, 2, 5, 5});
    checkOperator(m, feeds);
    auto slope = gradientOf(m, "x", feeds, {1, 2, 3, 4});
    ASSERT_TRUE(slope.ok());
    EXPECT_EQ(*slope, (Values{1, 0, 2, 0, 0, 7, 0, 0, 0}));
    expectError(runBothWays(m, {{"x", ramp(9)}, {"i", {0, 3, 0, 0}}}), {"out of range"});
    OnnxBuilder rows(13);
    rows.input("x", {"3", "2"});
    rows.input("i", {"2"}, element);
    rows.node("Gather", {"x", "i"});
    expectBothWays(rows, {{"x", ramp(6)}, {"i", {-1, 0}}}, {2, 2}, {4, 5, 0, 1});
  }
  OnnxBuilder wide(13);
  wide.input("x", {"2", "2"});
  wide.input("i", {"3", "2"}, kI64);
  wide.attribute(wide.node("GatherElements", {"x", "i"}), "axis", int64_t{1});
  expectError(wide.run({}), {"GatherElements_1", "dimension 0"});
}

TEST(Gather, SlicesByCoordinates) {
  OnnxBuilder m(13);
  m.input("x", {"2", "2", "2"});
  m.input("i", {"2", "1", "2"}, kI64);
  m.node("GatherND", {"x", "i"});
  std::map<std::string, Values> feeds{{"x", ramp(8)}, {"i", {0, -1, 1, 0}}};
  expectBothWays(m, feeds, {2, 1, 2}, {2, 3, 4, 5});
  checkOperator(m, feeds);
  OnnxBuilder batched(13);
  batched.input("x", {"2", "3", "2"});
  batched.input("i", {"2", "2", "1"}, kI64);
  batched.attribute(batched.node("GatherND", {"x", "i"}), "batch_dims", int64_t{1});
  expectBothWays(batched, {{"x", ramp(12)}, {"i", {2, 0, -1, 1}}}, {2, 2, 2},
                 {4, 5, 0, 1, 10, 11, 8, 9});
  checkOperator(batched, {{"x", ramp(12)}, {"i", {2, 0, -1, 1}}});
  OnnxBuilder deep(13);
  deep.input("x", {"2", "2"});
  deep.input("i", {"1", "3"}, kI64);
  deep.node("GatherND", {"x", "i"});
  expectError(deep.run({}), {"GatherND_1", "3 coordinates"});
}

OnnxBuilder scatter(const char *op, const std::vector<std::string> &data,
                    const std::vector<std::string> &indices,
                    const std::vector<std::string> &updates, const char *reduction,
                    onnx::TensorProto::DataType element = kF32) {
  OnnxBuilder m(18);
  m.input("x", data, element);
  m.input("i", indices, kI64);
  m.input("u", updates, element);
  auto &node = m.node(op, {"x", "i", "u"});
  if (reduction)
    m.attribute(node, "reduction", reduction);
  return m;
}

TEST(Scatter, ElementsInEveryReduction) {
  struct {
    const char *reduction;
    bool twice;
    Values right;
  } cases[] = {{nullptr, false, {1, 9, 3, -7, 5, 6}}, {"none", false, {1, 9, 3, -7, 5, 6}},
               {"add", true, {1, 2, 3, 6, 5, 6}},     {"mul", true, {1, 2, 3, -252, 5, 6}},
               {"max", true, {1, 2, 3, 9, 5, 6}},     {"min", true, {1, 2, 3, -7, 5, 6}}};
  for (const auto &c : cases)
    for (auto element : {kF32, kI64}) {
      SCOPED_TRACE(c.reduction ? c.reduction : "default");
      // [3, 2], column 1 and row -1 along axis 0; or both into row 1 of column 1.
      auto m = scatter("ScatterElements", {"2", "3"}, {"1", "2"}, {"1", "2"}, c.reduction, element);
      std::map<std::string, Values> feeds{{"x", ramp(6, 1)}, {"u", {-7, 9}}};
      Values right = c.right;
      if (!c.twice) {
        feeds["i"] = {-1, 0};
      } else {
        m.attribute(*m.graph().mutable_node(0), "axis", int64_t{1});
        m = scatter("ScatterElements", {"2", "3"}, {"2", "2"}, {"2", "2"}, c.reduction, element);
        m.attribute(*m.graph().mutable_node(0), "axis", int64_t{1});
        feeds["i"] = {0, 1, 0, -3};
        feeds["u"] = c.reduction[0] == 'a'   ? Values{0, 0, -7, 9}
                     : c.reduction[1] == 'u' ? Values{1, 1, -7, 9}
                     : c.reduction[1] == 'a' ? Values{-1, 0, -7, 9}
                                             : Values{9, 9, -7, 9};
      }
      expectBothWays(m, feeds, {2, 3}, right);
      if (element == kF32)
        checkOperator(m, feeds);
    }
  auto none = scatter("ScatterElements", {"3"}, {"2"}, {"2"}, "none");
  std::map<std::string, Values> feeds{{"x", {1, 2, 3}}, {"i", {2, 0}}, {"u", {kNaN, -kInf}}};
  expectBothWays(none, feeds, {3}, {-kInf, 2, kNaN});
  EXPECT_EQ(*gradientOf(none, "x", {{"x", {1, 2, 3}}, {"i", {2, 0}}, {"u", {5, 6}}}, {1, 2, 3}),
            (Values{0, 2, 0}));
  EXPECT_EQ(*gradientOf(none, "u", {{"x", {1, 2, 3}}, {"i", {2, 0}}, {"u", {5, 6}}}, {1, 2, 3}),
            (Values{3, 1}));
  expectError(scatter("ScatterElements", {"3"}, {"2"}, {"1"}, "none").run({}),
              {"ScatterElements_1", "differ in shape"});
  expectError(scatter("ScatterElements", {"3"}, {"2"}, {"2"}, "sum").run({}),
              {"ScatterElements_1", "\"sum\""});
}

TEST(Scatter, SlicesInEveryReduction) {
  struct {
    const char *reduction;
    Values right;
  } cases[] = {{"none", {1, 2, 7, 8, 9, -1}},
               {"add", {1, 2, 10, 12, 14, 5}},
               {"mul", {1, 2, 21, 32, 45, -6}},
               {"max", {1, 2, 7, 8, 9, 6}},
               {"min", {1, 2, 3, 4, 5, -1}}};
  for (const auto &c : cases) {
    SCOPED_TRACE(c.reduction);
    auto m = scatter("ScatterND", {"3", "2"}, {"2", "1"}, {"2", "2"}, c.reduction);
    std::map<std::string, Values> feeds{{"x", ramp(6, 1)}, {"i", {-2, 2}}, {"u", {7, 8, 9, -1}}};
    expectBothWays(m, feeds, {3, 2}, c.right);
    checkOperator(m, feeds);
  }
  // One place twice, whole coordinates.
  struct {
    const char *reduction;
    double right;
  } twice[] = {{"add", 10}, {"mul", 36}, {"max", 6}, {"min", 2}};
  for (const auto &c : twice) {
    auto m = scatter("ScatterND", {"2", "2"}, {"2", "2"}, {"2"}, c.reduction);
    std::map<std::string, Values> feeds{{"x", {1, 1, 1, 3}}, {"i", {1, 1, -1, -1}}, {"u", {2, 6}}};
    if (c.reduction[0] == 'a')
      feeds["u"] = {2, 5};
    expectBothWays(m, feeds, {2, 2}, {1, 1, 1, c.right});
    checkOperator(m, feeds);
  }
}

TEST(TopK, LargestSmallestTiesAndNaN) {
  auto top = [](int64_t k, bool largest, int64_t axis, const std::vector<std::string> &dims,
                onnx::TensorProto::DataType element = kF32) {
    OnnxBuilder m(11);
    m.input("x", dims, element);
    m.ints("k", {k});
    auto &node = m.node("TopK", {"x", "k"}, {"y", "i"});
    m.output("i");
    m.attribute(node, "largest", int64_t{largest});
    m.attribute(node, "axis", axis);
    return m;
  };
  Values x{3, 1, 3, 7, -kInf, 2};
  auto both = runBothWays(top(3, true, -1, {"2", "3"}), {{"x", x}});
  ASSERT_TRUE(both.ok()) << both.status().message();
  for (const auto *outputs : {&both->evaluated, &both->compiled}) {
    EXPECT_EQ((*outputs)[0].real, (Values{3, 3, 1, 7, 2, -kInf}));
    EXPECT_EQ((*outputs)[1].integer, (Ints{0, 2, 1, 0, 2, 1}));
  }
  expectBothWays(top(2, false, 1, {"2", "3"}), {{"x", x}}, {2, 2}, {1, 3, -kInf, 2});
  expectBothWays(top(1, true, 0, {"2", "3"}), {{"x", x}}, {1, 3}, {7, 1, 3});
  expectBothWays(top(2, true, 0, {"3"}), {{"x", {1, kNaN, kInf}}}, {2}, {kNaN, kInf});
  expectBothWays(top(2, false, 0, {"3"}), {{"x", {kNaN, kNaN, kInf}}}, {2}, {kInf, kNaN});
  expectBothWays(top(2, true, 0, {"3"}, kI64), {{"x", {-5, 8, 0}}}, {2}, {8, 0});
  checkOperator(top(2, true, 0, {"5"}), {{"x", {1, 5, 2, 4, 3}}});
  expectError(top(4, true, 0, {"3"}).run({}), {"TopK_1", "K is 4"});
}

TEST(Masks, TriluInEveryDirection) {
  auto trilu = [](bool upper, double k, onnx::TensorProto::DataType element = kF32) {
    OnnxBuilder m(14);
    m.input("x", {"3", "3"}, element);
    scalarTensor(m, "k", kI64, k);
    m.attribute(m.node("Trilu", {"x", "k"}), "upper", int64_t{upper});
    return m;
  };
  Values x = ramp(9, 1);
  expectBothWays(trilu(true, 0), {{"x", x}}, {3, 3}, {1, 2, 3, 0, 5, 6, 0, 0, 9});
  expectBothWays(trilu(false, 0, kI64), {{"x", x}}, {3, 3}, {1, 0, 0, 4, 5, 0, 7, 8, 9});
  expectBothWays(trilu(true, 1), {{"x", x}}, {3, 3}, {0, 2, 3, 0, 0, 6, 0, 0, 0});
  expectBothWays(trilu(false, -1), {{"x", x}}, {3, 3}, {0, 0, 0, 4, 0, 0, 7, 8, 0});
  expectBothWays(trilu(true, 9e18), {{"x", x}}, {3, 3}, Values(9, 0));
  expectBothWays(trilu(true, -9e18), {{"x", x}}, {3, 3}, x);
  checkOperator(trilu(false, 1), {{"x", x}});
}

// A causal mask as text encoders build it: a square filled with -infinity, or
// with the largest half-precision number where a padding mask of that size joins.
TEST(Masks, CausalRowsSumToOne) {
  for (bool half : {false, true}) {
    OnnxBuilder m(14);
    auto type = half ? onnx::TensorProto::FLOAT16 : kF32;
    m.input("fill", {}, type);
    m.input("padding", {"1", "4"}, type);
    m.ints("shape", {4, 4});
    scalarTensor(m, "one", kI64, 1);
    m.node("Expand", {"fill", "shape"}, {"square"});
    m.attribute(m.node("Trilu", {"square", "one"}, {"mask"}), "upper", int64_t{1});
    m.node("Add", {"mask", "padding"}, {"scores"});
    m.node("Softmax", {"scores"});
    double low = half ? -65504 : -kInf;
    Values right(16, 0);
    for (int row = 0; row < 4; ++row)
      for (int column = 0; column <= row; ++column)
        right[row * 4 + column] = half && row ? 0 : 1.0 / (row + 1);
    Values padding(4, 0);
    if (half) { // the first token is padding
      padding[0] = -65504;
      right = {1, 0, 0, 0, 0, 1, 0, 0, 0, .5, .5, 0, 0, 1 / 3.0, 1 / 3.0, 1 / 3.0};
      auto both = runBothWays(m, {{"fill", {low}}, {"padding", padding}});
      ASSERT_TRUE(both.ok()) << both.status().message();
      for (size_t row = 1; row < 4; ++row) // its own row has nothing else to look at
        for (size_t column = 0; column < 4; ++column)
          EXPECT_NEAR(both->compiled[0].real[row * 4 + column], right[row * 4 + column], 1e-3);
      for (double p : both->compiled[0].real)
        EXPECT_TRUE(std::isfinite(p));
    } else {
      expectBothWays(m, {{"fill", {low}}, {"padding", padding}}, {4, 4}, right);
    }
  }
}

TEST(Masks, OneHotAndEye) {
  auto oneHot = [](int64_t axis, onnx::TensorProto::DataType element) {
    OnnxBuilder m(11);
    m.input("i", {"2", "2"}, element);
    scalarTensor(m, "depth", kF32, 3);
    m.floats("values", {2}, {-1, 5});
    m.attribute(m.node("OneHot", {"i", "depth", "values"}), "axis", axis);
    return m;
  };
  Values i{0, -1, 3, 1}; // 3 is out of range: nothing is hot
  for (auto element : {kI64, kI32, kF32}) {
    expectBothWays(oneHot(-1, element), {{"i", i}, {"values", {-1, 5}}}, {2, 2, 3},
                   {5, -1, -1, -1, -1, 5, -1, -1, -1, -1, 5, -1});
    expectBothWays(oneHot(0, element), {{"i", i}, {"values", {-1, 5}}}, {3, 2, 2},
                   {5, -1, -1, -1, -1, -1, -1, 5, -1, 5, -1, -1});
  }
  for (int64_t k : {-1, 0, 2}) {
    OnnxBuilder m(9);
    m.input("x", {"2", "3"});
    auto &node = m.node("EyeLike", {"x"});
    m.attribute(node, "k", k);
    m.attribute(node, "dtype", int64_t{kI64});
    expectBothWays(m, {{"x", Values(6, 0)}}, {2, 3},
                   k < 0 ? Values{0, 0, 0, 1, 0, 0}
                   : k   ? Values{0, 0, 1, 0, 0, 0}
                         : Values{1, 0, 0, 0, 1, 0});
  }
}

TEST(Shapes, TileRangeSizeConstant) {
  OnnxBuilder m(13);
  m.input("x", {"2", "1"});
  m.ints("times", {2, 3});
  m.node("Tile", {"x", "times"});
  expectBothWays(m, {{"x", {1, 2}}}, {4, 3}, {1, 1, 1, 2, 2, 2, 1, 1, 1, 2, 2, 2});
  checkOperator(m, {{"x", {1, 2}}});
  OnnxBuilder none(13);
  none.input("x", {"2", "1"});
  none.ints("times", {2, 0});
  none.node("Tile", {"x", "times"});
  expectBothWays(none, {{"x", {1, 2}}}, {4, 0}, {});
  struct {
    onnx::TensorProto::DataType type;
    double start, limit, delta;
    Values right;
  } ranges[] = {{kF32, 1, 2.5, 0.5, {1, 1.5, 2}},
                {kF32, 3, 1, -1, {3, 2}},
                {kI32, 5, 0, -2, {5, 3, 1}},
                {kI64, 1, 1, 1, {}},
                {onnx::TensorProto::DOUBLE, 0, 1, 0.25, {0, 0.25, 0.5, 0.75}}};
  for (const auto &r : ranges) {
    OnnxBuilder range(11);
    scalarTensor(range, "a", r.type, r.start);
    scalarTensor(range, "b", r.type, r.limit);
    scalarTensor(range, "c", r.type, r.delta);
    range.node("Range", {"a", "b", "c"});
    auto made = range.run({});
    ASSERT_TRUE(made.ok()) << made.status().message();
    const auto &y = made->front();
    EXPECT_EQ(y.type.dtype, r.type == kF32   ? diffrun::DType::kF32
                            : r.type == kI32 ? diffrun::DType::kI32
                            : r.type == kI64 ? diffrun::DType::kI64
                                             : diffrun::DType::kF64);
    EXPECT_EQ(y.isReal() ? y.real : Values(y.integer.begin(), y.integer.end()), r.right);
  }
  OnnxBuilder size(13);
  size.input("x", {"2", "0", "3"});
  size.node("Size", {"x"});
  expectBothWays(size, {{"x", {}}}, {}, {0});
  for (auto type : {onnx::TensorProto::FLOAT16, onnx::TensorProto::BFLOAT16,
                    onnx::TensorProto::DOUBLE, kI32, kI64, kBool, kF32}) {
    OnnxBuilder filled(13);
    filled.ints("shape", {2});
    auto *value = filled.node("ConstantOfShape", {"shape"}).add_attribute();
    value->set_name("value");
    value->set_type(onnx::AttributeProto::TENSOR);
    value->mutable_t()->set_data_type(type);
    value->mutable_t()->add_dims(1);
    if (type == kF32)
      value->mutable_t()->add_float_data(1);
    else if (type == kI64)
      value->mutable_t()->add_int64_data(1);
    else if (type == onnx::TensorProto::DOUBLE)
      value->mutable_t()->add_double_data(1);
    else
      value->mutable_t()->add_int32_data(type == onnx::TensorProto::FLOAT16    ? 0x3c00
                                         : type == onnx::TensorProto::BFLOAT16 ? 0x3f80
                                                                               : 1);
    auto made = filled.run({});
    ASSERT_TRUE(made.ok()) << made.status().message();
    const auto &y = made->front();
    EXPECT_EQ(y.isReal() ? y.real : Values(y.integer.begin(), y.integer.end()), (Values{1, 1}));
  }
}

TEST(ReverseSequence, EachToItsOwnLength) {
  for (bool timeFirst : {false, true}) {
    OnnxBuilder m(10);
    m.input("x", {"3", "3"});
    m.input("n", {"3"}, kI64);
    auto &node = m.node("ReverseSequence", {"x", "n"});
    m.attribute(node, "time_axis", int64_t{timeFirst ? 0 : 1});
    m.attribute(node, "batch_axis", int64_t{timeFirst ? 1 : 0});
    std::map<std::string, Values> feeds{{"x", ramp(9)}, {"n", {1, 2, 3}}};
    expectBothWays(m, feeds, {3, 3},
                   timeFirst ? Values{0, 4, 8, 3, 1, 5, 6, 7, 2}
                             : Values{0, 1, 2, 4, 3, 5, 8, 7, 6});
    checkOperator(m, feeds);
  }
}

TEST(Einsum, EveryFormOfEquation) {
  struct {
    const char *equation;
    std::vector<Ints> shapes;
    Ints result;
    /// Coordinates of each operand and of the result, as letters of one index set.
    std::vector<std::string> indices;
    std::string output;
  } cases[] = {
      {"ij,jk->ik", {{2, 3}, {3, 4}}, {2, 4}, {"ij", "jk"}, "ik"},
      {"ij,jk", {{2, 3}, {3, 4}}, {2, 4}, {"ij", "jk"}, "ik"},
      {"bhqd,bhkd->bhqk", {{2, 2, 3, 4}, {2, 2, 5, 4}}, {2, 2, 3, 5}, {"bhqd", "bhkd"}, "bhqk"},
      {"bqhd,bkhd->bhqk", {{2, 3, 2, 4}, {2, 5, 2, 4}}, {2, 2, 3, 5}, {"bqhd", "bkhd"}, "bhqk"},
      {"i,j->ij", {{2}, {3}}, {2, 3}, {"i", "j"}, "ij"},
      {"ij->ji", {{2, 3}}, {3, 2}, {"ij"}, "ji"},
      {"ba", {{2, 3}}, {3, 2}, {"ba"}, "ab"},
      {"ij->", {{2, 3}}, {}, {"ij"}, ""},
      {"ij->j", {{2, 3}}, {3}, {"ij"}, "j"},
      {"ii->i", {{3, 3}}, {3}, {"ii"}, "i"},
      {"ii", {{3, 3}}, {}, {"ii"}, ""},
      {"iji->j", {{3, 2, 3}}, {2}, {"iji"}, "j"},
      {"ij,ij,ij->i", {{2, 3}, {2, 3}, {2, 3}}, {2}, {"ij", "ij", "ij"}, "i"},
      {"ij,jk,kl->il", {{2, 3}, {3, 2}, {2, 4}}, {2, 4}, {"ij", "jk", "kl"}, "il"},
      {"...ij,...jk->...ik", {{2, 2, 3}, {2, 3, 2}}, {2, 2, 2}, {"bij", "bjk"}, "bik"},
      {"...ij, ...jk", {{2, 2, 3}, {3, 2}}, {2, 2, 2}, {"bij", "jk"}, "bik"},
      {"...i->...", {{2, 3, 2}}, {2, 3}, {"abi"}, "ab"},
      {"i...->...i", {{2, 3, 4}}, {3, 4, 2}, {"iab"}, "abi"},
      {"ij,k->ij", {{2, 3}, {4}}, {2, 3}, {"ij", "k"}, "ij"},
  };
  for (const auto &c : cases) {
    SCOPED_TRACE(c.equation);
    OnnxBuilder m(12);
    std::vector<std::string> names;
    std::map<std::string, Values> feeds;
    std::map<char, int64_t> extent;
    for (size_t k = 0; k < c.shapes.size(); ++k) {
      names.push_back("x" + std::to_string(k));
      std::vector<std::string> dims;
      int64_t count = 1;
      for (size_t d = 0; d < c.shapes[k].size(); ++d) {
        dims.push_back(std::to_string(c.shapes[k][d]));
        extent[c.indices[k][d]] = c.shapes[k][d];
        count *= c.shapes[k][d];
      }
      m.input(names[k], dims);
      feeds[names[k]] = randomValues(count, static_cast<uint32_t>(k + 3));
    }
    m.attribute(m.node("Einsum", names), "equation", c.equation);
    // The definition: every value of every index.
    int64_t total = 1, size = 1;
    for (auto [letter, n] : extent)
      total *= n;
    for (int64_t n : c.result)
      size *= n;
    Values right(static_cast<size_t>(size), 0);
    for (int64_t i = 0; i < total; ++i) {
      std::map<char, int64_t> at;
      int64_t rest = i;
      for (auto [letter, n] : extent)
        at[letter] = rest % n, rest /= n;
      auto place = [&](const std::string &letters) {
        int64_t flat = 0;
        for (char letter : letters)
          flat = flat * extent[letter] + at[letter];
        return static_cast<size_t>(flat);
      };
      double product = 1;
      for (size_t k = 0; k < names.size(); ++k)
        product *= static_cast<float>(feeds[names[k]][place(c.indices[k])]);
      right[place(c.output)] += product;
    }
    expectBothWays(m, feeds, c.result, right, 1e-5);
    checkOperator(m, feeds);
  }
  auto refused = [](const char *equation, const Ints &shape) {
    OnnxBuilder m(12);
    std::vector<std::string> dims;
    for (int64_t n : shape)
      dims.push_back(std::to_string(n));
    m.input("x", dims);
    m.attribute(m.node("Einsum", {"x"}), "equation", equation);
    return m.run({});
  };
  expectError(refused("ij->ik", {2, 3}), {"Einsum_1", "ik"});
  expectError(refused("ij->ii", {2, 3}), {"Einsum_1", "twice"});
  expectError(refused("ii->i", {2, 3}), {"Einsum_1", "2 and 3"});
  expectError(refused("i,j", {2}), {"Einsum_1", "2 terms"});
  expectError(refused("ijk->i", {2, 3}), {"Einsum_1", "rank 2"});
  expectError(refused("i1->i", {2, 3}), {"Einsum_1", "\"1\""});
}

TEST(Einsum, OfIntegersAndBroadcastEllipses) {
  OnnxBuilder m(12);
  m.input("a", {"2", "2"}, kI64);
  m.input("b", {"2", "2"}, kI64);
  m.attribute(m.node("Einsum", {"a", "b"}), "equation", "ij,jk->ik");
  expectBothWays(m, {{"a", {1, 2, 3, 4}}, {"b", {5, 6, 7, 8}}}, {2, 2}, {19, 22, 43, 50});
  OnnxBuilder wide(12);
  wide.input("a", {"1", "2", "2"});
  wide.input("b", {"2", "2", "1"});
  wide.attribute(wide.node("Einsum", {"a", "b"}), "equation", "...ij,...jk->...ik");
  std::map<std::string, Values> feeds{{"a", {1, 2, 3, 4}}, {"b", {5, 6, 7, 8}}};
  expectBothWays(wide, feeds, {2, 2, 1}, {17, 39, 23, 53});
  checkOperator(wide, feeds);
}

TEST(Search, OnlyOfConstants) {
  OnnxBuilder m(11);
  m.input("x", {"3", "2"});
  auto *condition = m.graph().add_initializer();
  condition->set_name("c");
  condition->set_data_type(kBool);
  condition->add_dims(2);
  condition->add_int32_data(0);
  condition->add_int32_data(1);
  m.attribute(m.node("Compress", {"x", "c"}), "axis", int64_t{0});
  expectBothWays(m, {{"x", ramp(6)}}, {1, 2}, {2, 3});
  checkOperator(m, {{"x", ramp(6)}});
  OnnxBuilder zero(13);
  zero.floats("x", {2, 2}, {1, 0, 3, 4});
  zero.node("NonZero", {"x"});
  auto places = zero.run({});
  ASSERT_TRUE(places.ok()) << places.status().message();
  EXPECT_EQ(places->front().type.shape, (Ints{2, 3}));
  EXPECT_EQ(places->front().integer, (Ints{0, 1, 1, 0, 0, 1}));
  for (bool sorted : {true, false}) {
    OnnxBuilder unique(11);
    unique.floats("x", {6}, {2, 1, 1, 3, 4, 3});
    unique.attribute(unique.node("Unique", {"x"}, {"y", "first", "which", "count"}), "sorted",
                     int64_t{sorted});
    for (const char *name : {"first", "which", "count"})
      unique.output(name);
    auto made = unique.run({});
    ASSERT_TRUE(made.ok()) << made.status().message();
    EXPECT_EQ((*made)[0].real, (sorted ? Values{1, 2, 3, 4} : Values{2, 1, 3, 4}));
    EXPECT_EQ((*made)[1].integer, (sorted ? Ints{1, 0, 3, 4} : Ints{0, 1, 3, 4}));
    EXPECT_EQ((*made)[2].integer, (sorted ? Ints{1, 0, 0, 2, 3, 2} : Ints{0, 1, 1, 2, 3, 2}));
    EXPECT_EQ((*made)[3].integer, (sorted ? Ints{2, 1, 2, 1} : Ints{1, 2, 2, 1}));
  }
  OnnxBuilder rows(11);
  rows.floats("x", {3, 2}, {2, 1, 1, 3, 2, 1});
  rows.attribute(rows.node("Unique", {"x"}), "axis", int64_t{0});
  expectValues(rows.run({}), {2, 2}, {1, 3, 2, 1});
  OnnxBuilder open(13);
  open.input("x", {"2"});
  open.node("NonZero", {"x"});
  expectError(open.run({}), {"NonZero_1", "known when the model is compiled"});
}

TEST(Slice, BackwardsAndEmpty) {
  constexpr int64_t kLeast = std::numeric_limits<int64_t>::min();
  struct {
    int64_t length, start, end, step;
    Values right;
  } cases[] = {{10, 9, 0, -1, {9, 8, 7, 6, 5, 4, 3, 2, 1}},
               {10, 9, 0, -3, {9, 6, 3}},
               {10, 0, 5, -1, {}},
               {10, -1, kLeast, -1, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
               {10, 9, -1, -1, {}},
               {0, -1, kLeast, -1, {}}};
  for (const auto &c : cases) {
    OnnxBuilder m(13);
    m.input("x", {std::to_string(c.length)});
    m.ints("starts", {c.start});
    m.ints("ends", {c.end});
    m.ints("axes", {0});
    m.ints("steps", {c.step});
    m.node("Slice", {"x", "starts", "ends", "axes", "steps"});
    std::map<std::string, Values> feeds{{"x", ramp(c.length)}};
    expectBothWays(m, feeds, {static_cast<int64_t>(c.right.size())}, c.right);
    if (c.step == -3)
      EXPECT_EQ(*gradientOf(m, "x", feeds, {1, 2, 3}), (Values{0, 0, 0, 3, 0, 0, 2, 0, 0, 1}));
  }
  // Bounds that the model computes from a shape: x[n - 1 : 0 : -3].
  OnnxBuilder m(13);
  m.input("x", {"10"});
  m.ints("one", {1});
  m.ints("zero", {0});
  m.ints("steps", {-3});
  m.node("Shape", {"x"}, {"shape"});
  m.node("Gather", {"shape", "zero"}, {"n"});
  m.node("Sub", {"n", "one"}, {"last"});
  m.node("Slice", {"x", "last", "zero", "zero", "steps"});
  expectBothWays(m, {{"x", ramp(10)}}, {3}, {9, 6, 3});
}

TEST(Split, IntoPartsThatDoNotDivide) {
  auto split = [](int64_t length, int64_t parts, std::optional<Ints> sizes) {
    OnnxBuilder m(18);
    m.input("x", {std::to_string(length)});
    std::vector<std::string> names{"y"};
    for (int64_t i = 1; i < parts; ++i) {
      names.push_back("y" + std::to_string(i));
      m.output(names.back());
    }
    if (sizes)
      m.ints("sizes", *sizes);
    auto &node = sizes ? m.node("Split", {"x", "sizes"}, names) : m.node("Split", {"x"}, names);
    if (!sizes)
      m.attribute(node, "num_outputs", parts);
    return m;
  };
  struct {
    int64_t length, parts;
    std::optional<Ints> sizes;
    Ints right;
  } cases[] = {{10, 3, std::nullopt, {4, 4, 2}},
               {7, 3, std::nullopt, {3, 3, 1}},
               {9, 3, std::nullopt, {3, 3, 3}},
               {7, 3, Ints{3, 0, 4}, {3, 0, 4}}};
  for (const auto &c : cases) {
    auto m = split(c.length, c.parts, c.sizes);
    auto both = runBothWays(m, {{"x", ramp(c.length)}});
    ASSERT_TRUE(both.ok()) << both.status().message();
    double next = 0;
    for (size_t i = 0; i < c.right.size(); ++i) {
      ASSERT_EQ(both->compiled[i].type.shape, (Ints{c.right[i]}));
      for (double value : both->compiled[i].real)
        EXPECT_EQ(value, next++);
    }
    checkOperator(m, {{"x", ramp(c.length)}}); // the gradient is the pieces', joined
  }
  expectError(split(5, 4, std::nullopt).run({}), {"Split_1", "does not split into 4"});
}

} // namespace
} // namespace diffc::test
