// Element-wise operators as arith and math operations, on scalars or vectors.
#include "dialects/nn/IR/NnDialect.h"

#include <mlir/Dialect/Arith/IR/Arith.h>
#include <mlir/Dialect/Math/IR/Math.h>

using namespace mlir;

namespace diffc::nn {
namespace {

/// Emits arithmetic of one element type on scalars or vectors alike.
///
/// Products and sums may contract to fused multiply-adds; nothing is
/// reordered and infinities are respected (masks use them).
struct Emitter {
  OpBuilder &b;
  Location loc;
  Type type; ///< of the operands: a scalar or a vector

  Type element() const { return getElementTypeOrSelf(type); }
  bool isFloat() const { return isa<FloatType>(element()); }
  arith::FastMathFlagsAttr flags() const {
    return arith::FastMathFlagsAttr::get(b.getContext(), arith::FastMathFlags::contract);
  }
  Type like(Type elementType) const {
    if (auto vector = dyn_cast<VectorType>(type))
      return vector.clone(elementType);
    return elementType;
  }

  Value c(double value) const {
    TypedAttr attr = isFloat()
                         ? TypedAttr(FloatAttr::get(element(), value))
                         : TypedAttr(IntegerAttr::get(element(), static_cast<int64_t>(value)));
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, attr);
    return b.create<arith::ConstantOp>(loc, attr);
  }
  Value most() const { // of integers
    TypedAttr attr =
        IntegerAttr::get(element(), APInt::getSignedMaxValue(element().getIntOrFloatBitWidth()));
    if (auto vector = dyn_cast<VectorType>(type))
      attr = DenseElementsAttr::get(vector, attr);
    return b.create<arith::ConstantOp>(loc, attr);
  }
  template <typename Float, typename Int> Value binary(Value x, Value y) const {
    if (isFloat())
      return b.create<Float>(loc, x, y, flags());
    return b.create<Int>(loc, x, y);
  }
  Value add(Value x, Value y) const { return binary<arith::AddFOp, arith::AddIOp>(x, y); }
  Value sub(Value x, Value y) const { return binary<arith::SubFOp, arith::SubIOp>(x, y); }
  Value mul(Value x, Value y) const { return binary<arith::MulFOp, arith::MulIOp>(x, y); }
  Value div(Value x, Value y) const {
    if (isFloat())
      return b.create<arith::DivFOp>(loc, x, y, flags());
    return divided<arith::DivSIOp>(x, y, neg(x), c(0));
  }
  Value remainder(Value x, Value y) const {
    if (isFloat())
      return b.create<arith::RemFOp>(loc, x, y);
    return divided<arith::RemSIOp>(x, y, c(0), x);
  }
  /// To a narrower float. From f64 straight to 16 bits would be a function of a
  /// compiler's library that not every machine has: by way of f32.
  Value narrowed(Value x, Type to) const {
    if (getElementTypeOrSelf(x.getType()).isF64() &&
        getElementTypeOrSelf(to).getIntOrFloatBitWidth() == 16)
      x = b.create<arith::TruncFOp>(loc, like(b.getF32Type()), x);
    return b.create<arith::TruncFOp>(loc, to, x);
  }
  /// In double precision, by the C library, where f32 loses digits: e^(y log x),
  /// which has no sign of its own either, and MLIR's polynomial of the arc tangent.
  template <typename Op, typename... Operands> Value precisely(Operands... operands) const {
    if (element().isF64())
      return b.create<Op>(loc, operands...);
    Type wide = like(b.getF64Type());
    Value result = b.create<Op>(loc, Value(b.create<arith::ExtFOp>(loc, wide, operands))...);
    return narrowed(result, type);
  }
  /// f(x) of an odd function, computed of |x|.
  template <typename Op> Value oddly(Value x) const {
    Value y = math<Op>(math<math::AbsFOp>(x));
    return select(less(x, c(0)), neg(y), y);
  }
  Value neg(Value x) const {
    if (isFloat())
      return b.create<arith::NegFOp>(loc, x);
    return sub(c(0), x);
  }
  template <typename Op> Value math(Value x) const { return b.create<Op>(loc, x); }
  Value exp(Value x) const { return math<math::ExpOp>(x); }

