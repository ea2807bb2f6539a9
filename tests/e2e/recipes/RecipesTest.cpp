// Every kind of recipe on a small model: the compiled steps against training in
// double precision, and what does not go together refused.
#include "compiler/recipe/Recipe.h"
#include "runtime/verify/Verify.h"
#include "tests/e2e/CompiledProgram.h"
#include "tests/e2e/recipes/Reference.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <cmath>

namespace diffc::test {
namespace {

/// The model of Asked; with its own loss against an input if that is asked for.
OnnxBuilder modelOf(const Asked &asked) {
  OnnxBuilder b(17);
  b.input("x", {"N", "1", std::to_string(kEach)});
  b.input("t", {"N"});
  b.input("label", {"N"});
  b.graph().mutable_input(2)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  for (auto &[name, values] : firstParameters())
    b.floats(name,
             name == "label.weight" ? Ints{kLabels, 1, kEach}
                                    : Ints{static_cast<int64_t>(values.size())},
             values);
  b.floats("thousandth", {}, {0.001});
  b.ints("axes", {1, 2});
  b.node("Mul", {"x", "body.weight"}, {"scaled"});
  b.node("Add", {"scaled", "body.bias"}, {"shifted"});
  b.node("Mul", {"t", "thousandth"}, {"small"});
  b.node("Unsqueeze", {"small", "axes"}, {"time"});
  b.node("Mul", {"time", "time.weight"}, {"timed"});
  b.node("Add", {"shifted", "timed"}, {"body"});
  b.node("Gather", {"label.weight", "label"}, {"class"});
  b.node("Add", {"body", "class"});
  if (asked.kind == "loss_output") {
    b.input("target", {"N", "1", std::to_string(kEach)});
    b.output("loss");
    b.node("Sub", {"y", "target"}, {"d"});
    b.node("Mul", {"d", "d"}, {"square"});
    OnnxBuilder::attribute(b.node("ReduceMean", {"square"}, {"loss"}), "keepdims", int64_t{0});
  }
  return b;
}

bool goTogether(const Asked &asked) {
  bool flows = asked.schedule == "flow";
  return (asked.predict == "flow") == flows && !(flows && asked.weighting == "min_snr") &&
         (flows || asked.timesteps != "logit_normal");
}

/// Every objective there is, also those that do not go together.
std::vector<Asked> objectives() {
  std::vector<Asked> all;
  for (const char *loss : {"mse", "huber"})
    for (int64_t accumulate : {1, 3}) {
      Asked asked;
      asked.loss = loss;
      asked.accumulate = accumulate;
      for (const char *predict : {"eps", "v", "x0", "flow"})
        for (const char *schedule : {"linear", "scaled_linear", "cosine", "flow"})
          for (const char *weighting : {"none", "min_snr"})
            for (const char *timesteps : {"uniform", "logit_normal"}) {
              asked.predict = predict, asked.schedule = schedule;
              asked.weighting = weighting, asked.timesteps = timesteps;
              all.push_back(asked);
            }
      asked.weighting = "none";
      asked.kind = "regression";
      all.push_back(asked);
      asked.kind = "loss_output";
      if (asked.loss == "mse")
        all.push_back(asked);
    }
  return all;
}

/// The n-th of many ways to update: each value beside each other one's.
void chooseUpdate(Asked &asked, size_t n) {
  static const std::pair<const char *, int64_t> rates[] = {
      {"constant", 0}, {"constant", 2}, {"cosine", 2}, {"linear", 2}, {"cosine", 0}};
  static const std::pair<std::vector<double>, bool> averages[] = {
      {{}, false}, {{0.9}, true}, {{0.9, 0.5}, false}, {{0.05, 0.999}, true}};
  static const char *trainable[] = {"*", "body.*", "label.*"};
  std::tie(asked.rate, asked.warmup) = rates[n % 5];
  std::tie(asked.decays, asked.emaWarmup) = averages[n / 5 % 4];
  asked.trainable = trainable[n / 20 % 3];
  asked.groups = n % 3 == 1 && asked.trainable != std::string("label.*");
  asked.clip = n % 2 ? 0.25 : 0;
  asked.weightDecay = n % 7 < 3 ? 0.1 : 0;
  asked.labelDropout = asked.kind == "diffusion" && n % 4 < 2 ? 0.5 : 0;
}

void near(double got, double expected, double relative, const std::string &what) {
  EXPECT_NEAR(got, expected, relative * (0.1 + std::fabs(expected))) << what;
}

class Training {
public:
  explicit Training(const Asked &asked) : asked(asked), expected(asked) {}

