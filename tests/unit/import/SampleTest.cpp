// Pictures read at computed places. Right values: the ONNX reference
// implementation, which PyTorch's grid_sample equals (but for "cubic" with
// "border" and aligned corners, where PyTorch clamps each element by itself).
#include "tests/unit/import/OperatorCheck.h"

#include <cmath>
#include <limits>

namespace diffc::test {
namespace {

OnnxBuilder sampled(const std::vector<std::string> &x, const std::vector<std::string> &grid,
                    const char *mode, const char *padding, int64_t corners, int64_t opset = 20) {
  OnnxBuilder b(opset);
  b.input("x", x);
  b.input("grid", grid);
  auto &node = b.node("GridSample", {"x", "grid"});
  OnnxBuilder::attribute(node, "mode", mode);
  OnnxBuilder::attribute(node, "padding_mode", padding);
  OnnxBuilder::attribute(node, "align_corners", corners);
  return b;
}

Values tenthsOfSquares(int64_t count) {
  Values x;
  for (int64_t i = 0; i < count; ++i)
    x.push_back(static_cast<double>(i * i) / 10);
  return x;
}

const Values kGrid{-.9, -.7, .25, .4, .9, -.1, 1.3, .5, -.3, -1.6, 3.7, -2.9};

TEST(GridSample, EveryMode) {
  struct Case {
    const char *mode, *padding;
    int64_t corners;
    Values expected;
  };
  for (const Case &c : {
           Case{"nearest", "zeros", 0, {0, 10, 4.9, 0, 0, 0}},
           Case{"nearest", "zeros", 1, {0, 3.6, 4.9, 12.1, 0, 0}},
           Case{"nearest", "border", 0, {0, 10, 4.9, 12.1, 0.1, 0.9}},
           Case{"nearest", "border", 1, {0, 3.6, 4.9, 12.1, 0.1, 0.9}},
           Case{"nearest", "reflection", 0, {0, 10, 4.9, 12.1, 0.1, 8.1}},
           Case{"nearest", "reflection", 1, {0, 3.6, 4.9, 12.1, 2.5, 8.1}},
           Case{"linear", "zeros", 0, {0, 7.44, 3.01, 0, 0, 0}},
           Case{"linear", "zeros", 1, {0.531, 5.9825, 4.317, 4.675, 0.046, 0}},
           Case{"linear", "border", 0, {0, 7.44, 4.3, 10.3, 0.09, 0.9}},
           Case{"linear", "border", 1, {0.531, 5.9825, 4.317, 8.5, 0.115, 0.9}},
           Case{"linear", "reflection", 0, {0, 7.44, 4.3, 10.11, 1.018, 7.93}},
           Case{"linear", "reflection", 1, {0.531, 5.9825, 4.317, 7.735, 1.579, 7.631}},
           Case{"cubic", "zeros", 0, {-0.0466485, 8.8272, 2.87769, -0.722044, -0.00794612, 0}},
           Case{"cubic", "zeros", 1, {0.267862, 6.86001, 4.33956, 5.76841, -0.132568, 0}},
           Case{"cubic", "border", 0, {-0.0621896, 7.7472, 3.92892, 10.6094, 0.073575, 0.9}},
           Case{"cubic", "border", 1, {0.24908, 6.1639, 3.99733, 8.875, 0.114287, 0.9}},
           Case{
               "cubic", "reflection", 0, {-0.0682619, 7.7472, 3.98244, 10.4615, 0.565488, 8.78119}},
           Case{
               "cubic", "reflection", 1, {0.0466543, 6.61514, 4.06688, 9.05565, 0.830152, 8.12487}},
       }) {
    SCOPED_TRACE(std::string(c.mode) + " " + c.padding + " " + std::to_string(c.corners));
    OnnxBuilder b =
        sampled({"1", "1", "3", "4"}, {"1", "2", "3", "2"}, c.mode, c.padding, c.corners);
    std::map<std::string, Values> feeds{{"x", tenthsOfSquares(12)}, {"grid", kGrid}};
    expectValues(b.run(feeds), {1, 1, 2, 3}, c.expected, 2e-4);
    // Off the elements, where slopes jump.
    feeds["grid"] = {-.93, -.71, .21, .47, .88, -.13, 1.31, .52, -.37, -1.63, 3.73, -2.91};
    checkOperator(b, feeds);
  }
}

TEST(GridSample, BatchesChannelsAndDimensions) {
  OnnxBuilder b =
      sampled({"1", "1", "2", "3", "2"}, {"1", "1", "1", "3", "3"}, "linear", "zeros", 0);
  std::map<std::string, Values> feeds{{"x", tenthsOfSquares(12)},
                                      {"grid", {-.5, .3, .2, .8, -.9, .1, 1.4, -.2, -.7}}};
  expectValues(b.run(feeds), {1, 1, 1, 1, 3}, {5.896, 1.3559, 0.0528}, 1e-4);
  feeds["grid"] = {-.53, .31, .22, .83, -.91, .13, 1.43, -.21, -.73};
  checkOperator(b, feeds);
  // Each sample has its own grid, each channel the same places; opset 16's names.
  OnnxBuilder two =
      sampled({"2", "2", "1", "3"}, {"2", "1", "2", "2"}, "bilinear", "border", 1, 16);
  std::map<std::string, Values> pairs{{"x", {0, 1, 2, 10, 11, 12, 20, 21, 22, 30, 31, 32}},
                                      {"grid", {-.5, .1, .75, .1, .25, .1, -.25, .1}}};
  expectValues(two.run(pairs), {2, 2, 1, 2}, {.5, 1.75, 10.5, 11.75, 21.25, 20.75, 31.25, 30.75});
  checkOperator(two, pairs);
  OnnxBuilder line = sampled({"1", "2", "5"}, {"1", "3", "1"}, "cubic", "reflection", 0);
  checkOperator(line, {{"x", randomValues(10, 4)}, {"grid", {-.33, .71, 1.9}}});
}

// No grid reads outside the picture, and no gradient is NaN.
TEST(GridSample, WildGrids) {
  double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  Values wild{inf, 0, 0, -inf, nan, 0, 1e30, -1e30};
  for (const char *mode : {"nearest", "linear", "cubic"})
    for (const char *padding : {"zeros", "border", "reflection"}) {
      SCOPED_TRACE(std::string(mode) + " " + padding);
      OnnxBuilder b = sampled({"1", "1", "3", "4"}, {"1", "1", "4", "2"}, mode, padding, 0);
      std::map<std::string, Values> feeds{{"x", tenthsOfSquares(12)}, {"grid", wild}};
      auto y = b.run(feeds);
      ASSERT_TRUE(y.ok()) << y.status().message();
      for (double value : y->front().real)
        EXPECT_TRUE(std::isfinite(value));
      for (const char *input : {"x", "grid"}) {
        auto gradient = gradientOf(b, input, feeds, Values(4, 1));
        ASSERT_TRUE(gradient.ok()) << gradient.status().message();
        for (double value : *gradient)
          EXPECT_TRUE(std::isfinite(value)) << input;
      }
    }
}

TEST(GridSample, Refusals) {
  auto refused = [](OnnxBuilder b, const std::string &text) {
    expectError(b.run({}), {"GridSample_1", text});
  };
  refused(sampled({"1", "1", "3", "4"}, {"1", "1", "4", "3"}, "linear", "zeros", 0), "and a grid");
  refused(sampled({"1", "1", "3", "4"}, {"1", "1", "4", "2"}, "lanczos", "zeros", 0),
          "mode is \"lanczos\"");
  refused(sampled({"1", "1", "3", "4"}, {"1", "1", "4", "2"}, "linear", "mirror", 0),
          "padding_mode is \"mirror\"");
  refused(sampled({"1", "1", "0", "4"}, {"1", "1", "4", "2"}, "linear", "zeros", 0), "no picture");
}

// Right values: PyTorch's affine_grid.
TEST(AffineGrid, BothAlignments) {
  auto grid = [](const Ints &size, int64_t corners) {
    OnnxBuilder b(20);
    b.input("theta", {"1", "2", "3"});
    b.ints("size", size);
    OnnxBuilder::attribute(b.node("AffineGrid", {"theta", "size"}), "align_corners", corners);
    return b;
  };
  std::map<std::string, Values> theta{{"theta", {.5, .1, .2, -.3, .8, -.1}}};
  expectValues(
      grid({1, 1, 2, 3}, 0).run(theta), {1, 2, 3, 2},
      {-0.183333, -0.3, 0.15, -0.5, 0.483333, -0.7, -0.0833333, 0.5, 0.25, 0.3, 0.583333, 0.1},
      1e-5);
  expectValues(grid({1, 1, 2, 3}, 1).run(theta), {1, 2, 3, 2},
               {-0.4, -0.6, 0.1, -0.9, 0.6, -1.2, -0.2, 1, 0.3, 0.7, 0.8, 0.4}, 1e-5);
  expectValues(grid({1, 1, 1, 2}, 1).run(theta), {1, 1, 2, 2}, {-0.3, 0.2, 0.7, -0.4}, 1e-5);
  checkOperator(grid({1, 1, 2, 3}, 0), theta);
  expectError(grid({1, 2, 3}, 0).run(theta), {"AffineGrid_1", "needs theta"});
}

} // namespace
} // namespace diffc::test
