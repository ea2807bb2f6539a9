// Import of element-wise operators.
#include "compiler/import/Terms.h"

using namespace mlir;
using namespace diffc::nn;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

template <typename Op> Outcome unary(NodeImport &in) { return in.build<Op>(in.operand(0)); }
template <typename Op> Outcome binary(NodeImport &in) {
  return in.build<Op>(in.operand(0), in.operand(1));
}

/// Max, Min, Sum: any number of operands.
template <typename Op> Outcome variadic(NodeImport &in) {
  Value result = in.operand(0);
  for (size_t i = 1; i < in.operands.size(); ++i) {
    DIFFRUN_ASSIGN(auto next, in.build<Op>(result, in.operand(i)));
    result = next[0];
  }
  return NodeImport::Values{result};
}

/// Integer powers by repeated squaring; they wrap. From 64 on only 0, 1 and -1
/// have a power that fits, which depends on whether the exponent is odd.
Outcome integerPower(NodeImport &in) {
  Terms t(in, 0);
  Value base = in.operand(0), exponent = t.cast(in.operand(1), t.element);
  auto odd = [&](Value n) { return t.make<NotEqualOp>(t.make<BitwiseAndOp>(n, t.c(1)), t.c(0)); };
  Value count = t.make<AbsOp>(exponent);
  Value large = t.add(t.c(62), t.make<BitwiseAndOp>(count, t.c(1)));
  count = t.select(t.greater(count, t.c(62)), large, count);
  Value result = t.c(1), factor = base;
  for (int bit = 0; bit < 6; ++bit) {
    DIFFRUN_ASSIGN(auto next, in.build<SelectOp>(odd(count), t.mul(result, factor), result));
    result = next[0];
    factor = t.mul(factor, factor);
    count = t.div(count, t.c(2));
  }
  // 1 / b^n is 0 to the nearest integer towards 0, but for 1 and -1.
  Value unit = t.equal(t.make<AbsOp>(base), t.c(1));
  Value vanishes = t.make<LogicalAndOp>(t.less(exponent, t.c(0)), t.make<LogicalNotOp>(unit));
  return NodeImport::Values{t.select(vanishes, t.c(0), result)};
}

Outcome pow(NodeImport &in) {
  Value base = in.operand(0), exponent = in.operand(1);
  Type own = in.type(0).getElementType();
  bool realBase = isa<FloatType>(own), realExponent = isa<FloatType>(in.type(1).getElementType());
  if (!broadcastShape(in.type(0).getShape(), in.type(1).getShape()))
    return in.fail("the shapes do not broadcast");
  // x^2 is what decomposed norms are made of; multiplying is exact and smooth.
  auto reals = in.constantReals(1);
  auto integers = in.constantIntegers(1);
  bool square = (reals && reals->size() == 1 && (*reals)[0] == 2.0) ||
                (integers && integers->size() == 1 && (*integers)[0] == 2);
  if (square && in.type(1).getRank() == 0)
    return in.build<MulOp>(base, base);
  if (!realBase && !realExponent)
    return integerPower(in);
  // The result has the base's type; an integer's real power is cut off.
  Terms t(in, realBase ? own : in.builder.getF64Type());
  Value power = t.make<PowOp>(t.cast(base, t.element), t.cast(exponent, t.element));
  return NodeImport::Values{t.cast(power, own)};
}

Outcome mean(NodeImport &in) {
  DIFFRUN_ASSIGN(auto sum, variadic<AddOp>(in));
  Terms t(in, 0);
  if (in.operands.size() == 1)
    return sum;
  return NodeImport::Values{t.div(sum[0], t.c(static_cast<double>(in.operands.size())))};
}

Outcome gelu(NodeImport &in) {
  std::string form = in.text("approximate", "none");
  if (form != "none" && form != "tanh")
    return in.fail("approximate=\"" + form + "\" is not supported");
  return in.build<GeluOp>(in.operand(0), form == "tanh" ? GeluForm::Tanh : GeluForm::Erf);
}

Outcome leakyRelu(NodeImport &in) {
  Type element = in.type(0).getElementType();
  Value slope = scalar(in.builder, in.loc, in.real("alpha", 0.01), element);
  Value zero = scalar(in.builder, in.loc, 0, element);
  Value bent = in.builder.create<MulOp>(in.loc, in.operand(0), slope);
  Value negative = in.builder.create<LessOp>(in.loc, in.operand(0), zero);
  return in.build<SelectOp>(negative, bent, in.operand(0));
}

/// Bounds are attributes before opset 11, optional operands since.
Outcome clip(NodeImport &in) {
  Value x = in.operand(0), low = in.operand(1), high = in.operand(2);
  Type element = in.type(0).getElementType();
  if (in.opset < 11) {
    if (in.has("min"))
      low = scalar(in.builder, in.loc, in.real("min", 0), element);
    if (in.has("max"))
      high = scalar(in.builder, in.loc, in.real("max", 0), element);
  }
  if (low) {
    DIFFRUN_ASSIGN(auto clipped, in.build<MaximumOp>(x, low));
    x = clipped[0];
  }
  if (high)
    return in.build<MinimumOp>(x, high);
  return NodeImport::Values{x};
}

