// Import of gated and recurrent layers of sequence models.
#include "compiler/import/NodeImport.h"

using namespace mlir;
using namespace diffc::nn;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// a * sigmoid(alpha * a) * b, both of one shape.
Outcome swiGlu(NodeImport &in) {
  if (in.type(0) != in.type(1))
    return in.fail("A and B must have the same type and shape");
  Value gate = in.operand(0), inner = gate;
  if (double alpha = in.real("alpha", 1); alpha != 1)
    inner = in.builder.create<MulOp>(
        in.loc, gate, scalar(in.builder, in.loc, alpha, in.type(0).getElementType()));
  DIFFRUN_ASSIGN(auto sigmoid, in.build<SigmoidOp>(inner));
  DIFFRUN_ASSIGN(auto gated, in.build<MulOp>(gate, sigmoid[0]));
  return in.build<MulOp>(gated[0], in.operand(1));
}

/// A state [d_k, d_v] for each key head, changed and read token by token:
///   S = exp(g) S;  S += k (beta (v - S^T k))^T;  o = scale S^T q
/// without decay g, or with v alone for the change, as update_rule says.
class LinearAttention {
public:
  explicit LinearAttention(NodeImport &in) : in(in), b(in.builder) {}

  Outcome build() {
    DIFFRUN_RETURN_IF_ERROR(readOperands());
    NodeImport::Values outputs;
    for (int64_t t = 0; t < tokens; ++t) {
      if (decay)
        state = b.create<MulOp>(in.loc, state, column(decay, t));
      Value key = column(k, t), change = row(v, t);
      if (beta)
        change = b.create<MulOp>(
            in.loc, row(beta, t),
            b.create<SubOp>(in.loc, change, b.create<MatmulOp>(in.loc, key, state, true, false)));
      state = b.create<AddOp>(in.loc, state, b.create<MulOp>(in.loc, key, change));
      // Each key head answers its group of query heads: rows of one product.
      outputs.push_back(b.create<MatmulOp>(in.loc, grouped(t), state, false, false));
    }
    SmallVector<int64_t> shape{batch, tokens, heads * valueSize};
    Value y;
    if (outputs.empty()) {
      y = zeros(b, in.loc, RankedTensorType::get(shape, compute));
    } else {
      // [B, H_kv, group, d_v] each; [B, 1, H_q d_v] in the order of tokens.
      for (Value &output : outputs)
        output = nn::reshape(b, output, {batch, 1, heads * valueSize});
      y = outputs.size() == 1 ? outputs[0] : b.create<ConcatOp>(in.loc, outputs, 1).getResult();
    }
    y = b.create<MulOp>(in.loc, y, scalar(b, in.loc, scale, compute));
    Type own = in.type(0).getElementType();
    return NodeImport::Values{cast(y, own),
                              cast(state, in.operand(3) ? in.type(3).getElementType() : own)};
  }

private:
  diffrun::Status readOperands() {
    std::string rule = in.text("update_rule", "gated_delta");
    bool gated = rule == "gated" || rule == "gated_delta";
    bool delta = rule == "delta" || rule == "gated_delta";
    if (!gated && !delta && rule != "linear")
      return in.fail("update_rule \"" + rule + "\" is not supported");
    if (gated != !!in.operand(4) || delta != !!in.operand(5))
      return in.fail("update_rule \"" + rule + "\" wants " + (gated ? "a" : "no") + " decay and " +
                     (delta ? "a" : "no") + " beta");
    for (size_t i : {0, 1, 2, 4, 5})
      if (in.operand(i) && (in.type(i).getRank() != 3 || in.type(i).getShape().take_front(2) !=
                                                             in.type(0).getShape().take_front(2)))
        return in.fail("input " + std::to_string(i) +
                       " must be [batch, tokens, heads * size] like the query");
    heads = in.integer("q_num_heads", 0), keyHeads = in.integer("kv_num_heads", 0);
    if (heads < 1 || keyHeads < 1 || heads % keyHeads)
      return in.fail("q_num_heads must be a multiple of kv_num_heads, both 1 or more");
    batch = in.type(0).getDimSize(0), tokens = in.type(0).getDimSize(1);
    keySize = in.type(0).getDimSize(2) / heads, valueSize = in.type(2).getDimSize(2) / keyHeads;
    if (in.type(0).getDimSize(2) != heads * keySize ||
        in.type(1).getDimSize(2) != keyHeads * keySize ||
        in.type(2).getDimSize(2) != keyHeads * valueSize)
      return in.fail("the heads do not divide the last dimensions of query, key and value");
    Type own = in.type(0).getElementType();
    compute = own.isF64() ? own : b.getF32Type();
    auto apart = [&](size_t i, int64_t count, int64_t size) {
      return nn::reshape(b, cast(in.operand(i), compute), {batch, tokens, count, size});
    };
    q = apart(0, heads, keySize), k = apart(1, keyHeads, keySize);
    v = apart(2, keyHeads, valueSize);
    if (gated) {
      int64_t last = in.type(4).getDimSize(2);
      if (last != keyHeads && last != keyHeads * keySize)
        return in.fail("the decay must have one entry per head, or per head and element");
      decay = b.create<ExpOp>(in.loc, apart(4, keyHeads, last / keyHeads));
    }
    if (delta) {
      int64_t last = in.type(5).getDimSize(2);
      if (last != keyHeads && last != 1)
        return in.fail("beta must have one entry, or one per head");
      beta = apart(5, last, 1);
    }
    SmallVector<int64_t> shape{batch, keyHeads, keySize, valueSize};
    if (in.operand(3) && in.type(3).getShape() != ArrayRef<int64_t>(shape))
      return in.fail("past_state must be [batch, kv_num_heads, key size, value size]");
    state = in.operand(3) ? cast(in.operand(3), compute)
                          : zeros(b, in.loc, RankedTensorType::get(shape, compute));
    scale = in.real("scale", 0);
    if (scale == 0)
      scale = 1 / std::sqrt(static_cast<double>(keySize));
    return {};
  }

