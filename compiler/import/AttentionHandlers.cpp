// Import of attention and of the rotation of its queries and keys.
#include "compiler/import/NodeImport.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// [B, T, heads * d] as [B, heads, T, d].
Value splitHeads(OpBuilder &b, Value packed, int64_t heads) {
  ArrayRef<int64_t> shape = tensorType(packed).getShape();
  return nn::transpose(b, nn::reshape(b, packed, {shape[0], shape[1], heads, shape[2] / heads}),
                       {0, 2, 1, 3});
}

/// [B, heads, T, d] as [B, T, heads * d].
Value joinHeads(OpBuilder &b, Value split) {
  ArrayRef<int64_t> shape = tensorType(split).getShape();
  SmallVector<int64_t> packed{shape[0], shape[2], shape[1] * shape[3]};
  return nn::reshape(b, nn::transpose(b, split, {0, 2, 1, 3}), packed);
}

/// ONNX Attention of opsets 23 to 25.
class Attention {
public:
  explicit Attention(NodeImport &in) : in(in), b(in.builder), loc(in.loc) {}

  Outcome build() {
    DIFFRUN_RETURN_IF_ERROR(readOperands());
    DIFFRUN_RETURN_IF_ERROR(readCache());
    if (in.operand(3))
      DIFFRUN_RETURN_IF_ERROR(readMask());
    DIFFRUN_RETURN_IF_ERROR(readPositions());
    DIFFRUN_ASSIGN(Type softmaxType, softmaxPrecision());
    bool wantsScores = in.node.output_size() > 3 && !in.node.output(3).empty();
    double softcap = in.real("softcap", 0);
    NodeImport::Values results(1);
    if (wantsScores || softcap > 0 || softmaxType != element) {
      int64_t mode = in.integer("qk_matmul_output_mode", 0);
      if (mode < 0 || mode > 3)
        return in.fail("qk_matmul_output_mode must be 0, 1, 2 or 3");
      Value scores;
      results[0] = inSteps(softcap, softmaxType, mode, scores);
      results.append({presentKey, presentValue, scores});
    } else {
      bool causal = isPlainCausal();
      results[0] = b.create<AttentionOp>(loc, q, repeated(k), repeated(v), bias(causal),
                                         APFloat(scale), causal);
      results.append({presentKey, presentValue});
    }
    if (packed)
      results[0] = joinHeads(b, results[0]);
    return results;
  }

private:
  int64_t queries() const { return tensorType(q).getDimSize(2); }
  int64_t keys() const { return tensorType(k).getDimSize(2); }

  Status readOperands() {
    q = in.operand(0), k = in.operand(1), v = in.operand(2);
    element = in.type(0).getElementType();
    int64_t rank = in.type(0).getRank();
    if ((rank != 3 && rank != 4) || in.type(1).getRank() != rank || in.type(2).getRank() != rank)
      return in.fail("Q, K and V must all have 3 or all have 4 dimensions");
    if (!isa<FloatType>(element) || in.type(1).getElementType() != element ||
        in.type(2).getElementType() != element)
      return in.fail("Q, K and V must have one float type");
    packed = rank == 3;
    if (packed) {
      int64_t heads[] = {in.integer("q_num_heads", 0), in.integer("kv_num_heads", 0)};
      for (auto [i, operand] : llvm::enumerate(std::array{&q, &k, &v})) {
        int64_t count = heads[i > 0];
        if (count < 1)
          return in.fail("operands of 3 dimensions need q_num_heads and kv_num_heads");
        if (in.type(i).getDimSize(2) % count)
          return in.fail(std::to_string(count) + " heads do not divide input " + std::to_string(i) +
                         "'s last dimension, " + std::to_string(in.type(i).getDimSize(2)));
        *operand = splitHeads(b, *operand, count);
      }
    }
    auto qs = tensorType(q).getShape(), ks = tensorType(k).getShape(),
         vs = tensorType(v).getShape();
    if (qs[0] != ks[0] || ks.take_front(3) != vs.take_front(3) || qs[3] != ks[3])
      return in.fail("Q, K and V differ in batch, tokens, heads or head size");
    if (ks[1] == 0 || qs[1] % ks[1])
      return in.fail(std::to_string(qs[1]) + " heads of Q are no multiple of " +
                     std::to_string(ks[1]) + " of K and V");
    scale = in.real("scale", 1.0 / std::sqrt(static_cast<double>(qs[3])));
    return {};
  }

