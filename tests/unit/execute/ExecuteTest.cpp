// The executor: what runs equals what the evaluator computes.
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/execute/Program.h"
#include "runtime/random/Draws.h"
#include "tests/unit/plan/PlanMaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <unistd.h>

namespace diffrun {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::vector<float> randoms(const proto::TensorType &type, uint32_t stream) {
  std::vector<float> values(static_cast<size_t>(bytesOf(type)) / 4);
  EXPECT_TRUE(
      drawNormal({5, stream, 0, 0}, 1, static_cast<int64_t>(values.size()), values.data()).ok());
  return values;
}

/// Runs entry "step", whose inputs all are f32, on random data and compares
/// output "out" with what the whole nn program gives.
void compareWithEvaluator(PlanMaker &maker) {
  auto plan = LoadedPlan::check(maker.finish(), "test.plan");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto graph = programOf(*plan->findEntry("step"));
  ASSERT_TRUE(graph.ok());
  auto program = Program::create(*plan);
  ASSERT_TRUE(program.ok()) << program.status().message();
  const proto::Entry &entry = *(*program)->plan().findEntry("step");
  std::vector<std::vector<float>> storage;
  std::vector<std::optional<evaluate::Tensor>> values(graph->values.size());
  InputData data;
  for (int i = 0; i < entry.inputs_size(); ++i) {
    auto id = static_cast<size_t>(entry.input_values(i));
    storage.push_back(randoms(entry.inputs(i).type(), static_cast<uint32_t>(i)));
    data[entry.inputs(i).role()] = storage.back().data();
    values[id] = evaluate::fromBytes(graph->values[id], storage.back().data());
  }
  Status ran = (*program)->run("step", data);
  ASSERT_TRUE(ran.ok()) << ran.message();
  ASSERT_TRUE(evaluate::evaluate(*graph, 0, static_cast<int64_t>(graph->nodes.size()), values));
  const evaluate::Tensor &right = *values[static_cast<size_t>(entry.output_values(0))];
  const auto *got = static_cast<const float *>((*program)->output("step", "out"));
  double size = 1;
  for (double x : right.real)
    size = std::max(size, std::fabs(x));
  for (size_t i = 0; i < right.real.size(); ++i)
    ASSERT_NEAR(got[i], right.real[i], 2e-5 * size) << i;
}

TEST(Matmul, EveryTransposeAndBatch) {
  struct Case {
    std::vector<int64_t> a, b;
    bool transposeA, transposeB;
  };
  for (const Case &c : std::vector<Case>{{{5, 7}, {7, 9}, false, false},
                                         {{7, 5}, {7, 9}, true, false},
                                         {{5, 7}, {9, 7}, false, true},
                                         {{7, 5}, {9, 7}, true, true},
                                         {{130, 300}, {300, 65}, false, false},
                                         {{3, 5, 7}, {3, 7, 9}, false, false},
                                         {{2, 3, 5, 7}, {2, 3, 9, 7}, false, true},
                                         {{2, 3, 7, 5}, {1, 3, 7, 9}, true, false},
                                         {{4, 5, 7}, {7, 9}, false, false},
                                         {{1, 1}, {1, 1}, false, false},
                                         {{1, 7}, {7, 1}, false, false}}) {
    PlanMaker maker;
    maker.beginEntry("step");
    PlanValue a = maker.input("a", f32(c.a)), b = maker.input("b", f32(c.b));
    maker.output("out", maker.matmul(a, b, c.transposeA, c.transposeB));
    ASSERT_NO_FATAL_FAILURE(compareWithEvaluator(maker))
        << ::testing::PrintToString(c.a) << ::testing::PrintToString(c.b);
  }
}

TEST(Matmul, BiasIsAddedToEachRow) {
  PlanMaker maker;
  maker.beginEntry("step");
  PlanValue a = maker.input("a", f32({5, 7})), b = maker.input("b", f32({7, 9})),
            bias = maker.input("bias", f32({9}));
  PlanValue product = maker.place(f32({5, 9})), sum = maker.place(f32({5, 9}));
  maker.node("nn.matmul", {a, b}, {product});
  maker.node("nn.add", {product, bias}, {sum});
  proto::Matmul &m = *maker.op("matmul", {a, b, bias}, {sum}).mutable_matmul();
  for (int64_t x : {5, 7})
    m.add_a_shape(x);
  for (int64_t x : {7, 1})
    m.add_a_strides(x);
  for (int64_t x : {7, 9})
    m.add_b_shape(x);
  for (int64_t x : {9, 1})
    m.add_b_strides(x);
  for (int64_t x : {5, 9})
    m.add_c_shape(x);
  m.set_dtype(proto::F32);
  m.set_bias(true);
  maker.output("out", sum);
  compareWithEvaluator(maker);
}

TEST(Convolution, ForwardAndBothGradients) {
  struct Case {
    const char *name;
    std::vector<int64_t> x, w, strides, low, high, dilations;
    int64_t groups;
  };
  const std::vector<Case> cases = {
      {"3x3", {2, 16, 9, 11}, {32, 16, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
      {"one channel", {3, 1, 8, 8}, {5, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1},
      {"strided", {2, 6, 10, 9}, {8, 6, 3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1},
      {"one-sided pads", {2, 4, 8, 8}, {4, 4, 3, 3}, {2, 2}, {0, 0}, {1, 1}, {1, 1}, 1},
      {"dilated", {2, 4, 12, 12}, {6, 4, 3, 3}, {1, 1}, {2, 2}, {2, 2}, {2, 2}, 1},
      {"depthwise", {2, 12, 9, 9}, {12, 1, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 12},
      {"groups", {2, 8, 7, 7}, {12, 4, 3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2},
      {"patches", {2, 4, 16, 16}, {24, 4, 4, 4}, {4, 4}, {0, 0}, {0, 0}, {1, 1}, 1},
      {"1x1", {2, 16, 5, 5}, {8, 16, 1, 1}, {1, 1}, {0, 0}, {0, 0}, {1, 1}, 1},
      {"1-d", {2, 4, 20}, {6, 4, 5}, {1}, {2}, {2}, {1}, 1},
      {"3-d", {1, 3, 5, 6, 7}, {4, 3, 3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1}};
  for (const Case &c : cases)
    for (auto kind : {proto::Convolution::FORWARD, proto::Convolution::INPUT_GRAD,
                      proto::Convolution::WEIGHT_GRAD}) {
      proto::Convolution convolution =
          convolutionOf(kind, c.x, c.w, c.strides, c.low, c.high, c.dilations, c.groups);
      std::vector<int64_t> y(convolution.y_shape().begin(), convolution.y_shape().end());
      PlanMaker maker;
      maker.beginEntry("step");
      PlanValue first = maker.input("a", f32(kind == proto::Convolution::INPUT_GRAD ? y : c.x));
      PlanValue second = maker.input("b", f32(kind == proto::Convolution::WEIGHT_GRAD ? y : c.w));
      maker.output("out", addConvolution(maker, convolution, first, second));
      ASSERT_NO_FATAL_FAILURE(compareWithEvaluator(maker)) << c.name << " kind " << kind;
    }
}

TEST(Execute, DrawsAreThoseOfTheKey) {
  PlanMaker maker;
  uint32_t slot = maker.slot("iteration", "value", tensorOf(proto::I64, {}), "");
  maker.beginEntry("step");
  PlanValue seed = maker.scalar("seed", proto::I64, 7), iteration = maker.read(slot);
  maker.output("normal", maker.draw("normal", {6, 5, 3}, 11, seed, iteration));
  maker.output("uniform", maker.draw("uniform", {4}, 12, seed, iteration));
  auto plan = LoadedPlan::check(maker.finish(), "test.plan");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto program = Program::create(*plan);
  ASSERT_TRUE(program.ok()) << program.status().message();
  int64_t now = 41;
  std::memcpy((*program)->slotData(slot), &now, sizeof(now));
  ASSERT_TRUE((*program)->setScalar("seed", 9).ok());
  ASSERT_TRUE((*program)->run("step", {}).ok());
  std::vector<float> normal(90), uniform(4);
  ASSERT_TRUE(drawNormal({9, 11, 41, 0}, 6, 15, normal.data()).ok());
  ASSERT_TRUE(drawUniform({9, 12, 41, 0}, 4, 1, uniform.data()).ok());
  EXPECT_EQ(std::memcmp((*program)->output("step", "normal"), normal.data(), 360), 0);
  EXPECT_EQ(std::memcmp((*program)->output("step", "uniform"), uniform.data(), 16), 0);
  now = int64_t{1} << 40;
  std::memcpy((*program)->slotData(slot), &now, sizeof(now));
  Status far = (*program)->run("step", {});
  ASSERT_FALSE(far.ok());
  EXPECT_THAT(far.message(), HasSubstr("step, operation 0 (draw, where/draw)"));
}

std::unique_ptr<Program> sampleProgram(const std::vector<std::string> &entries = {}) {
  auto plan = LoadedPlan::check(samplePlan(true), "test.plan");
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  auto program = Program::create(*plan, entries);
  EXPECT_TRUE(program.ok()) << program.status().message();
  return std::move(*program);
}

TEST(Execute, StateLastsAndKernelsRunOnEveryChunk) {
  auto program = sampleProgram();
  ASSERT_TRUE(program->initialize().ok());
  std::vector<float> drawn(24);
  ASSERT_TRUE(drawNormal({3, 70, 0, 0}, 6, 4, drawn.data()).ok());
  EXPECT_EQ(std::memcmp(program->slotData(0), drawn.data(), 96), 0);
  EXPECT_EQ(std::memcmp(program->slotData(1), drawn.data(), 96), 0);
  std::vector<float> clean(150), rows(48);
  rows[0] = 1;      // row 0 picks the weight's first row
  rows[7 * 6] = -2; // row 7 twice its negative
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(program->run("step", {{"clean", clean.data()}, {"rows", rows.data()}}).ok());
  int64_t iteration;
  std::memcpy(&iteration, program->slotData(2), 8);
  EXPECT_EQ(iteration, 3);
  const auto *product = static_cast<const float *>(program->output("step", "product"));
  EXPECT_EQ(product[2], 2 * drawn[2]);
  EXPECT_EQ(product[7 * 4 + 1], -4 * drawn[1]);
  EXPECT_TRUE(std::isnan(program->outputFloat("step", "product"))); // no scalar
  ASSERT_TRUE(program->initialize().ok());
  std::memcpy(&iteration, program->slotData(2), 8);
  EXPECT_EQ(iteration, 0);
}

TEST(Execute, OnlyChosenEntriesAreReady) {
  auto program = sampleProgram({"step"});
  ASSERT_TRUE(program->initialize().ok()); // init comes along
  auto plan = LoadedPlan::check(samplePlan(true), "test.plan");
  auto none = Program::create(*plan, {"denoise"});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.status().message(), "test.plan: has no entry denoise");
}

TEST(Execute, ErrorsNameWhatIsMissing) {
  auto program = sampleProgram();
  EXPECT_THAT(program->run("step", {}).message(),
              HasSubstr("test.plan: entry step needs data for role clean"));
  EXPECT_THAT(program->run("eval", {}).message(), HasSubstr("test.plan: has no entry eval"));
  Status scalar = program->setScalar("sed", 1);
  EXPECT_THAT(scalar.message(), HasSubstr("has no plan scalar sed"));
  EXPECT_EQ(scalar.help(), "it has: seed");

  proto::Plan plan = samplePlan(true);
  plan.mutable_entries(1)->mutable_ops(3)->mutable_launch()->set_symbol("thrice");
  auto loaded = LoadedPlan::check(plan, "test.plan");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  EXPECT_THAT(Program::create(*loaded).status().message(),
              HasSubstr("operation 3 (twice, where/twice): its code has no kernel thrice"));

  plan = samplePlan(true);
  plan.mutable_code()->replace(4, 100, 100, '\7');
  loaded = LoadedPlan::check(plan, "test.plan");
  ASSERT_TRUE(loaded.ok());
  EXPECT_THAT(Program::create(*loaded).status().message(),
              HasSubstr("test.plan: its code cannot be loaded"));
}

TEST(Execute, MemoryThatNoMachineHas) {
  PlanMaker maker;
  maker.slot("huge", "weight", f32({1 << 20, 1 << 20}));
  maker.beginEntry("step");
  auto plan = LoadedPlan::check(maker.finish(), "test.plan");
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto program = Program::create(*plan);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(exitCode(program.status()), 4);
  EXPECT_THAT(program.status().message(), HasSubstr("needs 4398046511104 bytes of memory"));
}

TEST(Execute, WeightsBesideThePlan) {
  fs::path folder = fs::temp_directory_path() / ("execute-test-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  PlanMaker maker;
  uint32_t slot = maker.slot("fc.weight", "weight", f32({2, 3}));
  maker.beginEntry("step");
  proto::Plan plan = maker.finish();
  plan.mutable_weights()->set_file("w.safetensors");
  auto attempt = [&]() -> Status {
    DIFFRUN_ASSIGN(auto loaded, LoadedPlan::check(plan, folder / "test.plan"));
    DIFFRUN_ASSIGN(auto program, Program::create(loaded));
    DIFFRUN_RETURN_IF_ERROR(program->initialize());
    EXPECT_EQ(static_cast<float *>(program->slotData(slot))[4], 5.0f);
    return {};
  };
  EXPECT_THAT(attempt().message(), HasSubstr("w.safetensors"));
  std::vector<float> data{1, 2, 3, 4, 5, 6};
  std::string path = folder / "w.safetensors";
  ASSERT_TRUE(
      SafetensorsWriter::write(path, {{"fc.weight", FileDType::kF32, {2, 3}, data.data()}}).ok());
  EXPECT_EQ(attempt().message(), "") << attempt().message();
  ASSERT_TRUE(
      SafetensorsWriter::write(path, {{"fc.weight", FileDType::kF32, {3, 2}, data.data()}}).ok());
  EXPECT_THAT(attempt().message(), HasSubstr("w.safetensors: tensor \"fc.weight\""));
  ASSERT_TRUE(
      SafetensorsWriter::write(path, {{"fc.bias", FileDType::kF32, {2, 3}, data.data()}}).ok());
  EXPECT_THAT(attempt().message(), HasSubstr("tensor \"fc.weight\" is missing"));
  plan.mutable_weights()->set_checksum(12);
  EXPECT_THAT(attempt().message(), HasSubstr("is not the file that the plan was compiled with"));
  fs::remove_all(folder);
}

} // namespace
} // namespace diffrun
