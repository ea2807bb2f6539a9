// Norms and attention as chains of simple ONNX operators, compiled and run with
// fusion on and off: values and gradients against formulas in double precision.
#include "compiler/pipeline/Compile.h"
#include "runtime/execute/Program.h"
#include "runtime/verify/Verify.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <unistd.h>

namespace diffc::test {
namespace {

using diffrun::Program;
namespace proto = diffrun::proto;

/// What one training step of mse(out, target) made of a model.
struct Outcome {
  Values out;
  std::map<std::string, Values> gradients; ///< by parameter
  std::map<std::string, Ints> shapes;      ///< of the parameters
  Ints outShape;
  std::string composed; ///< the program's IR before fusion
};

Values floats(const void *data, int64_t bytes) {
  std::vector<float> narrow(static_cast<size_t>(bytes) / 4);
  std::memcpy(narrow.data(), data, narrow.size() * 4);
  return Values(narrow.begin(), narrow.end());
}

void run(const OnnxBuilder &model, int64_t batch, const Values &x, const Values &target, bool fuse,
         Outcome &outcome) {
  std::string folder = ::testing::TempDir() + "/norm_cases_" + std::to_string(getpid());
  std::filesystem::create_directories(folder);
  std::ofstream onnx(folder + "/m.onnx", std::ios::binary);
  ASSERT_TRUE(model.proto.SerializeToOstream(&onnx));
  onnx.close();
  std::string n = std::to_string(batch);
  std::ofstream(folder + "/recipe.yaml") << "inputs: {x: clean}\nbatch: " << n
                                         << "\nobjective: {kind: regression}\n"
                                            "entries: {denoise: {batch: "
                                         << n << "}}\nthreads: 1\n";
  CompileOptions options;
  options.model = folder + "/m.onnx";
  options.recipe = folder + "/recipe.yaml";
  options.output = folder + "/p.plan";
  options.fuse = fuse;
  options.stopAfter = "compose";
  auto composed = compile(options);
  ASSERT_TRUE(composed.ok()) << composed.status().message();
  outcome.composed = composed->ir;
  options.stopAfter = "";
  auto compiled = compile(options);
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  auto plan = diffrun::LoadedPlan::open(options.output);
  ASSERT_TRUE(plan.ok()) << plan.status().message();
  auto program = Program::create(*plan);
  ASSERT_TRUE(program.ok()) << program.status().message();
  ASSERT_TRUE((*program)->initialize().ok());
  std::filesystem::remove_all(folder);

  std::vector<float> xs(x.begin(), x.end()), targets(target.begin(), target.end()),
      weights(static_cast<size_t>(batch), 1);
  diffrun::InputData data{
      {"clean", xs.data()}, {"target", targets.data()}, {"sample_weight", weights.data()}};
  auto denoised = (*program)->run("denoise", {{"clean", xs.data()}});
  ASSERT_TRUE(denoised.ok()) << denoised.message();
  for (const auto &output : (*program)->plan().findEntry("denoise")->outputs())
    if (output.name() == "out") {
      outcome.out = floats((*program)->output("denoise", "out"), output.buffer().bytes());
      outcome.outShape.assign(output.type().shape().begin(), output.type().shape().end());
    }
  auto verified = diffrun::verifyEntry(**program, data, {});
  ASSERT_TRUE(verified.ok()) << verified.status().message();
  // The first moment is 0.1 of the gradient after AdamW's first step.
  const proto::Plan &all = (*program)->plan().plan();
  for (int i = 0; i < all.slots_size(); ++i)
    if (all.slots(i).role() == "m") {
      Values m = floats((*program)->slotData(i), all.slots(i).buffer().bytes());
      for (double &g : m)
        g *= 10;
      outcome.gradients[all.slots(i).parameter()] = m;
      auto &shape = all.slots(i).type().shape();
      outcome.shapes[all.slots(i).parameter()].assign(shape.begin(), shape.end());
    }
}

void expectNear(const Values &got, const Values &expected, double tolerance,
                const std::string &what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], expected[i], tolerance * (1 + std::fabs(expected[i])))
        << what << ", element " << i;
}

void reduceMean(OnnxBuilder &b, const std::string &from, const std::string &to) {
  OnnxBuilder::attribute(b.node("ReduceMean", {from}, {to}), "axes", Ints{-1});
}