  /// past_key and past_value go before K and V.
  Status readCache() {
    Value pastKey = in.operand(4), pastValue = in.operand(5);
    if (!pastKey != !pastValue)
      return in.fail("past_key and past_value go together");
    if (pastKey) {
      auto fits = [&](Value past, Value now) {
        auto was = tensorType(past).getShape(), is = tensorType(now).getShape();
        return was.size() == 4 && tensorType(past).getElementType() == element &&
               was.take_front(2) == is.take_front(2) && was[3] == is[3];
      };
      if (!fits(pastKey, k) || !fits(pastValue, v) ||
          tensorType(pastKey).getDimSize(2) != tensorType(pastValue).getDimSize(2))
        return in.fail("past_key and past_value must be K and V of other tokens, "
                       "[batch, heads, tokens, head size]");
      pastLength = tensorType(pastKey).getDimSize(2);
      k = b.create<ConcatOp>(loc, ValueRange{pastKey, k}, 2);
      v = b.create<ConcatOp>(loc, ValueRange{pastValue, v}, 2);
    }
    presentKey = k, presentValue = v;
    return {};
  }

  /// A mask's missing keys count as masked.
  Status readMask() {
    Value mask = in.operand(3);
    ArrayRef<int64_t> shape = in.type(3).getShape();
    bool isBool = in.type(3).getElementType().isInteger(1);
    if (!isBool && in.type(3).getElementType() != element)
      return in.fail("attn_mask must be boolean or of Q's type");
    if (shape.empty() || shape.back() > keys())
      return in.fail("attn_mask has no dimension for keys, or one longer than the keys");
    if (int64_t missing = keys() - shape.back()) {
      SmallVector<int64_t> tail(shape);
      tail.back() = missing;
      Value hidden = isBool ? scalar(b, loc, 0, b.getI1Type()) : never();
      mask = b.create<ConcatOp>(loc, ValueRange{mask, broadcastTo(b, hidden, tail)},
                                static_cast<int64_t>(shape.size()) - 1);
    }
    SmallVector<int64_t> scores{tensorType(q).getDimSize(0), tensorType(q).getDimSize(1), queries(),
                                keys()};
    auto broadcast = broadcastShape(scores, tensorType(mask).getShape());
    if (!broadcast || *broadcast != scores)
      return in.fail("attn_mask does not broadcast to [batch, heads, queries, keys]");
    (isBool ? allowed : added) = mask;
    return {};
  }

  /// Hides keys by position: causal, sliding window, padding.
  Status readPositions() {
    causal = in.integer("is_causal", 0) != 0;
    left = in.integer("left_window_size", -1), right = in.integer("right_window_size", -1);
    if (left < -1 || right < -1)
      return in.fail("a window size must be -1 or more");
    length = in.operand(6);
    if (!length)
      return {};
    if (in.operand(4) || !in.type(6).getElementType().isInteger(64) ||
        in.type(6).getShape() != tensorType(q).getShape().take_front(1))
      return in.fail("nonpad_kv_seqlen must be one i64 per sample, and goes without a past");
    length = nn::reshape(b, length, {in.type(6).getDimSize(0), 1, 1, 1});
    return {};
  }

  Result<Type> softmaxPrecision() {
    if (!in.has("softmax_precision"))
      return element;
    Type type =
        elementType(*b.getContext(), static_cast<int32_t>(in.integer("softmax_precision", 0)));
    if (!type || !isa<FloatType>(type))
      return in.fail("softmax_precision is no float type");
    // 16-bit types are computed in f32 as it is.
    if (type.isF32() && !element.isF64())
      return element;
    return type;
  }