  void check(const std::string &name) {
    program = build(name, modelOf(asked).save(), asked.recipe());
    ASSERT_TRUE(program);
    bool whole = asked.accumulate == 1;
    const std::string entry = whole ? "step" : "accumulate";
    for (int window = 0; window < 3; ++window) {
      // The last window is a short one.
      int64_t micros = std::max<int64_t>(1, asked.accumulate - (window == 2));
      for (int64_t k = 0; k < micros; ++k) {
        run(entry);
        near(program->outputFloat(entry, "loss"), expected.accumulate(now), 1e-5, "loss");
      }
      expected.apply();
      const std::string last = whole ? "step" : "apply";
      if (!whole) {
        ASSERT_TRUE(program->run("apply", {}).ok());
        near(program->outputFloat(last, "loss"), expected.loss, 1e-5, "loss of the window");
      }
      near(program->outputFloat(last, "norm"), expected.norm, 1e-5, "norm");
      near(program->outputFloat(last, "lr"), expected.rate, 1e-5, "rate");
      compareState("window " + std::to_string(window));
    }
    // Entries draw from streams of their own: 64 each, in the plan's order.
    run("eval");
    near(program->outputFloat("eval", "loss"), expected.evaluate(now, whole ? 128 : 192), 1e-5,
         "loss of eval");
    verify(entry);
    verify("eval");
    if (!whole)
      verify("apply");
  }

private:
  void run(const std::string &entry) {
    bool masked = asked.kind != "loss_output";
    now = sampleOf(count++, masked);
    feed = {{"clean", now.x.data()},
            {"target", now.target.data()},
            {"timestep", now.t.data()},
            {"label", now.label.data()},
            {"sample_weight", now.weight.data()}};
    auto status = program->run(entry, feed);
    ASSERT_TRUE(status.ok()) << status.message();
  }

  void verify(const std::string &entry) {
    diffrun::VerifyOptions options;
    options.entry = entry;
    auto report = diffrun::verifyEntry(*program, feed, options);
    EXPECT_TRUE(report.ok()) << entry << ": " << report.status().message();
  }

  void compareState(const std::string &when) {
    Parameters first = firstParameters();
    for (auto &[name, values] : expected.weights) {
      std::vector<float> got = valuesOf(*program, name);
      ASSERT_EQ(got.size(), values.size());
      for (size_t i = 0; i < values.size(); ++i)
        if (expected.trains(name)) {
          near(got[i], values[i], 2e-5, when + ": " + name);
        } else {
          EXPECT_EQ(got[i], first[name][i]) << when << ": frozen " << name;
        }
      for (const char *role : {"m", "v", "ema0", "grad"}) // or none of them
        if (!expected.trains(name)) {
          EXPECT_LT(slotOf(*program, "model", name, role), 0) << name << " " << role;
        }
      for (size_t k = 0; k < asked.decays.size() && expected.trains(name); ++k) {
        std::vector<float> average = valuesOf(*program, name, "ema" + std::to_string(k));
        ASSERT_EQ(average.size(), values.size());
        for (size_t i = 0; i < values.size(); ++i)
          near(average[i], expected.averages[k][name][i], 2e-5,
               when + ": average " + std::to_string(k) + " of " + name);
      }
    }
  }

  Asked asked;
  Reference expected;
  std::unique_ptr<diffrun::Program> program;
  Sample now;
  diffrun::InputData feed;
  int64_t count = 0;
};

/// Groups of 16: the ctest shards share them.
constexpr size_t kGroup = 16;

class Objectives : public ::testing::TestWithParam<size_t> {};

TEST_P(Objectives, TrainAsInDoublePrecisionOrAreRefused) {
  std::vector<Asked> all = objectives();
  for (size_t n = GetParam() * kGroup; n < std::min(all.size(), (GetParam() + 1) * kGroup); ++n) {
    Asked asked = all[n];
    chooseUpdate(asked, n * 7);
    SCOPED_TRACE(asked.describe());
    if (goTogether(asked)) {
      Training(asked).check("objective" + std::to_string(n));
    } else {
      auto recipe = parseRecipe(asked.recipe(), "recipe.yaml");
      ASSERT_FALSE(recipe.ok());
      EXPECT_NE(recipe.status().message().find("recipe.yaml: objective."), std::string::npos)
          << recipe.status().message();
      EXPECT_NE(recipe.status().help(), "");
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, Objectives,
                         ::testing::Range(size_t{0}, (objectives().size() + kGroup - 1) / kGroup));

class Updates : public ::testing::TestWithParam<size_t> {};

TEST_P(Updates, AreThoseOfDoublePrecision) {
  for (size_t n = GetParam() * kGroup; n < std::min<size_t>(60, (GetParam() + 1) * kGroup); ++n) {
    Asked asked;
    asked.predict = "v", asked.accumulate = n / 2 % 2 ? 3 : 1;
    chooseUpdate(asked, n);
    SCOPED_TRACE(asked.describe());
    Training(asked).check("update" + std::to_string(n));
  }
}
INSTANTIATE_TEST_SUITE_P(All, Updates, ::testing::Range(size_t{0}, size_t{4}));

} // namespace
} // namespace diffc::test