/// A float initializer would be a parameter.
void constant(OnnxBuilder &b, const std::string &name, const Ints &shape, const Values &values) {
  auto *value = b.node("Constant", {}, {name}).add_attribute();
  value->set_name("value");
  value->set_type(onnx::AttributeProto::TENSOR);
  auto *tensor = value->mutable_t();
  tensor->set_data_type(onnx::TensorProto::FLOAT);
  for (int64_t extent : shape)
    tensor->add_dims(extent);
  for (double element : values)
    tensor->add_float_data(static_cast<float>(element));
}

/// y = norm(x + shift) * scale + bias, as older exporters write it.
OnnxBuilder normChain(const Ints &xShape, bool centre, const Ints &scaleShape, const Values &scale,
                      const Values &bias) {
  OnnxBuilder b(17);
  b.input("x", {"N", std::to_string(xShape[1])});
  b.floats("shift", xShape, Values(static_cast<size_t>(xShape[0] * xShape[1]), 0));
  b.floats("scale", scaleShape, scale);
  b.floats("two", {}, {2});
  b.floats("epsilon", {}, {1e-5});
  b.node("Add", {"x", "shift"}, {centre ? "shifted" : "c"});
  if (centre) {
    reduceMean(b, "shifted", "mean");
    b.node("Sub", {"shifted", "mean"}, {"c"});
  }
  b.node("Pow", {"c", "two"}, {"square"});
  reduceMean(b, "square", "variance");
  b.node("Add", {"variance", "epsilon"}, {"safe"});
  b.node("Sqrt", {"safe"}, {"root"});
  b.node("Div", {"c", "root"}, {"normalised"});
  b.node("Mul", {"normalised", "scale"}, {bias.empty() ? "y" : "scaled"});
  if (!bias.empty()) {
    b.floats("bias", {static_cast<int64_t>(bias.size())}, bias);
    b.node("Add", {"scaled", "bias"});
  }
  return b;
}

/// The same in double precision: y and the gradients of mse(y, target). Scale and
/// bias are spread to y's shape; so are their gradients.
struct Expected {
  Values n, y, dScale, dBias, dShift;

  Expected(int64_t rows, int64_t columns, bool centre, const Values &x, const Values &scale,
           const Values &bias, const Values &target)
      : n(x.size()), y(x.size()), dScale(x.size()), dBias(x.size()), dShift(x.size()) {
    double count = static_cast<double>(columns);
    for (int64_t row = 0; row < rows; ++row) {
      size_t at = static_cast<size_t>(row * columns), end = at + static_cast<size_t>(columns);
      double mean = 0, square = 0;
      for (size_t i = at; i < end && centre; ++i)
        mean += x[i] / count;
      for (size_t i = at; i < end; ++i)
        square += (x[i] - mean) * (x[i] - mean) / count;
      double r = 1 / std::sqrt(square + 1e-5), meanG = 0, meanGn = 0;
      Values g(x.size());
      for (size_t i = at; i < end; ++i) {
        n[i] = (x[i] - mean) * r;
        y[i] = n[i] * scale[i] + bias[i];
        double dy = 2 * (y[i] - target[i]) / static_cast<double>(x.size());
        dScale[i] = dy * n[i];
        dBias[i] = dy;
        g[i] = dy * scale[i];
        meanG += centre ? g[i] / count : 0;
        meanGn += g[i] * n[i] / count;
      }
      for (size_t i = at; i < end; ++i)
        dShift[i] = r * (g[i] - meanG - n[i] * meanGn);
    }
  }
};

class Fusion : public ::testing::TestWithParam<bool> {};
INSTANTIATE_TEST_SUITE_P(OnAndOff, Fusion, ::testing::Bool(),
                         [](const auto &info) { return info.param ? "on" : "off"; });

