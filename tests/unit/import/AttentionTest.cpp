// ONNX Attention against its definition in plain loops, rotary embeddings, and
// rows that see nothing; forward and gradients compiled.
#include "tests/unit/import/OperatorCheck.h"

#include <cmath>
#include <functional>
#include <limits>

namespace diffc::test {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();

enum class Mask { None, Bool, Float };

struct Case {
  const char *name;
  int64_t opset = 23, batch = 2, heads = 2, keyHeads = 2, queries = 3, keys = 3, past = 0;
  int64_t size = 4, valueSize = 4;
  bool packed = false, causal = false;
  Mask mask = Mask::None;
  Ints maskShape = {};
  double scale = 0, softcap = 0; // 0: none given
  int64_t left = -1, right = -1, mode = -1;
  Ints valid = {}; ///< nonpad_kv_seqlen
};

int64_t count(const Ints &shape) {
  int64_t all = 1;
  for (int64_t extent : shape)
    all *= extent;
  return all;
}
std::vector<std::string> dims(const Ints &shape) {
  std::vector<std::string> texts;
  for (int64_t extent : shape)
    texts.push_back(std::to_string(extent));
  return texts;
}

/// Every third element of a boolean mask hides its key.
bool shows(int64_t element) { return element % 3 != 1; }

Ints shapeOf(const Case &c, int64_t heads, int64_t tokens, int64_t size) {
  if (c.packed)
    return {c.batch, tokens, heads * size};
  return {c.batch, heads, tokens, size};
}

OnnxBuilder modelOf(const Case &c) {
  OnnxBuilder b(c.opset);
  b.input("q", dims(shapeOf(c, c.heads, c.queries, c.size)));
  b.input("k", dims(shapeOf(c, c.keyHeads, c.keys, c.size)));
  b.input("v", dims(shapeOf(c, c.keyHeads, c.keys, c.valueSize)));
  std::vector<std::string> inputs{"q", "k", "v", "", "", "", ""}, outputs{"y"};
  if (c.mask == Mask::Float) {
    b.input("mask", dims(c.maskShape));
    inputs[3] = "mask";
  } else if (c.mask == Mask::Bool) {
    auto *mask = b.graph().add_initializer();
    mask->set_name(inputs[3] = "mask");
    mask->set_data_type(onnx::TensorProto::BOOL);
    for (int64_t extent : c.maskShape)
      mask->add_dims(extent);
    for (int64_t i = 0; i < count(c.maskShape); ++i)
      mask->add_int32_data(shows(i));
  }
  if (c.past) {
    b.input(inputs[4] = "past_k", dims({c.batch, c.keyHeads, c.past, c.size}));
    b.input(inputs[5] = "past_v", dims({c.batch, c.keyHeads, c.past, c.valueSize}));
  }
  if (!c.valid.empty())
    b.ints(inputs[6] = "valid", c.valid);
  if (c.past || c.mode >= 0)
    outputs = {"y", "present_k", "present_v"};
  if (c.mode >= 0)
    outputs.push_back("scores");
  for (size_t i = 1; i < outputs.size(); ++i)
    b.output(outputs[i]);
  while (inputs.back().empty())
    inputs.pop_back();
  auto &node = b.node("Attention", inputs, outputs);
  if (c.packed) {
    OnnxBuilder::attribute(node, "q_num_heads", c.heads);
    OnnxBuilder::attribute(node, "kv_num_heads", c.keyHeads);
  }
  if (c.causal)
    OnnxBuilder::attribute(node, "is_causal", int64_t{1});
  if (c.scale != 0)
    OnnxBuilder::attribute(node, "scale", static_cast<float>(c.scale));
  if (c.softcap != 0)
    OnnxBuilder::attribute(node, "softcap", static_cast<float>(c.softcap));
  if (c.left >= 0)
    OnnxBuilder::attribute(node, "left_window_size", c.left);
  if (c.right >= 0)
    OnnxBuilder::attribute(node, "right_window_size", c.right);
  if (c.mode >= 0)
    OnnxBuilder::attribute(node, "qk_matmul_output_mode", c.mode);
  return b;
}

std::map<std::string, Values> feedsOf(const Case &c) {
  std::map<std::string, Values> feeds;
  feeds["q"] = randomValues(c.batch * c.heads * c.queries * c.size, 1);
  feeds["k"] = randomValues(c.batch * c.keyHeads * c.keys * c.size, 2);
  feeds["v"] = randomValues(c.batch * c.keyHeads * c.keys * c.valueSize, 3);
  if (c.mask == Mask::Float)
    feeds["mask"] = randomValues(count(c.maskShape), 4);
  if (c.past) {
    feeds["past_k"] = randomValues(c.batch * c.keyHeads * c.past * c.size, 5);
    feeds["past_v"] = randomValues(c.batch * c.keyHeads * c.past * c.valueSize, 6);
  }
  return feeds;
}

/// What Attention is defined to be, one number at a time.
struct Plain {
  const Case &c;
  const std::map<std::string, Values> &feeds;
  int64_t total = c.past + c.keys;

