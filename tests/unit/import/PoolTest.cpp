// Pooling against its definition in plain loops; ties, padding, indices.
#include "tests/unit/import/OperatorCheck.h"

#include <cmath>
#include <limits>

namespace diffc::test {
namespace {

struct Case {
  const char *name;
  Ints image, kernel, strides, dilations, pads;
  bool ceil = false;
  const char *autoPad = nullptr;
  Ints low, out; ///< what these come to
};

const std::vector<Case> kCases = {
    {"1-D", {9}, {3}, {2}, {}, {1, 1}, false, nullptr, {1}, {5}},
    {"2-D, asymmetric, dilated",
     {7, 6},
     {3, 2},
     {2, 1},
     {2, 3},
     {1, 0, 2, 1},
     false,
     nullptr,
     {1, 0},
     {3, 4}},
    {"ceil: one more, over the edge",
     {6, 7},
     {3, 2},
     {2, 3},
     {},
     {},
     true,
     nullptr,
     {0, 0},
     {3, 3}},
    {"ceil: a start in the padding does not count",
     {2, 5},
     {1, 2},
     {2, 3},
     {},
     {0, 0, 0, 1},
     true,
     nullptr,
     {0, 0},
     {1, 2}},
    {"3-D",
     {4, 3, 5},
     {2, 3, 2},
     {1, 2, 2},
     {1, 1, 2},
     {1, 1, 0, 0, 1, 1},
     false,
     nullptr,
     {1, 1, 0},
     {4, 2, 2}},
    {"same upper", {6, 5}, {3, 2}, {2, 2}, {}, {}, false, "SAME_UPPER", {0, 0}, {3, 3}},
    {"same lower", {6, 5}, {3, 2}, {2, 2}, {}, {}, false, "SAME_LOWER", {1, 1}, {3, 3}},
    {"valid, rounding up or not", {6, 5}, {3, 2}, {2, 2}, {}, {}, true, "VALID", {0, 0}, {2, 2}},
    {"pads that crop", {6, 6}, {2, 3}, {}, {}, {-1, 1, 0, -2}, false, nullptr, {-1, 1}, {4, 3}},
};

constexpr int64_t kPlanes = 6; // 2 samples, 3 channels

std::vector<std::string> dims(const Ints &image) {
  std::vector<std::string> texts{"2", "3"};
  for (int64_t extent : image)
    texts.push_back(std::to_string(extent));
  return texts;
}

int64_t count(const Ints &extents) {
  int64_t product = 1;
  for (int64_t extent : extents)
    product *= extent;
  return product;
}

/// A flat index as one per dimension.
Ints apart(int64_t flat, const Ints &extents) {
  Ints at(extents.size());
  for (size_t d = extents.size(); d-- > 0; flat /= extents[d])
    at[d] = flat % extents[d];
  return at;
}

/// Calls visit(window, inside, inPadding, element of the input) for every tap, in
/// row-major order.
template <typename Visit> void forEachTap(const Case &c, Visit visit) {
  size_t rank = c.image.size();
  auto entry = [&](const Ints &v, size_t d) { return v.empty() ? 1 : v[d]; };
  for (int64_t plane = 0; plane < kPlanes; ++plane)
    for (int64_t o = 0; o < count(c.out); ++o)
      for (int64_t t = 0; t < count(c.kernel); ++t) {
        Ints to = apart(o, c.out), of = apart(t, c.kernel);
        int64_t element = plane;
        bool inside = true, padded = true;
        for (size_t d = 0; d < rank; ++d) {
          int64_t at = to[d] * entry(c.strides, d) - c.low[d] + of[d] * entry(c.dilations, d);
          int64_t high = c.pads.empty() ? 0 : c.pads[rank + d];
          if (c.autoPad) // all that the windows reach
            high = std::numeric_limits<int32_t>::max();
          inside &= at >= 0 && at < c.image[d];
          padded &= at >= -c.low[d] && at < c.image[d] + high;
          element = element * c.image[d] + at;
        }
        visit(plane * count(c.out) + o, inside, padded, element);
      }
}

OnnxBuilder modelOf(const Case &c, const char *op) {
  OnnxBuilder b(22);
  b.input("x", dims(c.image));
  auto &node = b.node(op, {"x"});
  auto set = [&](const char *name, const Ints &values) {
    if (!values.empty())
      OnnxBuilder::attribute(node, name, values);
  };
  set("kernel_shape", c.kernel), set("strides", c.strides), set("pads", c.pads);
  set("dilations", c.dilations);
  OnnxBuilder::attribute(node, "ceil_mode", int64_t{c.ceil});
  if (c.autoPad)
    OnnxBuilder::attribute(node, "auto_pad", c.autoPad);
  return b;
}

Ints outputShape(const Case &c) {
  Ints shape{2, 3};
  shape.insert(shape.end(), c.out.begin(), c.out.end());
  return shape;
}

TEST(MaxPool, EveryGeometry) {
  for (const Case &c : kCases) {
    SCOPED_TRACE(c.name);
    Values x = randomValues(kPlanes * count(c.image), 3);
    Values y(kPlanes * count(c.out), -std::numeric_limits<double>::infinity()), where(y.size(), -1);
    forEachTap(c, [&](int64_t window, bool inside, bool, int64_t element) {
      if (inside && x[element] > y[window])
        y[window] = x[element], where[window] = static_cast<double>(element);
    });
    OnnxBuilder b = modelOf(c, "MaxPool");
    expectValues(b.run({{"x", x}}), outputShape(c), y);
    checkOperator(b, {{"x", x}});
    b.graph().mutable_node(0)->add_output("places");
    b.output("places");
    auto both = b.run({{"x", x}});
    ASSERT_TRUE(both.ok()) << both.status().message();
    EXPECT_EQ(both->at(1).integer, Ints(where.begin(), where.end()));
    checkOperator(b, {{"x", x}});
  }
}

TEST(MaxPool, TheFirstOfEqualsTakesTheGradient) {
  // As PyTorch does: in row-major order within each window.
  Case c{"", {3, 3}, {2, 2}, {1, 1}, {}, {}, false, nullptr, {0, 0}, {2, 2}};
  OnnxBuilder b = modelOf(c, "MaxPool");
  Values x(kPlanes * 9, 7), right;
  for (int64_t plane = 0; plane < kPlanes; ++plane)
    right.insert(right.end(), {1, 1, 0, 1, 1, 0, 0, 0, 0});
  auto dx = gradientOf(b, "x", {{"x", x}}, Values(kPlanes * 4, 1));
  ASSERT_TRUE(dx.ok()) << dx.status().message();
  EXPECT_EQ(*dx, right);
}

TEST(MaxPool, PlacesByColumnsAndOfTheLowest) {
  OnnxBuilder b(12);
  b.output("places");
  b.input("x", {"1", "2", "2", "3"});
  auto &node = b.node("MaxPool", {"x"}, {"y", "places"});
  OnnxBuilder::attribute(node, "kernel_shape", Ints{2, 2});
  OnnxBuilder::attribute(node, "pads", Ints{1, 0, 0, 0});
  OnnxBuilder::attribute(node, "storage_order", int64_t{1});
  // A window of nothing but -inf points into the picture, not into the padding.
  double low = -std::numeric_limits<double>::infinity();
  auto both = b.run({{"x", {low, low, 1, 2, 3, 4, 9, 8, 7, 6, 5, 4}}});
  ASSERT_TRUE(both.ok()) << both.status().message();
  EXPECT_EQ(both->at(0).real, (Values{low, 1, 3, 4, 9, 8, 9, 8}));
  EXPECT_EQ(both->at(1).integer, (Ints{0, 4, 3, 5, 6, 8, 6, 8}));
}

TEST(MaxPool, PlacesAlone) {
  OnnxBuilder b(12);
  b.input("x", {"1", "1", "4"});
  OnnxBuilder::attribute(b.node("MaxPool", {"x"}, {"", "places"}), "kernel_shape", Ints{2});
  OnnxBuilder::attribute(b.node("Cast", {"places"}), "to", int64_t{onnx::TensorProto::FLOAT});
  expectValues(b.run({{"x", {5, 6, 9, 8}}}), {1, 1, 3}, {1, 2, 2});
}

TEST(AveragePool, EveryGeometry) {
  for (const Case &c : kCases)
    for (bool withPadding : {false, true}) {
      SCOPED_TRACE(std::string(c.name) + (withPadding ? ", with padding" : ""));
      Values x = randomValues(kPlanes * count(c.image), 4), y(kPlanes * count(c.out)), n(y.size());
      forEachTap(c, [&](int64_t window, bool inside, bool padded, int64_t element) {
        y[window] += inside ? x[element] : 0;
        n[window] += withPadding ? padded : inside && padded;
      });
      for (size_t i = 0; i < y.size(); ++i)
        y[i] /= n[i];
      OnnxBuilder b = modelOf(c, "AveragePool");
      OnnxBuilder::attribute(*b.graph().mutable_node(0), "count_include_pad", int64_t{withPadding});
      expectValues(b.run({{"x", x}}), outputShape(c), y);
      checkOperator(b, {{"x", x}});
    }
}

TEST(LpPool, EveryGeometry) {
  for (const Case &c : kCases)
    for (int64_t p : {1, 2, 3}) {
      SCOPED_TRACE(std::string(c.name) + ", p " + std::to_string(p));
      Values x = randomValues(kPlanes * count(c.image), 5), y(kPlanes * count(c.out));
      forEachTap(c, [&](int64_t window, bool inside, bool, int64_t element) {
        y[window] += inside ? std::pow(std::fabs(x[element]), p) : 0;
      });
      for (double &value : y)
        value = std::pow(value, 1.0 / static_cast<double>(p));
      OnnxBuilder b = modelOf(c, "LpPool");
      OnnxBuilder::attribute(*b.graph().mutable_node(0), "p", p);
      expectValues(b.run({{"x", x}}), outputShape(c), y);
      checkOperator(b, {{"x", x}});
    }
}

TEST(GlobalPools, ValuesAndGradients) {
  Values x = randomValues(2 * 3 * 2 * 5, 8);
  for (const char *op : {"GlobalMaxPool", "GlobalAveragePool", "GlobalLpPool"}) {
    SCOPED_TRACE(op);
    OnnxBuilder b(17);
    b.input("x", {"2", "3", "2", "5"});
    b.node(op, {"x"});
    Values y;
    for (size_t plane = 0; plane < 6; ++plane) {
      double sum = 0, squares = 0, top = -9;
      for (size_t i = 10 * plane; i < 10 * plane + 10; ++i)
        sum += x[i], squares += x[i] * x[i], top = std::max(top, x[i]);
      y.push_back(op[6] == 'M' ? top : op[6] == 'A' ? sum / 10 : std::sqrt(squares));
    }
    expectValues(b.run({{"x", x}}), {2, 3, 1, 1}, y);
    checkOperator(b, {{"x", x}});
  }
}

// The root has no slope where a window is 0; the gradient is 0, not NaN.
TEST(LpPool, GradientAtZero) {
  OnnxBuilder b(17);
  b.input("x", {"1", "1", "4"});
  auto &node = b.node("LpPool", {"x"});
  OnnxBuilder::attribute(node, "kernel_shape", Ints{2});
  OnnxBuilder::attribute(node, "strides", Ints{2});
  std::map<std::string, Values> feeds{{"x", {0, 0, 3, 4}}};
  expectValues(b.run(feeds), {1, 1, 2}, {0, 5});
  auto dx = gradientOf(b, "x", feeds, {1, 1});
  ASSERT_TRUE(dx.ok()) << dx.status().message();
  Values right{0, 0, 0.6, 0.8};
  for (size_t i = 0; i < right.size(); ++i)
    EXPECT_NEAR(dx->at(i), right[i], 1e-12);
}

TEST(Pools, Refusals) {
  auto pool = [](const char *op, const Ints &kernel, auto set) {
    OnnxBuilder b(17);
    b.input("x", {"1", "1", "4"});
    auto &node = b.node(op, {"x"});
    if (!kernel.empty())
      OnnxBuilder::attribute(node, "kernel_shape", kernel);
    set(node);
    return b.run({});
  };
  auto none = [](onnx::NodeProto &) {};
  expectError(pool("MaxPool", {}, none),
              {"MaxPool_1", "kernel_shape has 0 entries for an input of rank 3"});
  expectError(pool("MaxPool", {0}, none), {"MaxPool_1", "a kernel dimension is 0"});
  expectError(pool("AveragePool", {5}, none), {"AveragePool_1", "reaches over 5 elements"});
  expectError(pool("LpPool", {2}, [](auto &n) { OnnxBuilder::attribute(n, "p", int64_t{0}); }),
              {"LpPool_1", "p is 0"});
}

} // namespace
} // namespace diffc::test
