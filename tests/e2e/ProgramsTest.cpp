// Programs of several entries and several models: one arena, state shared or
// kept apart, each entry right by the evaluator.
#include "runtime/train/StateFiles.h"
#include "runtime/verify/Verify.h"
#include "tests/e2e/CompiledProgram.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace diffc::test {
namespace {

using diffrun::Program;
namespace proto = diffrun::proto;

TEST(Programs, EntriesOfTheirOwnBatchShareOneArenaAndTheState) {
  auto program =
      build("entries", std::string(DIFFC_SOURCE_DIR) + "/tests/golden/dit_tiny/dit_tiny_dyn23.onnx",
            R"(
inputs: {sample: noisy, timestep: timestep, class_labels: label}
batch: 32
objective: {kind: diffusion, predict: eps, schedule: {kind: cosine}}
optimizer: {lr: 1.0e-2}
ema: {decays: [0.9], warmup: false}
entries: {eval: {batch: 50}, denoise: {batch: 80, weights: ema0}}
threads: 2
)");
  ASSERT_TRUE(program);
  const proto::Plan &plan = program->plan().plan();
  std::map<std::string, int64_t> batches{{"step", 32}, {"eval", 50}, {"denoise", 80}};
  int64_t largest = 0;
  for (auto &[name, batch] : batches) {
    const proto::Entry *entry = program->plan().findEntry(name);
    ASSERT_TRUE(entry) << name;
    for (const auto &input : entry->inputs())
      if (!input.scalar()) {
        EXPECT_EQ(input.type().shape(0), batch) << name << " " << input.role();
      }
  }
  int arenas = 0;
  for (const auto &entry : plan.entries())
    largest = std::max(largest, entry.arena_bytes());
  for (const auto &space : plan.spaces())
    if (space.lifetime() == proto::Space::ENTRY) {
      ++arenas;
      EXPECT_EQ(space.bytes(), largest);
    }
  EXPECT_EQ(arenas, 1);

  // A step moves weights away from their averages; each entry reads its own.
  Feed step(*program, "step"), eval(*program, "eval"), denoise(*program, "denoise");
  ASSERT_TRUE(program->run("step", step.data).ok());
  for (auto &[name, feed] :
       {std::pair<std::string, Feed *>{"eval", &eval}, {"denoise", &denoise}}) {
    diffrun::VerifyOptions options;
    options.entry = name;
    auto verified = diffrun::verifyEntry(*program, feed->data, options);
    ASSERT_TRUE(verified.ok()) << name << ": " << verified.status().message();
  }
  auto outcome = [&] {
    EXPECT_TRUE(program->run("eval", eval.data).ok());
    float loss = program->outputFloat("eval", "loss");
    EXPECT_TRUE(program->run("denoise", denoise.data).ok());
    return std::pair(loss, outputOf(*program, "denoise"));
  };
  auto before = outcome();
  auto clear = [&](const std::string &role) {
    for (int i = 0; i < plan.slots_size(); ++i)
      if (plan.slots(i).role() == role)
        std::memset(program->slotData(i), 0, static_cast<size_t>(plan.slots(i).buffer().bytes()));
  };
  clear("weight");
  auto noWeights = outcome();
  EXPECT_NE(noWeights.first, before.first);
  EXPECT_EQ(noWeights.second, before.second);
  clear("ema0");
  auto nothing = outcome();
  EXPECT_EQ(nothing.first, noWeights.first);
  EXPECT_NE(nothing.second, before.second);
}

/// y = x w + b
OnnxBuilder linear(const Values &w, const Values &b) {
  OnnxBuilder model(17);
  model.input("x", {"N", "2"});
  model.floats("w", {2, 2}, w);
  model.floats("b", {2}, b);
  model.node("MatMul", {"x", "w"}, {"p"});
  model.node("Add", {"p", "b"});
  return model;
}

/// save() names its file after the test: a copy of each.
std::string kept(const OnnxBuilder &model, const std::string &name) {
  std::string path = ::testing::TempDir() + "/" + name;
  std::filesystem::copy_file(model.save(), path, std::filesystem::copy_options::overwrite_existing);
  return path;
}

TEST(Programs, TwoModelsMayHaveParametersOfTheSameName) {
  std::string frozen = kept(linear({2, 1, 0, 3}, {5, 7}), "encoder.onnx");
  std::string student = kept(linear({1, 0, 0, 1}, {0, 0}), "student.onnx");
  auto program = build("models", "", R"(
models:
  encoder: {onnx: )" + frozen + R"(}
  student: {onnx: )" + student + R"(, inputs: {x: clean}}
train: student
batch: 4
objective: {kind: regression}
optimizer: {lr: 0.125}
ema: {decays: [0.5], warmup: false}
entries: {encode: {model: encoder, batch: 3}}
threads: 1
)");
  ASSERT_TRUE(program);
  Feed encode(*program, "encode");
  ASSERT_TRUE(encode.data.count("x")) << "its own input's name";
  std::vector<float> x{1, 2, 3, 4, 5, 6};
  encode.data["x"] = x.data();
  ASSERT_TRUE(program->run("encode", encode.data).ok());
  // [1 2] w + b = [2 + 5, 1 + 6 + 7], ...
  EXPECT_EQ(outputOf(*program, "encode"), (std::vector<float>{7, 14, 11, 22, 15, 30}));

  Feed step(*program, "step");
  std::vector<float> clean{1, 1, 1, 1, 1, 1, 1, 1}, target{3, 3, 3, 3, 3, 3, 3, 3};
  step.data["clean"] = clean.data();
  step.data["target"] = target.data();
  ASSERT_TRUE(program->run("step", step.data).ok());
  // Every gradient is negative: AdamW's first step adds the learning rate.
  auto weight = [&](const char *model, const char *name) {
    return slotValues(*program, slotOf(*program, model, name, "weight"));
  };
  std::vector<float> moved = weight("student", "w");
  for (size_t i = 0; i < 4; ++i)
    EXPECT_NEAR(moved[i], (i == 0 || i == 3 ? 1 : 0) + 0.125, 1e-6);
  EXPECT_EQ(weight("encoder", "w"), (std::vector<float>{2, 1, 0, 3}));
  EXPECT_EQ(weight("encoder", "b"), (std::vector<float>{5, 7}));
  for (const char *role : {"m", "v", "ema0"})
    EXPECT_LT(slotOf(*program, "encoder", "w", role), 0) << role << " of a frozen model";
  for (const char *name : {"step", "encode"}) {
    diffrun::VerifyOptions options;
    options.entry = name;
    auto verified = diffrun::verifyEntry(
        *program, name == std::string("step") ? step.data : encode.data, options);
    EXPECT_TRUE(verified.ok()) << name << ": " << verified.status().message();
  }
  // A checkpoint has the trained model's names, each once.
  std::multiset<std::string> names;
  for (const auto &tensor : diffrun::tensorsOf(*program))
    if (tensor.file == "weights")
      names.insert(tensor.tensor.name);
  EXPECT_EQ(names, (std::multiset<std::string>{"b", "w"}));
}

// Two models with equal names, one of them drawn by a seed that the resumed
// program does not have: a checkpoint brings both back, and steps go on bit for bit.
TEST(Programs, ACheckpointOfTwoModelsResumesBitForBit) {
  OnnxBuilder encoder(17);
  encoder.input("x", {"N", "2"});
  encoder.drawn("w", {2, 2}, 1);
  encoder.floats("b", {2}, {5, 7});
  encoder.node("MatMul", {"x", "w"}, {"p"});
  encoder.node("Add", {"p", "b"});
  std::string recipe = R"(
models:
  encoder: {onnx: )" + kept(encoder, "drawn_encoder.onnx") +
                       R"(}
  student: {onnx: )" + kept(linear({1, 0, 0, 1}, {0, 0}), "resumed_student.onnx") +
                       R"(, inputs: {x: noisy}}
train: student
batch: 4
optimizer: {lr: 0.125}
ema: {decays: [0.5]}
entries: {encode: {model: encoder, batch: 3}}
threads: 1
)";
  auto first = build("resume_first", "", recipe);
  ASSERT_TRUE(first);
  ASSERT_TRUE(first->setScalar("seed", 5).ok());
  ASSERT_TRUE(first->initialize().ok());
  auto second = build("resume_second", "", recipe); // its seed is 0 while it draws
  ASSERT_TRUE(second);
  auto weight = [](const Program &program, const char *model, const char *name) {
    return slotValues(program, slotOf(program, model, name, "weight"));
  };
  ASSERT_NE(weight(*first, "encoder", "w"), weight(*second, "encoder", "w"));