  double at(const std::string &name, int64_t n, int64_t h, int64_t heads, int64_t t, int64_t tokens,
            int64_t i, int64_t size) const {
    const Values &values = feeds.at(name);
    if (c.packed && name.rfind("past", 0) != 0)
      return values[((n * tokens + t) * heads + h) * size + i];
    return values[((n * heads + h) * tokens + t) * size + i];
  }
  /// Element i of key or value t, counted from the start of the past.
  double cached(const std::string &name, int64_t n, int64_t h, int64_t t, int64_t i,
                int64_t size) const {
    if (t < c.past)
      return at("past_" + name, n, h, c.keyHeads, t, c.past, i, size);
    return at(name, n, h, c.keyHeads, t - c.past, c.keys, i, size);
  }
  double bias(int64_t n, int64_t h, int64_t i, int64_t j) const {
    double added = 0;
    if (c.mask != Mask::None) {
      if (j >= c.maskShape.back())
        return kNever;
      Ints place{n, h, i, j};
      int64_t flat = 0, skipped = 4 - static_cast<int64_t>(c.maskShape.size());
      for (size_t d = 0; d < c.maskShape.size(); ++d)
        flat = flat * c.maskShape[d] + (c.maskShape[d] == 1 ? 0 : place[skipped + d]);
      if (c.mask == Mask::Bool && !shows(flat))
        return kNever;
      if (c.mask == Mask::Float)
        added = feeds.at("mask")[flat];
    }
    int64_t own = i + (c.valid.empty() ? c.past : c.valid[n] - c.queries);
    bool hidden = (c.causal && j > own) || (c.left >= 0 && j < own - c.left) ||
                  (c.right >= 0 && j > own + c.right) || (!c.valid.empty() && j >= c.valid[n]);
    return hidden ? kNever : added;
  }