  Value never() const { return scalar(b, loc, -std::numeric_limits<double>::infinity(), element); }
  Value integer(int64_t value) const {
    return scalar(b, loc, static_cast<double>(value), b.getI64Type());
  }
  void allow(Value where) {
    allowed = allowed ? b.create<LogicalAndOp>(loc, allowed, where).getResult() : where;
  }

  /// Key j for query i where j <= i: what AttentionOp has a flag for.
  bool isPlainCausal() const {
    return causal && pastLength == 0 && !length && left < 0 && right < 0;
  }

  /// All that is added to the scores; null for nothing. `without` leaves the
  /// causal part out.
  Value bias(bool withoutCausal) {
    auto grid = RankedTensorType::get({queries(), keys()}, b.getI64Type());
    Value key = b.create<IotaOp>(loc, 1, grid);
    bool hides = causal && !withoutCausal;
    if (hides || left >= 0 || right >= 0) {
      // The query's own position among the keys.
      Value position = b.create<IotaOp>(loc, 0, grid), offset = integer(pastLength);
      if (length)
        offset = b.create<SubOp>(loc, length, integer(queries()));
      position = b.create<AddOp>(loc, position, offset);
      if (hides)
        allow(b.create<LessEqualOp>(loc, key, position));
      if (left >= 0)
        allow(b.create<GreaterEqualOp>(loc, key, b.create<SubOp>(loc, position, integer(left))));
      if (right >= 0)
        allow(b.create<LessEqualOp>(loc, key, b.create<AddOp>(loc, position, integer(right))));
    }
    if (length)
      allow(b.create<LessOp>(loc, key, length));
    if (!allowed)
      return added;
    Value shown = added ? added : scalar(b, loc, 0, element);
    return b.create<SelectOp>(loc, allowed, shown, never());
  }

  /// Heads of K or V once for each head of Q that reads them.
  Value repeated(Value x) {
    auto shape = tensorType(x).getShape();
    int64_t times = tensorType(q).getDimSize(1) / shape[1];
    if (times == 1)
      return x;
    Value apart = nn::reshape(b, x, {shape[0], shape[1], 1, shape[2], shape[3]});
    apart = broadcastTo(b, apart, {shape[0], shape[1], times, shape[2], shape[3]});
    return nn::reshape(b, apart, {shape[0], shape[1] * times, shape[2], shape[3]});
  }

  Value inSteps(double softcap, Type softmaxType, int64_t mode, Value &shown) {
    auto times = [&](Value x, double factor) {
      return b.create<MulOp>(loc, x, scalar(b, loc, factor, element)).getResult();
    };
    Value scores = times(b.create<MatmulOp>(loc, q, repeated(k), false, true), scale);
    if (mode == 0)
      shown = scores;
    if (softcap > 0)
      scores = times(b.create<TanhOp>(loc, times(scores, 1 / softcap)), softcap);
    if (mode == 1)
      shown = scores;
    if (Value mask = bias(false))
      scores = b.create<AddOp>(loc, scores, mask);
    if (mode == 2)
      shown = scores;
    bool converts = softmaxType != element;
    if (converts)
      scores = b.create<CastOp>(loc, scores, softmaxType);
    Value weights = b.create<SoftmaxOp>(loc, scores, 3);
    if (converts)
      weights = b.create<CastOp>(loc, weights, element);
    if (mode == 3)
      shown = weights;
    return b.create<MatmulOp>(loc, weights, repeated(v), false, false);
  }

  NodeImport &in;
  OpBuilder &b;
  Location loc;
  Type element;
  bool packed = false;
  Value q, k, v, presentKey, presentValue;
  double scale = 1;
  int64_t pastLength = 0;
  bool causal = false;
  int64_t left = -1, right = -1;
  Value length;  ///< valid keys of each sample, [B, 1, 1, 1]; null for all
  Value allowed; ///< keys that may be seen; null for all
  Value added;   ///< a float mask
};

Outcome attention(NodeImport &in) { return Attention(in).build(); }

