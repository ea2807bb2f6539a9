// Regions of a picture, and convolutions whose taps are displaced.
#include "tests/unit/import/OperatorCheck.h"

namespace diffc::test {
namespace {

/// 100 n + 10 y + x: bilinear reading inside is exact.
Values ramps(int64_t batch, int64_t height, int64_t width) {
  Values values;
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x)
        values.push_back(static_cast<double>(100 * n + 10 * y + x));
  return values;
}

OnnxBuilder aligned(int64_t ratio, int64_t height, int64_t width, int64_t opset = 16) {
  OnnxBuilder b(opset);
  b.input("x", {"2", "1", "5", "6"});
  b.ints("batch", {1, 0});
  auto &node = b.node("RoiAlign", {"x", "rois", "batch"});
  OnnxBuilder::attribute(node, "sampling_ratio", ratio);
  OnnxBuilder::attribute(node, "output_height", height);
  OnnxBuilder::attribute(node, "output_width", width);
  return b;
}

TEST(RoiAlign, Averages) {
  std::map<std::string, Values> x{{"x", ramps(2, 5, 6)}};
  Values rois{1, 1, 3, 3, 2, 1, 4, 4};
  // Means of places are the middles of the bins, shifted by half a pixel: (x, y)
  // (1.5, 1.5) and (2.5, 2).
  for (int64_t ratio : {0, 1, 2}) {
    SCOPED_TRACE(ratio);
    OnnxBuilder b = aligned(ratio, 1, 1);
    b.floats("rois", {2, 4}, rois);
    expectValues(b.run(x), {2, 1, 1, 1}, {116.5, 22.5});
    checkOperator(b, x);
  }
  OnnxBuilder two = aligned(1, 1, 2);
  two.floats("rois", {2, 4}, rois);
  expectValues(two.run(x), {2, 1, 1, 2}, {116, 117, 22, 23});
  // Without the shift before opset 16 or by name; a region is at least 1 wide there.
  OnnxBuilder old = aligned(2, 1, 1, 10);
  old.floats("rois", {2, 4}, {1, 1, 3, 3, 2, 2, 2, 2});
  expectValues(old.run(x), {2, 1, 1, 1}, {122, 27.5});
  OnnxBuilder named = aligned(2, 1, 1);
  named.floats("rois", {2, 4}, {1, 1, 3, 3, 2, 2, 2, 2});
  OnnxBuilder::attribute(*named.graph().mutable_node(0), "coordinate_transformation_mode",
                         "output_half_pixel");
  expectValues(named.run(x), {2, 1, 1, 1}, {122, 27.5});
}

TEST(RoiAlign, ComputedRegionsAndTheOutside) {
  OnnxBuilder b = aligned(2, 2, 1);
  b.input("rois", {"2", "4"});
  std::map<std::string, Values> feeds{{"x", ramps(2, 5, 6)},
                                      {"rois", {1.1, .7, 3.3, 3.9, -2.9, -1.7, 7.3, 5.9}}};
  auto y = b.run(feeds);
  ASSERT_TRUE(y.ok()) << y.status().message();
  checkOperator(b, feeds);
  // More than one pixel outside counts as 0.
  feeds["rois"] = {-9, -9, -5, -5, 20, 20, 24, 24};
  expectValues(b.run(feeds), {2, 1, 2, 1}, {0, 0, 0, 0});
  OnnxBuilder open = aligned(0, 1, 1);
  open.input("rois", {"2", "4"});
  expectError(open.run(feeds), {"RoiAlign_1", "sampling_ratio 0"});
}

// The largest weighted corner of all places.
TEST(RoiAlign, Maximum) {
  OnnxBuilder b = aligned(1, 1, 1);
  b.floats("rois", {2, 4}, {1, 1, 3, 3, 2, 1, 4, 4});
  OnnxBuilder::attribute(*b.graph().mutable_node(0), "mode", "max");
  std::map<std::string, Values> x{{"x", ramps(2, 5, 6)}};
  // (1.5, 1.5): a quarter of 122; (2.5, 2): half of 23.
  expectValues(b.run(x), {2, 1, 1, 1}, {30.5, 11.5});
  checkOperator(b, x);
}

OnnxBuilder deformed(bool mask, int64_t groups, int64_t offsetGroups) {
  OnnxBuilder b(19);
  b.input("x", {"2", "4", "5", "4"});
  b.input("w", {"4", std::to_string(4 / groups), "2", "3"});
  b.input("offset", {"2", std::to_string(12 * offsetGroups), "3", "2"});
  b.input("b", {"4"});
  std::vector<std::string> inputs{"x", "w", "offset", "b"};
  if (mask) {
    b.input("mask", {"2", std::to_string(6 * offsetGroups), "3", "2"});
    inputs.push_back("mask");
  }
  auto &node = b.node("DeformConv", inputs);
  OnnxBuilder::attribute(node, "group", groups);
  OnnxBuilder::attribute(node, "offset_group", offsetGroups);
  OnnxBuilder::attribute(node, "strides", Ints{2, 3});
  OnnxBuilder::attribute(node, "pads", Ints{1, 1, 0, 1});
  return b;
}

TEST(DeformConv, WithoutOffsetsAConvolution) {
  for (int64_t groups : {1, 2}) {
    std::map<std::string, Values> feeds{{"x", randomValues(160, 1)},
                                        {"w", randomValues(96 / groups, 2)},
                                        {"b", randomValues(4, 3)}};
    OnnxBuilder plain(19);
    plain.input("x", {"2", "4", "5", "4"});
    plain.input("w", {"4", std::to_string(4 / groups), "2", "3"});
    plain.input("b", {"4"});
    auto &node = plain.node("Conv", {"x", "w", "b"});
    OnnxBuilder::attribute(node, "group", groups);
    OnnxBuilder::attribute(node, "strides", Ints{2, 3});
    OnnxBuilder::attribute(node, "pads", Ints{1, 1, 0, 1});
    auto right = plain.run(feeds);
    ASSERT_TRUE(right.ok()) << right.status().message();
    feeds["offset"] = Values(2 * 24 * 6, 0);
    feeds["mask"] = Values(2 * 12 * 6, 1);
    expectValues(deformed(true, groups, 2).run(feeds), {2, 4, 3, 2}, right->front().real, 1e-9);
    // Every tap one column to the right: the picture one to the left.
    feeds["offset"].clear();
    for (int64_t i = 0; i < 2 * 24; ++i)
      feeds["offset"].insert(feeds["offset"].end(), 6, i % 2);
    Values moved;
    for (size_t i = 0; i < 160; ++i)
      moved.push_back(i % 4 == 3 ? 0 : feeds["x"][i + 1]);
    std::map<std::string, Values> shifted = feeds;
    shifted["x"] = moved;
    auto there = plain.run(shifted);
    ASSERT_TRUE(there.ok());
    // All but the first column, where the picture's own first one is read again.
    auto got = deformed(true, groups, 2).run(feeds);
    ASSERT_TRUE(got.ok()) << got.status().message();
    for (size_t i = 1; i < got->front().real.size(); i += 2)
      EXPECT_NEAR(got->front().real[i], there->front().real[i], 1e-9);
  }
}

TEST(DeformConv, Gradients) {
  for (bool mask : {false, true}) {
    std::map<std::string, Values> feeds{
        {"x", randomValues(160, 1)}, {"w", randomValues(48, 2)}, {"b", randomValues(4, 3)}};
    feeds["offset"] = randomValues(2 * 24 * 6, 4);
    if (mask)
      feeds["mask"] = randomValues(2 * 12 * 6, 5);
    checkOperator(deformed(mask, 2, 2), feeds);
  }
  OnnxBuilder b = deformed(false, 2, 2);
  b.graph().mutable_node(0)->mutable_attribute(1)->set_i(4);
  expectError(b.run({}), {"DeformConv_1", "one entry per tap and output"});
}

} // namespace
} // namespace diffc::test