  /// One row: its outputs go to y, its scores, as `mode` wants them, to shown.
  void row(int64_t n, int64_t h, int64_t i, double *y, Values &shown) const {
    int64_t from = h / (c.heads / c.keyHeads);
    double scale = c.scale != 0 ? static_cast<float>(c.scale) : 1 / std::sqrt(double(c.size));
    Values scores(total), weights(total);
    double largest = kNever, sum = 0;
    for (int64_t j = 0; j < total; ++j) {
      double dot = 0;
      for (int64_t e = 0; e < c.size; ++e)
        dot += at("q", n, h, c.heads, i, c.queries, e, c.size) * cached("k", n, from, j, e, c.size);
      double raw = dot * scale;
      double capped = c.softcap != 0 ? c.softcap * std::tanh(raw / c.softcap) : raw;
      scores[j] = capped + bias(n, h, i, j);
      largest = std::max(largest, scores[j]);
      if (c.mode >= 0 && c.mode < 3)
        shown.push_back(c.mode == 0 ? raw : c.mode == 1 ? capped : scores[j]);
    }
    for (int64_t j = 0; j < total; ++j)
      sum += weights[j] = largest == kNever ? 0 : std::exp(scores[j] - largest);
    for (int64_t j = 0; j < total; ++j) {
      weights[j] /= largest == kNever ? 1 : sum;
      if (c.mode == 3)
        shown.push_back(weights[j]);
    }
    for (int64_t e = 0; e < c.valueSize; ++e) {
      y[e] = 0;
      for (int64_t j = 0; j < total; ++j)
        y[e] += weights[j] * cached("v", n, from, j, e, c.valueSize);
    }
  }
};

void expectNear(const diffrun::evaluate::Tensor &got, const Values &expected) {
  ASSERT_EQ(got.real.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i)
    if (expected[i] == kNever)
      EXPECT_EQ(got.real[i], kNever) << i;
    else
      EXPECT_NEAR(got.real[i], expected[i], 1e-6) << i;
}

class Attention : public ::testing::TestWithParam<Case> {};

TEST_P(Attention, IsWhatOnnxDefines) {
  const Case &c = GetParam();
  OnnxBuilder model = modelOf(c);
  auto feeds = feedsOf(c);
  auto got = model.run(feeds);
  ASSERT_TRUE(got.ok()) << got.status().message();

  Plain plain{c, feeds};
  Values y(c.batch * c.heads * c.queries * c.valueSize), shown;
  for (int64_t n = 0; n < c.batch; ++n)
    for (int64_t h = 0; h < c.heads; ++h)
      for (int64_t i = 0; i < c.queries; ++i) {
        int64_t place =
            c.packed ? (n * c.queries + i) * c.heads + h : (n * c.heads + h) * c.queries + i;
        plain.row(n, h, i, &y[place * c.valueSize], shown);
      }
  EXPECT_EQ((*got)[0].type.shape, shapeOf(c, c.heads, c.queries, c.valueSize));
  expectNear((*got)[0], y);
  if (c.mode >= 0) {
    EXPECT_EQ((*got)[3].type.shape, (Ints{c.batch, c.heads, c.queries, plain.total}));
    expectNear((*got)[3], shown);
  }
  if (got->size() > 1)
    for (auto [output, name, size] :
         {std::tuple(1, "k", c.size), std::tuple(2, "v", c.valueSize)}) {
      Values present;
      for (int64_t n = 0; n < c.batch; ++n)
        for (int64_t h = 0; h < c.keyHeads; ++h)
          for (int64_t t = 0; t < plain.total; ++t)
            for (int64_t e = 0; e < size; ++e)
              present.push_back(plain.cached(name, n, h, t, e, size));
      EXPECT_EQ((*got)[output].type.shape, (Ints{c.batch, c.keyHeads, plain.total, size}));
      expectNear((*got)[output], present);
    }
  // Scores of -inf have no weighted sum to differentiate.
  if (c.mode != 2)
    checkOperator(model, feeds);
}

Case withMask(Case c, Mask mask, Ints shape) {
  c.mask = mask, c.maskShape = std::move(shape);
  return c;
}

std::vector<Case> cases() {
  std::vector<Case> all;
  auto add = [&](const char *name) -> Case & {
    all.push_back({name});
    return all.back();
  };
  add("plain");
  add("packed").packed = true;
  add("causal").causal = true;
  {
    Case &c = add("otherSizes");
    c.queries = 2, c.keys = 5, c.size = 3, c.valueSize = 6, c.scale = 0.3;
  }
  {
    Case &c = add("groupedHeads");
    c.heads = 6, c.keyHeads = 2, c.batch = 1, c.packed = true, c.valueSize = 3;
  }
  {
    Case &c = add("pastAndCausal");
    c.past = 2, c.causal = true, c.queries = 2, c.keys = 2, c.valueSize = 3;
  }
  {
    Case &c = add("pastPackedGroupedSoftcap");
    c.past = 3, c.packed = true, c.heads = 4, c.keyHeads = 2, c.softcap = 0.8, c.keys = 2;
  }
  {
    Case &c = add("oneToken");
    c.queries = 1, c.keys = 1, c.batch = 1, c.heads = 1, c.keyHeads = 1, c.causal = true;
  }
  all.push_back(withMask({"floatMask2"}, Mask::Float, {3, 3}));
  all.push_back(withMask({"floatMask3OfHeads"}, Mask::Float, {2, 3, 3}));
  all.push_back(withMask({"floatMask4"}, Mask::Float, {2, 1, 1, 3}));
  all.push_back(withMask({"floatMask1"}, Mask::Float, {3}));
  all.push_back(withMask({"boolMask"}, Mask::Bool, {2, 1, 3, 3}));
  {
    Case c{"boolMaskCausal"};
    c.causal = true;
    all.push_back(withMask(c, Mask::Bool, {3, 3}));
    c = {"shortFloatMask"};
    c.keys = 5;
    all.push_back(withMask(c, Mask::Float, {3, 3}));
    c = {"shortBoolMask"};
    c.keys = 5;
    all.push_back(withMask(c, Mask::Bool, {1, 1, 3, 4}));
    c = {"maskPastSoftcapScores"};
    c.past = 1, c.softcap = 2, c.mode = 2;
    all.push_back(withMask(c, Mask::Float, {3, 4}));
    c = {"scoresWithCausalMinusInf"};
    c.causal = true, c.mode = 2;
    all.push_back(c);
  }
  for (int64_t mode : {0, 1, 3}) {
    static const char *const names[] = {"scoresRaw", "scoresCapped", "", "scoresAfterSoftmax"};
    Case c{names[mode]};
    c.mode = mode, c.softcap = 1.5, c.causal = true, c.heads = 4;
    all.push_back(withMask(c, Mask::Bool, {3, 3}));
  }
  {
    // The second sample's first two queries come before its first key.
    Case c{"validKeys"};
    c.opset = 24, c.keys = 5, c.valid = {4, 1};
    all.push_back(c);
    c.name = "validKeysCausal", c.causal = true;
    all.push_back(c);
    c.name = "validKeysCausalShortMask", c.opset = 24, c.valid = {4, 2};
    all.push_back(withMask(c, Mask::Float, {3, 4}));
    c = {"window"};
    c.opset = 25, c.queries = 4, c.keys = 4, c.left = 1, c.right = 0;
    all.push_back(c);
    c.name = "windowPastCausal", c.past = 2, c.causal = true, c.right = -1;
    all.push_back(c);
    c = {"windowValid"};
    c.opset = 25, c.keys = 5, c.left = 2, c.right = 1, c.valid = {5, 3};
    all.push_back(c);
  }
  return all;
}

INSTANTIATE_TEST_SUITE_P(Cases, Attention, ::testing::ValuesIn(cases()),
                         [](const auto &info) { return std::string(info.param.name); });

// A row whose keys are all masked is 0, without a gradient; -10000 only makes
// the row as it would be without a mask.
TEST(MaskedRow, IsZeroWithoutGradient) {
  for (double hidden : {kNever, -10000.0})
    for (Ints shape : {Ints{2, 2}, Ints{1, 1, 2, 2}})
      for (bool cap : {false, true}) {
        SCOPED_TRACE(hidden);
        OnnxBuilder b(23);
        for (const char *name : {"q", "k", "v"})
          b.input(name, {"1", "1", "2", "1"});
        b.floats("mask", shape, {hidden, hidden, 0, 0});
        auto &node = b.node("Attention", {"q", "k", "v", "mask"});
        if (cap)
          OnnxBuilder::attribute(node, "softcap", 50.0f);
        std::map<std::string, Values> feeds{
            {"q", {1, 1}}, {"k", {1, 1}}, {"v", {1, 3}}, {"mask", {hidden, hidden, 0, 0}}};
        double first = hidden == kNever ? 0 : 2, share = hidden == kNever ? 0.5 : 1;
        expectValues(b.run(feeds), {1, 1, 2, 1}, {first, 2});
        // dk = p (v - out) q of each row that sees something, through the cap.
        double rows = hidden == kNever ? 1 : 2, slope = 1 - std::pow(std::tanh(1 / 50.0), 2);
        double dk = 0.5 * rows * (cap ? slope : 1);
        const std::map<std::string, Values> expected{
            {"q", {0, 0}}, {"k", {-dk, dk}}, {"v", {share, share}}};
        for (const auto &[name, want] : expected) {
          auto gradient = gradientOf(b, name, feeds, {1, 1});
          ASSERT_TRUE(gradient.ok()) << gradient.status().message();
          for (size_t i = 0; i < 2; ++i)
            EXPECT_NEAR((*gradient)[i], want[i], 1e-6) << name << i; // 1/50 is an f32
        }
        auto ofMask = gradientOf(b, "mask", feeds, {1, 1});
        ASSERT_TRUE(ofMask.ok()) << ofMask.status().message();
        // d mask of row 1: p (v - out) = .5 (1 - 2), .5 (3 - 2)
        double half = hidden == kNever ? 0 : 0.5;
        const double wanted[] = {-half, half, -0.5, 0.5};
        for (size_t i = 0; i < 4; ++i)
          EXPECT_NEAR((*ofMask)[i], wanted[i], 1e-9) << i;
      }
}

TEST(MaskedRow, Compiled) {
  OnnxBuilder b(23);
  for (const char *name : {"q", "k", "v"})
    b.input(name, {"1", "1", "2", "1"});
  b.floats("mask", {2, 2}, {kNever, kNever, 0, 0});
  b.node("Attention", {"q", "k", "v", "mask"});
  checkOperator(b, {{"q", {1, 1}}, {"k", {1, 1}}, {"v", {1, 3}}, {"mask", {kNever, kNever, 0, 0}}});
}

// In half precision too, whose least number is -65504.
TEST(MaskedRow, CompiledInHalfPrecision) {
  OnnxBuilder b(23);
  std::vector<std::string> half;
  for (std::string name : {"q", "k", "v"}) {
    b.input(name, {"1", "1", "2", "1"});
    auto &node = b.node("Cast", {name}, {half.emplace_back(name + "16")});
    OnnxBuilder::attribute(node, "to", int64_t{onnx::TensorProto::FLOAT16});
  }
  auto *mask = b.graph().add_initializer();
  mask->set_name(half.emplace_back("mask"));
  mask->set_data_type(onnx::TensorProto::BOOL);
  for (int64_t extent : {2, 2})
    mask->add_dims(extent);
  for (int shown : {0, 0, 1, 1})
    mask->add_int32_data(shown);
  b.node("Attention", half, {"z"});
  OnnxBuilder::attribute(b.node("Cast", {"z"}), "to", int64_t{onnx::TensorProto::FLOAT});
  auto compiled = runCompiled(b, {{"q", {1, 1}}, {"k", {1, 1}}, {"v", {1, 3}}});
  ASSERT_TRUE(compiled.ok()) << compiled.status().message();
  EXPECT_EQ((*compiled)[0].real, (std::vector<double>{0, 2}));
  for (const auto &result : *compiled)
    for (double value : result.real)
      EXPECT_TRUE(std::isfinite(value));
}

//===----------------------------------------------------------------------===//
// Rotary embedding
//===----------------------------------------------------------------------===//

struct Rotary {
  const char *name;
  bool packed, interleaved, positions;
  int64_t turned; ///< 0: the whole head
};

class RotaryEmbedding : public ::testing::TestWithParam<Rotary> {};

TEST_P(RotaryEmbedding, TurnsPairs) {
  const Rotary &c = GetParam();
  constexpr int64_t kBatch = 2, kHeads = 3, kTokens = 4, kSize = 6, kRows = 7;
  int64_t turned = c.turned ? c.turned : kSize, half = turned / 2;
  const Ints positions{3, 0, 6, 1, 2, 2, 5, 4};
  OnnxBuilder b(23);
  Ints shape =
      c.packed ? Ints{kBatch, kTokens, kHeads * kSize} : Ints{kBatch, kHeads, kTokens, kSize};
  b.input("x", dims(shape));
  Ints table = c.positions ? Ints{kRows, half} : Ints{kBatch, kTokens, half};
  b.input("cos", dims(table));
  b.input("sin", dims(table));
  std::vector<std::string> inputs{"x", "cos", "sin"};
  if (c.positions) {
    auto *ids = b.graph().add_initializer();
    ids->set_name("ids");
    ids->set_data_type(onnx::TensorProto::INT64);
    ids->add_dims(kBatch), ids->add_dims(kTokens);
    for (int64_t id : positions)
      ids->add_int64_data(id);
    inputs.push_back("ids");
  }
  auto &node = b.node("RotaryEmbedding", inputs);
  OnnxBuilder::attribute(node, "interleaved", int64_t{c.interleaved});
  OnnxBuilder::attribute(node, "rotary_embedding_dim", c.turned);
  if (c.packed)
    OnnxBuilder::attribute(node, "num_heads", kHeads);
  std::map<std::string, Values> feeds{{"x", randomValues(count(shape), 1)},
                                      {"cos", randomValues(count(table), 2)},
                                      {"sin", randomValues(count(table), 3)}};
  Values expected = feeds["x"];
  for (int64_t n = 0; n < kBatch; ++n)
    for (int64_t h = 0; h < kHeads; ++h)
      for (int64_t t = 0; t < kTokens; ++t)
        for (int64_t p = 0; p < half; ++p) {
          int64_t head = c.packed ? (n * kTokens + t) * kHeads + h : (n * kHeads + h) * kTokens + t;
          int64_t one = head * kSize + (c.interleaved ? 2 * p : p);
          int64_t other = head * kSize + (c.interleaved ? 2 * p + 1 : p + half);
          int64_t row = n * kTokens + t;
          int64_t angle = (c.positions ? positions[row] : row) * half + p;
          double x = feeds["x"][one], y = feeds["x"][other];
          double cosine = feeds["cos"][angle], sine = feeds["sin"][angle];
          expected[one] = x * cosine - y * sine;
          expected[other] = x * sine + y * cosine;
        }
  expectValues(b.run(feeds), shape, expected);
  checkOperator(b, feeds);
}

INSTANTIATE_TEST_SUITE_P(Cases, RotaryEmbedding,
                         ::testing::Values(Rotary{"plain", false, false, false, 0},
                                           Rotary{"positions", false, false, true, 0},
                                           Rotary{"packed", true, false, true, 0},
                                           Rotary{"neighbours", false, true, true, 0},
                                           Rotary{"partOfTheHead", false, false, false, 4},
                                           Rotary{"packedNeighboursPart", true, true, true, 2}),
                         [](const auto &info) { return std::string(info.param.name); });

//===----------------------------------------------------------------------===//
// Refusals
//===----------------------------------------------------------------------===//

TEST(AttentionRefused, SaysWhatDoesNotFit) {
  auto refused = [](Case c, const std::function<void(OnnxBuilder &)> &change,
                    const std::string &what) {
    OnnxBuilder b = modelOf(c);
    change(b);
    expectError(b.run(feedsOf(c)), {"Attention-", what});
  };
  auto attribute = [](const char *name, int64_t value) {
    return [=](OnnxBuilder &b) { OnnxBuilder::attribute(*b.graph().mutable_node(0), name, value); };
  };
  auto nothing = [](OnnxBuilder &) {};
  Case c{"refused"};
  c.packed = true;
  auto headless = [](OnnxBuilder &b) { b.graph().mutable_node(0)->clear_attribute(); };
  refused(c, headless, "need q_num_heads");
  c = {"refused"}, c.heads = 3;
  refused(c, nothing, "3 heads of Q are no multiple of 2");
  c = {"refused"}, c.past = 1;
  refused(
      c, [](OnnxBuilder &b) { b.graph().mutable_node(0)->set_input(5, ""); }, "go together");
  c = {"refused"};
  refused(withMask(c, Mask::Float, {3, 4}), nothing, "longer than the keys");
  refused(withMask(c, Mask::Float, {2, 3}), nothing, "does not broadcast");
  refused(c, attribute("left_window_size", -2), "window");
  refused(c, attribute("softmax_precision", 7), "no float type");
  c.valid = {1, 2, 3}, c.opset = 24;
  refused(c, nothing, "one i64 per sample");
  c = {"refused"}, c.mode = 4;
  refused(c, nothing, "qk_matmul_output_mode");
}

} // namespace
} // namespace diffc::test