/// Turns pairs of elements of each head by an angle: (x1, x2) to
/// (x1 cos - x2 sin, x1 sin + x2 cos). Pairs are neighbours where interleaved,
/// else an element of the first half and one of the second.
Outcome rotaryEmbedding(NodeImport &in) {
  OpBuilder &b = in.builder;
  Value x = in.operand(0);
  int64_t rank = in.type(0).getRank(), heads = in.integer("num_heads", 0);
  if (rank != 3 && rank != 4)
    return in.fail("the input must have 3 or 4 dimensions");
  if (rank == 3 && (heads < 1 || in.type(0).getDimSize(2) % heads))
    return in.fail("an input of 3 dimensions needs num_heads, a divisor of its last dimension");
  if (rank == 3)
    x = splitHeads(b, x, heads);
  SmallVector<int64_t> shape(tensorType(x).getShape());
  int64_t turned = in.integer("rotary_embedding_dim", 0);
  if (turned == 0)
    turned = shape[3];
  if (turned < 0 || turned % 2 || turned > shape[3])
    return in.fail("rotary_embedding_dim must be even and within the head size, " +
                   std::to_string(shape[3]));

  // The tables as [B, 1, T, turned / 2].
  auto table = [&](size_t i) -> Outcome {
    Value values = in.operand(i);
    if (Value positions = in.operand(3)) {
      if (in.type(i).getRank() != 2)
        return in.fail("with position_ids the tables must have 2 dimensions");
      DIFFRUN_ASSIGN(auto rows, in.build<GatherOp>(values, positions, 0));
      values = rows[0];
    }
    if (tensorType(values).getElementType() != in.type(0).getElementType())
      return in.fail("the tables must have the input's element type");
    ArrayRef<int64_t> got = tensorType(values).getShape();
    SmallVector<int64_t> wanted{shape[0], shape[2], turned / 2};
    if (got != ArrayRef<int64_t>(wanted))
      return in.fail("a table does not come to [batch, tokens, " + std::to_string(turned / 2) +
                     "], half the elements that turn");
    return NodeImport::Values{nn::reshape(b, values, {wanted[0], 1, wanted[1], wanted[2]})};
  };
  DIFFRUN_ASSIGN(auto cosines, table(1));
  DIFFRUN_ASSIGN(auto sines, table(2));

  auto part = [&](int64_t from, int64_t count, int64_t stride) -> Value {
    SmallVector<int64_t> starts{0, 0, 0, from}, sizes(shape), strides{1, 1, 1, stride};
    sizes[3] = count;
    return b.create<SliceOp>(in.loc, x, starts, sizes, strides);
  };
  auto mul = [&](Value p, Value q) -> Value { return b.create<MulOp>(in.loc, p, q); };
  bool interleaved = in.integer("interleaved", 0) != 0;
  int64_t half = turned / 2;
  Value first = interleaved ? part(0, half, 2) : part(0, half, 1);
  Value second = interleaved ? part(1, half, 2) : part(half, half, 1);
  Value c = cosines[0], s = sines[0];
  Value real = b.create<SubOp>(in.loc, mul(first, c), mul(second, s));
  Value imaginary = b.create<AddOp>(in.loc, mul(first, s), mul(second, c));
  SmallVector<Value> parts{real, imaginary};
  if (interleaved) {
    SmallVector<int64_t> column{shape[0], shape[1], shape[2], half, 1};
    Value pairs = b.create<ConcatOp>(
        in.loc, ValueRange{nn::reshape(b, real, column), nn::reshape(b, imaginary, column)}, 4);
    parts = {nn::reshape(b, pairs, {shape[0], shape[1], shape[2], turned})};
  }
  if (turned < shape[3])
    parts.push_back(part(turned, shape[3] - turned, 1));
  Value y = parts.size() == 1 ? parts[0] : b.create<ConcatOp>(in.loc, parts, 3).getResult();
  return NodeImport::Values{rank == 3 ? joinHeads(b, y) : y};
}

} // namespace

void addAttentionHandlers(HandlerTable &t) {
  t["Attention"] = {attention, 23, 3};
  t["RotaryEmbedding"] = {rotaryEmbedding, 23, 3};
}

} // namespace diffc
