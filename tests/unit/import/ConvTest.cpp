// Convolutions as ONNX defines them, against their definition in plain loops;
// forward and gradients compiled.
#include "tests/unit/import/OperatorCheck.h"

#include <numeric>

namespace diffc::test {
namespace {

/// Spatial dimensions filled up to three by ones at the front.
struct Plain {
  Ints image, kernel, out, strides, dilations, low;
  int64_t batch, channels, outputs, groups;

  static Ints three(const Ints &values, int64_t filler) {
    Ints all(3 - values.size(), filler);
    all.insert(all.end(), values.begin(), values.end());
    return all;
  }

  /// Visits (output element, input element, weight element) of every product,
  /// with the weight laid out [outputs, channels / groups, kernel].
  template <typename Visit> void forEach(Visit visit) const {
    int64_t inner = channels / groups, per = outputs / groups;
    auto flat = [](int64_t plane, const Ints &extents, const Ints &at) {
      for (size_t d = 0; d < 3; ++d)
        plane = plane * extents[d] + at[d];
      return plane;
    };
    auto count = [](const Ints &v) { return v[0] * v[1] * v[2]; };
    for (int64_t n = 0; n < batch; ++n)
      for (int64_t o = 0; o < outputs; ++o)
        for (int64_t c = 0; c < inner; ++c)
          for (int64_t p = 0; p < count(out); ++p)
            for (int64_t t = 0; t < count(kernel); ++t) {
              Ints to{p / (out[1] * out[2]), p / out[2] % out[1], p % out[2]};
              Ints tap{t / (kernel[1] * kernel[2]), t / kernel[2] % kernel[1], t % kernel[2]};
              Ints from(3);
              bool inside = true;
              for (size_t d = 0; d < 3; ++d) {
                from[d] = to[d] * strides[d] - low[d] + tap[d] * dilations[d];
                inside &= from[d] >= 0 && from[d] < image[d];
              }
              if (inside)
                visit(flat(n * outputs + o, out, to),
                      flat(n * channels + o / per * inner + c, image, from),
                      flat(o * inner + c, kernel, tap));
            }
  }
};

int64_t product(const Ints &values) {
  return std::accumulate(values.begin(), values.end(), int64_t{1}, std::multiplies<int64_t>());
}

std::vector<std::string> dims(const Ints &shape) {
  std::vector<std::string> texts;
  for (int64_t extent : shape)
    texts.push_back(std::to_string(extent));
  return texts;
}

struct Case {
  const char *name;
  Ints x, w, strides, dilations, pads;
  int64_t group = 1;
  const char *autoPad = nullptr;
  Ints low, out; ///< what these come to: the low pads, the output's extents
  Ints outputPadding = {}, outputShape = {};
};

OnnxBuilder modelOf(const Case &c, const char *op) {
  OnnxBuilder b(17);
  b.input("x", dims(c.x));
  b.input("w", dims(c.w));
  bool transposed = std::string(op) == "ConvTranspose";
  int64_t outputs = transposed ? c.w[1] * c.group : c.w[0];
  b.input("b", {std::to_string(outputs)});
  auto &node = b.node(op, {"x", "w", "b"});
  auto set = [&](const char *name, const Ints &values) {
    if (!values.empty())
      OnnxBuilder::attribute(node, name, values);
  };
  set("strides", c.strides), set("dilations", c.dilations), set("pads", c.pads);
  set("output_padding", c.outputPadding), set("output_shape", c.outputShape);
  OnnxBuilder::attribute(node, "group", c.group);
  if (c.autoPad)
    OnnxBuilder::attribute(node, "auto_pad", c.autoPad);
  return b;
}

Plain plainOf(const Case &c, bool transposed) {
  Ints image(c.x.begin() + 2, c.x.end()), kernel(c.w.begin() + 2, c.w.end()),
      ones(kernel.size(), 1);
  Plain p;
  p.image = Plain::three(transposed ? c.out : image, 1);
  p.out = Plain::three(transposed ? image : c.out, 1);
  p.kernel = Plain::three(kernel, 1);
  p.strides = Plain::three(c.strides.empty() ? ones : c.strides, 1);
  p.dilations = Plain::three(c.dilations.empty() ? ones : c.dilations, 1);
  p.low = Plain::three(c.low, 0);
  p.batch = c.x[0], p.groups = c.group;
  p.channels = transposed ? c.w[1] * c.group : c.x[1];
  p.outputs = c.w[0];
  return p;
}

void check(const Case &c, const char *op) {
  SCOPED_TRACE(c.name);
  bool transposed = std::string(op) == "ConvTranspose";
  Plain plain = plainOf(c, transposed);
  int64_t channels = transposed ? plain.channels : plain.outputs;
  std::map<std::string, Values> feeds{{"x", randomValues(product(c.x), 1)},
                                      {"w", randomValues(product(c.w), 2)},
                                      {"b", randomValues(channels, 3)}};
  Ints shape{c.x[0], channels};
  shape.insert(shape.end(), c.out.begin(), c.out.end());
  Values expected(product(shape));
  for (size_t i = 0; i < expected.size(); ++i)
    expected[i] = feeds["b"][i / product(c.out) % channels];
  plain.forEach([&](int64_t output, int64_t input, int64_t weight) {
    if (transposed)
      expected[input] += feeds["x"][output] * feeds["w"][weight];
    else
      expected[output] += feeds["x"][input] * feeds["w"][weight];
  });
  OnnxBuilder b = modelOf(c, op);
  expectValues(b.run(feeds), shape, expected, 1e-9);
  checkOperator(b, feeds);
}

TEST(Conv, EveryGeometry) {
  for (const Case &c : {
           Case{"1-D", {2, 3, 9}, {4, 3, 3}, {2}, {1}, {1, 0}, 1, nullptr, {1}, {4}},
           Case{"1-D, groups, dilated",
                {1, 4, 11},
                {6, 2, 3},
                {1},
                {3},
                {4, 2},
                2,
                nullptr,
                {4},
                {11}},
           Case{"2-D, asymmetric",
                {2, 2, 6, 5},
                {3, 2, 3, 2},
                {2, 1},
                {1, 2},
                {0, 1, 2, 3},
                1,
                nullptr,
                {0, 1},
                {3, 7}},
           Case{"depthwise, strided, dilated",
                {2, 5, 8, 7},
                {5, 1, 3, 3},
                {2, 3},
                {2, 1},
                {2, 1, 2, 1},
                5,
                nullptr,
                {2, 1},
                {4, 3}},
           Case{"depthwise, two filters each",
                {1, 3, 5, 5},
                {6, 1, 2, 3},
                {1, 2},
                {},
                {1, 1, 0, 1},
                3,
                nullptr,
                {1, 1},
                {5, 3}},
           Case{"pads beyond the kernel",
                {1, 2, 3, 3},
                {2, 2, 2, 2},
                {},
                {},
                {4, 3, 3, 5},
                1,
                nullptr,
                {4, 3},
                {9, 10}},
           Case{"pads that crop",
                {1, 2, 6, 6},
                {2, 2, 3, 3},
                {},
                {},
                {-1, 1, 0, -2},
                1,
                nullptr,
                {-1, 1},
                {3, 3}},
           Case{"stride beyond the kernel",
                {1, 2, 9, 9},
                {3, 2, 1, 2},
                {4, 3},
                {},
                {},
                1,
                nullptr,
                {0, 0},
                {3, 3}},
           Case{"3-D, groups",
                {1, 4, 4, 5, 6},
                {4, 2, 2, 3, 3},
                {1, 2, 2},
                {2, 1, 1},
                {1, 0, 1, 0, 1, 1},
                2,
                nullptr,
                {1, 0, 1},
                {3, 2, 3}},
           Case{"same upper",
                {1, 2, 7, 6},
                {2, 2, 4, 3},
                {2, 2},
                {},
                {},
                1,
                "SAME_UPPER",
                {1, 0},
                {4, 3}},
           Case{"same lower, dilated",
                {1, 2, 7, 6},
                {2, 2, 2, 3},
                {2, 2},
                {3, 2},
                {},
                1,
                "SAME_LOWER",
                {2, 2},
                {4, 3}},
           Case{"valid wins over pads",
                {1, 1, 5, 5},
                {1, 1, 3, 3},
                {},
                {},
                {1, 1, 1, 1},
                1,
                "VALID",
                {0, 0},
                {3, 3}},
       })
    check(c, "Conv");
}

TEST(ConvTranspose, EveryGeometry) {
  for (const Case &c : {
           Case{"1-D", {2, 3, 4}, {3, 2, 3}, {2}, {}, {1, 1}, 1, nullptr, {1}, {8}, {1}},
           Case{"2-D, groups, dilated",
                {1, 4, 3, 4},
                {4, 3, 3, 2},
                {2, 3},
                {2, 2},
                {1, 0, 0, 2},
                2,
                nullptr,
                {1, 0},
                {8, 10}},
           Case{"output padding as large as the stride",
                {1, 2, 3, 3},
                {2, 2, 3, 3},
                {1, 2},
                {2, 2},
                {},
                1,
                nullptr,
                {0, 0},
                {8, 10},
                {1, 1}},
           Case{"pads that extend",
                {1, 2, 3, 3},
                {2, 1, 3, 3},
                {2, 2},
                {},
                {-1, 1, 2, -2},
                1,
                nullptr,
                {-1, 1},
                {6, 8}},
           Case{"kernel of one, strided",
                {1, 2, 3, 2},
                {2, 3, 1, 1},
                {3, 2},
                {},
                {},
                1,
                nullptr,
                {0, 0},
                {7, 3}},
           Case{"3-D",
                {1, 2, 2, 3, 2},
                {2, 2, 2, 3, 3},
                {2, 1, 2},
                {},
                {0, 1, 1, 1, 1, 0},
                1,
                nullptr,
                {0, 1, 1},
                {3, 3, 4}},
           Case{"output shape larger than the full one",
                {1, 1, 3, 3},
                {1, 2, 3, 3},
                {3, 2},
                {},
                {},
                1,
                nullptr,
                {0, 0},
                {10, 8},
                {},
                {10, 8}},
           Case{"output shape, more at the start",
                {1, 1, 3, 3},
                {1, 2, 3, 4},
                {2, 2},
                {},
                {},
                1,
                nullptr,
                {1, 2},
                {6, 5},
                {},
                {6, 5}},
           Case{"output shape, more at the end",
                {1, 1, 3, 3},
                {1, 2, 3, 4},
                {2, 2},
                {},
                {},
                1,
                "SAME_UPPER",
                {0, 1},
                {6, 5},
                {},
                {6, 5}},
           Case{"same lower",
                {1, 1, 3, 3},
                {1, 2, 3, 3},
                {2, 2},
                {},
                {},
                1,
                "SAME_LOWER",
                {1, 1},
                {6, 6}},
           Case{"same, stride beyond the kernel",
                {1, 1, 3, 2},
                {1, 2, 2, 2},
                {3, 3},
                {},
                {},
                1,
                "SAME_UPPER",
                {-1, -1},
                {9, 6}},
       })
    check(c, "ConvTranspose");
}

// The weight gradient of a depthwise, strided convolution, by hand.
TEST(Conv, GradientsOfADepthwiseStridedOne) {
  auto counted = [](int64_t count) {
    Values values(count);
    std::iota(values.begin(), values.end(), 0);
    return values;
  };
  OnnxBuilder b(17);
  b.input("x", {"1", "4", "4", "4"});
  b.input("w", {"4", "1", "3", "3"});
  b.input("b", {"4"});
  auto &node = b.node("Conv", {"x", "w", "b"});
  OnnxBuilder::attribute(node, "group", int64_t{4});
  OnnxBuilder::attribute(node, "strides", Ints{2, 2});
  OnnxBuilder::attribute(node, "pads", Ints{1, 1, 1, 1});
  std::map<std::string, Values> feeds{{"x", counted(64)}, {"w", counted(36)}, {"b", Values(4, 0)}};
  auto y = b.run(feeds);
  ASSERT_TRUE(y.ok()) << y.status().message();
  EXPECT_EQ(Values(y->front().real.begin(), y->front().real.begin() + 4),
            (Values{73, 154, 279, 438}));
  auto dw = gradientOf(b, "w", feeds, Values(16, 1)), dx = gradientOf(b, "x", feeds, Values(16, 1)),
       db = gradientOf(b, "b", feeds, Values(16, 1));
  ASSERT_TRUE(dw.ok() && dx.ok() && db.ok());
  EXPECT_EQ(Values(dw->begin(), dw->begin() + 9), (Values{5, 10, 12, 10, 20, 24, 18, 36, 40}));
  EXPECT_EQ(Values(dw->end() - 9, dw->end()), (Values{53, 106, 108, 106, 212, 216, 114, 228, 232}));
  EXPECT_EQ(*db, Values(4, 4));
  EXPECT_EQ(Values(dx->begin(), dx->begin() + 16),
            (Values{4, 8, 4, 5, 8, 16, 8, 10, 4, 8, 4, 5, 7, 14, 7, 8}));
  for (auto [dilation, group] : std::vector<std::pair<int64_t, int64_t>>{{2, 4}, {1, 2}, {2, 2}}) {
    SCOPED_TRACE("dilation " + std::to_string(dilation) + ", group " + std::to_string(group));
    Case c{"",
           {1, 4, 4, 4},
           {4, 4 / group, 3, 3},
           {2, 2},
           {dilation, dilation},
           {1, 1, 1, 1},
           group,
           nullptr,
           {1, 1},
           {}};
    c.out = dilation == 2 ? Ints{1, 1} : Ints{2, 2};
    check(c, "Conv");
  }
}

TEST(ConvTranspose, GradientOfAStridedPoint) {
  constexpr double w = 2.5;
  OnnxBuilder b(17);
  b.input("x", {"1", "1", "1", "2"});
  b.input("w", {"1", "1", "1", "1"});
  OnnxBuilder::attribute(b.node("ConvTranspose", {"x", "w"}), "strides", Ints{1, 2});
  auto dx = gradientOf(b, "x", {{"x", {3, 4}}, {"w", {w}}}, {1.5, 0, 0.7f});
  ASSERT_TRUE(dx.ok()) << dx.status().message();
  EXPECT_DOUBLE_EQ(dx->at(0), 1.5 * w);
  EXPECT_DOUBLE_EQ(dx->at(1), 0.7f * w);
}

TEST(Conv, Refusals) {
  auto conv = [](const Ints &w, auto set) {
    OnnxBuilder b(17);
    b.input("x", {"1", "2", "4", "4"});
    b.input("w", dims(w));
    set(b.node("Conv", {"x", "w"}));
    return b.run({});
  };
  auto none = [](onnx::NodeProto &) {};
  expectError(conv({1, 2, 5, 1}, none),
              {"Conv_1", "reaches over 5 elements, the padded input has 4"});
  expectError(conv({1, 2, 2}, none), {"Conv_1", "1 to 3 spatial dimensions"});
  expectError(conv({1, 3, 1, 1}, none), {"Conv_1", "do not fit a weight"});
  expectError(conv({1, 2, 1, 1},
                   [](auto &n) {
                     OnnxBuilder::attribute(n, "strides", Ints{1, 0});
                   }),
              {"Conv_1", "strides holds 0"});
  expectError(conv({1, 2, 1, 1},
                   [](auto &n) {
                     OnnxBuilder::attribute(n, "pads", Ints{1, 1});
                   }),
              {"Conv_1", "pads has 2 entries, not 4"});
  expectError(conv({1, 2, 1, 1}, [](auto &n) { OnnxBuilder::attribute(n, "auto_pad", "SAME"); }),
              {"Conv_1", "auto_pad is \"SAME\""});
  expectError(conv({1, 2, 3, 3},
                   [](auto &n) {
                     OnnxBuilder::attribute(n, "kernel_shape", Ints{1, 3});
                   }),
              {"Conv_1", "kernel_shape differs"});
}

TEST(CausalConv, CarriesItsState) {
  Values w{1, 2, 3, -1, 0, 1};
  auto model = [&](bool state) {
    OnnxBuilder b(27);
    b.output("s");
    b.input("x", {"1", "2", "2"});
    b.input("w", {"2", "1", "3"});
    std::vector<std::string> inputs{"x", "w"};
    if (state) {
      b.input("p", {"1", "2", "2"});
      inputs.insert(inputs.end(), {"", "p"});
    }
    b.node("CausalConvWithState", inputs, {"y", "s"});
    return b;
  };
  // Whole, and in two calls: the second goes on where the first ended.
  auto first = model(false).run({{"x", {1, 2, 5, 6}}, {"w", w}});
  expectValues(first, {1, 2, 2}, {3, 8, 5, 6});
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(first->at(1).real, (Values{1, 2, 5, 6}));
  std::map<std::string, Values> feeds{{"x", {3, 4, 7, 8}}, {"w", w}, {"p", first->at(1).real}};
  expectValues(model(true).run(feeds), {1, 2, 2}, {14, 20, 2, 2});
  OnnxBuilder b = model(true);
  OnnxBuilder::attribute(*b.graph().mutable_node(0), "activation", "silu");
  checkOperator(b, feeds);
}

} // namespace
} // namespace diffc::test
