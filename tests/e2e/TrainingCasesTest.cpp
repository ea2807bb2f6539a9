// Cases that other frameworks got wrong, on compiled steps with values worked out
// by hand: gradients of broadcasts and shared weights, averages under
// accumulation, weights of the loss, frozen parameters.
#include "runtime/train/StateFiles.h"
#include "runtime/verify/Verify.h"
#include "tests/e2e/CompiledProgram.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <cmath>
#include <set>

namespace diffc::test {
namespace {

using diffrun::Program;

std::unique_ptr<Program> build(const OnnxBuilder &model, const std::string &recipe) {
  std::string name = ::testing::UnitTest::GetInstance()->current_test_info()->name();
  return test::build(name, model.save(), recipe + "\nthreads: 1\n");
}

void expectVerified(Program &program, const std::string &entry, const diffrun::InputData &data) {
  diffrun::VerifyOptions options;
  options.entry = entry;
  auto verified = diffrun::verifyEntry(program, data, options);
  EXPECT_TRUE(verified.ok()) << entry << ": " << verified.status().message();
}

void expectNear(const std::vector<float> &got, const std::vector<double> &expected,
                double relative = 1e-6) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], relative * (1 + std::fabs(expected[i]))) << "element " << i;
}

//===--- Gradients of broadcasts and shared weights ------------------------===//

/// Makes `y` half of the sum of the squares of `from`.
void halfSquares(OnnxBuilder &b, const std::string &from) {
  b.floats("half", {}, {0.5});
  b.node("Mul", {from, from}, {"squares"});
  OnnxBuilder::attribute(b.node("ReduceSum", {"squares"}, {"sum"}), "keepdims", int64_t{0});
  b.node("Mul", {"sum", "half"});
}

const char *kOwnLoss = "objective: {kind: loss_output}\noptimizer: {lr: 0}\ninputs: {a: clean}\n";

/// z = A op B with B of a broadcast shape; L = sum(z^2) / 2, so dL/dz = z.
struct Operation {
  const char *name;
  double b;                               ///< B's value
  void (*nodes)(OnnxBuilder &);           ///< a, b -> z
  double (*gradient)(double a, double b); ///< of L with respect to b, at one element
};

const Operation kOperations[] = {
    {"Add", 0,
     [](OnnxBuilder &m) {
       m.node("Add", {"a", "b"}, {"z"});
     },
     [](double a, double b) { return a + b; }},
    {"Mul", 2,
     [](OnnxBuilder &m) {
       m.node("Mul", {"a", "b"}, {"z"});
     },
     [](double a, double b) { return a * b * a; }},
    {"Div", 2,
     [](OnnxBuilder &m) {
       m.node("Div", {"a", "b"}, {"z"});
     },
     [](double a, double b) { return (a / b) * (-a / (b * b)); }},
    {"Where", 2,
     [](OnnxBuilder &m) {
       m.floats("limit", {}, {6.5});
       m.node("Greater", {"a", "limit"}, {"large"});
       m.node("Where", {"large", "a", "b"}, {"z"});
     },
     [](double a, double b) { return a > 6.5 ? 0 : b; }},
    {"Expand", 2,
     [](OnnxBuilder &m) {
       m.node("Shape", {"a"}, {"shape"});
       m.node("Expand", {"b", "shape"}, {"wide"});
       m.node("Mul", {"a", "wide"}, {"z"});
     },
     [](double a, double b) { return a * b * a; }},
};

