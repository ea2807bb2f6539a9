// Pad in all its modes, and what crops and pads to a shape.
#include "tests/unit/import/OperatorCheck.h"

#include <cmath>

namespace diffc::test {
namespace {

OnnxBuilder padded(const std::vector<std::string> &dims, const Ints &pads, const char *mode,
                   int64_t opset = 19) {
  OnnxBuilder b(opset);
  b.input("x", dims);
  b.ints("pads", pads);
  OnnxBuilder::attribute(b.node("Pad", {"x", "pads"}), "mode", mode);
  return b;
}

TEST(Pad, ModesOnAVector) {
  std::map<std::string, Values> x{{"x", {1, 2, 3, 4}}};
  OnnxBuilder nine(19);
  nine.input("x", {"4"});
  nine.ints("pads", {2, 1});
  nine.floats("nine", {}, {9});
  nine.node("Pad", {"x", "pads", "nine"});
  expectValues(nine.run(x), {7}, {9, 9, 1, 2, 3, 4, 9});
  expectValues(padded({"4"}, {2, 1}, "constant").run(x), {7}, {0, 0, 1, 2, 3, 4, 0});
  expectValues(padded({"4"}, {2, 1}, "reflect").run(x), {7}, {3, 2, 1, 2, 3, 4, 3});
  expectValues(padded({"4"}, {2, 1}, "edge").run(x), {7}, {1, 1, 1, 2, 3, 4, 4});
  expectValues(padded({"4"}, {2, 1}, "wrap").run(x), {7}, {3, 4, 1, 2, 3, 4, 1});
  // Further than the length: around again.
  expectValues(padded({"4"}, {5, 6}, "wrap").run(x), {15},
               {4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1, 2});
  expectValues(padded({"4"}, {0, 6}, "edge").run(x), {10}, {1, 2, 3, 4, 4, 4, 4, 4, 4, 4});
  // What is cropped is gone before the rest is continued.
  expectValues(padded({"4"}, {-1, 0}, "constant").run(x), {3}, {2, 3, 4});
  expectValues(padded({"4"}, {-1, 2}, "reflect").run(x), {5}, {2, 3, 4, 3, 2});
  expectValues(padded({"4"}, {2, -1}, "wrap").run(x), {5}, {2, 3, 1, 2, 3});
  expectValues(padded({"4"}, {-3, 2}, "edge").run(x), {3}, {4, 4, 4});
}

TEST(Pad, BeginsThenEnds) {
  std::map<std::string, Values> x{{"x", {1, 2, 3, 4, 5, 6}}};
  Ints pads{0, 0, 1, 0, 0, 0, 0, 2};
  expectValues(padded({"1", "1", "2", "3"}, pads, "constant").run(x), {1, 1, 3, 5},
               {0, 0, 0, 0, 0, 1, 2, 3, 0, 0, 4, 5, 6, 0, 0});
  expectValues(padded({"1", "1", "2", "3"}, pads, "reflect").run(x), {1, 1, 3, 5},
               {4, 5, 6, 5, 4, 1, 2, 3, 2, 1, 4, 5, 6, 5, 4});
}

TEST(Pad, NamedAxesAndOldOpsets) {
  OnnxBuilder axes(18);
  axes.input("x", {"1", "2", "2"});
  axes.ints("pads", {1, 0, 0, 1});
  axes.ints("axes", {-1, 1});
  OnnxBuilder::attribute(axes.node("Pad", {"x", "pads", "", "axes"}), "mode", "edge");
  expectValues(axes.run({{"x", {1, 2, 3, 4}}}), {1, 3, 3}, {1, 1, 2, 3, 3, 4, 3, 3, 4});
  for (auto [opset, name] :
       std::vector<std::pair<int64_t, const char *>>{{1, "paddings"}, {2, "pads"}}) {
    OnnxBuilder old(opset);
    old.input("x", {"2"});
    auto &node = old.node("Pad", {"x"});
    OnnxBuilder::attribute(node, name, Ints{1, 2});
    OnnxBuilder::attribute(node, "value", 1.5f);
    expectValues(old.run({{"x", {3, 4}}}), {5}, {1.5, 3, 4, 1.5, 1.5});
  }
}

TEST(Pad, ElementTypesOfTheValue) {
  OnnxBuilder whole(13);
  whole.ints("x", {5, 6});
  whole.ints("pads", {1, 1});
  whole.ints("value", {-7});
  whole.node("Pad", {"x", "pads", "value"}, {"p"});
  OnnxBuilder::attribute(whole.node("Cast", {"p"}), "to", int64_t{onnx::TensorProto::FLOAT});
  expectValues(whole.run({}), {4}, {-7, 5, 6, -7});
  // Half of the f16 range and infinity come through as they are.
  OnnxBuilder half(13);
  half.input("x", {"2"});
  half.ints("pads", {0, 2});
  auto &value = half.floats("value", {}, {});
  value.set_data_type(onnx::TensorProto::FLOAT16);
  value.add_int32_data(0xfbff); // -65504
  OnnxBuilder::attribute(half.node("Cast", {"x"}, {"h"}), "to",
                         int64_t{onnx::TensorProto::FLOAT16});
  half.node("Pad", {"h", "pads", "value"}, {"p"});
  OnnxBuilder::attribute(half.node("Cast", {"p"}), "to", int64_t{onnx::TensorProto::FLOAT});
  expectValues(half.run({{"x", {1, 2}}}), {4}, {1, 2, -65504, -65504});
}

TEST(Pad, AComputedValue) {
  OnnxBuilder b(13);
  b.input("x", {"2", "3"});
  b.input("v", {"1"});
  b.ints("pads", {1, -1, 0, 2});
  b.node("Pad", {"x", "pads", "v"});
  std::map<std::string, Values> feeds{{"x", {1, 2, 3, 4, 5, 6}}, {"v", {0.5}}};
  expectValues(b.run(feeds), {3, 4}, {.5, .5, .5, .5, 2, 3, .5, .5, 5, 6, .5, .5});
  checkOperator(b, feeds);
}

TEST(Pad, Gradients) {
  std::map<std::string, Values> x{{"x", {1, 2, 3, 4}}};
  auto sum = [&](const Ints &pads, const char *mode) {
    return gradientOf(padded({"4"}, pads, mode), "x", x, Values(4 + pads[0] + pads[1], 1)).value();
  };
  EXPECT_EQ(sum({2, 1}, "reflect"), (Values{1, 2, 3, 1}));
  EXPECT_EQ(sum({2, 1}, "edge"), (Values{3, 1, 1, 2}));
  EXPECT_EQ(sum({2, 1}, "wrap"), (Values{2, 1, 2, 2}));
  EXPECT_EQ(sum({2, 1}, "constant"), (Values{1, 1, 1, 1}));
  EXPECT_EQ(sum({-1, 2}, "reflect"), (Values{0, 2, 2, 1}));
  for (const char *mode : {"constant", "reflect", "edge", "wrap"}) {
    SCOPED_TRACE(mode);
    checkOperator(padded({"2", "1", "5", "4"}, {0, 0, 2, 3, 0, 0, -1, 2}, mode),
                  {{"x", randomValues(40, 5)}});
  }
}

TEST(Pad, Refusals) {
  expectError(padded({"4"}, {4, 0}, "reflect").run({}),
              {"Pad_1", "mode \"reflect\" by 4 on dimension 0 of 4"});
  expectError(padded({"4"}, {-1, 3}, "reflect").run({}), {"Pad_1", "by 3 on dimension 0 of 3"});
  expectError(padded({"0"}, {1, 0}, "edge").run({}),
              {"Pad_1", "nothing to continue in dimension 0"});
  expectError(padded({"4"}, {-3, -2}, "constant").run({}),
              {"Pad_1", "crop more than dimension 0 of 4"});
  expectError(padded({"4"}, {1, 0, 0}, "wrap").run({}), {"Pad_1", "pads has 3 entries"});
  expectError(padded({"4"}, {1, 0}, "mirror").run({}), {"Pad_1", "mode \"mirror\" is unknown"});
}

TEST(CenterCropPad, OddDifferences) {
  OnnxBuilder b(18);
  b.input("x", {"3", "2"});
  b.ints("shape", {2, 5});
  b.node("CenterCropPad", {"x", "shape"});
  std::map<std::string, Values> feeds{{"x", {1, 2, 3, 4, 5, 6}}};
  expectValues(b.run(feeds), {2, 5}, {0, 1, 2, 0, 0, 0, 3, 4, 0, 0});
  checkOperator(b, feeds);
}

} // namespace
} // namespace diffc::test
