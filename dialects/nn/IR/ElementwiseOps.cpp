// Element-wise operators: types and derivatives. Their emission into loops is
// in ElementwiseEmission.cpp.
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/InferHelpers.h"

using namespace mlir;

namespace diffc::nn {

//===----------------------------------------------------------------------===//
// Types
//===----------------------------------------------------------------------===//

static FailureOr<Type> inferBroadcast(std::optional<Location> loc, ValueRange operands,
                                      Type elementType) {
  SmallVector<int64_t> shape;
  for (Value operand : operands) {
    auto next = broadcastShape(shape, tensorType(operand).getShape());
    if (!next)
      return inferError(loc, "shapes do not broadcast: ", operands.getTypes());
    shape = *next;
  }
  return Type(RankedTensorType::get(shape, elementType));
}

template <typename Adaptor>
static FailureOr<Type> inferBinary(std::optional<Location> loc, Adaptor op,
                                   Type resultElement = {}) {
  Type element = tensorType(op.getLhs()).getElementType();
  if (element != tensorType(op.getRhs()).getElementType())
    return inferError(loc, "element types differ: ", op.getOperands().getTypes());
  return inferBroadcast(loc, op.getOperands(), resultElement ? resultElement : element);
}

#define DIFFC_INFER_BINARY(OP)                                                                     \
  DIFFC_INFER(OP) { return inferBinary(loc, op); }
#define DIFFC_INFER_COMPARE(OP)                                                                    \
  DIFFC_INFER(OP) { return inferBinary(loc, op, IntegerType::get(context, 1)); }
DIFFC_INFER_BINARY(AddOp)
DIFFC_INFER_BINARY(SubOp)
DIFFC_INFER_BINARY(MulOp)
DIFFC_INFER_BINARY(DivOp)
DIFFC_INFER_BINARY(RemainderOp)
DIFFC_INFER_BINARY(PowOp)
DIFFC_INFER_BINARY(MaximumOp)
DIFFC_INFER_BINARY(MinimumOp)
DIFFC_INFER_BINARY(BitwiseAndOp)
DIFFC_INFER_BINARY(LogicalAndOp)
DIFFC_INFER_BINARY(LogicalOrOp)
DIFFC_INFER_COMPARE(LessOp)
DIFFC_INFER_COMPARE(LessEqualOp)
DIFFC_INFER_COMPARE(GreaterOp)
DIFFC_INFER_COMPARE(GreaterEqualOp)
DIFFC_INFER_COMPARE(EqualOp)
DIFFC_INFER_COMPARE(NotEqualOp)

DIFFC_INFER(SelectOp) {
  Type element = tensorType(op.getOnTrue()).getElementType();
  if (element != tensorType(op.getOnFalse()).getElementType())
    return inferError(loc, "element types differ: ", op.getOperands().getTypes());
  return inferBroadcast(loc, op.getOperands(), element);
}

DIFFC_INFER(CastOp) { return Type(tensorType(op.getInput()).clone(op.getTo())); }

OpFoldResult CastOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

//===----------------------------------------------------------------------===//
// Folds: neutral elements. The other operand must already have the result's
// type; a float zero is not folded into a product (0 * inf).
//===----------------------------------------------------------------------===//

static bool isSplat(Attribute attr, double value) {
  auto dense = dyn_cast_or_null<DenseElementsAttr>(attr);
  if (!dense || !dense.isSplat())
    return false;
  if (isa<FloatType>(dense.getElementType()))
    return dense.getSplatValue<APFloat>().convertToDouble() == value;
  return dense.getSplatValue<APInt>().getSExtValue() == static_cast<int64_t>(value);
}

template <typename Op>
static OpFoldResult foldNeutral(Op op, Attribute lhs, Attribute rhs, double neutral,
                                bool commutes) {
  if (isSplat(rhs, neutral) && op.getLhs().getType() == op.getType())
    return op.getLhs();
  if (commutes && isSplat(lhs, neutral) && op.getRhs().getType() == op.getType())
    return op.getRhs();
  return {};
}

OpFoldResult AddOp::fold(FoldAdaptor in) {
  return foldNeutral(*this, in.getLhs(), in.getRhs(), 0, true);
}
OpFoldResult SubOp::fold(FoldAdaptor in) {
  return foldNeutral(*this, in.getLhs(), in.getRhs(), 0, false);
}
OpFoldResult MulOp::fold(FoldAdaptor in) {
  return foldNeutral(*this, in.getLhs(), in.getRhs(), 1, true);
}
OpFoldResult DivOp::fold(FoldAdaptor in) {
  return foldNeutral(*this, in.getLhs(), in.getRhs(), 1, false);
}

namespace {
/// pow(x, c)  ==>  products, roots and reciprocals of x for c of 0 to 4, -1, -2,
/// 0.5 and -0.5. Cheaper, and the derivative takes no logarithm. pow itself
/// differs for x = -0 and -inf under a root (0 and inf, not -0 and NaN).
struct PowerOfConstant final : OpRewritePattern<PowOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(PowOp pow, PatternRewriter &rewriter) const override {
    auto constant = pow.getRhs().getDefiningOp<ConstantOp>();
    auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
    Value x = pow.getLhs();
    if (!dense || x.getType() != pow.getType())
      return rewriter.notifyMatchFailure(pow, "no constant exponent");
    Location loc = pow.getLoc();
    auto is = [&](double exponent) { return isSplat(dense, exponent); };
    auto mul = [&](Value a, Value b) -> Value { return rewriter.create<MulOp>(loc, a, b); };
    auto reciprocal = [&](Value a) -> Value { return rewriter.create<ReciprocalOp>(loc, a); };
    Value result;
    if (is(0))
      result = broadcastTo(rewriter, scalar(rewriter, loc, 1, tensorType(x).getElementType()),
                           tensorType(x).getShape());
    else if (is(1))
      result = x;
    else if (is(2))
      result = mul(x, x);
    else if (is(3))
      result = mul(x, mul(x, x));
    else if (is(4)) {
      Value square = mul(x, x);
      result = mul(square, square);
    } else if (is(0.5))
      result = rewriter.create<SqrtOp>(loc, x);
    else if (is(-0.5))
      result = rewriter.create<RsqrtOp>(loc, x);
    else if (is(-1))
      result = reciprocal(x);
    else if (is(-2))
      result = reciprocal(mul(x, x));
    else
      return rewriter.notifyMatchFailure(pow, "another exponent");
    rewriter.replaceOp(pow, result);
    return success();
  }
};
} // namespace

void PowOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<PowerOfConstant>(context);
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

namespace {
/// Arithmetic on values of one derivative, in the order it reads on paper.
struct Calculus {
  OpBuilder &b;
  Location loc;
  Type element;

  Value c(double value) const { return scalar(b, loc, value, element); }
  Value add(Value x, Value y) const { return b.create<AddOp>(loc, x, y); }
  Value sub(Value x, Value y) const { return b.create<SubOp>(loc, x, y); }
  Value mul(Value x, Value y) const { return b.create<MulOp>(loc, x, y); }
  Value div(Value x, Value y) const { return b.create<DivOp>(loc, x, y); }
  Value neg(Value x) const { return b.create<NegOp>(loc, x); }
  Value zeroWhere(Value condition, Value x) const {
    return b.create<SelectOp>(loc, condition, c(0), x);
  }
  Value zeroUnless(Value condition, Value x) const {
    return b.create<SelectOp>(loc, condition, x, c(0));
  }
};
} // namespace

static Calculus calculus(Operation *op, OpBuilder &builder) {
  return {builder, op->getLoc(), tensorType(op->getResult(0)).getElementType()};
}

// Defines OP's derivative for its only operand: x, y and dy are at hand.
#define DIFFC_UNARY_GRADIENT(OP, EXPRESSION)                                                       \
  LogicalResult OP::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,      \
                                  SmallVectorImpl<Value> &grads) {                                 \
    Calculus k = calculus(*this, builder);                                                         \
    Value x = getInput(), y = getResult(), dy = resultGrads[0];                                    \
    (void)k, (void)x, (void)y;                                                                     \
    grads.push_back(EXPRESSION);                                                                   \
    return success();                                                                              \
  }
DIFFC_UNARY_GRADIENT(NegOp, k.neg(dy))
DIFFC_UNARY_GRADIENT(AbsOp, k.mul(dy, builder.create<SignOp>(k.loc, x)))
DIFFC_UNARY_GRADIENT(SignOp, (void(dy), Value()))
DIFFC_UNARY_GRADIENT(FloorOp, (void(dy), Value()))
DIFFC_UNARY_GRADIENT(CeilOp, (void(dy), Value()))
DIFFC_UNARY_GRADIENT(RoundOp, (void(dy), Value()))
DIFFC_UNARY_GRADIENT(ExpOp, k.mul(dy, y))
DIFFC_UNARY_GRADIENT(Expm1Op, k.mul(dy, k.add(y, k.c(1))))
DIFFC_UNARY_GRADIENT(LogOp, k.div(dy, x))
DIFFC_UNARY_GRADIENT(Log1pOp, k.div(dy, k.add(x, k.c(1))))
DIFFC_UNARY_GRADIENT(SqrtOp, k.div(k.mul(dy, k.c(0.5)), y))
DIFFC_UNARY_GRADIENT(RsqrtOp, k.mul(k.mul(dy, k.c(-0.5)), k.div(y, x)))
DIFFC_UNARY_GRADIENT(ReciprocalOp, k.neg(k.mul(dy, k.mul(y, y))))
DIFFC_UNARY_GRADIENT(SinOp, k.mul(dy, builder.create<CosOp>(k.loc, x)))
DIFFC_UNARY_GRADIENT(CosOp, k.neg(k.mul(dy, builder.create<SinOp>(k.loc, x))))
DIFFC_UNARY_GRADIENT(AtanOp, k.div(dy, k.add(k.mul(x, x), k.c(1))))
DIFFC_UNARY_GRADIENT(TanhOp, k.mul(dy, k.sub(k.c(1), k.mul(y, y))))
// d erf(x) = 2 / sqrt(pi) * exp(-x^2)
DIFFC_UNARY_GRADIENT(ErfOp, k.mul(k.mul(dy, k.c(1.1283791670955126)),
                                  builder.create<ExpOp>(k.loc, k.neg(k.mul(x, x)))))