  Feed step(*first, "step"), encode(*first, "encode");
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(first->run("step", step.data).ok());
  std::string folder = ::testing::TempDir() + "/two_models_run";
  std::filesystem::remove_all(folder);
  diffrun::CheckpointStore store(folder);
  auto saved = store.save(3, diffrun::tensorsOf(*first), {{"counters", countersOf(*first)}});
  ASSERT_TRUE(saved.ok()) << saved.message();
  auto newest = store.newest();
  ASSERT_TRUE(newest.ok()) << newest.status().message();
  // A file per model: the trained one's names and the drawn frozen one's are
  // their own; what is data stays in the plan's weights file.
  auto tensors = [&](const std::string &file) {
    auto reader = diffrun::SafetensorsReader::open(newest->folder + "/" + file + ".safetensors");
    EXPECT_TRUE(reader.ok()) << file;
    return reader.ok() ? reader->names() : std::vector<std::string>();
  };
  EXPECT_EQ(tensors("weights"), (std::vector<std::string>{"b", "w"}));
  EXPECT_EQ(tensors("weights.encoder"), (std::vector<std::string>{"w"}));

  auto restored = diffrun::restore(*second, *newest);
  ASSERT_TRUE(restored.ok()) << restored.message();
  ASSERT_TRUE(second->setScalar("seed", 5).ok());
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(first->run("step", step.data).ok());
    ASSERT_TRUE(second->run("step", step.data).ok());
    EXPECT_EQ(first->outputFloat("step", "loss"), second->outputFloat("step", "loss"));
  }
  const proto::Plan &plan = first->plan().plan();
  for (int i = 0; i < plan.slots_size(); ++i)
    EXPECT_EQ(std::memcmp(first->slotData(i), second->slotData(i),
                          static_cast<size_t>(plan.slots(i).buffer().bytes())),
              0)
        << plan.slots(i).model() << "::" << plan.slots(i).parameter() << " "
        << plan.slots(i).role();
  ASSERT_TRUE(first->run("encode", encode.data).ok());
  ASSERT_TRUE(second->run("encode", encode.data).ok());
  EXPECT_EQ(outputOf(*first, "encode"), outputOf(*second, "encode"));
}