  Value cast(Value value, Type type) {
    if (tensorType(value).getElementType() == type)
      return value;
    return b.create<CastOp>(in.loc, value, type);
  }
  /// Token t of [B, T, H, size], as [B, H, rows, columns].
  Value token(Value x, int64_t t, ArrayRef<int64_t> shape) {
    SmallVector<int64_t> starts{0, t, 0, 0}, sizes(tensorType(x).getShape()), strides(4, 1);
    sizes[1] = 1;
    return nn::reshape(b, b.create<SliceOp>(in.loc, x, starts, sizes, strides), shape);
  }
  Value column(Value x, int64_t t) {
    auto shape = tensorType(x).getShape();
    return token(x, t, {batch, shape[2], shape[3], 1});
  }
  Value row(Value x, int64_t t) {
    auto shape = tensorType(x).getShape();
    return token(x, t, {batch, shape[2], 1, shape[3]});
  }
  Value grouped(int64_t t) { return token(q, t, {batch, keyHeads, heads / keyHeads, keySize}); }

  NodeImport &in;
  OpBuilder &b;
  int64_t batch = 0, tokens = 0, heads = 0, keyHeads = 0, keySize = 0, valueSize = 0;
  double scale = 1;
  Type compute; ///< f32 at least: the state adds up over all tokens
  Value q, k, v, decay, beta, state;
};

Outcome linearAttention(NodeImport &in) { return LinearAttention(in).build(); }

/// The cache with `update` at [write_indices[b], ...) of each sample b.
Outcome tensorScatter(NodeImport &in) {
  OpBuilder &b = in.builder;
  ArrayRef<int64_t> shape = in.type(0).getShape();
  int64_t rank = in.type(0).getRank();
  auto axis = NodeImport::wrapAxis(in.integer("axis", -2), rank);
  if (!axis || *axis == 0)
    return in.fail("axis must name a dimension after the batch");
  SmallVector<int64_t> wanted(shape);
  int64_t length = shape[*axis],
          count = in.type(1).getRank() == rank ? in.type(1).getDimSize(*axis) : 0;
  wanted[*axis] = count;
  if (in.type(1) != in.type(0).clone(wanted) || count > length)
    return in.fail("update must be like past_cache, and no longer on the axis");
  std::string mode = in.text("mode", "linear");
  if (mode != "linear" && mode != "circular")
    return in.fail("mode \"" + mode + "\" is not supported");
  if (count == 0)
    return NodeImport::Values{in.operand(0)};
  // Place p of a sample's cache takes element p - start of its update, counted
  // around the end, where there is such a one: rows of a gather.
  Type i64 = b.getI64Type();
  auto integer = [&](int64_t value) { return scalar(b, in.loc, static_cast<double>(value), i64); };
  auto grid = RankedTensorType::get({shape[0], length}, i64);
  Value place = b.create<IotaOp>(in.loc, 1, grid), from = place;
  if (Value start = in.operand(2)) {
    if (in.type(2) != RankedTensorType::get({shape[0]}, i64))
      return in.fail("write_indices must be one i64 per sample");
    from = b.create<SubOp>(in.loc, place, nn::reshape(b, start, {shape[0], 1}));
    if (mode == "circular") {
      // Division truncates, so the remainder may be negative: once more around.
      auto remainder = [&](Value x) -> Value {
        Value whole = b.create<DivOp>(in.loc, x, integer(length));
        return b.create<SubOp>(in.loc, x, b.create<MulOp>(in.loc, whole, integer(length)));
      };
      from = remainder(b.create<AddOp>(in.loc, remainder(from), integer(length)));
    }
  }
  Value taken = b.create<LogicalAndOp>(in.loc, b.create<GreaterEqualOp>(in.loc, from, integer(0)),
                                       b.create<LessOp>(in.loc, from, integer(count)));
  Value inside = b.create<MinimumOp>(in.loc, b.create<MaximumOp>(in.loc, from, integer(0)),
                                     integer(count - 1));
  Value sample = b.create<IotaOp>(in.loc, 0, grid);
  Value index = b.create<AddOp>(in.loc, b.create<MulOp>(in.loc, sample, integer(count)), inside);
  // The update as rows [B * count, the rest], which the gather puts in place.
  SmallVector<int64_t> order{0, *axis}, rest, back(rank);
  for (int64_t d = 1; d < rank; ++d)
    if (d != *axis)
      order.push_back(d), rest.push_back(shape[d]);
  for (int64_t d = 0; d < rank; ++d)
    back[order[d]] = d;
  SmallVector<int64_t> rows{shape[0] * count};
  rows.append(rest);
  Value table = nn::reshape(b, nn::transpose(b, in.operand(1), order), rows);
  Value moved = nn::transpose(b, b.create<GatherOp>(in.loc, table, index, 0), back);
  SmallVector<int64_t> mask(rank, 1);
  mask[0] = shape[0], mask[*axis] = length;
  return in.build<SelectOp>(nn::reshape(b, taken, mask), moved, in.operand(0));
}

} // namespace

void addSequenceHandlers(HandlerTable &t) {
  t["SwiGLU"] = {swiGlu, 28, 2};
  t["LinearAttention"] = {linearAttention, 27, 3};
  t["TensorScatter"] = {tensorScatter, 24, 2};
}

} // namespace diffc