  Value compare(arith::CmpFPredicate onFloat, arith::CmpIPredicate onInt, Value x, Value y) const {
    if (isFloat())
      return b.create<arith::CmpFOp>(loc, onFloat, x, y);
    if (element().isInteger(1)) { // whose one bit would be its sign
      x = b.create<arith::ExtUIOp>(loc, like(b.getI8Type()), x);
      y = b.create<arith::ExtUIOp>(loc, like(b.getI8Type()), y);
    }
    return b.create<arith::CmpIOp>(loc, onInt, x, y);
  }
  Value less(Value x, Value y) const {
    return compare(arith::CmpFPredicate::OLT, arith::CmpIPredicate::slt, x, y);
  }
  Value greater(Value x, Value y) const {
    return compare(arith::CmpFPredicate::OGT, arith::CmpIPredicate::sgt, x, y);
  }
  Value select(Value condition, Value x, Value y) const {
    return b.create<arith::SelectOp>(loc, condition, x, y);
  }
  Value maximum(Value x, Value y) const {
    // A comparison and a select, not maximumf, which also orders -0 and 0. NaN
    // in x comes through by itself; the test of y vanishes where y is constant.
    return select(orNan(less(x, y), y), y, x);
  }
  Value minimum(Value x, Value y) const { return select(orNan(less(y, x), y), y, x); }
  Value orNan(Value condition, Value x) const {
    if (!isFloat())
      return condition;
    return b.create<arith::OrIOp>(loc, condition,
                                  b.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, x, x));
  }
  Value isConstant(Value x, double value) const {
    return b.create<arith::CmpIOp>(loc, arith::CmpIPredicate::eq, x, c(value));
  }
  /// x / y or x % y of integers, defined for every y: by 0 it is 0 (x for the
  /// remainder), by -1 it wraps. The processor would stop at either, and reads
  /// 0 from lanes past a row's end.
  template <typename Op> Value divided(Value x, Value y, Value byMinusOne, Value byZero) const {
    Value zero = isConstant(y, 0), minusOne = isConstant(y, -1);
    Value safe = select(b.create<arith::OrIOp>(loc, zero, minusOne), c(1), y);
    return select(zero, byZero, select(minusOne, byMinusOne, b.create<Op>(loc, x, safe)));
  }

  /// 1 / (1 + e^-x). Large |x| is safe: e^-x overflows to infinity, 1/inf = 0.
  Value sigmoid(Value x) const { return div(c(1), add(c(1), exp(neg(x)))); }
  Value tanh(Value x) const { return math<math::TanhOp>(x); }

  static constexpr double kSqrtHalf = 0.70710678118654752;
  static constexpr double kSqrt2OverPi = 0.79788456080286536;
  static constexpr double kInvSqrt2Pi = 0.39894228040143268;
  static constexpr double kGeluCubic = 0.044715;

  Value geluInner(Value x) const { // sqrt(2/pi) * (x + 0.044715 x^3)
    Value cubic = mul(mul(c(kGeluCubic), mul(x, x)), x);
    return mul(c(kSqrt2OverPi), add(x, cubic));
  }
  Value gelu(Value x, GeluForm form) const {
    // (1 + tanh z) / 2 is sigmoid(2 z): without cancellation where x is negative.
    if (form == GeluForm::Tanh)
      return mul(x, sigmoid(mul(c(2), geluInner(x))));
    return mul(mul(c(0.5), x), add(c(1), math<math::ErfOp>(mul(x, c(kSqrtHalf)))));
  }
  Value geluDerivative(Value x, GeluForm form) const {
    if (form == GeluForm::Erf) {
      Value cdf = mul(c(0.5), add(c(1), math<math::ErfOp>(mul(x, c(kSqrtHalf)))));
      Value pdf = mul(c(kInvSqrt2Pi), exp(mul(c(-0.5), mul(x, x))));
      return add(cdf, mul(x, pdf));
    }
    Value s = sigmoid(mul(c(2), geluInner(x)));
    Value slope = mul(c(2 * kSqrt2OverPi), add(c(1), mul(c(3 * kGeluCubic), mul(x, x))));
    return mul(s, add(c(1), mul(mul(x, sub(c(1), s)), slope)));
  }
};

Emitter emitter(Operation *op, OpBuilder &builder, ValueRange operands, int which = 0) {
  return {builder, op->getLoc(), operands[which].getType()};
}

} // namespace