TEST(Gradients, OfABroadcastHaveTheOperandsShape) {
  struct Shape {
    int64_t rows; ///< of A [rows, 4]: 1, 2, ...
    Ints b;
    int64_t perRow, perColumn; ///< strides of B's elements: 0 where it is repeated
  };
  for (const Operation &operation : kOperations)
    for (const Shape &shape : {Shape{3, {1, 4}, 0, 1},
                               {3, {4}, 0, 1},
                               {3, {3, 1}, 1, 0},
                               {3, {1, 1}, 0, 0},
                               {3, {}, 0, 0},
                               {1, {1, 4}, 0, 1}}) {
      size_t count = 1;
      std::string text = operation.name + std::string(" [");
      for (int64_t dim : shape.b)
        count *= static_cast<size_t>(dim), text += std::to_string(dim) + ",";
      SCOPED_TRACE(text + "] rows " + std::to_string(shape.rows));
      OnnxBuilder model(17);
      model.input("a", {"N", "4"});
      // A float of rank 0 is a constant to the importer: [] comes from [1].
      bool isScalar = shape.b.empty();
      model.floats("w", isScalar ? Ints{1} : shape.b, Values(count, operation.b));
      model.node(isScalar ? "Squeeze" : "Identity", {"w"}, {"b"});
      operation.nodes(model);
      halfSquares(model, "z");
      auto program = build(model, kOwnLoss + ("batch: " + std::to_string(shape.rows)));
      ASSERT_TRUE(program);
      Feed feed(*program, "step_fed");
      std::vector<double> expected(count, 0);
      for (int64_t i = 0; i < shape.rows * 4; ++i) {
        feed.floats("clean")[i] = static_cast<float>(i + 1);
        expected[static_cast<size_t>(i / 4 * shape.perRow + i % 4 * shape.perColumn)] +=
            operation.gradient(static_cast<double>(i + 1), operation.b);
      }
      ASSERT_TRUE(program->run("step_fed", feed.data).ok());
      expectNear(outputOf(*program, "step_fed", "grad.w"), expected);
      expectVerified(*program, "step_fed", feed.data);
    }
}

TEST(Gradients, OfAMatrixUnderABatchAreSummedOverIt) {
  OnnxBuilder model(17);
  model.input("a", {"N", "3", "4"});
  Values w;
  for (int i = 0; i < 20; ++i)
    w.push_back(0.125 * (i * 7 % 11) - 0.5);
  model.floats("b", {4, 5}, w);
  model.node("MatMul", {"a", "b"}, {"z"});
  halfSquares(model, "z");
  auto program = build(model, kOwnLoss + std::string("batch: 2"));
  ASSERT_TRUE(program);
  Feed feed(*program, "step_fed");
  const float *a = feed.floats("clean");
  std::vector<double> expected(20, 0);
  for (int row = 0; row < 6; ++row)
    for (int j = 0; j < 5; ++j) {
      double z = 0;
      for (int k = 0; k < 4; ++k)
        z += a[row * 4 + k] * w[static_cast<size_t>(k * 5 + j)];
      for (int k = 0; k < 4; ++k)
        expected[static_cast<size_t>(k * 5 + j)] += a[row * 4 + k] * z;
    }
  ASSERT_TRUE(program->run("step_fed", feed.data).ok());
  expectNear(outputOf(*program, "step_fed", "grad.b"), expected, 1e-5);
  expectVerified(*program, "step_fed", feed.data);
}

// y = W (W x): both uses count, and there is one weight.
TEST(Gradients, OfAWeightUsedTwice) {
  OnnxBuilder model(17);
  model.input("a", {"N"});
  model.floats("b", {1}, {3});
  model.node("Mul", {"b", "a"}, {"once"});
  model.node("Mul", {"b", "once"});
  auto program = build(model, kOwnLoss + std::string("batch: 1"));
  ASSERT_TRUE(program);
  Feed feed(*program, "step_fed");
  feed.floats("clean")[0] = 2;
  ASSERT_TRUE(program->run("step_fed", feed.data).ok());
  expectNear(outputOf(*program, "step_fed", "grad.b"), {12});
  std::multiset<std::string> tensors;
  for (const auto &tensor : diffrun::tensorsOf(*program))
    tensors.insert(tensor.file + "/" + tensor.tensor.name);
  EXPECT_EQ(tensors, (std::multiset<std::string>{"weights/b", "optimizer/m.b", "optimizer/v.b"}));
}