/// Values that are outputs and read on, outputs that nothing reads, a move that is
/// only a name; rows of x give the same rows of results.
OnnxBuilder reusing() {
  OnnxBuilder model(17);
  model.input("x", {"N", "2"});
  for (const char *name : {"B", "C", "F", "L"})
    model.output(name);
  model.floats("ten", {1}, {10});
  model.floats("scale", {2}, {1, 1});
  model.ints("halves", {2, 2});
  model.node("Relu", {"x"}); // A, the output y
  model.node("Add", {"y", "ten"}, {"B"});
  model.node("Identity", {"y"}, {"C"});
  OnnxBuilder::attribute(model.node("Concat", {"y", "B"}, {"both"}), "axis", int64_t{1});
  OnnxBuilder::attribute(model.node("Split", {"both", "halves"}, {"D", "E"}), "axis", int64_t{1});
  model.node("Sub", {"D", "x"}, {"F"});
  model.node("LayerNormalization", {"x", "scale"}, {"L", "mean", "deviation"});
  return model;
}

TEST(Programs, OutputsThatAreAlsoReadAndValuesThatNothingReads) {
  std::string reuse = kept(reusing(), "reuse.onnx");
  std::string student = kept(linear({1, 0, 0, 1}, {0, 0}), "reuse_student.onnx");
  for (const char *recompute : {"auto", "none"}) {
    auto program = build("reuse", "",
                         R"(
models:
  reuse: {onnx: )" + reuse + R"(}
  student: {onnx: )" + student +
                             R"(, inputs: {x: clean}}
train: student
batch: 4
objective: {kind: regression}
entries: {four: {model: reuse, batch: 4}, three: {model: reuse, batch: 3}}
memory: {recompute: )" + std::string(recompute) +
                             R"(}
threads: 2
)");
    ASSERT_TRUE(program);
    std::vector<float> x{-1, 2, -1, 2, -1, 2, -1, 2};
    auto rows = [](size_t count, float first, float second) {
      std::vector<float> values;
      for (size_t i = 0; i < count; ++i)
        values.insert(values.end(), {first, second});
      return values;
    };
    for (int round = 0; round < 1000; ++round)
      for (const char *name : {"four", "three", "four"}) {
        size_t count = name == std::string("three") ? 3 : 4;
        ASSERT_TRUE(program->run(name, {{"x", x.data()}}).ok());
        ASSERT_EQ(outputOf(*program, name), rows(count, 0, 2));           // A
        ASSERT_EQ(outputOf(*program, name, "out1"), rows(count, 10, 12)); // B
        ASSERT_EQ(outputOf(*program, name, "out2"), rows(count, 0, 2));   // C
        ASSERT_EQ(outputOf(*program, name, "out3"), rows(count, 1, 0));   // F = D - x
        std::vector<float> norm = outputOf(*program, name, "out4");
        for (size_t i = 0; i < norm.size(); ++i)
          ASSERT_NEAR(norm[i], i % 2 ? 1 : -1, 1e-5);
      }
  }
}

} // namespace
} // namespace diffc::test
