// Resize and Upsample: every rule for coordinates, rounding and weights. Where
// nothing else is said, right values are the ONNX reference implementation's.
#include "tests/unit/import/OperatorCheck.h"

namespace diffc::test {
namespace {

/// A Resize of x under construction.
struct Resized {
  OnnxBuilder b;
  onnx::NodeProto *node;

  static Resized bySizes(const std::vector<std::string> &dims, const Ints &sizes,
                         int64_t opset = 19) {
    Resized made{OnnxBuilder(opset), nullptr};
    made.b.input("x", dims);
    made.b.ints("sizes", sizes);
    made.node = &made.b.node("Resize", {"x", "", "", "sizes"});
    return made;
  }
  static Resized byScales(const std::vector<std::string> &dims, const Values &scales,
                          int64_t opset = 19) {
    Resized made{OnnxBuilder(opset), nullptr};
    made.b.input("x", dims);
    made.b.floats("scales", {static_cast<int64_t>(scales.size())}, scales);
    made.node = opset < 11 ? &made.b.node("Resize", {"x", "scales"})
                           : &made.b.node("Resize", {"x", "", "scales"});
    return made;
  }
  template <typename T> Resized &with(const char *name, T value) {
    OnnxBuilder::attribute(*node, name, value);
    return *this;
  }
  auto on(const Values &x) { return b.run({{"x", x}}); }
};

TEST(Resize, LinearCoordinates) {
  auto linear = [](const char *mode) {
    return Resized::byScales({"1", "1", "1", "4"}, {1, 1, 1, 2})
        .with("mode", "linear")
        .with("coordinate_transformation_mode", mode)
        .on({1, 2, 3, 4});
  };
  Ints shape{1, 1, 1, 8};
  Values half{1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4}, corners;
  for (int i = 0; i < 8; ++i)
    corners.push_back(1 + 3 * i / 7.0);
  expectValues(linear("half_pixel"), shape, half);
  expectValues(linear("half_pixel_symmetric"), shape, half);
  expectValues(linear("pytorch_half_pixel"), shape, half);
  expectValues(linear("asymmetric"), shape, {1, 1.5, 2, 2.5, 3, 3.5, 4, 4});
  expectValues(linear("align_corners"), shape, corners);
}

// Rounding up must not reach into the next item of the batch.
TEST(Resize, AxesThatKeepTheirExtentAreLeftAlone) {
  auto made = Resized::byScales({"2", "1", "1", "1"}, {1, 1, 2, 2}, 11);
  made.with("coordinate_transformation_mode", "tf_half_pixel_for_nn").with("nearest_mode", "ceil");
  expectValues(made.on({10, 20}), {2, 1, 2, 2}, {10, 10, 10, 10, 20, 20, 20, 20});
}

TEST(Resize, NearestBySizes) {
  auto made = Resized::bySizes({"1", "1", "2", "2"}, {1, 1, 4, 4}, 13);
  made.with("mode", "nearest");
  expectValues(made.on({1, 2, 3, 4}), {1, 1, 4, 4},
               {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4});
  EXPECT_EQ(gradientOf(made.b, "x", {{"x", {1, 2, 3, 4}}}, Values(16, 1)).value(), Values(4, 4));
}

TEST(Resize, NearestRounding) {
  struct Case {
    const char *mode;
    Values sixAsymmetric, eightCorners, twoHalfPixel;
  };
  for (const Case &c : {
           Case{"round_prefer_floor", {1, 2, 2, 3, 4, 4}, {1, 1, 2, 2, 3, 3, 4, 4}, {1, 3}},
           Case{"round_prefer_ceil", {1, 2, 2, 3, 4, 4}, {1, 1, 2, 2, 3, 3, 4, 4}, {2, 4}},
           Case{"floor", {1, 1, 2, 3, 3, 4}, {1, 1, 1, 2, 2, 3, 3, 4}, {1, 3}},
           Case{"ceil", {1, 2, 3, 3, 4, 4}, {1, 2, 2, 3, 3, 4, 4, 4}, {2, 4}},
       }) {
    SCOPED_TRACE(c.mode);
    auto nearest = [&](int64_t size, const char *coordinates) {
      return Resized::bySizes({"4"}, {size})
          .with("nearest_mode", c.mode)
          .with("coordinate_transformation_mode", coordinates)
          .on({1, 2, 3, 4});
    };
    expectValues(nearest(6, "asymmetric"), {6}, c.sixAsymmetric);
    expectValues(nearest(8, "align_corners"), {8}, c.eightCorners);
    expectValues(nearest(2, "half_pixel"), {2}, c.twoHalfPixel);
  }
}

// Right values: PyTorch's F.interpolate(mode="nearest"), which rounds scales and
// quotients to float, as exporters expect.
TEST(Resize, FractionalScalesAreFloats) {
  Values x{0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  auto nearest = [&](double scale) {
    return Resized::byScales({"1", "1", "10"}, {1, 1, scale})
        .with("nearest_mode", "floor")
        .with("coordinate_transformation_mode", "asymmetric")
        .on(x);
  };
  expectValues(nearest(0.7), {1, 1, 7}, {0, 1, 2, 4, 5, 7, 8});
  expectValues(nearest(1.2), {1, 1, 12}, {0, 0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 9});
  expectValues(nearest(1.3), {1, 1, 13}, {0, 0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9});
}

// Right values: PyTorch's F.interpolate.
TEST(Resize, Cubic) {
  Values x{1, 2, 3, 4, 7};
  auto cubic = [&](const char *mode) {
    return Resized::bySizes({"1", "1", "1", "5"}, {1, 1, 1, 7})
        .with("mode", "cubic")
        .with("coordinate_transformation_mode", mode)
        .on(x);
  };
  expectValues(cubic("half_pixel"), {1, 1, 1, 7},
               {0.921282768, 1.47521865, 2.32944679, 3, 3.451895, 5.36443043, 7.23615456}, 1e-5);
  expectValues(cubic("align_corners"), {1, 1, 1, 7},
               {1, 1.57407415, 2.37036943, 3, 3.40740728, 5.05555439, 7}, 1e-5);
  auto keys = Resized::byScales({"1", "1", "1", "5"}, {1, 1, 1, 1.5});
  keys.with("mode", "cubic").with("cubic_coeff_a", -0.5f).with("exclude_outside", int64_t{1});
  keys.with("coordinate_transformation_mode", "half_pixel_symmetric"); // the reference's
  expectValues(keys.on(x), {1, 1, 1, 7}, {1, 1.60714257, 2.33333421, 3, 3.51851726, 5.03571463, 7},
               1e-5);
}

TEST(Resize, Antialias) {
  auto made = Resized::bySizes({"1", "1", "1", "5"}, {1, 1, 1, 3});
  made.with("mode", "cubic").with("antialias", int64_t{1});
  expectValues(made.on({1, 2, 3, 4, 7}), {1, 1, 1, 3}, {1.30361271, 2.85714364, 5.91566563}, 1e-5);
  // PyTorch's antialiased bilinear: weights outside do not count.
  auto torch = Resized::bySizes({"1", "1", "3", "4"}, {1, 1, 2, 2});
  torch.with("mode", "linear").with("antialias", int64_t{1}).with("exclude_outside", int64_t{1});
  Values squares;
  for (int i = 0; i < 12; ++i)
    squares.push_back(i * i);
  expectValues(torch.on(squares), {1, 1, 2, 2}, {9.14285755, 18.5714302, 56.285717, 81.4285736},
               1e-4);
}

TEST(Resize, CropOutsideIsExtrapolated) {
  OnnxBuilder b(13);
  b.input("x", {"1", "1", "1", "5"});
  b.floats("roi", {8}, {0, 0, 0, .25, 1, 1, 1, 1.5});
  b.ints("sizes", {1, 1, 1, 5});
  auto &node = b.node("Resize", {"x", "roi", "", "sizes"});
  OnnxBuilder::attribute(node, "mode", "linear");
  OnnxBuilder::attribute(node, "coordinate_transformation_mode", "tf_crop_and_resize");
  OnnxBuilder::attribute(node, "extrapolation_value", -9.0f);
  std::map<std::string, Values> feeds{{"x", {1, 2, 3, 4, 7}}};
  expectValues(b.run(feeds), {1, 1, 1, 5}, {2, 3.25, 5.5, -9, -9});
  checkOperator(b, feeds);
}

TEST(Resize, AspectRatioAndAxes) {
  Values x{1, 2, 3, 4, 5, 6, 7, 8};
  auto policy = [&](const char *name) {
    return Resized::bySizes({"1", "2", "4"}, {7, 8}, 18)
        .with("axes", Ints{-2, -1})
        .with("keep_aspect_ratio_policy", name)
        .with("nearest_mode", "floor")
        .on(x);
  };
  auto larger = policy("not_larger"), smaller = policy("not_smaller"), stretch = policy("stretch");
  ASSERT_TRUE(larger.ok() && smaller.ok() && stretch.ok());
  EXPECT_EQ(larger->at(0).type.shape, (Ints{1, 4, 8}));
  EXPECT_EQ(smaller->at(0).type.shape, (Ints{1, 7, 14}));
  EXPECT_EQ(stretch->at(0).type.shape, (Ints{1, 7, 8}));
}

TEST(Resize, OldOpsets) {
  Values x{1, 2, 3};
  expectValues(Resized::byScales({"3"}, {5.0 / 3}, 10).on(x), {5}, {1, 1, 2, 2, 3});
  auto linear = Resized::byScales({"3"}, {5.0 / 3}, 10);
  expectValues(linear.with("mode", "linear").on(x), {5}, {1, 1.6, 2.2, 2.8, 3});
  OnnxBuilder seven(7);
  seven.input("x", {"2"});
  auto &node = seven.node("Upsample", {"x"});
  auto *scales = node.add_attribute();
  scales->set_name("scales");
  scales->set_type(onnx::AttributeProto::FLOATS);
  scales->add_floats(2.0f);
  expectValues(seven.run({{"x", {1, 2}}}), {4}, {1, 1, 2, 2});
  OnnxBuilder nine(9);
  nine.input("x", {"2"});
  nine.floats("scales", {1}, {2});
  OnnxBuilder::attribute(nine.node("Upsample", {"x", "scales"}), "mode", "linear");
  expectValues(nine.run({{"x", {1, 2}}}), {4}, {1, 1.5, 2, 2});
}

// Whole factors stay one broadcast, and a stride one slice: no gather.
TEST(Resize, WholeFactorsAreViews) {
  for (const Ints &sizes : {Ints{1, 2, 8, 12}, Ints{1, 2, 2, 2}}) {
    auto made = Resized::bySizes({"1", "2", "4", "4"}, sizes);
    auto file = ModelFile::open(made.b.save());
    ASSERT_TRUE(file.ok());
    mlir::MLIRContext context;
    auto module = importModel(context, *file, {});
    ASSERT_TRUE(module.ok()) << module.status().message();
    (*module)->walk([](nn::GatherOp) { ADD_FAILURE() << "a gather"; });
    checkOperator(made.b, {{"x", randomValues(32, 6)}});
  }
}

TEST(Resize, Gradients) {
  std::vector<std::string> dims{"1", "2", "4", "5"};
  std::map<std::string, Values> feeds{{"x", randomValues(40, 7)}};
  for (const Ints &sizes : {Ints{1, 2, 7, 3}, Ints{1, 2, 1, 9}})
    for (const char *mode : {"nearest", "linear", "cubic"})
      for (int64_t antialias : {0, 1}) {
        if (antialias && std::string(mode) == "nearest")
          continue;
        SCOPED_TRACE(std::string(mode) + (antialias ? " antialiased" : ""));
        auto made = Resized::bySizes(dims, sizes);
        made.with("mode", mode).with("antialias", antialias);
        checkOperator(made.b, feeds);
      }
}

TEST(Resize, Refusals) {
  auto expectRefusal = [](Resized made, const std::string &text) {
    expectError(made.on({1, 2}), {"Resize_1", text});
  };
  expectRefusal(Resized::bySizes({"2"}, {4}).with("mode", "spline"), "mode is \"spline\"");
  expectRefusal(Resized::bySizes({"2"}, {4}).with("coordinate_transformation_mode", "middle"),
                "coordinate_transformation_mode is \"middle\"");
  expectRefusal(Resized::bySizes({"2"}, {4, 4}), "neither scales nor sizes has one entry");
  expectRefusal(Resized::bySizes({"2"}, {-4}), "a size is -4");
  expectRefusal(Resized::byScales({"2"}, {0}), "a scale is 0");
  expectRefusal(Resized::bySizes({"0"}, {3}), "dimension 0 is empty");
  expectRefusal(
      Resized::bySizes({"2"}, {3}).with("coordinate_transformation_mode", "tf_crop_and_resize"),
      "needs roi");
}

} // namespace
} // namespace diffc::test