TEST(Gradients, OfAMatrixUsedPlainAndTransposed) {
  OnnxBuilder model(17);
  model.input("a", {"N", "2"});
  const std::vector<double> w{0.5, -0.25, 1.5, 0.75};
  model.floats("b", {2, 2}, w);
  model.node("MatMul", {"a", "b"}, {"p"});
  OnnxBuilder::attribute(model.node("Transpose", {"b"}, {"bt"}), "perm", Ints{1, 0});
  model.node("MatMul", {"p", "bt"}, {"z"});
  halfSquares(model, "z");
  auto program = build(model, kOwnLoss + std::string("batch: 3"));
  ASSERT_TRUE(program);
  Feed feed(*program, "step_fed");
  const float *a = feed.floats("clean");
  auto loss = [&](const std::vector<double> &m) {
    double sum = 0;
    for (int n = 0; n < 3; ++n) {
      double p[2], z;
      for (int j = 0; j < 2; ++j)
        p[j] = a[n * 2] * m[static_cast<size_t>(j)] + a[n * 2 + 1] * m[static_cast<size_t>(2 + j)];
      for (size_t j = 0; j < 2; ++j)
        z = p[0] * m[2 * j] + p[1] * m[2 * j + 1], sum += z * z / 2;
    }
    return sum;
  };
  std::vector<double> expected;
  for (size_t i = 0; i < 4; ++i) {
    std::vector<double> above = w, below = w;
    above[i] += 1e-6, below[i] -= 1e-6;
    expected.push_back((loss(above) - loss(below)) / 2e-6);
  }
  ASSERT_TRUE(program->run("step_fed", feed.data).ok());
  EXPECT_NEAR(program->outputFloat("step_fed", "loss"), loss(w), 1e-5 * loss(w));
  expectNear(outputOf(*program, "step_fed", "grad.b"), expected, 1e-5);
  expectVerified(*program, "step_fed", feed.data);
}

// Two initializers of the same value are two weights: folding must not merge them.
TEST(Gradients, OfTwinsStayApart) {
  OnnxBuilder model(17);
  model.input("a", {"N"});
  model.floats("left", {1}, {3});
  model.floats("right", {1}, {3});
  model.node("Mul", {"a", "left"}, {"l"});
  model.node("Mul", {"a", "a"}, {"square"});
  model.node("Mul", {"square", "right"}, {"r"});
  model.node("Add", {"l", "r"});
  auto program = build(model, "objective: {kind: loss_output}\noptimizer: {lr: 0.125}\n"
                              "inputs: {a: clean}\nbatch: 1");
  ASSERT_TRUE(program);
  Feed feed(*program, "step_fed");
  feed.floats("clean")[0] = -2; // dL/dleft = -2, dL/dright = 4
  ASSERT_TRUE(program->run("step_fed", feed.data).ok());
  expectNear(outputOf(*program, "step_fed", "grad.left"), {-2});
  expectNear(outputOf(*program, "step_fed", "grad.right"), {4});
  expectNear(valuesOf(*program, "left"), {3.125});
  expectNear(valuesOf(*program, "right"), {2.875});
  expectNear(valuesOf(*program, "left", "m"), {-0.2});
  expectNear(valuesOf(*program, "right", "m"), {0.4});
}

//===--- The loop ----------------------------------------------------------===//

// L = -mean(w a) with a = 1: the gradient is -1 always, AdamW moves w by lr = 1.
// Averages and Adam's t count optimizer steps, not micro-batches.
TEST(Accumulation, AveragesMoveOncePerOptimizerStep) {
  OnnxBuilder model(17);
  model.input("a", {"N"});
  model.floats("w", {1}, {0});
  model.node("Mul", {"a", "w"}, {"p"});
  auto &mean = model.node("ReduceMean", {"p"}, {"m"});
  OnnxBuilder::attribute(mean, "axes", Ints{0});
  OnnxBuilder::attribute(mean, "keepdims", int64_t{0});
  model.node("Neg", {"m"});
  auto program = build(model, R"(
batch: 2
accumulate: 4
inputs: {a: clean}
objective: {kind: loss_output}
optimizer: {lr: 1}
ema: {decays: [0.9], warmup: false})");
  ASSERT_TRUE(program);
  EXPECT_FALSE(program->plan().findEntry("step"));
  Feed feed(*program, "accumulate");
  std::fill_n(feed.floats("clean"), 2, 1.0f);
  for (int window = 0; window < 2; ++window) {
    for (int micro = 0; micro < 4; ++micro)
      ASSERT_TRUE(program->run("accumulate", feed.data).ok());
    ASSERT_TRUE(program->run("apply", {}).ok());
    EXPECT_NEAR(program->outputFloat("apply", "norm"), 1, 1e-6);
  }
  expectNear(valuesOf(*program, "w"), {2});
  expectNear(valuesOf(*program, "w", "ema0"), {0.29}); // 0.1 * 1 * 0.9 + 0.1 * 2
  expectVerified(*program, "accumulate", feed.data);
  expectVerified(*program, "apply", {});
}

