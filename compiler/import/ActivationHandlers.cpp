// Import of activations, and of functions that are composed of simpler ones.
//
// A branch that select does not take is kept finite by clamping its operand, so
// that its derivative, times 0, is 0.
#include "compiler/import/Terms.h"

#include <cmath>

using namespace mlir;
using namespace diffc::nn;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

//===--- Activations ---------------------------------------------------------===//

/// outer * (x < 0 ? inner * (e^(x / width) - 1) : x).
Value bentExponential(NodeImport &in, double outer, double inner, double width) {
  Terms t(in, 0);
  Value x = in.operand(0), below = t.min(x, t.c(0));
  if (width != 1)
    below = t.div(below, t.c(width));
  Value bent = t.mul(t.make<Expm1Op>(below), t.c(inner));
  Value y = t.select(t.less(x, t.c(0)), bent, x);
  return outer == 1 ? y : t.mul(y, t.c(outer));
}

Outcome elu(NodeImport &in) {
  return NodeImport::Values{bentExponential(in, 1, in.real("alpha", 1), 1)};
}
Outcome selu(NodeImport &in) {
  double alpha = in.real("alpha", 1.67326319217681884765625);
  return NodeImport::Values{
      bentExponential(in, in.real("gamma", 1.05070102214813232421875), alpha, 1)};
}
Outcome celu(NodeImport &in) {
  double alpha = in.real("alpha", 1);
  if (alpha == 0)
    return in.fail("alpha is 0");
  return NodeImport::Values{bentExponential(in, 1, alpha, alpha)};
}

/// max(0, min(1, alpha x + beta))
Value hardSigmoidOf(const Terms &t, Value x, double alpha, double beta) {
  Value line = t.add(t.mul(x, t.c(alpha)), t.c(beta));
  return t.max(t.min(line, t.c(1)), t.c(0));
}
Outcome hardSigmoid(NodeImport &in) {
  return NodeImport::Values{
      hardSigmoidOf(Terms(in, 0), in.operand(0), in.real("alpha", 0.2), in.real("beta", 0.5))};
}
Outcome hardSwish(NodeImport &in) {
  Terms t(in, 0);
  return NodeImport::Values{t.mul(in.operand(0), hardSigmoidOf(t, in.operand(0), 1.0 / 6, 0.5))};
}

Outcome mish(NodeImport &in) {
  Terms t(in, 0);
  Value x = in.operand(0);
  return NodeImport::Values{t.mul(x, t.make<TanhOp>(t.make<SoftplusOp>(x)))};
}

Outcome swish(NodeImport &in) {
  Terms t(in, 0);
  Value x = in.operand(0);
  double alpha = in.real("alpha", 1);
  if (alpha == 1)
    return in.build<SiluOp>(x);
  return NodeImport::Values{t.mul(x, t.make<SigmoidOp>(t.mul(x, t.c(alpha))))};
}

Outcome softsign(NodeImport &in) {
  Terms t(in, 0);
  return NodeImport::Values{t.div(in.operand(0), t.add(t.make<AbsOp>(in.operand(0)), t.c(1)))};
}

Outcome thresholdedRelu(NodeImport &in) {
  Terms t(in, 0);
  Value x = in.operand(0);
  return NodeImport::Values{t.select(t.greater(x, t.c(in.real("alpha", 1))), x, t.c(0))};
}

/// Towards 0 by `bias` outside of [-lambd, lambd], 0 inside. Integers are
/// compared as the reals they are.
Outcome shrink(NodeImport &in) {
  Type own = in.type(0).getElementType();
  Terms t(in, isa<FloatType>(own) ? own : in.builder.getF64Type());
  Value x = t.cast(in.operand(0), t.element);
  double lambd = in.real("lambd", 0.5), bias = in.real("bias", 0);
  Value inner = t.select(t.greater(x, t.c(lambd)), t.sub(x, t.c(bias)), t.c(0));
  Value y = t.select(t.less(x, t.c(-lambd)), t.add(x, t.c(bias)), inner);
  return NodeImport::Values{t.cast(y, own)};
}

