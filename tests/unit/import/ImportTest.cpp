// Import of operators at their opsets' own meaning, and refusals.
#include "tests/unit/import/OnnxBuilder.h"

#include <cmath>
#include <random>

namespace diffc::test {
namespace {

constexpr int64_t kMin = std::numeric_limits<int64_t>::min();

TEST(Slice, NegativeSteps) {
  struct Case {
    int64_t start, end, step;
    Values expected;
  };
  for (const Case &c : {Case{9, 0, -1, {9, 8, 7, 6, 5, 4, 3, 2, 1}}, Case{9, 0, -3, {9, 6, 3}},
                        Case{0, 5, -1, {}}, Case{-1, kMin, -1, {9, 8, 7, 6, 5, 4, 3, 2, 1, 0}},
                        Case{9, -1, -1, {}}, Case{2, 100, 3, {2, 5, 8}}}) {
    OnnxBuilder b(17);
    b.input("x", {"10"});
    b.ints("starts", {c.start});
    b.ints("ends", {c.end});
    b.ints("axes", {0});
    b.ints("steps", {c.step});
    b.node("Slice", {"x", "starts", "ends", "axes", "steps"});
    expectValues(b.run({{"x", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}}),
                 {static_cast<int64_t>(c.expected.size())}, c.expected);
  }
}

TEST(Slice, BoundsFromShapeArithmetic) {
  OnnxBuilder b(17);
  b.input("x", {"N"});
  b.ints("zero", {0});
  b.ints("minus", {-3});
  b.node("Shape", {"x"}, {"shape"});
  b.node("Gather", {"shape", "zero"}, {"n"});
  b.node("Slice", {"x", "n", "zero", "zero", "minus"});
  ImportOptions options;
  options.dimensions["N"] = 10;
  expectValues(b.run({{"x", {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}}}, options), {3}, {9, 6, 3});
}

TEST(Split, NumOutputs) {
  auto split = [](int64_t length, int64_t parts) {
    OnnxBuilder b(18);
    b.graph().clear_output();
    b.input("x", {std::to_string(length)});
    std::vector<std::string> names;
    for (int64_t i = 0; i < parts; ++i)
      names.push_back("p" + std::to_string(i)), b.output(names.back());
    OnnxBuilder::attribute(b.node("Split", {"x"}, names), "num_outputs", parts);
    return b.run({{"x", Values(length, 1)}});
  };
  for (auto [length, sizes] :
       std::vector<std::pair<int64_t, Ints>>{{10, {4, 4, 2}}, {7, {3, 3, 1}}, {9, {3, 3, 3}}}) {
    auto parts = split(length, 3);
    ASSERT_TRUE(parts.ok()) << parts.status().message();
    for (size_t i = 0; i < 3; ++i)
      EXPECT_EQ(parts->at(i).type.shape, Ints{sizes[i]});
  }
  expectError(split(5, 4), {"Split_1", "does not split into 4 parts"});
}

TEST(Softmax, MeaningByOpset) {
  Values x{0, std::log(2), std::log(3), std::log(4)};
  auto softmax = [&](int64_t opset, bool withAxis) {
    OnnxBuilder b(opset);
    b.input("x", {"1", "2", "2"});
    auto &node = b.node("Softmax", {"x"});
    if (withAxis)
      OnnxBuilder::attribute(node, "axis", int64_t{1});
    return b.run({{"x", x}});
  };
  expectValues(softmax(11, true), {1, 2, 2}, {.1, .2, .3, .4});
  expectValues(softmax(11, false), {1, 2, 2}, {.1, .2, .3, .4});
  expectValues(softmax(13, true), {1, 2, 2}, {.25, 1 / 3., .75, 2 / 3.});
  expectValues(softmax(13, false), {1, 2, 2}, {1 / 3., 2 / 3., 3 / 7., 4 / 7.});
}

TEST(Clip, OptionalBounds) {
  auto clip = [](const std::vector<std::string> &inputs) {
    OnnxBuilder b(13);
    b.input("x", {"3"});
    b.floats("zero", {}, {0});
    b.floats("six", {}, {6});
    b.node("Clip", inputs);
    return b.run({{"x", {-5, 3, 9}}});
  };
  expectValues(clip({"x", "", "six"}), {3}, {-5, 3, 6});
  expectValues(clip({"x", "zero", ""}), {3}, {0, 3, 9});
  expectValues(clip({"x", "zero"}), {3}, {0, 3, 9});
  expectValues(clip({"x"}), {3}, {-5, 3, 9});
  OnnxBuilder old(6);
  old.input("x", {"3"});
  OnnxBuilder::attribute(old.node("Clip", {"x"}), "max", 6.0f);
  expectValues(old.run({{"x", {-5, 3, 9}}}), {3}, {-5, 3, 6});
}

TEST(LayerNorm, AScaleThatBroadcastsIsNotFused) {
  Values x{1, 2, 3, 4, 5, 6}, n{-1.224736, 0, 1.224736};
  auto norm = [&](const Ints &shape, const Values &scale) {
    OnnxBuilder b(17);
    b.input("x", {"2", "3"});
    b.floats("scale", shape, scale);
    b.node("LayerNormalization", {"x", "scale"});
    return b.run({{"x", x}, {"scale", scale}});
  };
  expectValues(norm({2, 1}, {1, 10}), {2, 3}, {n[0], 0, n[2], 10 * n[0], 0, 10 * n[2]}, 1e-5);
  expectValues(norm({3}, {1, 1, 2}), {2, 3}, {n[0], 0, 2 * n[2], n[0], 0, 2 * n[2]}, 1e-5);
}

TEST(GroupNorm, ScalePerGroupBefore21) {
  Values x{1, 3, 2, 6}; // [1, 4, 1]: groups {1, 3} and {2, 6}
  auto norm = [&](int64_t opset, const Values &scale) {
    OnnxBuilder b(opset);
    b.input("x", {"1", "4", "1"});
    auto size = static_cast<int64_t>(scale.size());
    b.floats("scale", {size}, scale);
    b.floats("bias", {size}, Values(size, 0));
    auto &node = b.node("GroupNormalization", {"x", "scale", "bias"});
    OnnxBuilder::attribute(node, "num_groups", int64_t{2});
    return b.run({{"x", x}, {"scale", scale}, {"bias", Values(size, 0)}});
  };
  expectValues(norm(18, {1, 10}), {1, 4, 1}, {-1, 1, -10, 10}, 1e-4);
  expectValues(norm(21, {1, 2, 3, 4}), {1, 4, 1}, {-1, 2, -3, 4}, 1e-4);
}

TEST(MatMul, Vectors) {
  OnnxBuilder b(13);
  b.input("x", {"2", "3"});
  b.input("v", {"3"});
  b.node("MatMul", {"x", "v"});
  expectValues(b.run({{"x", {1, 2, 3, 4, 5, 6}}, {"v", {1, 0, -1}}}), {2}, {-2, -2});
}

TEST(ConvTranspose, TakesTheRightElements) {
  OnnxBuilder b(13);
  b.input("x", {"1", "1", "2"});
  b.floats("w", {1, 1, 2}, {10, 1});
  OnnxBuilder::attribute(b.node("ConvTranspose", {"x", "w"}), "strides", Ints{3});
  expectValues(b.run({{"x", {1, 2}}, {"w", {10, 1}}}), {1, 1, 5}, {10, 1, 0, 20, 2});
}

TEST(Refusals, UnsupportedOperatorsAreListedAtOnce) {
  OnnxBuilder b(17);
  b.input("x", {"3"});
  b.node("NonMaxSuppression", {"x"}, {"a"});
  b.node("Relu", {"a"}, {"b"});
  b.node("Bernoulli", {"b"});
  expectError(b.run({}), {"2 nodes have", "NonMaxSuppression_1", "Bernoulli_3"});
}

TEST(Refusals, CyclesOpenDimensionsAndMissingValues) {
  OnnxBuilder cyclic(17);
  cyclic.input("x", {"3"});
  cyclic.node("Add", {"x", "b"}, {"a"});
  cyclic.node("Relu", {"a"}, {"b"});
  cyclic.node("Neg", {"b"});
  expectError(cyclic.run({}), {"cyclic"});

  OnnxBuilder open(17);
  open.input("x", {"batch", "3"});
  open.node("Relu", {"x"});
  expectError(open.run({}), {"input \"x\"", "\"batch\") is open"});

  OnnxBuilder missing(17);
  missing.input("x", {"3"});
  missing.node("Add", {"x", "nowhere"});
  expectError(missing.run({}), {"Add_1", "\"nowhere\", which nothing makes"});

  OnnxBuilder shapes(17);
  shapes.input("x", {"3"});
  shapes.input("z", {"4"});
  shapes.node("Add", {"x", "z"});
  expectError(shapes.run({}), {"Add_1", "do not broadcast"});
}

TEST(Refusals, NodesOutOfOrderAreSorted) {
  OnnxBuilder b(17);
  b.input("x", {"2"});
  b.node("Neg", {"a"});
  b.node("Relu", {"x"}, {"a"});
  expectValues(b.run({{"x", {-1, 2}}}), {2}, {0, -2});
}

TEST(GraphOnly, EmptySparseInitializersAreDrawn) {
  OnnxBuilder b(17);
  b.input("x", {"2"});
  auto *sparse = b.graph().add_sparse_initializer();
  sparse->mutable_values()->set_name("w");
  sparse->mutable_values()->set_data_type(onnx::TensorProto::FLOAT);
  sparse->mutable_values()->add_dims(0);
  sparse->add_dims(2);
  b.node("Mul", {"x", "w"});
  expectError(b.run({}), {"sparse tensor \"w\""});
  auto *info = b.proto.add_training_info();
  auto *draw = info->mutable_initialization()->add_node();
  draw->set_op_type("RandomNormal");
  draw->add_output("w_init");
  OnnxBuilder::attribute(*draw, "scale", 0.02f);
  auto *binding = info->add_initialization_binding();
  binding->set_key("w");
  binding->set_value("w_init");
  expectValues(b.run({{"x", {1, 2}}, {"w", {3, 4}}}), {2}, {3, 8});
}

// A file cut anywhere is refused or imports; it never crashes.
TEST(Mutations, TruncatedAndFlippedFiles) {
  OnnxBuilder b(17);
  b.input("x", {"2", "3"});
  b.floats("w", {3, 2}, {1, 2, 3, 4, 5, 6});
  b.ints("shape", {3, 2});
  b.node("MatMul", {"x", "w"}, {"a"});
  b.node("Softmax", {"a"}, {"s"});
  b.node("Slice", {"s", "shape", "shape"}, {"z"});
  b.node("Concat", {"s", "s"});
  OnnxBuilder::attribute(*b.graph().mutable_node(3), "axis", int64_t{1});
  std::string good = b.proto.SerializeAsString();
  std::string path = ::testing::TempDir() + "/mutated.onnx";
  std::mt19937 random(1);
  for (int round = 0; round < 2000; ++round) {
    std::string bad = good;
    if (round % 4 == 0)
      bad.resize(random() % bad.size());
    else
      for (int flips = 1 + round % 3; flips-- > 0;)
        bad[random() % bad.size()] = static_cast<char>(random());
    std::ofstream(path, std::ios::binary) << bad;
    auto file = ModelFile::open(path);
    if (!file)
      continue;
    mlir::MLIRContext context;
    ImportOptions options;
    auto module = importModel(context, *file, options);
    if (!module) {
      EXPECT_NE(module.status().message().find(path), std::string::npos);
    }
  }
}

} // namespace
} // namespace diffc::test