// A scale that is wider than the normalised dimension, or another one, is not
// the norm's: [2, 1] scales rows, [3] columns, [2, 3] each element.
TEST_P(Fusion, ALayerNormChainsScaleOfAnyShape) {
  const Values x{1, 2, 3, 4, 5, 6}, bias{0.5, 0, -0.25}, target{1, 0, 2, 0, 3, 1};
  struct Case {
    Ints shape;
    Values scale, spread, forward; ///< forward: without bias, by hand
  };
  const double n = 1.224736;
  for (const Case &c :
       {Case{{2, 1}, {1, 10}, {1, 1, 1, 10, 10, 10}, {-n, 0, n, -10 * n, 0, 10 * n}},
        Case{{3}, {1, 1, 2}, {1, 1, 2, 1, 1, 2}, {-n, 0, 2 * n, -n, 0, 2 * n}},
        Case{{2, 3}, {1, 2, 3, 4, 5, 6}, {1, 2, 3, 4, 5, 6}, {-n, 0, 3 * n, -4 * n, 0, 6 * n}}}) {
    SCOPED_TRACE(::testing::PrintToString(c.shape));
    Outcome got;
    ASSERT_NO_FATAL_FAILURE(
        run(normChain({2, 3}, true, c.shape, c.scale, bias), 2, x, target, GetParam(), got));
    EXPECT_THAT(got.composed, ::testing::HasSubstr("nn.layer_norm"));
    EXPECT_EQ(got.outShape, (Ints{2, 3}));
    Values withBias = c.forward, spread(6);
    for (size_t i = 0; i < 6; ++i)
      withBias[i] += spread[i] = bias[i % 3];
    expectNear(got.out, withBias, 1e-5, "out by hand");
    Expected expected(2, 3, true, x, c.spread, spread, target);
    expectNear(got.out, expected.y, 1e-6, "out");
    // The scale's gradient has its own shape: summed over what it is repeated along.
    EXPECT_EQ(got.shapes["scale"], c.shape);
    Values dScale(c.scale.size(), 0), dBias(3, 0);
    for (size_t i = 0; i < 6; ++i)
      dBias[i % 3] += expected.dBias[i], dScale[c.shape == Ints{3}      ? i % 3
                                                : c.shape == Ints{2, 1} ? i / 3
                                                                        : i] += expected.dScale[i];
    expectNear(got.gradients["scale"], dScale, 1e-5, "dscale");
    expectNear(got.gradients["bias"], dBias, 1e-5, "dbias");
    expectNear(got.gradients["shift"], expected.dShift, 1e-5, "dx");
  }
}

// One element and a scale of two: the result has two.
TEST_P(Fusion, AnRmsNormChainsLargerResult) {
  Outcome got;
  ASSERT_NO_FATAL_FAILURE(
      run(normChain({1, 1}, false, {2}, {3, 5}, {}), 1, {2}, {1, 1}, GetParam(), got));
  EXPECT_THAT(got.composed, ::testing::HasSubstr("nn.rms_norm"));
  EXPECT_EQ(got.outShape, (Ints{1, 2}));
  const double r = 1 / std::sqrt(4 + 1e-5), n = 2 * r;
  expectNear(got.out, {3 * n, 5 * n}, 1e-6, "out");
  // dy = 2 (y - 1) / 2; dx = r (g - n * (g n)) with g = dy . scale
  Values dy{3 * n - 1, 5 * n - 1};
  EXPECT_EQ(got.shapes["scale"], Ints{2});
  expectNear(got.gradients["scale"], {dy[0] * n, dy[1] * n}, 1e-6, "dscale");
  double g = dy[0] * 3 + dy[1] * 5;
  expectNear(got.gradients["shift"], {r * (g - n * g * n)}, 1e-5, "dx");
}

// A mean far above the deviations: in f32 a mean of the values themselves is off
// by more than they differ. Raised, one value of the row is subtracted first.
TEST_P(Fusion, ALayerNormChainOfALargeMean) {
  struct Case {
    Values x;
    double tolerance;
  };
  Values close;
  for (int i = 0; i < 16; ++i)
    close.push_back(static_cast<float>(10000 + i * 1e-3));
  for (const Case &c : {Case{{40000, 40001, 40002, 40003}, 1e-5}, Case{Values(256, 1234), 1e-6},
                        Case{close, 1e-3}}) {
    auto columns = static_cast<int64_t>(c.x.size());
    SCOPED_TRACE(columns);
    Outcome got;
    Values ones(c.x.size(), 1), zeros(c.x.size(), 0);
    ASSERT_NO_FATAL_FAILURE(
        run(normChain({1, columns}, true, {columns}, ones, zeros), 1, c.x, ones, GetParam(), got));
    Expected expected(1, columns, true, c.x, ones, zeros, ones);
    expectNear(got.out, expected.y, c.tolerance, "out");
    for (auto &[name, gradient] : got.gradients)
      for (double g : gradient)
        EXPECT_TRUE(std::isfinite(g)) << name;
  }
}