#define DIFFC_EMIT_UNARY(OP, EXPRESSION)                                                           \
  Value OP::emitPointwise(OpBuilder &builder, ValueRange operands) {                               \
    Emitter e = emitter(*this, builder, operands);                                                 \
    Value x = operands[0];                                                                         \
    (void)e;                                                                                       \
    return EXPRESSION;                                                                             \
  }
DIFFC_EMIT_UNARY(NegOp, e.neg(x))
DIFFC_EMIT_UNARY(AbsOp, e.isFloat() ? e.math<math::AbsFOp>(x) : e.math<math::AbsIOp>(x))
DIFFC_EMIT_UNARY(SignOp,
                 e.select(e.greater(x, e.c(0)), e.c(1), e.select(e.less(x, e.c(0)), e.c(-1), x)))
DIFFC_EMIT_UNARY(FloorOp, e.math<math::FloorOp>(x))
DIFFC_EMIT_UNARY(CeilOp, e.math<math::CeilOp>(x))
DIFFC_EMIT_UNARY(RoundOp, e.math<math::RoundEvenOp>(x))
DIFFC_EMIT_UNARY(ExpOp, e.exp(x))
DIFFC_EMIT_UNARY(Expm1Op, e.math<math::ExpM1Op>(x))
DIFFC_EMIT_UNARY(LogOp, e.math<math::LogOp>(x))
DIFFC_EMIT_UNARY(Log1pOp, e.math<math::Log1pOp>(x))
DIFFC_EMIT_UNARY(SqrtOp, e.math<math::SqrtOp>(x))
DIFFC_EMIT_UNARY(RsqrtOp, e.div(e.c(1), e.math<math::SqrtOp>(x)))
DIFFC_EMIT_UNARY(ReciprocalOp, e.div(e.c(1), x))
// By |x|: the polynomial subtracts whole quarter turns, and -1 of them from a
// small negative x, whose digits are lost.
DIFFC_EMIT_UNARY(SinOp, e.oddly<math::SinOp>(x))
DIFFC_EMIT_UNARY(CosOp, e.math<math::CosOp>(x))
DIFFC_EMIT_UNARY(AtanOp, e.precisely<math::AtanOp>(x))
DIFFC_EMIT_UNARY(TanhOp, e.tanh(x))
DIFFC_EMIT_UNARY(ErfOp, e.math<math::ErfOp>(x))
DIFFC_EMIT_UNARY(SigmoidOp, e.sigmoid(x))
DIFFC_EMIT_UNARY(ReluOp, e.maximum(x, e.c(0)))
DIFFC_EMIT_UNARY(SiluOp, e.div(x, e.add(e.c(1), e.exp(e.neg(x)))))
// max(x, 0) + log(1 + e^-|x|)
DIFFC_EMIT_UNARY(SoftplusOp, e.add(e.maximum(x, e.c(0)),
                                   e.math<math::Log1pOp>(e.exp(e.neg(e.math<math::AbsFOp>(x))))))
DIFFC_EMIT_UNARY(GeluOp, e.gelu(x, getForm()))
DIFFC_EMIT_UNARY(LogicalNotOp, builder.create<arith::XOrIOp>(getLoc(), x, e.c(1)))
DIFFC_EMIT_UNARY(GeluGradOp, e.mul(operands[1], e.geluDerivative(x, getForm())))

Value SiluGradOp::emitPointwise(OpBuilder &builder, ValueRange operands) {
  Emitter e = emitter(*this, builder, operands);
  Value x = operands[0], s = e.sigmoid(x);
  Value slope = e.mul(s, e.add(e.c(1), e.mul(x, e.sub(e.c(1), s))));
  return e.mul(operands[1], slope);
}

#define DIFFC_EMIT_BINARY(OP, EXPRESSION)                                                          \
  Value OP::emitPointwise(OpBuilder &builder, ValueRange operands) {                               \
    Emitter e = emitter(*this, builder, operands);                                                 \
    Value x = operands[0], y = operands[1];                                                        \
    (void)e;                                                                                       \
    return EXPRESSION;                                                                             \
  }
