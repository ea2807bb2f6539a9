// Composed steps, evaluated in double precision: counters, schedules, averages,
// weights of the loss, against values worked out by hand.
#include "compiler/compose/Compose.h"
#include "dialects/nn/IR/Evaluation.h"
#include "dialects/train/IR/TrainDialect.h"
#include "tests/unit/import/OnnxBuilder.h"

namespace diffc::test {
namespace {

namespace ev = diffrun::evaluate;

/// Runs composed entries on evaluator tensors; state by "parameter/role".
class Machine {
public:
  Machine(const OnnxBuilder &model, const std::string &recipeText) {
    auto file = ModelFile::open(model.save());
    auto recipe = parseRecipe(recipeText, "recipe.yaml");
    if (!file || !recipe) {
      status = file ? recipe.status() : file.status();
      return;
    }
    auto made = compose(context, *file, *recipe);
    if (!made)
      status = made.status();
    else
      composed.emplace(std::move(*made));
  }

  train::EntryOp entry(const std::string &name) {
    return llvm::cast<train::EntryOp>(mlir::SymbolTable::lookupSymbolIn(*composed->program, name));
  }

  /// Outputs by name. `data` by role; scalars take `scalars` or their initial value.
  std::map<std::string, double> run(const std::string &name,
                                    const std::map<std::string, Values> &data,
                                    const std::map<std::string, double> &scalars = {}) {
    train::EntryOp op = entry(name);
    mlir::Block &block = op.getBody().front();
    nn::EvaluationGraph graph;
    for (mlir::Value argument : block.getArguments())
      EXPECT_TRUE(graph.number(argument).ok());
    std::vector<train::ReadOp> reads;
    for (mlir::Operation &inner : block.without_terminator())
      if (auto read = llvm::dyn_cast<train::ReadOp>(inner)) {
        reads.push_back(read);
        EXPECT_TRUE(graph.number(read.getResult()).ok());
      } else {
        EXPECT_TRUE(graph.append(&inner).ok());
      }
    std::vector<std::optional<ev::Tensor>> values(graph.graph().values.size());
    auto fill = [&](mlir::Value value) -> ev::Tensor & {
      int64_t id = *graph.number(value);
      return values[id].emplace(graph.graph().values[id]);
    };
    for (unsigned i = 0; i < block.getNumArguments(); ++i) {
      ev::Tensor &tensor = fill(block.getArgument(i));
      double value = 0;
      if (auto scalar = op.getArgAttrOfType<mlir::StringAttr>(i, train::kScalarAttr)) {
        auto given = scalars.find(scalar.str());
        value =
            given != scalars.end()
                ? given->second
                : op.getArgAttrOfType<mlir::FloatAttr>(i, train::kInitialAttr).getValueAsDouble();
        if (tensor.isReal())
          tensor.real[0] = value;
        else
          tensor.integer[0] = static_cast<int64_t>(value);
        continue;
      }
      auto role = op.getArgAttrOfType<mlir::StringAttr>(i, train::kRoleAttr).str();
      const Values &given = data.at(role);
      EXPECT_EQ(static_cast<int64_t>(given.size()), tensor.type.count()) << role;
      for (size_t k = 0; k < given.size(); ++k)
        if (tensor.isReal())
          tensor.real[k] = given[k];
        else
          tensor.integer[k] = static_cast<int64_t>(given[k]);
    }
    for (train::ReadOp read : reads) {
      ev::Tensor &tensor = fill(read.getResult());
      auto known = state.find(key(read.getSlot()));
      if (known != state.end())
        tensor = known->second;
    }
    auto done = ev::evaluate(graph.graph(), 0, graph.graph().nodes.size(), values);
    EXPECT_TRUE(done.ok()) << (done.ok() ? "" : done.message());
    auto commit = llvm::cast<train::CommitOp>(block.getTerminator());
    for (auto [slot, value] : llvm::zip(commit.getSlots(), commit.getStates()))
      state[key(llvm::cast<train::SlotAttr>(slot))] = *values[*graph.number(value)];
    std::map<std::string, double> outputs;
    for (auto [out, value] : llvm::zip(commit.getNames(), commit.getOutputs())) {
      const ev::Tensor &tensor = *values[*graph.number(value)];
      outputs[llvm::cast<mlir::StringAttr>(out).str()] =
          tensor.real.empty() ? static_cast<double>(tensor.integer[0]) : tensor.real[0];
    }
    return outputs;
  }

