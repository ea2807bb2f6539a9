// Normalisations with statistics and of large means; gated, recurrent and
// cache operators of sequence models.
#include "compiler/import/NodeImport.h"
#include "tests/unit/import/OperatorCheck.h"

#include <cmath>

namespace diffc::test {
namespace {

std::vector<std::string> dims(const Ints &shape) {
  std::vector<std::string> texts;
  for (int64_t extent : shape)
    texts.push_back(std::to_string(extent));
  return texts;
}

//===----------------------------------------------------------------------===//
// Normalisations
//===----------------------------------------------------------------------===//

struct Norm {
  const char *name, *op;
  int64_t axis;
  Ints scale; ///< shape; what it is not the normalised dimensions' broadcasts
  bool bias = false, statistics = false;
};

class Norms : public ::testing::TestWithParam<Norm> {};

TEST_P(Norms, EveryAxisAndScale) {
  const Norm &c = GetParam();
  const Ints shape{2, 3, 4};
  OnnxBuilder b(23);
  b.input("x", dims(shape));
  b.input("scale", dims(c.scale));
  std::vector<std::string> inputs{"x", "scale"}, outputs{"y"};
  if (c.bias)
    b.input(inputs.emplace_back("bias"), dims(c.scale));
  if (c.statistics)
    for (const char *name : {"mean", "inverse"})
      b.output(outputs.emplace_back(name));
  auto &node = b.node(c.op, inputs, outputs);
  OnnxBuilder::attribute(node, "axis", c.axis);
  OnnxBuilder::attribute(node, "epsilon", 1e-3f);
  int64_t entries = 1;
  for (int64_t extent : c.scale)
    entries *= extent;
  std::map<std::string, Values> feeds{{"x", randomValues(24, 1)},
                                      {"scale", randomValues(entries, 2)}};
  if (c.bias)
    feeds["bias"] = randomValues(entries, 3);

  int64_t axis = c.axis < 0 ? c.axis + 3 : c.axis, row = 1;
  for (int64_t d = axis; d < 3; ++d)
    row *= shape[d];
  Values y(24), means, inverses;
  for (int64_t first = 0; first < 24; first += row) {
    double mean = 0, square = 0;
    for (int64_t i = first; i < first + row; ++i)
      mean += feeds["x"][i] / static_cast<double>(row);
    if (std::string(c.op) == "RMSNormalization")
      mean = 0;
    for (int64_t i = first; i < first + row; ++i)
      square += std::pow(feeds["x"][i] - mean, 2) / static_cast<double>(row);
    means.push_back(mean);
    inverses.push_back(1 / std::sqrt(square + 1e-3));
    for (int64_t i = first; i < first + row; ++i) {
      // The affine entry of element (p, q, r), aligned at the end.
      const int64_t place[] = {i / 12, i / 4 % 3, i % 4};
      int64_t entry = 0;
      for (size_t d = 0; d < c.scale.size(); ++d)
        entry = entry * c.scale[d] + (c.scale[d] == 1 ? 0 : place[3 - c.scale.size() + d]);
      y[i] = (feeds["x"][i] - mean) * inverses.back() * feeds["scale"][entry];
      if (c.bias)
        y[i] += feeds["bias"][entry];
    }
  }
  auto got = b.run(feeds);
  expectValues(got, shape, y, 2e-6);
  if (c.statistics) {
    ASSERT_EQ(got->size(), 3u);
    Ints kept = shape;
    for (int64_t d = axis; d < 3; ++d)
      kept[d] = 1;
    for (auto [i, expected] : {std::pair(1, means), std::pair(2, inverses)}) {
      EXPECT_EQ((*got)[i].type.shape, kept);
      ASSERT_EQ((*got)[i].real.size(), expected.size());
      for (size_t k = 0; k < expected.size(); ++k)
        EXPECT_NEAR((*got)[i].real[k], expected[k], 2e-6);
    }
  }
  checkOperator(b, feeds);
}

INSTANTIATE_TEST_SUITE_P(
    Cases, Norms,
    ::testing::Values(Norm{"layerLast", "LayerNormalization", -1, {4}, true, true},
                      Norm{"layerTwo", "LayerNormalization", 1, {3, 4}, true, true},
                      Norm{"layerAll", "LayerNormalization", -3, {2, 3, 4}, false, true},
                      Norm{"layerScalePerRow", "LayerNormalization", 2, {3, 1}, true},
                      Norm{"layerScaleOfOne", "LayerNormalization", 1, {1}, true},
                      Norm{"layerTailOnly", "LayerNormalization", 1, {4}, true, true},
                      Norm{"rmsLast", "RMSNormalization", -1, {4}},
                      Norm{"rmsTwo", "RMSNormalization", 1, {3, 4}},
                      Norm{"rmsAll", "RMSNormalization", 0, {2, 3, 4}},
                      Norm{"rmsTailOnly", "RMSNormalization", 1, {4}},
                      Norm{"rmsScalePerRow", "RMSNormalization", 2, {2, 1, 1}}),
    [](const auto &info) { return std::string(info.param.name); });

/// A norm of one row of f32 numbers without a scale that does anything.
OnnxBuilder normOf(const char *op, const Ints &shape, int64_t entries) {
  OnnxBuilder b(21);
  b.input("x", dims(shape));
  b.floats("scale", {entries}, Values(static_cast<size_t>(entries), 1));
  b.floats("bias", {entries}, Values(static_cast<size_t>(entries), 0));
  b.node(op, {"x", "scale", "bias"});
  return b;
}
std::map<std::string, Values> feedsOf(const Values &x, int64_t entries) {
  return {{"x", x},
          {"scale", Values(static_cast<size_t>(entries), 1)},
          {"bias", Values(static_cast<size_t>(entries), 0)}};
}

// Where the mean is large, f32 kernels must not lose what is left of it.
TEST(LargeMean, RowsAreNormalisedExactly) {
  Values close;
  for (int i = 0; i < 16; ++i)
    close.push_back(static_cast<float>(10000 + i * 1e-3));
  const std::pair<Values, bool> rows[] = {
      {{40000, 40001, 40002, 40003}, true}, {Values(256, 1234), false}, {close, true}};
  for (const auto &[x, varies] : rows) {
    int64_t n = static_cast<int64_t>(x.size());
    OnnxBuilder b = normOf("LayerNormalization", {1, n}, n);
    auto feeds = feedsOf(x, n);
    auto compiled = runCompiled(b, feeds);
    ASSERT_TRUE(compiled.ok()) << compiled.status().message();
    double mean = 0, square = 0;
    for (double value : x)
      mean += value / static_cast<double>(n);
    for (double value : x)
      square += (value - mean) * (value - mean) / static_cast<double>(n);
    for (size_t i = 0; i < x.size(); ++i) {
      double expected = (x[i] - mean) / std::sqrt(square + 1e-5);
      EXPECT_NEAR((*compiled)[0].real[i], expected, varies ? 1e-3 : 1e-2) << i;
    }
    // Outputs, loss and gradients, each number finite.
    for (const auto &result : *compiled)
      for (double value : result.real)
        EXPECT_TRUE(std::isfinite(value));
  }
}

TEST(LargeMean, Groups) {
  OnnxBuilder b = normOf("GroupNormalization", {1, 4, 8, 8}, 4);
  OnnxBuilder::attribute(*b.graph().mutable_node(0), "num_groups", int64_t{2});
  Values x;
  for (int i = 0; i < 256; ++i)
    x.push_back(static_cast<float>(1000 + 0.1 * std::sin(i)));
  auto compiled = runCompiled(b, feedsOf(x, 4));
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  for (size_t group = 0; group < 2; ++group) {
    double mean = 0, square = 0;
    for (size_t i = 0; i < 128; ++i)
      mean += x[group * 128 + i] / 128;
    for (size_t i = 0; i < 128; ++i)
      square += std::pow(x[group * 128 + i] - mean, 2) / 128;
    for (size_t i = group * 128; i < (group + 1) * 128; ++i)
      EXPECT_NEAR((*compiled)[0].real[i], (x[i] - mean) / std::sqrt(square + 1e-5), 1e-3) << i;
  }
  for (const auto &result : *compiled)
    for (double value : result.real)
      EXPECT_TRUE(std::isfinite(value));
}

// Half precision normalises in f32, as stash_type says by default: squares do not
// overflow. A wider input keeps its type.
TEST(StashType, IsWhatTheNormComputesIn) {
  const std::tuple<const char *, int32_t, int64_t, unsigned> cases[] = {
      {"LayerNormalization", onnx::TensorProto::FLOAT16, 0, 32},
      {"RMSNormalization", onnx::TensorProto::FLOAT16, 0, 32},
      {"LayerNormalization", onnx::TensorProto::FLOAT, onnx::TensorProto::DOUBLE, 64},
      {"LayerNormalization", onnx::TensorProto::DOUBLE, 0, 64},
      {"RMSNormalization", onnx::TensorProto::FLOAT, onnx::TensorProto::FLOAT16, 32}};
  for (auto [op, type, stash, bits] : cases) {
    OnnxBuilder b(23);
    b.input("x", {"1", "4"});
    b.input("scale", {"4"});
    for (auto &input : *b.graph().mutable_input())
      input.mutable_type()->mutable_tensor_type()->set_elem_type(type);
    auto &node = b.node(op, {"x", "scale"});
    if (stash)
      OnnxBuilder::attribute(node, "stash_type", stash);
    auto file = ModelFile::open(b.save());
    ASSERT_TRUE(file.ok()) << file.status().message();
    mlir::MLIRContext context;
    auto module = importModel(context, *file, {});
    ASSERT_TRUE(module.ok()) << module.status().message();
    int norms = 0;
    (*module)->walk([&](mlir::Operation *norm) {
      if (!mlir::isa<nn::LayerNormOp, nn::RmsNormOp>(norm))
        return;
      ++norms;
      EXPECT_EQ(nn::tensorType(norm->getOperand(0)).getElementTypeBitWidth(), bits) << op;
    });
    EXPECT_EQ(norms, 1);
    (*module)->walk([&, type = type](train::ReturnOp end) {
      EXPECT_EQ(nn::tensorType(end.getOperand(0)).getElementType(), elementType(context, type));
    });
  }
}

//===----------------------------------------------------------------------===//
// Sequence models
//===----------------------------------------------------------------------===//

TEST(SwiGlu, GatesByItsOwnSigmoid) {
  for (double alpha : {1.0, 1.7}) {
    OnnxBuilder b(28);
    b.input("a", {"2", "3"});
    b.input("b", {"2", "3"});
    auto &node = b.node("SwiGLU", {"a", "b"});
    if (alpha != 1)
      OnnxBuilder::attribute(node, "alpha", static_cast<float>(alpha));
    std::map<std::string, Values> feeds{{"a", randomValues(6, 1)}, {"b", randomValues(6, 2)}};
    Values expected;
    for (size_t i = 0; i < 6; ++i)
      expected.push_back(feeds["a"][i] / (1 + std::exp(-alpha * feeds["a"][i])) * feeds["b"][i]);
    expectValues(b.run(feeds), {2, 3}, expected);
    checkOperator(b, feeds);
  }
}

TEST(CausalConvWithState, SeesItselfAndWhatCameBefore) {
  constexpr int64_t kBatch = 2, kChannels = 3, kLength = 5;
  for (int64_t kernel : {1, 2, 4, 7})
    for (bool past : {false, true}) {
      SCOPED_TRACE(kernel);
      OnnxBuilder b(27);
      b.input("x", dims({kBatch, kChannels, kLength}));
      b.input("w", dims({kChannels, 1, kernel}));
      b.input("b", dims({kChannels}));
      std::vector<std::string> inputs{"x", "w", "b"};
      int64_t before = kernel - 1;
      std::map<std::string, Values> feeds{{"x", randomValues(kBatch * kChannels * kLength, 1)},
                                          {"w", randomValues(kChannels * kernel, 2)},
                                          {"b", randomValues(kChannels, 3)}};
      if (past && before) {
        b.input(inputs.emplace_back("past"), dims({kBatch, kChannels, before}));
        feeds["past"] = randomValues(kBatch * kChannels * before, 4);
      }
      std::vector<std::string> outputs{"y"};
      if (before)
        b.output(outputs.emplace_back("state"));
      auto &node = b.node("CausalConvWithState", inputs, outputs);
      if (past)
        OnnxBuilder::attribute(node, "activation", "silu");
      Values y, state;
      for (int64_t row = 0; row < kBatch * kChannels; ++row) {
        auto element = [&](int64_t t) { // t < 0: the past
          if (t >= 0)
            return feeds["x"][row * kLength + t];
          return feeds.count("past") ? feeds["past"][row * before + before + t] : 0.0;
        };
        for (int64_t t = 0; t < kLength; ++t) {
          double sum = feeds["b"][row % kChannels];
          for (int64_t tap = 0; tap < kernel; ++tap)
            sum += feeds["w"][row % kChannels * kernel + tap] * element(t - before + tap);
          y.push_back(past ? sum / (1 + std::exp(-sum)) : sum);
        }
        for (int64_t t = kLength - before; t < kLength; ++t)
          state.push_back(element(t));
      }
      auto got = b.run(feeds);
      expectValues(got, {kBatch, kChannels, kLength}, y);
      if (before) {
        ASSERT_EQ((*got)[1].real.size(), state.size());
        for (size_t i = 0; i < state.size(); ++i)
          EXPECT_NEAR((*got)[1].real[i], state[i], 1e-6);
      }
      checkOperator(b, feeds);
    }
}

TEST(LinearAttention, FollowsEveryRule) {
  constexpr int64_t kBatch = 2, kTokens = 3, kHeads = 4, kKeyHeads = 2, kKey = 3, kValue = 2;
  for (std::string rule : {"linear", "gated", "delta", "gated_delta"})
    for (bool wide : {false, true}) { // a decay per element, one beta for all, a past
      SCOPED_TRACE(rule);
      bool gated = rule.find("gated") == 0, delta = rule.find("delta") != std::string::npos;
      OnnxBuilder b(27);
      std::vector<std::string> inputs{"q", "k", "v", "", "", ""};
      std::map<std::string, Values> feeds;
      auto feed = [&](const char *name, const Ints &shape) {
        int64_t count = 1;
        for (int64_t extent : shape)
          count *= extent;
        feeds[name] = randomValues(count, static_cast<uint32_t>(feeds.size() + 11));
        b.input(name, dims(shape));
      };
      feed("q", {kBatch, kTokens, kHeads * kKey});
      feed("k", {kBatch, kTokens, kKeyHeads * kKey});
      feed("v", {kBatch, kTokens, kKeyHeads * kValue});
      int64_t decays = wide ? kKey : 1, betas = wide ? 1 : kKeyHeads;
      if (wide)
        feed((inputs[3] = "past").c_str(), {kBatch, kKeyHeads, kKey, kValue});
      if (gated)
        feed((inputs[4] = "decay").c_str(), {kBatch, kTokens, kKeyHeads * decays});
      if (delta)
        feed((inputs[5] = "beta").c_str(), {kBatch, kTokens, betas});
      while (inputs.back().empty())
        inputs.pop_back();
      b.output("state");
      auto &node = b.node("LinearAttention", inputs, {"y", "state"});
      OnnxBuilder::attribute(node, "q_num_heads", kHeads);
      OnnxBuilder::attribute(node, "kv_num_heads", kKeyHeads);
      OnnxBuilder::attribute(node, "update_rule", rule.c_str());
      double scale = wide ? 0.5 : 1 / std::sqrt(double(kKey));
      if (wide)
        OnnxBuilder::attribute(node, "scale", 0.5f);

      Values y(kBatch * kTokens * kHeads * kValue), states;
      for (int64_t n = 0; n < kBatch; ++n)
        for (int64_t h = 0; h < kKeyHeads; ++h) {
          double state[kKey][kValue];
          for (int64_t d = 0; d < kKey; ++d)
            for (int64_t e = 0; e < kValue; ++e)
              state[d][e] = wide ? feeds["past"][((n * kKeyHeads + h) * kKey + d) * kValue + e] : 0;
          for (int64_t t = 0; t < kTokens; ++t) {
            int64_t row = n * kTokens + t, head = row * kKeyHeads + h;
            for (int64_t d = 0; gated && d < kKey; ++d)
              for (double &entry : state[d])
                entry *= std::exp(feeds["decay"][head * decays + (wide ? d : 0)]);
            double change[kValue];
            for (int64_t e = 0; e < kValue; ++e) {
              double known = 0;
              for (int64_t d = 0; d < kKey; ++d)
                known += state[d][e] * feeds["k"][head * kKey + d];
              double v = feeds["v"][head * kValue + e];
              change[e] = delta ? feeds["beta"][wide ? row : head] * (v - known) : v;
            }
            for (int64_t d = 0; d < kKey; ++d)
              for (int64_t e = 0; e < kValue; ++e)
                state[d][e] += feeds["k"][head * kKey + d] * change[e];
            for (int64_t g = 0; g < kHeads / kKeyHeads; ++g)
              for (int64_t e = 0; e < kValue; ++e) {
                int64_t reader = row * kHeads + h * (kHeads / kKeyHeads) + g;
                for (int64_t d = 0; d < kKey; ++d)
                  y[reader * kValue + e] += scale * state[d][e] * feeds["q"][reader * kKey + d];
              }
          }
          for (auto &line : state)
            states.insert(states.end(), line, line + kValue);
        }
      auto got = b.run(feeds);
      expectValues(got, {kBatch, kTokens, kHeads * kValue}, y);
      ASSERT_EQ((*got)[1].real.size(), states.size());
      for (size_t i = 0; i < states.size(); ++i)
        EXPECT_NEAR((*got)[1].real[i], states[i], 1e-6);
      checkOperator(b, feeds);
    }
}

TEST(TensorScatter, WritesEachSampleAtItsPlace) {
  constexpr int64_t kBatch = 3, kHeads = 2, kPlaces = 5, kCount = 2, kSize = 2;
  for (bool circular : {false, true})
    for (bool last : {false, true}) { // the axis
      OnnxBuilder b(24);
      Ints cache =
          last ? Ints{kBatch, kHeads, kSize, kPlaces} : Ints{kBatch, kHeads, kPlaces, kSize};
      Ints update = cache;
      update[last ? 3 : 2] = kCount;
      b.input("cache", dims(cache));
      b.input("update", dims(update));
      Ints starts = circular ? Ints{4, -6, 7} : Ints{3, 0, 1};
      b.ints("starts", starts);
      auto &node = b.node("TensorScatter", {"cache", "update", "starts"});
      OnnxBuilder::attribute(node, "mode", circular ? "circular" : "linear");
      if (last)
        OnnxBuilder::attribute(node, "axis", int64_t{3});
      std::map<std::string, Values> feeds{
          {"cache", randomValues(kBatch * kHeads * kPlaces * kSize, 1)},
          {"update", randomValues(kBatch * kHeads * kCount * kSize, 2)}};
      Values expected = feeds["cache"];
      for (int64_t n = 0; n < kBatch; ++n)
        for (int64_t h = 0; h < kHeads; ++h)
          for (int64_t i = 0; i < kCount; ++i)
            for (int64_t e = 0; e < kSize; ++e) {
              int64_t place = ((starts[n] + i) % kPlaces + kPlaces) % kPlaces, row = n * kHeads + h;
              auto at = [&](int64_t p, int64_t places) {
                return last ? (row * kSize + e) * places + p : (row * places + p) * kSize + e;
              };
              expected[at(place, kPlaces)] = feeds["update"][at(i, kCount)];
            }
      expectValues(b.run(feeds), cache, expected);
      checkOperator(b, feeds);
    }
}

TEST(SequenceRefused, SaysWhatDoesNotFit) {
  auto refused = [](const char *op, const std::vector<Ints> &shapes, const std::string &attribute,
                    const std::string &what) {
    OnnxBuilder b(28);
    std::vector<std::string> inputs;
    for (const Ints &shape : shapes)
      b.input(inputs.emplace_back("i" + std::to_string(inputs.size())), dims(shape));
    auto &node = b.node(op, inputs);
    if (!attribute.empty())
      OnnxBuilder::attribute(node, attribute, "other");
    expectError(b.run({}), {op, what});
  };
  refused("SwiGLU", {{2, 3}, {1, 3}}, "", "same type and shape");
  refused("CausalConvWithState", {{1, 2, 4}, {3, 1, 2}}, "", "[3, 1, 2]");
  refused("CausalConvWithState", {{1, 2, 4}, {2, 1, 2}}, "activation", "\"other\"");
  refused("LinearAttention", {{1, 2, 4}, {1, 2, 4}, {1, 2, 4}}, "update_rule", "\"other\"");
  refused("LinearAttention", {{1, 2, 4}, {1, 2, 4}, {1, 2, 4}}, "", "wants a decay and a beta");
  refused("TensorScatter", {{1, 4, 2}, {1, 5, 2}}, "", "no longer on the axis");
  refused("TensorScatter", {{1, 4, 2}, {1, 2, 2}}, "mode", "\"other\"");
}

} // namespace
} // namespace diffc::test