/// The slope broadcasts to x, never x to the slope.
Outcome pRelu(NodeImport &in) {
  Terms t(in, 0);
  Value x = in.operand(0);
  auto shape = broadcastShape(in.type(0).getShape(), in.type(1).getShape());
  if (!shape || ArrayRef<int64_t>(*shape) != in.type(0).getShape())
    return in.fail("the slope does not broadcast to the input");
  DIFFRUN_ASSIGN(auto bent, in.build<MulOp>(x, in.operand(1)));
  return NodeImport::Values{t.select(t.less(x, t.c(0)), bent[0], x)};
}

//===--- Trigonometric and hyperbolic functions ------------------------------===//

Outcome tangent(NodeImport &in) {
  Terms t(in, 0);
  return NodeImport::Values{t.div(t.make<SinOp>(in.operand(0)), t.make<CosOp>(in.operand(0)))};
}

/// atan(x / sqrt((1 - x)(1 + x))): exact near 0 and near the ends, where the
/// quotient is infinite; NaN beyond them.
Outcome arcSine(NodeImport &in) {
  Terms t(in, 0);
  Value x = in.operand(0);
  Value root = t.make<SqrtOp>(t.mul(t.sub(t.c(1), x), t.add(t.c(1), x)));
  return NodeImport::Values{t.make<AtanOp>(t.div(x, root))};
}

/// 2 atan(sqrt((1 - x) / (1 + x)))
Outcome arcCosine(NodeImport &in) {
  Terms t(in, 0);
  Value x = in.operand(0);
  Value ratio = t.div(t.sub(t.c(1), x), t.add(t.c(1), x));
  return NodeImport::Values{t.mul(t.c(2), t.make<AtanOp>(t.make<SqrtOp>(ratio)))};
}

/// (e^x - e^-x) / 2 by a = e^(x/2) - 1 and b = e^(-x/2) - 1, for which
/// e^x - 1 = a (a + 2): no cancellation near 0, no overflow before the result's.
Outcome hyperbolicSine(NodeImport &in) {
  Terms t(in, 0);
  Value half = t.mul(in.operand(0), t.c(0.5));
  auto term = [&](Value z) {
    Value a = t.make<Expm1Op>(z);
    return t.mul(t.mul(a, t.c(0.5)), t.add(a, t.c(2)));
  };
  return NodeImport::Values{t.sub(term(half), term(t.neg(half)))};
}

/// (e^(x/2) / 2) e^(x/2) + (e^(-x/2) / 2) e^(-x/2)
Outcome hyperbolicCosine(NodeImport &in) {
  Terms t(in, 0);
  Value half = t.mul(in.operand(0), t.c(0.5));
  auto term = [&](Value z) {
    Value a = t.make<ExpOp>(z);
    return t.mul(t.mul(a, t.c(0.5)), a);
  };
  return NodeImport::Values{t.add(term(half), term(t.neg(half)))};
}

/// From here on x and sqrt(x^2 +- 1) are the same to more than the type's
/// precision, and x^2 does not overflow before.
double hyperbolicLimit(Type element) { return element.isF64() ? 1e9 : element.isF16() ? 128 : 1e4; }
constexpr double kLog2 = 0.69314718055994531;

/// f(x) of an odd function from its values at |x|. Not by sign(x) and |x|, whose
/// derivatives at 0 are 0.
template <typename F> Value oddly(const Terms &t, Value x, F f) {
  Value negative = t.less(x, t.c(0));
  Value y = f(t.select(negative, t.neg(x), x));
  return t.select(negative, t.neg(y), y);
}

/// log(x + sqrt(x^2 + 1)) = log1p(x + x^2 / (1 + sqrt(x^2 + 1))); log(2 x) for
/// large x.
Outcome areaSine(NodeImport &in) {
  Terms t(in, 0);
  Value limit = t.c(hyperbolicLimit(t.element));
  return NodeImport::Values{oddly(t, in.operand(0), [&](Value x) {
    Value small = t.min(x, limit), square = t.mul(small, small);
    Value root = t.make<SqrtOp>(t.add(square, t.c(1)));
    Value near = t.make<Log1pOp>(t.add(small, t.div(square, t.add(root, t.c(1)))));
    Value far = t.add(t.make<LogOp>(t.max(x, t.c(1))), t.c(kLog2));
    return t.select(t.greater(x, limit), far, near);
  })};
}

