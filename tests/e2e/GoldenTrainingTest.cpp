// Compiled steps against PyTorch in double precision: output, loss, norm, every
// gradient and every new weight of one step, and the losses and weight changes
// of twenty (tests/golden, made by tests/oracle/make_goldens.py).
#include "compiler/pipeline/Compile.h"
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/execute/Program.h"
#include "runtime/verify/Verify.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>

namespace diffc {
namespace {

using diffrun::Program;
using diffrun::SafetensorsReader;
using diffrun::SafetensorsView;

struct Case {
  const char *model, *file, *objective;
};
std::ostream &operator<<(std::ostream &stream, const Case &c) {
  return stream << c.model << " " << c.file;
}

std::vector<float> floats(const SafetensorsView &view) {
  std::vector<float> values(view.bytes / 4);
  std::memcpy(values.data(), view.data, view.bytes);
  return values;
}

double norm(const std::vector<float> &x) {
  double sum = 0;
  for (double value : x)
    sum += value * value;
  return std::sqrt(sum);
}
double distance(const std::vector<float> &x, const std::vector<float> &y) {
  EXPECT_EQ(x.size(), y.size());
  double sum = 0;
  for (size_t i = 0; i < x.size() && i < y.size(); ++i)
    sum += std::pow(double{x[i]} - y[i], 2);
  return std::sqrt(sum);
}

class GoldenTraining : public ::testing::TestWithParam<Case> {
protected:
  void SetUp() override {
    Case c = GetParam();
    golden = std::string(DIFFC_SOURCE_DIR) + "/tests/golden/" + c.model + "/" + c.model + "_";
    folder = ::testing::TempDir() + "/golden_" + c.model + "_" + c.file;
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/recipe.yaml")
        << "batch: 4\nobjective: {" << c.objective << "}\n"
        << "optimizer: {lr: 1.0e-3, betas: [0.9, 0.999], eps: 1.0e-8, weight_decay: 0.01, "
           "clip: 1.0}\nthreads: 2\n";
    CompileOptions options;
    options.model = golden + c.file + ".onnx";
    options.recipe = folder + "/recipe.yaml";
    options.output = folder + "/model.plan";
    auto compiled = compile(options);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    auto plan = diffrun::LoadedPlan::open(options.output);
    ASSERT_TRUE(plan.ok()) << plan.status().message();
    auto made = Program::create(*plan);
    ASSERT_TRUE(made.ok()) << made.status().message();
    program = std::move(*made);
    auto status = program->initialize();
    ASSERT_TRUE(status.ok()) << status.message();
    entry = program->plan().findEntry("step_fed");
    ASSERT_TRUE(entry);
    std::ifstream(golden + "zero_gradients.json") >> zeros;
  }

  /// The feed of a golden file for each of the entry's roles.
  diffrun::InputData feed(const SafetensorsReader &file) {
    diffrun::InputData data;
    for (const auto &input : entry->inputs()) {
      if (input.scalar())
        continue;
      if (input.role() == "sample_weight") {
        ones.assign(4, 1.0f);
        data[input.role()] = ones.data();
        continue;
      }
      const SafetensorsView *view = file.find("role:" + input.role());
      EXPECT_TRUE(view) << input.role();
      std::vector<char> &copy = copies[input.role()];
      copy.assign(reinterpret_cast<const char *>(view->data),
                  reinterpret_cast<const char *>(view->data) + view->bytes);
      EXPECT_EQ(static_cast<int64_t>(copy.size()), input.buffer().bytes()) << input.role();
      data[input.role()] = copy.data();
    }
    return data;
  }

  std::vector<float> outputOf(const std::string &name) {
    for (const auto &output : entry->outputs())
      if (output.name() == name) {
        std::vector<float> values(static_cast<size_t>(output.buffer().bytes()) / 4);
        std::memcpy(values.data(), program->at(output.buffer()), values.size() * 4);
        return values;
      }
    return {};
  }
  std::vector<float> weightOf(const std::string &name) {
    int64_t slot = program->plan().findSlot(name, "weight");
    EXPECT_GE(slot, 0) << name;
    std::vector<float> values(
        static_cast<size_t>(program->plan().plan().slots(static_cast<int>(slot)).buffer().bytes()) /
        4);
    std::memcpy(values.data(), program->slotData(slot), values.size() * 4);
    return values;
  }

  /// Sets elements whose gradient is mathematically zero to 0 in both: AdamW
  /// turns their rounding noise into steps of any sign.
  void mask(const std::string &name, std::vector<float> &a, std::vector<float> &b) {
    for (const auto &range : zeros.value(name, nlohmann::json::array()))
      for (size_t i = range[0]; i < range[1]; ++i)
        a[i] = b[i] = 0;
  }