DIFFC_UNARY_GRADIENT(SigmoidOp, k.mul(dy, k.mul(y, k.sub(k.c(1), y))))
DIFFC_UNARY_GRADIENT(ReluOp, k.zeroUnless(builder.create<GreaterOp>(k.loc, x, k.c(0)), dy))
DIFFC_UNARY_GRADIENT(SiluOp, builder.create<SiluGradOp>(k.loc, x, dy))
DIFFC_UNARY_GRADIENT(SoftplusOp, k.mul(dy, builder.create<SigmoidOp>(k.loc, x)))
DIFFC_UNARY_GRADIENT(GeluOp, builder.create<GeluGradOp>(k.loc, x, dy, getFormAttr()))

LogicalResult CastOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                    SmallVectorImpl<Value> &grads) {
  Type from = tensorType(getInput()).getElementType();
  bool flows = isa<FloatType>(from) && isa<FloatType>(getTo());
  grads.push_back(flows ? builder.create<CastOp>(getLoc(), resultGrads[0], from) : Value());
  return success();
}

// Pushes the gradients of both operands, each made only where it is needed and
// summed down to the operand's own shape.
static void pushBinary(Operation *op, OpBuilder &builder, ArrayRef<bool> needed,
                       SmallVectorImpl<Value> &grads, function_ref<Value()> lhs,
                       function_ref<Value()> rhs) {
  function_ref<Value()> makers[] = {lhs, rhs};
  for (int i = 0; i < 2; ++i)
    grads.push_back(needed[i]
                        ? sumToShape(builder, makers[i](), tensorType(op->getOperand(i)).getShape())
                        : Value());
}

#define DIFFC_BINARY_GRADIENT(OP, LHS, RHS)                                                        \
  LogicalResult OP::buildGradient(OpBuilder &builder, ValueRange resultGrads,                      \
                                  ArrayRef<bool> needed, SmallVectorImpl<Value> &grads) {          \
    Calculus k = calculus(*this, builder);                                                         \
    Value a = getLhs(), b = getRhs(), y = getResult(), dy = resultGrads[0];                        \
    (void)k, (void)a, (void)b, (void)y;                                                            \
    pushBinary(                                                                                    \
        *this, builder, needed, grads, [&]() -> Value { return LHS; },                             \
        [&]() -> Value { return RHS; });                                                           \
    return success();                                                                              \
  }
DIFFC_BINARY_GRADIENT(AddOp, dy, dy)
DIFFC_BINARY_GRADIENT(SubOp, dy, k.neg(dy))
DIFFC_BINARY_GRADIENT(MulOp, k.mul(dy, b), k.mul(dy, a))
DIFFC_BINARY_GRADIENT(DivOp, k.div(dy, b), k.neg(k.div(k.mul(dy, y), b)))
// The whole number of times that b went into a, rounded off division's error.
DIFFC_BINARY_GRADIENT(RemainderOp, dy,
                      k.neg(k.mul(dy, builder.create<RoundOp>(k.loc, k.div(k.sub(a, y), b)))))
DIFFC_BINARY_GRADIENT(PowOp, k.mul(dy, k.mul(b, builder.create<PowOp>(k.loc, a, k.sub(b, k.c(1))))),
                      k.zeroWhere(builder.create<LessEqualOp>(k.loc, a, k.c(0)),
                                  k.mul(k.mul(dy, y), builder.create<LogOp>(k.loc, a))))
DIFFC_BINARY_GRADIENT(MaximumOp, k.zeroUnless(builder.create<GreaterEqualOp>(k.loc, a, b), dy),
                      k.zeroWhere(builder.create<GreaterEqualOp>(k.loc, a, b), dy))
DIFFC_BINARY_GRADIENT(MinimumOp, k.zeroUnless(builder.create<LessEqualOp>(k.loc, a, b), dy),
                      k.zeroWhere(builder.create<LessEqualOp>(k.loc, a, b), dy))

LogicalResult SelectOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                      ArrayRef<bool> needed, SmallVectorImpl<Value> &grads) {
  Calculus k = calculus(*this, builder);
  grads.push_back(Value());
  Value masked[] = {needed[1] ? k.zeroUnless(getCondition(), resultGrads[0]) : Value(),
                    needed[2] ? k.zeroWhere(getCondition(), resultGrads[0]) : Value()};
  for (int i = 0; i < 2; ++i)
    grads.push_back(masked[i]
                        ? sumToShape(builder, masked[i], tensorType(getOperand(i + 1)).getShape())
                        : Value());
  return success();
}

} // namespace diffc::nn