Outcome cast(NodeImport &in) {
  OpBuilder &b = in.builder;
  Type to;
  switch (in.integer("to", 0)) {
  case onnx::TensorProto::DOUBLE:
    to = b.getF64Type();
    break;
  case onnx::TensorProto::FLOAT:
    to = b.getF32Type();
    break;
  case onnx::TensorProto::FLOAT16:
    to = b.getF16Type();
    break;
  case onnx::TensorProto::BFLOAT16:
    to = b.getBF16Type();
    break;
  case onnx::TensorProto::INT64:
    to = b.getI64Type();
    break;
  case onnx::TensorProto::INT32:
    to = b.getI32Type();
    break;
  case onnx::TensorProto::BOOL:
    to = b.getI1Type();
    break;
  default:
    return in.fail("cast to element type " + std::to_string(in.integer("to", 0)) +
                   " is not supported");
  }
  if (to == in.type(0).getElementType())
    return NodeImport::Values{in.operand(0)};
  return in.build<CastOp>(in.operand(0), to);
}

Outcome castLike(NodeImport &in) {
  Type to = in.type(1).getElementType();
  if (to == in.type(0).getElementType())
    return NodeImport::Values{in.operand(0)};
  return in.build<CastOp>(in.operand(0), to);
}

Outcome identity(NodeImport &in) { return NodeImport::Values{in.operand(0)}; }

/// At inference, or with ratio 0, a dropout passes its input on and its mask is
/// true everywhere. Another training one would need a random draw of its own.
Outcome dropout(NodeImport &in) {
  if (in.operand(2)) {
    auto training = in.constantIntegers(2);
    auto ratio = in.constantReals(1);
    bool drops = !in.operand(1) || !ratio || ratio->size() != 1 || (*ratio)[0] != 0;
    if (!training || (!training->empty() && (*training)[0] && drops))
      return in.fail(training ? "training mode is not supported"
                              : "training_mode must be known when the model is compiled",
                     "export the model in eval() mode");
  }
  Type flag = in.opset < 10 ? in.type(0).getElementType() : in.builder.getI1Type();
  Value mask = broadcastTo(in.builder, scalar(in.builder, in.loc, 1, flag), in.type(0).getShape());
  return NodeImport::Values{in.operand(0), mask};
}

} // namespace

void addElementwiseHandlers(HandlerTable &t) {
  t["Neg"] = {unary<NegOp>};
  t["Abs"] = {unary<AbsOp>};
  t["Sign"] = {unary<SignOp>};
  t["Floor"] = {unary<FloorOp>};
  t["Ceil"] = {unary<CeilOp>};
  t["Round"] = {unary<RoundOp>};
  t["Exp"] = {unary<ExpOp>};
  t["Log"] = {unary<LogOp>};
  t["Sqrt"] = {unary<SqrtOp>};
  t["Reciprocal"] = {unary<ReciprocalOp>};
  t["Sin"] = {unary<SinOp>};
  t["Cos"] = {unary<CosOp>};
  t["Tanh"] = {unary<TanhOp>};
  t["Erf"] = {unary<ErfOp>};
  t["Sigmoid"] = {unary<SigmoidOp>};
  t["Relu"] = {unary<ReluOp>};
  t["Softplus"] = {unary<SoftplusOp>};
  t["Not"] = {unary<LogicalNotOp>};
  t["Gelu"] = {gelu, 20};
  t["LeakyRelu"] = {leakyRelu};
  t["Clip"] = {clip};
  t["Cast"] = {cast, 6};
  t["CastLike"] = {castLike, 15, 2};
  t["Identity"] = {identity};
  t["Dropout"] = {dropout, 7, 1, {1, 2}};
  t["Add"] = {binary<AddOp>, 7, 2};
  t["Sub"] = {binary<SubOp>, 7, 2};
  t["Mul"] = {binary<MulOp>, 7, 2};
  t["Div"] = {binary<DivOp>, 7, 2};
  t["Pow"] = {pow, 7, 2};
  t["Max"] = {variadic<MaximumOp>, 6, HandlerEntry::kAll};
  t["Min"] = {variadic<MinimumOp>, 6, HandlerEntry::kAll};
  t["Sum"] = {variadic<AddOp>, 6, HandlerEntry::kAll};
  t["Mean"] = {mean, 6, HandlerEntry::kAll};
  t["Less"] = {binary<LessOp>, 7, 2};
  t["LessOrEqual"] = {binary<LessEqualOp>, 12, 2};
  t["Greater"] = {binary<GreaterOp>, 7, 2};
  t["GreaterOrEqual"] = {binary<GreaterEqualOp>, 12, 2};
  t["Equal"] = {binary<EqualOp>, 7, 2};
  t["And"] = {binary<LogicalAndOp>, 7, 2};
  t["Or"] = {binary<LogicalOrOp>, 7, 2};
  t["Where"] = {[](NodeImport &in) {
                  return in.build<SelectOp>(in.operand(0), in.operand(1), in.operand(2));
                },
                9, 3};
}

} // namespace diffc