/// log1p(s + sqrt(s (s + 2))), s = x - 1; log(2 x) for large x.
Outcome areaCosine(NodeImport &in) {
  Terms t(in, 0);
  Value x = in.operand(0), limit = t.c(hyperbolicLimit(t.element));
  Value s = t.sub(t.min(x, limit), t.c(1));
  // Two roots: of a product below -2 there would be one again.
  Value root = t.mul(t.make<SqrtOp>(s), t.make<SqrtOp>(t.add(s, t.c(2))));
  Value near = t.make<Log1pOp>(t.add(s, root));
  Value far = t.add(t.make<LogOp>(t.max(x, t.c(1))), t.c(kLog2));
  return NodeImport::Values{t.select(t.greater(x, limit), far, near)};
}

/// log1p(2 x / (1 - x)) / 2
Outcome areaTangent(NodeImport &in) {
  Terms t(in, 0);
  return NodeImport::Values{oddly(t, in.operand(0), [&](Value x) {
    Value ratio = t.div(t.mul(x, t.c(2)), t.sub(t.c(1), x));
    return t.mul(t.make<Log1pOp>(ratio), t.c(0.5));
  })};
}

//===--- Numbers and bits ----------------------------------------------------===//

Outcome isNan(NodeImport &in) { return in.build<NotEqualOp>(in.operand(0), in.operand(0)); }

Outcome isInf(NodeImport &in) {
  Terms t(in, 0);
  bool above = in.integer("detect_positive", 1), below = in.integer("detect_negative", 1);
  Value infinity = t.c(std::numeric_limits<double>::infinity()), x = in.operand(0);
  if (above && below)
    return in.build<EqualOp>(t.make<AbsOp>(x), infinity);
  if (above || below)
    return in.build<EqualOp>(below ? t.neg(x) : x, infinity);
  Value no = scalar(in.builder, in.loc, 0, in.builder.getI1Type());
  return NodeImport::Values{broadcastTo(in.builder, no, in.type(0).getShape())};
}

/// fmod=1: the remainder with the dividend's sign; fmod=0: with the divisor's,
/// before opset 28 for integers only.
Outcome mod(NodeImport &in) {
  Terms t(in, 0);
  if (t.isReal() && !in.integer("fmod", 0) && in.opset < 28)
    return in.fail("fmod=0 is for integers", "set fmod=1");
  DIFFRUN_ASSIGN(auto rest, in.build<RemainderOp>(in.operand(0), in.operand(1)));
  if (in.integer("fmod", 0))
    return rest;
  Value r = rest[0], b = in.operand(1);
  Value signsDiffer = t.make<NotEqualOp>(t.less(r, t.c(0)), t.less(b, t.c(0)));
  Value shifts = t.make<LogicalAndOp>(signsDiffer, t.make<NotEqualOp>(r, t.c(0)));
  Value y = t.select(shifts, t.add(r, b), r);
  if (!t.isReal())
    return NodeImport::Values{y};
  Value zero = t.select(t.less(b, t.c(0)), t.c(-0.0), t.c(0));
  return NodeImport::Values{t.select(t.equal(r, t.c(0)), zero, y)};
}

/// a + b = (a & b) + (a | b), and a | b = (a & b) + (a ^ b).
template <int kTimesAnd> Outcome bitwise(NodeImport &in) {
  Terms t(in, 0);
  DIFFRUN_ASSIGN(auto both, in.build<BitwiseAndOp>(in.operand(0), in.operand(1)));
  Value rest = t.sub(t.add(in.operand(0), in.operand(1)), both[0]);
  return NodeImport::Values{kTimesAnd == 2 ? t.sub(rest, both[0]) : rest};
}
/// 2^count, for counts from 0 to the type's bits less 1: products of 2^(2^i).
Value powerOfTwo(const Terms &t, Value count) {
  Value result = t.c(1);
  unsigned bits = t.element.getIntOrFloatBitWidth();
  for (unsigned place = 1; place < bits; place *= 2) {
    Value set = t.make<NotEqualOp>(t.make<BitwiseAndOp>(count, t.c(place)), t.c(0));
    result = t.mul(result, t.select(set, t.c(std::ldexp(1.0, place)), t.c(1)));
  }
  return result;
}

