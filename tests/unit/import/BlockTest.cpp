// Blocks of elements that move, and normalisation over channels.
#include "tests/unit/import/OperatorCheck.h"

#include <cmath>
#include <numeric>

namespace diffc::test {
namespace {

Values counted(int64_t count, double first = 0) {
  Values values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

OnnxBuilder blocks(const char *op, const std::vector<std::string> &dims, const char *mode,
                   int64_t opset = 28) {
  OnnxBuilder b(opset);
  b.input("x", dims);
  auto &node = b.node(op, {"x"});
  OnnxBuilder::attribute(node, "blocksize", int64_t{2});
  if (mode)
    OnnxBuilder::attribute(node, "mode", mode);
  return b;
}

TEST(DepthToSpace, BothOrdersAndBack) {
  std::map<std::string, Values> x{{"x", counted(16)}};
  std::vector<std::string> deep{"1", "8", "1", "2"}, wide{"1", "2", "2", "4"};
  Values dcr{0, 4, 1, 5, 8, 12, 9, 13, 2, 6, 3, 7, 10, 14, 11, 15},
      crd{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15};
  expectValues(blocks("DepthToSpace", deep, nullptr, 1).run(x), {1, 2, 2, 4}, dcr);
  expectValues(blocks("DepthToSpace", deep, "DCR").run(x), {1, 2, 2, 4}, dcr);
  expectValues(blocks("DepthToSpace", deep, "CRD").run(x), {1, 2, 2, 4}, crd);
  expectValues(blocks("SpaceToDepth", wide, nullptr, 1).run({{"x", dcr}}), {1, 8, 1, 2}, x["x"]);
  expectValues(blocks("SpaceToDepth", wide, "CRD").run({{"x", crd}}), {1, 8, 1, 2}, x["x"]);
  checkOperator(blocks("DepthToSpace", deep, "CRD"), x);
  checkOperator(blocks("SpaceToDepth", wide, "DCR"), x);
  expectError(blocks("DepthToSpace", {"1", "6", "1", "2"}, "DCR").run({}),
              {"DepthToSpace_1", "6 channels"});
  expectError(blocks("SpaceToDepth", {"1", "2", "3", "2"}, "DCR").run({}),
              {"SpaceToDepth_1", "no multiple"});
  expectError(blocks("DepthToSpace", deep, "RDC").run({}), {"DepthToSpace_1", "mode is \"RDC\""});
}

// Right values: PyTorch's fold.
TEST(Col2Im, StridesDilationsPads) {
  auto model = [](const Ints &image) {
    OnnxBuilder b(18);
    b.input("x", {"1", "4", "4"});
    b.ints("image", image);
    b.ints("block", {2, 2});
    auto &node = b.node("Col2Im", {"x", "image", "block"});
    OnnxBuilder::attribute(node, "dilations", Ints{1, 2});
    OnnxBuilder::attribute(node, "pads", Ints{0, 1, 0, 1});
    OnnxBuilder::attribute(node, "strides", Ints{1, 4});
    return b;
  };
  std::map<std::string, Values> x{{"x", counted(16, 1)}};
  expectValues(model({3, 5}).run(x), {1, 1, 3, 5},
               {0, 5, 0, 2, 0, 0, 20, 0, 14, 0, 0, 15, 0, 12, 0});
  checkOperator(model({3, 5}), x);
  expectError(model({3, 9}).run(x), {"Col2Im_1", "columns of 4 x 4 do not fit"});
}

TEST(MaxUnpool, UndoesMaxPool) {
  // Overlapping windows name 9 and 8 twice: each stands there once.
  OnnxBuilder b(22);
  b.input("x", {"1", "1", "1", "5"});
  auto &pool = b.node("MaxPool", {"x"}, {"m", "places"});
  OnnxBuilder::attribute(pool, "kernel_shape", Ints{1, 2});
  auto &back = b.node("MaxUnpool", {"m", "places"});
  OnnxBuilder::attribute(back, "kernel_shape", Ints{1, 2});
  std::map<std::string, Values> x{{"x", {1, 9, 2, 8, 3}}};
  expectValues(b.run(x), {1, 1, 1, 5}, {0, 9, 0, 8, 0});
  EXPECT_EQ(gradientOf(b, "x", x, {1, 10, 100, 1000, 10000}).value(), (Values{0, 10, 0, 1000, 0}));
  checkOperator(b, x);
  b.ints("shape", {1, 1, 2, 6});
  back.add_input("shape");
  expectValues(b.run(x), {1, 1, 2, 6}, {0, 9, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0});
}

OnnxBuilder batchNorm(int64_t opset, const std::vector<std::string> &outputs) {
  OnnxBuilder b(opset);
  b.input("x", {"3", "2"});
  for (const char *name : {"scale", "bias", "mean", "var"})
    b.input(name, {"2"});
  for (size_t i = 1; i < outputs.size(); ++i)
    b.output(outputs[i]);
  auto &node = b.node("BatchNormalization", {"x", "scale", "bias", "mean", "var"}, outputs);
  OnnxBuilder::attribute(node, "epsilon", 1e-3f);
  return b;
}

// Right values: PyTorch's BatchNorm1d; the running variance is ONNX's, of the
// population, not PyTorch's of the sample.
TEST(BatchNorm, InferenceAndTraining) {
  std::map<std::string, Values> feeds{{"x", {1, 2, 3, 7, 5, 3}},
                                      {"scale", {2, -1}},
                                      {"bias", {.5, 1}},
                                      {"mean", {1, 2}},
                                      {"var", {4, 9}}};
  Values inference{0.5, 1, 2.49975, -0.666574, 4.4995, 0.666685},
      training{-1.94903, 1.92572, 0.5, -0.388581, 2.94903, 1.46286};
  for (int64_t opset : {7, 9, 15})
    expectValues(batchNorm(opset, {"y"}).run(feeds), {3, 2}, inference, 1e-5);
  OnnxBuilder old = batchNorm(6, {"y"});
  expectValues(old.run(feeds), {3, 2}, training, 1e-5); // is_test is 0 there
  OnnxBuilder::attribute(*old.graph().mutable_node(0), "is_test", int64_t{1});
  expectValues(old.run(feeds), {3, 2}, inference, 1e-5);
  checkOperator(batchNorm(15, {"y"}), feeds);

  OnnxBuilder now = batchNorm(15, {"y", "m", "v"});
  OnnxBuilder::attribute(*now.graph().mutable_node(0), "training_mode", int64_t{1});
  OnnxBuilder until13 = batchNorm(9, {"y", "m", "v", "sm", "sv"});
  for (OnnxBuilder *b : {&now, &until13}) {
    auto all = b->run(feeds);
    expectValues(all, {3, 2}, training, 1e-5);
    ASSERT_TRUE(all.ok());
    Values mean = all->at(1).real, var = all->at(2).real;
    EXPECT_NEAR(mean[0], 1.2, 1e-6);
    EXPECT_NEAR(mean[1], 2.2, 1e-6);
    EXPECT_NEAR(var[0], 3.6 + .1 * 8 / 3, 1e-6);
    EXPECT_NEAR(var[1], 8.1 + .1 * 14 / 3, 1e-6);
    checkOperator(*b, feeds);
  }
  feeds["mean"].push_back(0);
  OnnxBuilder wrong = batchNorm(15, {"y"});
  wrong.graph()
      .mutable_input(3)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(3);
  expectError(wrong.run(feeds), {"BatchNormalization_1", "input 3 has 3 elements, not 2"});
}

// Right values: PyTorch's LocalResponseNorm.
TEST(LocalResponse, WindowsOfChannels) {
  auto model = [](int64_t size) {
    OnnxBuilder b(13);
    b.input("x", {"2", "5", "1"});
    auto &node = b.node("LRN", {"x"});
    OnnxBuilder::attribute(node, "size", size);
    OnnxBuilder::attribute(node, "alpha", .3f);
    OnnxBuilder::attribute(node, "beta", .6f);
    OnnxBuilder::attribute(node, "bias", 1.5f);
    return b;
  };
  std::map<std::string, Values> x{{"x", counted(10, 1)}};
  expectValues(
      model(3).run(x), {2, 5, 1},
      {0.659754, 1.05582, 1.23325, 1.3011, 1.77851, 1.50713, 1.30675, 1.29123, 1.27426, 1.67744},
      1e-5);
  // Even sizes reach one further ahead than back: 1 / (1.5 + .15 * (1 + 4))^.6.
  auto even = model(2).run(x);
  ASSERT_TRUE(even.ok()) << even.status().message();
  EXPECT_NEAR(even->front().real[0], std::pow(1.5 + .15 * 5, -.6), 1e-6);
  EXPECT_NEAR(even->front().real[4], 5 * std::pow(1.5 + .15 * 25, -.6), 1e-6);
  checkOperator(model(3), x);
  checkOperator(model(99), x); // wider than there are channels
  expectError(model(0).run(x), {"LRN_1", "size is 0"});
}

TEST(MeanVariance, OverAxes) {
  OnnxBuilder b(13);
  b.input("x", {"2", "2", "2"});
  OnnxBuilder::attribute(b.node("MeanVarianceNormalization", {"x"}), "axes", Ints{-1, 0});
  std::map<std::string, Values> x{{"x", {1, 3, 10, 10, 5, 7, 10, 10}}};
  double r = std::sqrt(5.0); // 1, 3, 5 and 7: mean 4, variance 5
  expectValues(b.run(x), {2, 2, 2}, {-3 / r, -1 / r, 0, 0, 1 / r, 3 / r, 0, 0});
  auto dx = gradientOf(b, "x", x, {1, 2, 3, 4, 5, 6, 7, 8});
  ASSERT_TRUE(dx.ok()) << dx.status().message();
  for (double value : *dx)
    EXPECT_TRUE(std::isfinite(value));
  checkOperator(b, {{"x", {1, 3, 10, 11, 5, 7, 10, 14}}});
  OnnxBuilder three(13);
  three.input("x", {"2", "2", "2"});
  three.node("MeanVarianceNormalization", {"x"});
  expectError(three.run(x), {"MeanVarianceNormalization_1", "axis 3 is out of range"});
}

} // namespace
} // namespace diffc::test
