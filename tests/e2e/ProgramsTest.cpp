// Programs of several entries and several models: one arena, state shared or
// kept apart, each entry right by the evaluator.
#include "compiler/pipeline/Compile.h"
#include "runtime/execute/Program.h"
#include "runtime/train/StateFiles.h"
#include "runtime/verify/Verify.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace diffc::test {
namespace {

using diffrun::Program;
namespace proto = diffrun::proto;

std::unique_ptr<Program> build(const std::string &name, const std::string &model,
                               const std::string &recipe) {
  std::string folder = ::testing::TempDir() + "/programs_" + name;
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/recipe.yaml") << recipe;
  CompileOptions options;
  options.model = model;
  options.recipe = folder + "/recipe.yaml";
  options.output = folder + "/p.plan";
  auto compiled = compile(options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  auto plan = diffrun::LoadedPlan::open(options.output);
  EXPECT_TRUE(plan.ok()) << (plan.ok() ? "" : plan.status().message());
  if (!plan.ok())
    return nullptr;
  auto program = Program::create(*plan);
  EXPECT_TRUE(program.ok()) << program.status().message();
  auto started = (*program)->initialize();
  EXPECT_TRUE(started.ok()) << started.message();
  return std::move(*program);
}

int64_t slotOf(const Program &program, const std::string &model, const std::string &parameter,
               const std::string &role) {
  const proto::Plan &plan = program.plan().plan();
  for (int i = 0; i < plan.slots_size(); ++i)
    if (plan.slots(i).model() == model && plan.slots(i).parameter() == parameter &&
        plan.slots(i).role() == role)
      return i;
  return -1;
}

std::vector<float> slotValues(const Program &program, int64_t slot) {
  std::vector<float> values(
      static_cast<size_t>(program.plan().plan().slots(static_cast<int>(slot)).buffer().bytes()) /
      4);
  std::memcpy(values.data(), program.slotData(slot), values.size() * 4);
  return values;
}

/// Data of the right size for each input of an entry: small numbers, labels 0..2.
struct Feed {
  std::map<std::string, std::vector<char>> bytes;
  diffrun::InputData data;

  Feed(const Program &program, const std::string &name) {
    for (const auto &input : program.plan().findEntry(name)->inputs()) {
      if (input.scalar())
        continue;
      std::vector<char> &to = bytes[input.role()];
      to.assign(static_cast<size_t>(input.buffer().bytes()), 0);
      for (size_t i = 0; i < to.size() / 4 && input.type().dtype() == proto::F32; ++i) {
        float value = input.role() == "sample_weight" ? 1.0f
                      : input.role() == "timestep"
                          ? static_cast<float>(i * 7 % 1000)
                          : static_cast<float>(static_cast<int>(i * 37 % 101) - 50) / 40;
        std::memcpy(to.data() + 4 * i, &value, 4);
      }
      for (size_t i = 0; i < to.size() / 8 && input.type().dtype() == proto::I64; ++i)
        to[8 * i] = static_cast<char>(i % 3);
      data[input.role()] = to.data();
    }
  }
};

std::vector<float> outputOf(const Program &program, const std::string &entry,
                            const std::string &name = "out") {
  for (const auto &output : program.plan().findEntry(entry)->outputs())
    if (output.name() == name) {
      std::vector<float> values(static_cast<size_t>(output.buffer().bytes()) / 4);
      std::memcpy(values.data(), program.output(entry, name), values.size() * 4);
      return values;
    }
  ADD_FAILURE() << entry << " has no output " << name;
  return {};
}

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

TEST(Programs, TwoModelsMayHaveParametersOfTheSameName) {
  // save() names its file after the test: keep a copy of each.
  auto kept = [](const OnnxBuilder &model, const std::string &name) {
    std::string path = ::testing::TempDir() + "/" + name;
    std::filesystem::copy_file(model.save(), path,
                               std::filesystem::copy_options::overwrite_existing);
    return path;
  };
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

} // namespace
} // namespace diffc::test