  static std::string key(train::SlotAttr slot) {
    return (slot.getParameter() + "/" + slot.getRole()).str();
  }
  double real(const std::string &slot) { return state.at(slot).real[0]; }

  mlir::MLIRContext context;
  std::optional<Composed> composed;
  diffrun::Status status;
  std::map<std::string, ev::Tensor> state;
};

/// L = -mean(w x), w = 0, x = 1: its gradient is -1 always.
OnnxBuilder constantGradient() {
  OnnxBuilder b(17);
  b.input("x", {"N"});
  b.floats("w", {1}, {0});
  b.node("Mul", {"x", "w"}, {"p"});
  auto &mean = b.node("ReduceMean", {"p"}, {"m"});
  OnnxBuilder::attribute(mean, "axes", Ints{0});
  OnnxBuilder::attribute(mean, "keepdims", int64_t{0});
  b.node("Neg", {"m"});
  return b;
}

const char *kLossOutput = R"(
batch: 2
inputs: {x: clean}
objective: {kind: loss_output}
optimizer: {lr: 1}
)";

TEST(Step, WeightCountsOptimizerSteps) {
  Machine m(constantGradient(), kLossOutput);
  ASSERT_TRUE(m.composed) << m.status.message();
  for (int step = 1; step <= 3; ++step) {
    auto out = m.run("step", {{"clean", {1, 1}}});
    EXPECT_NEAR(m.real("w/weight"), step, 1e-6);
    EXPECT_NEAR(out["norm"], 1, 1e-12);
  }
  EXPECT_EQ(m.state.at("step/value").integer[0], 3);
}

TEST(Step, AveragesStartAsCopiesAndDecay) {
  Machine m(constantGradient(), std::string(kLossOutput) + "ema: {decays: [0.9], warmup: false}\n");
  ASSERT_TRUE(m.composed) << m.status.message();
  m.state["w/weight"] = ev::Tensor({diffrun::DType::kF32, {1}});
  m.run("init", {});
  m.run("step", {{"clean", {1, 1}}});
  m.run("step", {{"clean", {1, 1}}});
  EXPECT_NEAR(m.real("w/weight"), 2, 1e-6);
  EXPECT_NEAR(m.real("w/ema0"), 0.29, 1e-6); // 0.1 * 1 * 0.9 + 0.1 * 2
}

TEST(Step, WarmupThenCosine) {
  Machine m(constantGradient(), R"(
batch: 2
inputs: {x: clean}
objective: {kind: loss_output}
optimizer: {lr: 1.0e-3, schedule: {kind: cosine, warmup: 10, steps: 100}}
)");
  ASSERT_TRUE(m.composed) << m.status.message();
  std::vector<double> rates;
  for (int step = 0; step <= 100; ++step)
    rates.push_back(m.run("step", {{"clean", {1, 1}}})["lr"]);
  EXPECT_NEAR(rates[0], 1e-4, 1e-12);
  EXPECT_NEAR(rates[9], 1e-3, 1e-12);
  EXPECT_NEAR(rates[55], 5e-4, 1e-9);
  EXPECT_NEAR(rates[100], 0, 1e-9);
}

TEST(Step, ANonFiniteNormChangesNothingButTheIteration) {
  Machine m(constantGradient(), std::string(kLossOutput) + "ema: {decays: [0.9]}\n");
  ASSERT_TRUE(m.composed) << m.status.message();
  m.run("step", {{"clean", {1, 1}}});
  double w = m.real("w/weight"), average = m.real("w/ema0"), v = m.real("w/v");
  m.run("step", {{"clean", {INFINITY, 1}}});
  EXPECT_EQ(m.real("w/weight"), w);
  EXPECT_EQ(m.real("w/ema0"), average);
  EXPECT_EQ(m.real("w/v"), v);
  EXPECT_EQ(m.state.at("step/value").integer[0], 1);
  EXPECT_EQ(m.state.at("iteration/value").integer[0], 2);
}

// L = mean(w x) over samples 1..6, one at a time in windows of four: the norms
// are the means of the windows' own samples, the short one's too.
TEST(Accumulation, EverySampleWeighsTheSame) {
  OnnxBuilder b(17);
  b.input("x", {"N"});
  b.floats("w", {1}, {0});
  b.node("Mul", {"x", "w"}, {"p"});
  auto &mean = b.node("ReduceMean", {"p"});
  OnnxBuilder::attribute(mean, "axes", Ints{0});
  OnnxBuilder::attribute(mean, "keepdims", int64_t{0});
  Machine m(b, R"(
batch: 1
accumulate: 4
inputs: {x: clean}
objective: {kind: loss_output}
optimizer: {lr: 0}
)");
  ASSERT_TRUE(m.composed) << m.status.message();
  for (double x : {1, 2, 3, 4})
    m.run("accumulate", {{"clean", {x}}});
  EXPECT_NEAR(m.run("apply", {})["norm"], 2.5, 1e-12);
  for (double x : {5, 6})
    m.run("accumulate", {{"clean", {x}}});
  EXPECT_NEAR(m.run("apply", {})["norm"], 5.5, 1e-12);
  EXPECT_EQ(m.state.at("step/value").integer[0], 2);
  EXPECT_EQ(m.state.at("micro/value").integer[0], 0);
}

// The average moves once per optimizer step, not per micro-batch.
TEST(Accumulation, AveragesCountOptimizerSteps) {
  Machine m(constantGradient(),
            std::string(kLossOutput) + "accumulate: 4\nema: {decays: [0.9], warmup: false}\n");
  ASSERT_TRUE(m.composed) << m.status.message();
  m.state["w/weight"] = ev::Tensor({diffrun::DType::kF32, {1}});
  m.run("init", {});
  for (int window = 0; window < 2; ++window) {
    for (int micro = 0; micro < 4; ++micro)
      m.run("accumulate", {{"clean", {1, 1}}});
    m.run("apply", {});
  }
  EXPECT_NEAR(m.real("w/weight"), 2, 1e-6);
  EXPECT_NEAR(m.real("w/ema0"), 0.29, 1e-6);
}

/// A model whose output is w * x with w = 0: it predicts 0.
OnnxBuilder zeroModel() {
  OnnxBuilder b(17);
  b.input("sample", {"N", "1", "4"});
  b.input("timestep", {"N"});
  b.floats("w", {1}, {0});
  b.node("Mul", {"sample", "w"});
  return b;
}

std::string diffusion(const std::string &objective) {
  return "batch: 2\nobjective: {" + objective + "}\noptimizer: {lr: 0}\n";
}

// The model predicts 0 and the target's mean square is 1, so the loss is the
// weight: min(S, 5) over S, over S + 1, or alone.
TEST(Objective, MinSnrWeights) {
  struct Case {
    const char *predict;
    double (*weight)(double);
  };
  for (const Case &c : {Case{"eps", [](double s) { return std::min(s, 5.0) / s; }},
                        Case{"v", [](double s) { return std::min(s, 5.0) / (s + 1); }},
                        Case{"x0", [](double s) { return std::min(s, 5.0); }}}) {
    Machine m(zeroModel(), diffusion(std::string("predict: ") + c.predict +
                                     ", weighting: min_snr, schedule: {kind: linear}"));
    ASSERT_TRUE(m.composed) << m.status.message();
    double abar = 1;
    for (int t = 0; t < 1000; ++t) {
      abar *= 1 - (1e-4 + (2e-2 - 1e-4) * t / 999);
      if (t != 50 && t != 400 && t != 900)
        continue;
      double snr = abar / (1 - abar), alpha = std::sqrt(abar), sigma = std::sqrt(1 - abar);
      // noise and clean such that every target has mean square 1
      std::string predict = c.predict;
      Values clean(8, predict == "x0" ? 1.0 : 0.0), noise(8, predict == "x0" ? 0.0 : 1.0);
      if (predict == "v")
        for (int i = 0; i < 8; ++i)
          noise[i] = alpha, clean[i] = -sigma;
      auto out = m.run("step_fed", {{"clean", clean},
                                    {"noise", noise},
                                    {"timestep", {double(t), double(t)}},
                                    {"sample_weight", {1, 1}}});
      EXPECT_NEAR(out["loss"], c.weight(snr), 1e-4 * c.weight(snr)) << c.predict << " " << t;
    }
  }
}

TEST(Objective, ShortBatchesDivideByTheRealCount) {
  Machine m(zeroModel(), diffusion("predict: flow, schedule: {kind: flow}"));
  ASSERT_TRUE(m.composed) << m.status.message();
  Values clean(8, 0), noise{1, 1, 1, 1, 9, 9, 9, 9};
  auto out = m.run(
      "step_fed",
      {{"clean", clean}, {"noise", noise}, {"timestep", {500, 500}}, {"sample_weight", {1, 0}}});
  EXPECT_NEAR(out["loss"], 1, 1e-9);
}

TEST(Objective, DataGoByTheInputsOwnName) {
  OnnxBuilder b(17);
  b.input("sample", {"N", "4"});
  b.input("text_embeds", {"N", "4"});
  b.floats("w", {4}, {1, 1, 1, 1});
  b.node("Add", {"text_embeds", "w"}, {"p"});
  b.node("Add", {"sample", "p"});
  Machine m(b, "batch: 2\nobjective: {kind: regression}\n"
               "inputs: {sample: clean, text_embeds: data}\n");
  ASSERT_TRUE(m.composed) << m.status.message();
  // The weight is 0, so out is 1 + 2 everywhere; the target is 0.
  auto out = m.run("step", {{"clean", Values(8, 1)},
                            {"text_embeds", Values(8, 2)},
                            {"target", Values(8, 0)},
                            {"sample_weight", {1, 1}}});
  EXPECT_NEAR(out["loss"], 9, 1e-9);
  Machine unsaid(b, "batch: 2\nobjective: {kind: regression}\ninputs: {sample: clean}\n");
  ASSERT_FALSE(unsaid.composed);
  EXPECT_NE(unsaid.status.message().find("\"text_embeds\" is not clear"), std::string::npos)
      << unsaid.status.message();
}

TEST(Objective, DrawsChangeWithIterationAndSeedAlone) {
  Machine m(zeroModel(), diffusion("predict: eps"));
  ASSERT_TRUE(m.composed) << m.status.message();
  std::map<std::string, Values> data{{"clean", Values(8, 0)}, {"sample_weight", {1, 1}}};
  double first = m.run("step", data)["loss"], second = m.run("step", data)["loss"];
  EXPECT_NE(first, second);
  m.state.clear();
  EXPECT_EQ(m.run("step", data)["loss"], first);
  m.state.clear();
  EXPECT_NE(m.run("step", data, {{"seed", 1}})["loss"], first);
}

TEST(Errors, NameTheInputOrKey) {
  auto expect = [](const OnnxBuilder &model, const std::string &recipe, const std::string &part) {
    Machine m(model, recipe);
    ASSERT_FALSE(m.composed) << part;
    EXPECT_NE(m.status.message().find(part), std::string::npos) << m.status.message();
  };
  expect(zeroModel(), "inputs: {nothing: noisy}", "inputs.nothing");
  expect(zeroModel(), "trainable: [\"q*\"]", "\"q*\" matches no parameter");
  expect(zeroModel(), "optimizer: {groups: [{match: \"*.bias\", lr_scale: 2}]}",
         "optimizer.groups: \"*.bias\" matches no parameter");
  expect(zeroModel(), "objective: {label_dropout: 0.1, null_label: 3}", "role label");
  expect(constantGradient(), "batch: 2", "the role of graph input \"x\" is not clear");
  OnnxBuilder fixed(17);
  fixed.input("sample", {"4", "1", "4"});
  fixed.floats("w", {1}, {0});
  fixed.node("Mul", {"sample", "w"});
  expect(fixed, "batch: 2", "exported for a batch of 4");
}

} // namespace
} // namespace diffc::test
