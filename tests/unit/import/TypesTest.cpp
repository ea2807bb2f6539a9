// Operators on pictures in the other float types: evaluated, differentiated and
// compiled as in f32.
#include "tests/unit/import/OperatorCheck.h"

namespace diffc::test {
namespace {

struct Type {
  onnx::TensorProto::DataType type;
  double tolerance; ///< some roundings of the type; of f32 where products are f32's
};

class PictureTypes : public ::testing::TestWithParam<Type> {
protected:
  /// Numbers that every one of the types holds exactly, all different.
  static Values exact(int64_t count, int64_t seed) {
    Values values;
    for (int64_t i = 0; i < count; ++i)
      values.push_back(static_cast<double>((i * 37 + seed * 11) % 97 - 48) / 32 + 1.0 / 64);
    return values;
  }

  void check(OnnxBuilder &b, std::map<std::string, Values> feeds) {
    for (auto &input : *b.graph().mutable_input())
      input.mutable_type()->mutable_tensor_type()->set_elem_type(GetParam().type);
    checkOperator(b, feeds, {}, GetParam().tolerance);
  }
};

TEST_P(PictureTypes, Conv) {
  OnnxBuilder b(22);
  b.input("x", {"1", "2", "4", "5"}), b.input("w", {"4", "1", "3", "2"}), b.input("b", {"4"});
  auto &node = b.node("Conv", {"x", "w", "b"});
  OnnxBuilder::attribute(node, "group", int64_t{2});
  OnnxBuilder::attribute(node, "pads", Ints{1, 0, 1, 1});
  check(b, {{"x", exact(40, 1)}, {"w", exact(24, 2)}, {"b", exact(4, 3)}});
}

TEST_P(PictureTypes, ConvTranspose) {
  OnnxBuilder b(22);
  b.input("x", {"1", "2", "3", "3"}), b.input("w", {"2", "2", "2", "2"});
  OnnxBuilder::attribute(b.node("ConvTranspose", {"x", "w"}), "strides", Ints{2, 1});
  check(b, {{"x", exact(18, 1)}, {"w", exact(16, 2)}});
}

TEST_P(PictureTypes, Pools) {
  for (const char *op : {"MaxPool", "AveragePool", "LpPool"}) {
    SCOPED_TRACE(op);
    OnnxBuilder b(22);
    b.input("x", {"1", "2", "4", "5"});
    auto &node = b.node(op, {"x"});
    OnnxBuilder::attribute(node, "kernel_shape", Ints{2, 3});
    OnnxBuilder::attribute(node, "pads", Ints{1, 1, 0, 1});
    check(b, {{"x", exact(40, 1)}});
  }
}

TEST_P(PictureTypes, PadAndResize) {
  for (const char *mode : {"nearest", "linear", "cubic"}) {
    SCOPED_TRACE(mode);
    OnnxBuilder b(19);
    b.input("x", {"1", "2", "4", "5"});
    b.ints("pads", {0, 0, 1, 1, 0, 0, 2, 1});
    b.ints("sizes", {1, 2, 5, 10});
    OnnxBuilder::attribute(b.node("Pad", {"x", "pads"}, {"p"}), "mode", "reflect");
    OnnxBuilder::attribute(b.node("Resize", {"p", "", "", "sizes"}), "mode", mode);
    check(b, {{"x", exact(40, 1)}});
  }
}

TEST_P(PictureTypes, Norms) {
  OnnxBuilder batch(15);
  batch.input("x", {"2", "2", "3"});
  for (const char *name : {"scale", "bias", "mean", "var"})
    batch.input(name, {"2"});
  batch.node("BatchNormalization", {"x", "scale", "bias", "mean", "var"});
  check(batch, {{"x", exact(12, 1)},
                {"scale", exact(2, 2)},
                {"bias", exact(2, 3)},
                {"mean", exact(2, 4)},
                {"var", {1, 2.5}}});
  OnnxBuilder response(13);
  response.input("x", {"1", "4", "3"});
  OnnxBuilder::attribute(response.node("LRN", {"x"}), "size", int64_t{3});
  check(response, {{"x", exact(12, 1)}});
}

TEST_P(PictureTypes, GridSample) {
  OnnxBuilder b(20);
  b.input("x", {"1", "2", "3", "4"}), b.input("grid", {"1", "2", "2", "2"});
  b.node("GridSample", {"x", "grid"});
  check(b, {{"x", exact(24, 1)},
            {"grid", {-.9375, .625, .3125, -.1875, .8125, .6875, 1.125, -.5625}}});
}

INSTANTIATE_TEST_SUITE_P(Floats, PictureTypes,
                         ::testing::Values(Type{onnx::TensorProto::DOUBLE, 1e-5},
                                           Type{onnx::TensorProto::FLOAT16, 1e-2},
                                           Type{onnx::TensorProto::BFLOAT16, 5e-2}),
                         [](const auto &info) {
                           return onnx::TensorProto::DataType_Name(info.param.type);
                         });

} // namespace
} // namespace diffc::test