// The model predicts 0 and the target's mean square is 1, so the loss is the
// weight: min(S, 5) over S, over S + 1, or alone, at S = 20 and S = 1/2.
TEST(Weighting, MinSnrPerPredictionType) {
  struct Case {
    const char *predict;
    double weights[2]; ///< at S = 20, S = 0.5
  };
  for (const Case &c : {Case{"eps", {0.25, 1}}, {"v", {5.0 / 21, 1.0 / 3}}, {"x0", {5, 0.5}}}) {
    SCOPED_TRACE(c.predict);
    OnnxBuilder model(17);
    model.input("a", {"N", "1", "4"});
    model.floats("w", {1}, {0});
    model.node("Mul", {"a", "w"});
    // abar = 20/21 after the first step, 1/3 after the second.
    auto program = build(model, std::string("batch: 2\ninputs: {a: noisy}\noptimizer: {lr: 0}\n") +
                                    "objective: {predict: " + c.predict +
                                    ", weighting: min_snr, schedule: {kind: linear, steps: 2, "
                                    "beta_start: 0.047619047619047616, beta_end: 0.65}}");
    ASSERT_TRUE(program);
    Feed feed(*program, "step_fed");
    for (int t = 0; t < 2; ++t) {
      double abar = t ? 1.0 / 3 : 20.0 / 21;
      bool isX0 = c.predict == std::string("x0"), isV = c.predict == std::string("v");
      for (int i = 0; i < 8; ++i) { // v = alpha noise - sigma clean = 1
        feed.floats("clean")[i] = isX0 ? 1.0f : isV ? -static_cast<float>(std::sqrt(1 - abar)) : 0;
        feed.floats("noise")[i] = isX0 ? 0.0f : isV ? static_cast<float>(std::sqrt(abar)) : 1;
      }
      std::fill_n(feed.floats("timestep"), 2, static_cast<float>(t));
      ASSERT_TRUE(program->run("step_fed", feed.data).ok());
      EXPECT_NEAR(program->outputFloat("step_fed", "loss"), c.weights[t], 2e-6 * (1 + c.weights[t]))
          << "t " << t;
    }
    expectVerified(*program, "step_fed", feed.data);
  }
}

//===--- Frozen parameters -------------------------------------------------===//

/// Four layers x <- sigmoid(x W + (x A) B): W is frozen, B starts at 0.
OnnxBuilder adapters() {
  OnnxBuilder model(17);
  model.input("a", {"N", "8"});
  std::string x = "a";
  for (int layer = 0; layer < 4; ++layer) {
    std::string n = std::to_string(layer);
    auto values = [&](int count, int seed) {
      Values made;
      for (int i = 0; i < count; ++i)
        made.push_back(((i * 37 + seed * 101 + layer * 17) % 97 - 48) / 96.0);
      return made;
    };
    model.floats("base." + n, {8, 8}, values(64, 1));
    model.floats("adapter.a" + n, {8, 2}, values(16, 2));
    model.floats("adapter.b" + n, {2, 8}, Values(16, 0));
    model.node("MatMul", {x, "base." + n}, {"p" + n});
    model.node("MatMul", {x, "adapter.a" + n}, {"q" + n});
    model.node("MatMul", {"q" + n, "adapter.b" + n}, {"r" + n});
    model.node("Add", {"p" + n, "r" + n}, {"s" + n});
    x = layer < 3 ? "x" + n : "y";
    model.node("Sigmoid", {"s" + n}, {x});
  }
  return model;
}

std::string adapterRecipe(const std::string &more) {
  return "batch: 4\ninputs: {a: clean}\nobjective: {kind: regression}\n"
         "optimizer: {lr: 1.0e-2, weight_decay: 0.1}\nema: {decays: [0.9]}\n" +
         more;
}

