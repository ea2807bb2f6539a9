// Models that are not the usual denoiser: of other element types, without a
// timestep, with small tables.
#include "runtime/train/PictureInputs.h"
#include "runtime/train/SampleLoop.h"
#include "runtime/verify/Verify.h"
#include "tests/e2e/CompiledProgram.h"
#include "tests/unit/import/OnnxBuilder.h"
#include "tools/diffrun/Commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace diffc::test {
namespace {

using diffrun::SyntheticData;
using ::testing::HasSubstr;

constexpr const char *kRegression = R"(
inputs: {x: clean}
batch: 4
objective: {kind: regression}
threads: 1
)";

diffrun::Result<CompileReport> compiled(const OnnxBuilder &model, const std::string &recipe) {
  CompileOptions options;
  options.model = model.save();
  options.recipe = options.model + ".yaml";
  options.output = options.model + ".plan";
  std::ofstream(options.recipe) << recipe;
  return compile(options);
}

/// y = x w, all of one element type.
OnnxBuilder linear(onnx::TensorProto::DataType type) {
  OnnxBuilder b(17);
  b.input("x", {"N", "4"});
  b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(type);
  auto *w = b.graph().add_initializer();
  w->set_name("w");
  w->set_data_type(type);
  w->add_dims(4), w->add_dims(4);
  for (int i = 0; i < 16; ++i)
    if (type == onnx::TensorProto::DOUBLE)
      w->add_double_data(1);
    else
      w->add_int32_data(0x3c00); // 1 in half precision
  b.node("MatMul", {"x", "w"});
  return b;
}

TEST(UnusualModels, ParametersOfOtherTypesAreNotTrained) {
  for (auto [type, name] :
       {std::pair(onnx::TensorProto::DOUBLE, "f64"), std::pair(onnx::TensorProto::FLOAT16, "f16")})
    expectError(compiled(linear(type), kRegression),
                {"parameter \"w\" is " + std::string(name) + "; f32 ones are trained"});
}

/// A model that ends in another type: the loss and its target are f32 all the same.
TEST(UnusualModels, AnOutputOfAnotherTypeIsTrained) {
  for (auto type : {onnx::TensorProto::DOUBLE, onnx::TensorProto::FLOAT16})
    for (bool ownLoss : {false, true}) {
      OnnxBuilder b(17);
      b.input("x", {"N", "4"});
      b.floats("w", {4, 4}, Values(16, 0.25));
      b.node("MatMul", {"x", "w"}, {"z"});
      b.node("Mul", {"z", "z"}, {"square"});
      if (ownLoss)
        OnnxBuilder::attribute(b.node("ReduceMean", {"square"}, {"last"}), "keepdims", 0l);
      OnnxBuilder::attribute(b.node("Cast", {ownLoss ? "last" : "square"}), "to", int64_t{type});
      auto program = build("output_type", b.save(),
                           ownLoss ? "inputs: {x: clean}\nbatch: 4\nthreads: 1\n"
                                     "objective: {kind: loss_output}\n"
                                   : kRegression);
      ASSERT_TRUE(program);
      Feed step(*program, "step");
      auto verified = diffrun::verifyEntry(*program, step.data, {});
      ASSERT_TRUE(verified.ok()) << verified.status().message();
      EXPECT_TRUE(std::isfinite(program->outputFloat("step", "loss")));
      EXPECT_NE(valuesOf(*program, "w"), std::vector<float>(16, 0.25f)) << "a gradient flows";
    }
}

/// y = convolution of pictures, summed up to one number each if `small`.
OnnxBuilder pictures(bool small) {
  OnnxBuilder b(17);
  b.input("x", {"N", "1", "8", "8"});
  b.floats("w", {1, 1, 1, 1}, {0.5});
  OnnxBuilder::attribute(b.node("Conv", {"x", "w"}, {small ? "z" : "y"}), "kernel_shape",
                         Ints{1, 1});
  if (small)
    OnnxBuilder::attribute(b.node("ReduceMean", {"z"}), "axes", Ints{2, 3});
  return b;
}