DIFFC_EMIT_BINARY(AddOp, e.add(x, y))
DIFFC_EMIT_BINARY(SubOp, e.sub(x, y))
DIFFC_EMIT_BINARY(MulOp, e.mul(x, y))
DIFFC_EMIT_BINARY(DivOp, e.div(x, y))
DIFFC_EMIT_BINARY(RemainderOp, e.remainder(x, y))
DIFFC_EMIT_BINARY(PowOp, e.precisely<math::PowFOp>(x, y))
DIFFC_EMIT_BINARY(MaximumOp, e.maximum(x, y))
DIFFC_EMIT_BINARY(MinimumOp, e.minimum(x, y))
DIFFC_EMIT_BINARY(BitwiseAndOp, builder.create<arith::AndIOp>(getLoc(), x, y))
DIFFC_EMIT_BINARY(LogicalAndOp, builder.create<arith::AndIOp>(getLoc(), x, y))
DIFFC_EMIT_BINARY(LogicalOrOp, builder.create<arith::OrIOp>(getLoc(), x, y))

#define DIFFC_EMIT_COMPARE(OP, FLOAT, INT)                                                         \
  DIFFC_EMIT_BINARY(OP, e.compare(arith::CmpFPredicate::FLOAT, arith::CmpIPredicate::INT, x, y))
DIFFC_EMIT_COMPARE(LessOp, OLT, slt)
DIFFC_EMIT_COMPARE(LessEqualOp, OLE, sle)
DIFFC_EMIT_COMPARE(GreaterOp, OGT, sgt)
DIFFC_EMIT_COMPARE(GreaterEqualOp, OGE, sge)
DIFFC_EMIT_COMPARE(EqualOp, OEQ, eq)
DIFFC_EMIT_COMPARE(NotEqualOp, UNE, ne)

Value SelectOp::emitPointwise(OpBuilder &builder, ValueRange operands) {
  return builder.create<arith::SelectOp>(getLoc(), operands[0], operands[1], operands[2]);
}

Value CastOp::emitPointwise(OpBuilder &builder, ValueRange operands) {
  Emitter e = emitter(*this, builder, operands);
  Type from = e.element(), to = getTo(), result = e.like(to);
  Value x = operands[0];
  Location loc = getLoc();
  unsigned fromBits = from.getIntOrFloatBitWidth(), toBits = to.getIntOrFloatBitWidth();
  if (from == to)
    return x;
  if (isa<FloatType>(from) && isa<FloatType>(to)) {
    if (fromBits < toBits)
      return builder.create<arith::ExtFOp>(loc, result, x);
    if (fromBits > toBits)
      return e.narrowed(x, result);
    Value wide = builder.create<arith::ExtFOp>(loc, e.like(builder.getF32Type()), x);
    return builder.create<arith::TruncFOp>(loc, result, wide); // f16 <-> bf16
  }
  if (toBits == 1)
    return e.compare(arith::CmpFPredicate::UNE, arith::CmpIPredicate::ne, x, e.c(0));
  if (isa<FloatType>(from)) {
    // fptosi of NaN or an out-of-range value is poison: clamp to what fits
    // first. The bounds are no 16-bit floats, and the largest float below
    // 2^(bits-1) depends on the source's precision.
    if (fromBits == 16) {
      x = builder.create<arith::ExtFOp>(loc, e.like(builder.getF32Type()), x);
      e.type = x.getType();
      from = builder.getF32Type();
    }
    double bound = std::ldexp(1.0, static_cast<int>(toBits) - 1);
    double largest = from.isF64() && toBits == 32
                         ? bound - 1
                         : bound - std::ldexp(bound, -(from.isF64() ? 53 : 24));
    Value low = e.select(e.less(x, e.c(-bound)), e.c(-bound), x);
    Value high = e.greater(low, e.c(largest));
    Value clamped = e.select(high, e.c(largest), low);
    Value isNaN = builder.create<arith::CmpFOp>(loc, arith::CmpFPredicate::UNO, x, x);
    Value whole = builder.create<arith::FPToSIOp>(loc, result, e.select(isNaN, e.c(0), clamped));
    // The largest integer is no float of as many bits.
    Emitter integers{builder, loc, result};
    return e.select(high, integers.most(), whole);
  }
  if (isa<FloatType>(to)) {
    if (fromBits == 1)
      return builder.create<arith::UIToFPOp>(loc, result, x);
    return builder.create<arith::SIToFPOp>(loc, result, x);
  }
  if (fromBits == 1)
    return builder.create<arith::ExtUIOp>(loc, result, x);
  if (fromBits < toBits)
    return builder.create<arith::ExtSIOp>(loc, result, x);
  return builder.create<arith::TruncIOp>(loc, result, x);
}

} // namespace diffc::nn