// GroupNorm as InstanceNormalization of reshaped groups, with a large mean too.
TEST_P(Fusion, AGroupNormChain) {
  constexpr size_t kChannels = 4, kPixels = 64, kAll = kChannels * kPixels;
  for (double mean : {0.0, 1000.0}) {
    SCOPED_TRACE(mean);
    Values x, target, scale, bias;
    for (size_t i = 0; i < kAll; ++i) {
      auto at = static_cast<double>(i), channel = static_cast<double>(i / kPixels);
      x.push_back(static_cast<float>(mean + 0.1 * std::sin(at)));
      target.push_back(std::cos(0.3 * at));
      scale.push_back(1 + 0.5 * channel);
      bias.push_back(0.25 * channel);
    }
    OnnxBuilder b(17);
    b.input("x", {"N", "4", "8", "8"});
    b.floats("shift", {1, 4, 8, 8}, Values(kAll, 0));
    b.floats("scale", {4, 1, 1}, {1, 1.5, 2, 2.5});
    b.floats("bias", {4, 1, 1}, {0, 0.25, 0.5, 0.75});
    constant(b, "ones", {2}, {1, 1});
    constant(b, "zeros", {2}, {0, 0});
    b.ints("groups", {0, 2, -1});
    b.ints("pixels", {-1, 4, 8, 8});
    b.node("Add", {"x", "shift"}, {"shifted"});
    b.node("Reshape", {"shifted", "groups"}, {"grouped"});
    b.node("InstanceNormalization", {"grouped", "ones", "zeros"}, {"normalised"});
    b.node("Reshape", {"normalised", "pixels"}, {"back"});
    b.node("Mul", {"back", "scale"}, {"scaled"});
    b.node("Add", {"scaled", "bias"});
    Outcome got;
    ASSERT_NO_FATAL_FAILURE(run(b, 1, x, target, GetParam(), got));
    EXPECT_THAT(got.composed, ::testing::HasSubstr("groups = 2"));
    Expected expected(2, kAll / 2, true, x, scale, bias, target);
    const double tolerance = 1e-5;
    expectNear(got.out, expected.y, tolerance, "out");
    Values dScale(kChannels, 0), dBias(kChannels, 0);
    for (size_t i = 0; i < kAll; ++i) {
      dScale[i / kPixels] += expected.dScale[i];
      dBias[i / kPixels] += expected.dBias[i];
    }
    EXPECT_EQ(got.shapes["scale"], (Ints{4, 1, 1}));
    expectNear(got.gradients["scale"], dScale, tolerance, "dscale");
    expectNear(got.gradients["bias"], dBias, tolerance, "dbias");
    expectNear(got.gradients["shift"], expected.dShift, tolerance, "dx");
  }
}

// A row with every key masked gives 0, with no gradient, never NaN.
TEST_P(Fusion, AnAttentionChainWithARowMasked) {
  for (double hidden : {-HUGE_VAL, -10000.0}) {
    SCOPED_TRACE(hidden);
    OnnxBuilder b(17);
    b.input("x", {"N", "2", "1"});
    b.floats("v", {1, 2, 1}, {1, 3});
    constant(b, "mask", {2, 2}, {hidden, hidden, 0, 0});
    OnnxBuilder::attribute(b.node("Transpose", {"x"}, {"kt"}), "perm", Ints{0, 2, 1});
    b.node("MatMul", {"x", "kt"}, {"scores"});
    b.node("Add", {"scores", "mask"}, {"masked"});
    OnnxBuilder::attribute(b.node("Softmax", {"masked"}, {"weights"}), "axis", int64_t{-1});
    b.node("MatMul", {"weights", "v"});
    Outcome got;
    ASSERT_NO_FATAL_FAILURE(run(b, 1, {1, 1}, {1, 1}, GetParam(), got));
    double first = std::isinf(hidden) ? 0 : 2;
    expectNear(got.out, {first, 2}, 1e-6, "out");
    // dout = out - 1; each unmasked row weighs both values by half.
    double dv = 0.5 * (2 - 1) + (std::isinf(hidden) ? 0 : 0.5 * (2 - 1));
    expectNear(got.gradients["v"], {dv, dv}, 1e-6, "dv");
  }
}

} // namespace
} // namespace diffc::test