  std::string golden, folder;
  std::unique_ptr<Program> program;
  const diffrun::proto::Entry *entry = nullptr;
  nlohmann::json zeros;
  std::map<std::string, std::vector<char>> copies;
  std::vector<float> ones;
};

TEST_P(GoldenTraining, OneStepEqualsPyTorch) {
  auto file = SafetensorsReader::open(golden + "step.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::map<std::string, std::vector<float>> before;
  for (const std::string &name : file->names())
    if (name.rfind("new.", 0) == 0)
      before[name.substr(4)] = weightOf(name.substr(4));
  auto status = program->run("step_fed", feed(*file));
  ASSERT_TRUE(status.ok()) << status.message();

  double total = floats(*file->find("norm"))[0];
  EXPECT_NEAR(outputOf("loss")[0], floats(*file->find("loss"))[0], 1e-5);
  EXPECT_NEAR(outputOf("norm")[0], total, 1e-4 * total);
  std::vector<float> out = floats(*file->find("out"));
  EXPECT_LE(distance(outputOf("out"), out), 1e-5 * norm(out));
  int gradients = 0;
  for (const std::string &name : file->names()) {
    if (name.rfind("grad.", 0) == 0) {
      std::vector<float> theirs = floats(*file->find(name)), ours = outputOf(name);
      ASSERT_EQ(ours.size(), theirs.size()) << name;
      EXPECT_LE(distance(ours, theirs), 1e-4 * norm(theirs) + 1e-5 * total) << name;
      ++gradients;
    } else if (name.rfind("new.", 0) == 0) {
      // After one step AdamW moves every element by about lr in the sign of its
      // gradient: compare the changes.
      std::string parameter = name.substr(4);
      std::vector<float> ours = weightOf(parameter), theirs = floats(*file->find(name));
      for (size_t i = 0; i < ours.size(); ++i)
        ours[i] -= before[parameter][i], theirs[i] -= before[parameter][i];
      mask(parameter, ours, theirs);
      EXPECT_LE(distance(ours, theirs), 1e-2 * norm(theirs) + 1e-7) << name;
    }
  }
  EXPECT_GT(gradients, 20);
}

TEST_P(GoldenTraining, TwentyStepsFollowPyTorch) {
  auto file = SafetensorsReader::open(golden + "trajectory.safetensors");
  ASSERT_TRUE(file.ok()) << file.status().message();
  std::map<std::string, std::vector<float>> before;
  for (const std::string &name : file->names())
    if (name.rfind("new.", 0) == 0)
      before[name.substr(4)] = weightOf(name.substr(4));
  std::vector<float> losses = floats(*file->find("losses"));
  ASSERT_LT(losses.back(), 0.8 * losses.front()); // it does learn
  auto data = feed(*file);
  for (float loss : losses) {
    auto status = program->run("step_fed", data);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_NEAR(outputOf("loss")[0], loss, 1e-3 * loss);
  }
  for (auto &[parameter, first] : before) {
    std::vector<float> ours = weightOf(parameter), theirs = floats(*file->find("new." + parameter));
    for (size_t i = 0; i < ours.size(); ++i)
      ours[i] -= first[i], theirs[i] -= first[i];
    mask(parameter, ours, theirs);
    EXPECT_LE(distance(ours, theirs), 1e-2 * norm(theirs) + 1e-7) << parameter;
  }
}

/// A library call with a wrong flag: plants it if the operation has room for it,
/// without changing a size.
using Plant = bool (*)(diffrun::proto::Op &);

bool takeTransposed(diffrun::proto::Op &op) {
  if (!op.has_matmul())
    return false;
  auto &m = *op.mutable_matmul();
  int last = m.b_shape_size() - 1;
  if (m.b_shape(last) != m.b_shape(last - 1) || m.b_shape(last) < 2)
    return false;
  m.mutable_b_strides()->SwapElements(last, last - 1);
  return true;
}

bool padOneSide(diffrun::proto::Op &op) {
  if (!op.has_convolution())
    return false;
  auto &c = *op.mutable_convolution();
  if (c.pads_low(0) != 1 || c.pads_high(0) != 1)
    return false;
  c.set_pads_low(0, 0);
  c.set_pads_high(0, 2);
  return true;
}

// Every operation of a step agrees with the evaluator; a library call with a wrong
// flag is refused by name (faults in kernels: tests/e2e/verify).
TEST_P(GoldenTraining, VerifyAcceptsThePlanAndNamesAFault) {
  auto file = SafetensorsReader::open(golden + "step.safetensors");
  ASSERT_TRUE(file.ok());
  diffrun::VerifyOptions options;
  options.entry = "step_fed";
  auto report = diffrun::verifyEntry(*program, feed(*file), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_LT(report->worst, 1);

  int planted = 0;
  for (Plant plant : {takeTransposed, padOneSide}) {
    diffrun::proto::Plan changed = program->plan().plan();
    std::string where;
    for (auto &other : *changed.mutable_entries())
      for (int i = 0; other.name() == "step_fed" && where.empty() && i < other.ops_size(); ++i)
        if (plant(*other.mutable_ops(i)))
          where = diffrun::describe(other, i);
    if (where.empty())
      continue;
    ++planted;
    auto loaded = diffrun::LoadedPlan::check(changed, "changed.plan");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    auto wrong = Program::create(*loaded);
    ASSERT_TRUE(wrong.ok()) << wrong.status().message();
    for (int i = 0; i < changed.slots_size(); ++i)
      std::memcpy((*wrong)->slotData(i), program->slotData(i),
                  static_cast<size_t>(changed.slots(i).buffer().bytes()));
    auto refused = diffrun::verifyEntry(**wrong, feed(*file), options);
    ASSERT_FALSE(refused.ok());
    EXPECT_NE(refused.status().message().find(where), std::string::npos)
        << refused.status().message();
  }
  bool convolves = std::string(GetParam().model) == "unet_tiny"; // with padding
  EXPECT_EQ(planted, convolves ? 2 : 1);
}

constexpr const char *kFlow = "predict: flow, schedule: {kind: flow, steps: 1000}";
constexpr const char *kEps = "predict: eps, schedule: {kind: scaled_linear, steps: 1000}";
INSTANTIATE_TEST_SUITE_P(
    Models, GoldenTraining,
    ::testing::Values(Case{"dit_tiny", "dyn23", kFlow}, Case{"dit_tiny", "dyn18", kFlow},
                      Case{"dit_tiny", "ts17", kFlow}, Case{"unet_tiny", "dyn23", kEps},
                      Case{"unet_tiny", "dyn18", kEps}, Case{"unet_tiny", "ts17", kEps}));

} // namespace
} // namespace diffc