TEST(Trainable, FrozenWeightsKeepTheirBitsAndHaveNoState) {
  for (const char *accumulate : {"accumulate: 1", "accumulate: 2"}) {
    SCOPED_TRACE(accumulate);
    auto program =
        build(adapters(), adapterRecipe("trainable: [\"adapter.*\"]\n" + std::string(accumulate)));
    ASSERT_TRUE(program);
    const auto &plan = program->plan().plan();
    std::map<std::string, std::set<std::string>> roles;
    for (const auto &slot : plan.slots())
      if (!slot.model().empty()) {
        roles[slot.parameter()].insert(slot.role());
        EXPECT_EQ(slot.trainable(), slot.parameter().rfind("adapter", 0) == 0) << slot.parameter();
      }
    ASSERT_EQ(roles.size(), 12u);
    std::map<std::string, std::vector<float>> before;
    for (auto &[name, has] : roles) {
      before[name] = valuesOf(*program, name);
      if (name.rfind("base", 0) == 0)
        EXPECT_EQ(has, (std::set<std::string>{"weight"})) << name;
      else
        EXPECT_GE(has.size(), 4u) << name; // weight, m, v, ema0 (grad)
    }
    for (const auto &output : program->plan().findEntry("step_fed")->outputs())
      EXPECT_NE(output.name().rfind("grad.base", 0), 0u) << output.name();

    bool accumulates = !program->plan().findEntry("step");
    Feed feed(*program, accumulates ? "accumulate" : "step");
    for (int step = 0; step < 3; ++step) {
      for (int micro = 0; micro < 2 && accumulates; ++micro)
        ASSERT_TRUE(program->run("accumulate", feed.data).ok());
      auto status = accumulates ? program->run("apply", {}) : program->run("step", feed.data);
      ASSERT_TRUE(status.ok()) << status.message();
      for (int layer = 0; layer < 4; ++layer)
        for (float value : valuesOf(*program, "adapter.b" + std::to_string(layer)))
          EXPECT_NE(value, 0) << "layer " << layer << " after step " << step + 1;
    }
    for (auto &[name, values] : before)
      EXPECT_EQ(valuesOf(*program, name) == values, name.rfind("base", 0) == 0) << name;
    if (accumulates) {
      expectVerified(*program, "accumulate", feed.data);
      expectVerified(*program, "apply", {});
    } else {
      expectVerified(*program, "step", feed.data);
    }
  }
}

// The gradient of a frozen matrix is not computed: a product less per layer, and
// none at all below the first adapter.
TEST(Trainable, WhatIsFrozenIsNotDifferentiated) {
  auto work = [](const std::string &trainable) {
    auto program = build(adapters(), adapterRecipe("trainable: [" + trainable + "]"));
    int products = 0, all = 0;
    for (const auto &op : program->plan().findEntry("step")->ops())
      products += op.has_matmul(), ++all;
    return std::pair(products, all);
  };
  auto everything = work("\"*\""), adaptersOnly = work("\"adapter.*\""), last = work("adapter.b3");
  EXPECT_EQ(everything.first - adaptersOnly.first, 4);
  // Forward 12, and one for the only gradient.
  EXPECT_EQ(last.first, 13);
  EXPECT_LT(last.second, adaptersOnly.second);
}

// Computing values again in the backward pass goes through frozen layers, too.
TEST(Trainable, RecomputingChangesNoBitOfAdapters) {
  std::vector<std::vector<float>> results[2];
  for (int recompute = 0; recompute < 2; ++recompute) {
    auto program =
        build(adapters(), adapterRecipe(std::string("trainable: [\"adapter.*\"]\nmemory: ") +
                                        (recompute ? "{recompute: auto}" : "{recompute: none}")));
    ASSERT_TRUE(program);
    Feed feed(*program, "step");
    for (int step = 0; step < 3; ++step)
      ASSERT_TRUE(program->run("step", feed.data).ok());
    for (int layer = 0; layer < 4; ++layer)
      for (const char *name : {"adapter.a", "adapter.b"})
        results[recompute].push_back(valuesOf(*program, name + std::to_string(layer)));
  }
  EXPECT_EQ(results[0], results[1]);
}

} // namespace
} // namespace diffc::test