/// To the left times 2^n, to the right floor(x / 2^n). By a count that the type
/// does not have only the sign is left: 0, or -1 for a negative x to the right.
Outcome bitShift(NodeImport &in) {
  Terms t(in, 0);
  std::string direction = in.text("direction", "");
  if (t.isReal() || t.element.isInteger(1))
    return in.fail("needs integers");
  if (direction != "LEFT" && direction != "RIGHT")
    return in.fail("direction \"" + direction + "\" is neither LEFT nor RIGHT");
  bool left = direction == "LEFT";
  Value x = in.operand(0), n = in.operand(1);
  // To the right by all but one bit leaves the sign too, and 2^n is no number.
  double bits = t.element.getIntOrFloatBitWidth(), last = left ? bits - 1 : bits - 2;
  Value outside = t.make<LogicalOrOp>(t.less(n, t.c(0)), t.greater(n, t.c(last)));
  Value factor = powerOfTwo(t, t.select(outside, t.c(0), n));
  DIFFRUN_ASSIGN(auto product, in.build<MulOp>(x, factor));
  if (left)
    return NodeImport::Values{t.select(outside, t.c(0), product[0])};
  // Without its low bits x divides exactly.
  Value low = t.make<BitwiseAndOp>(x, t.sub(factor, t.c(1)));
  Value quotient = t.div(t.sub(x, low), factor), negative = t.less(x, t.c(0));
  return NodeImport::Values{t.select(outside, t.select(negative, t.c(-1), t.c(0)), quotient)};
}

Outcome bitwiseNot(NodeImport &in) {
  Terms t(in, 0);
  if (t.isReal() || t.element.isInteger(1))
    return in.fail("needs integers");
  return NodeImport::Values{t.sub(t.c(-1), in.operand(0))};
}

} // namespace

void addActivationHandlers(HandlerTable &t) {
  t["Elu"] = {elu};
  t["Selu"] = {selu};
  t["Celu"] = {celu, 12};
  t["HardSigmoid"] = {hardSigmoid};
  t["HardSwish"] = {hardSwish, 14};
  t["Mish"] = {mish, 18};
  t["Swish"] = {swish, 24};
  t["Softsign"] = {softsign};
  t["ThresholdedRelu"] = {thresholdedRelu, 10};
  t["Shrink"] = {shrink, 9};
  t["PRelu"] = {pRelu, 7, 2};
  t["Tan"] = {tangent, 7};
  t["Asin"] = {arcSine, 7};
  t["Acos"] = {arcCosine, 7};
  t["Atan"] = {[](NodeImport &in) { return in.build<AtanOp>(in.operand(0)); }, 7};
  t["Sinh"] = {hyperbolicSine, 9};
  t["Cosh"] = {hyperbolicCosine, 9};
  t["Asinh"] = {areaSine, 9};
  t["Acosh"] = {areaCosine, 9};
  t["Atanh"] = {areaTangent, 9};
  t["IsNaN"] = {isNan, 9};
  t["IsInf"] = {isInf, 10};
  t["Mod"] = {mod, 10, 2};
  t["Xor"] = {[](NodeImport &in) { return in.build<NotEqualOp>(in.operand(0), in.operand(1)); }, 7,
              2};
  t["BitwiseAnd"] = {
      [](NodeImport &in) { return in.build<BitwiseAndOp>(in.operand(0), in.operand(1)); }, 18, 2};
  t["BitwiseOr"] = {bitwise<1>, 18, 2};
  t["BitwiseXor"] = {bitwise<2>, 18, 2};
  t["BitShift"] = {bitShift, 11, 2};
  t["BitwiseNot"] = {bitwiseNot, 18};
}

} // namespace diffc