TEST(UnusualModels, SamplingNeedsNoTimestepButPicturesAsOutput) {
  diffrun::SampleOptions options;
  options.steps = 3;
  options.count = 2;
  auto program = build("no_timestep", pictures(false).save(), R"(
inputs: {x: noisy}
batch: 4
objective: {kind: diffusion, schedule: {kind: linear}}
entries: {denoise: {batch: 4}}
threads: 1
)");
  ASSERT_TRUE(program);
  auto samples = diffrun::samplePictures(*program, options);
  ASSERT_TRUE(samples.ok()) << samples.status().message();
  ASSERT_EQ(samples->pictures.size(), 2u * 64);
  for (float value : samples->pictures)
    ASSERT_TRUE(std::isfinite(value));

  program = build("small_output", pictures(true).save(), R"(
inputs: {x: noisy}
batch: 4
objective: {kind: regression}
entries: {denoise: {batch: 4}}
threads: 1
)");
  ASSERT_TRUE(program);
  expectError(diffrun::samplePictures(*program, options), {"does not give what it takes"});
}

/// What verify makes up lies within the tables that it indexes.
TEST(UnusualModels, SyntheticDataFitSmallTables) {
  OnnxBuilder b(17);
  b.input("c", {"N"});
  b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  b.floats("table", {2, 4}, Values(8, 1));
  b.node("Gather", {"table", "c"});
  auto program = build("two_rows", b.save(), R"(
inputs: {c: label}
batch: 64
objective: {kind: regression}
threads: 1
)");
  ASSERT_TRUE(program);
  SyntheticData data(*program->plan().findEntry("step"));
  const auto *labels = static_cast<const int64_t *>(data.data().at("label"));
  EXPECT_EQ(*std::min_element(labels, labels + 64), 0);
  EXPECT_EQ(*std::max_element(labels, labels + 64), 1) << "every row, and no other";
  auto verified = diffrun::verifyEntry(*program, data.data(), {});
  EXPECT_TRUE(verified.ok()) << verified.status().message();

  program = build("fifty_steps",
                  std::string(DIFFC_SOURCE_DIR) + "/tests/golden/dit_tiny/dit_tiny_dyn23.onnx", R"(
inputs: {sample: noisy, timestep: timestep, class_labels: label}
batch: 8
objective: {kind: diffusion, schedule: {kind: cosine, steps: 50}}
threads: 1
)");
  ASSERT_TRUE(program);
  SyntheticData fed(*program->plan().findEntry("step_fed"));
  const auto *times = static_cast<const float *>(fed.data().at("timestep"));
  EXPECT_LT(*std::max_element(times, times + 8), 50);
  EXPECT_GT(*std::max_element(times, times + 8), 25);
  diffrun::VerifyOptions options;
  options.entry = "step_fed";
  verified = diffrun::verifyEntry(*program, fed.data(), options);
  EXPECT_TRUE(verified.ok()) << verified.status().message();
}

/// As many pictures as classes, of nothing.
class Classes : public diffrun::Dataset {
public:
  explicit Classes(int64_t count) {
    for (int64_t i = 0; i < count; ++i)
      names.push_back(std::to_string(i));
  }
  int64_t size() const override { return static_cast<int64_t>(names.size()); }
  const std::vector<std::string> &classes() const override { return names; }
  int64_t label(int64_t index) const override { return index; }
  diffrun::Status decode(int64_t, bool, float *) const override { return {}; }
  std::string describe() const override { return "classes"; }

private:
  std::vector<std::string> names;
};

/// More classes than rows would train another class's row, without a word.
TEST(UnusualModels, NoMoreClassesThanRows) {
  auto program =
      build("classes", std::string(DIFFC_SOURCE_DIR) + "/tests/golden/dit_tiny/dit_tiny_dyn23.onnx",
            R"(
inputs: {sample: noisy, timestep: timestep, class_labels: label}
batch: 2
objective: {kind: diffusion, schedule: {kind: cosine}}
threads: 1
)");
  ASSERT_TRUE(program);
  const auto &step = *program->plan().findEntry("step");
  int64_t rows = 0;
  for (int i = 0; i < step.inputs_size(); ++i)
    if (step.inputs(i).role() == "label")
      rows = diffrun::rowsIndexedBy(step, i, 1000000);
  ASSERT_GT(rows, 1);
  ASSERT_LT(rows, 1000);
  auto fits = diffrun::checkSuits(Classes(rows), step, false, "data");
  EXPECT_TRUE(fits.ok()) << fits.message();
  auto more = diffrun::checkSuits(Classes(rows + 1), step, false, "data");
  ASSERT_FALSE(more.ok());
  EXPECT_EQ(diffrun::exitCode(more), 1);
  EXPECT_EQ(more.message(), "data: has " + std::to_string(rows + 1) +
                                " classes, the model's table for input class_labels has " +
                                std::to_string(rows) + " rows");
}

} // namespace
} // namespace diffc::test
