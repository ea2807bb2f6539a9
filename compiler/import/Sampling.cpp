#include "compiler/import/Sampling.h"

using namespace mlir;
using namespace diffc::nn;

namespace diffc {

SmallVector<Tap> tapsOf(const Coordinates &k, Value at, int64_t size, const Reading &r) {
  double extent = static_cast<double>(size), last = extent - 1;
  double low = r.alignCorners ? 0 : -0.5, high = r.alignCorners ? last : extent - 0.5;
  if (r.interpolation == Interpolation::kNearest)
    at = make<RoundOp>(k.in, at);
  if (r.padding == Padding::kReflection)
    at = k.reflect(at, low, high);
  if (r.padding == Padding::kBorder && r.interpolation != Interpolation::kCubic)
    at = k.clamp(at, 0, last);
  if (r.padding == Padding::kBorder && r.interpolation == Interpolation::kCubic) {
    // Only beyond the border: the half element before it is still interpolated.
    Value within = k.both(k.atLeast(at, low), k.atMost(at, high));
    at = make<SelectOp>(k.in, within, at, k.clamp(at, 0, last));
  }
  at = k.clamp(at, -2, extent + 1); // no tap reaches the picture from further out
  Value base = make<FloorOp>(k.in, at), part = k.sub(at, base);
  auto tap = [&](double offset, Value weight) {
    Value place = k.add(base, offset), inside;
    if (r.padding == Padding::kZeros)
      inside = k.both(k.atLeast(place, 0), k.atMost(place, last));
    if (r.padding == Padding::kReflection)
      place = k.reflect(place, low, high);
    place = k.clamp(place, 0, last);
    return Tap{make<CastOp>(k.in, place, k.in.builder.getI64Type()), weight, inside};
  };
  if (r.interpolation == Interpolation::kNearest)
    return {tap(0, {})};
  if (r.interpolation == Interpolation::kLinear)
    return {tap(0, k.from(1, part)), tap(1, part)};
  // Keys' cubic with a = -0.75; s is the distance to the tap.
  constexpr double a = -0.75;
  auto poly = [&](Value s, std::initializer_list<double> factors) {
    Value sum;
    for (double factor : factors)
      sum = sum ? k.add(make<MulOp>(k.in, sum, s), factor) : k.c(factor);
    return sum;
  };
  auto near = [&](Value s) { return poly(s, {a + 2, -(a + 3), 0, 1}); };
  auto far = [&](Value s) { return poly(s, {a, -5 * a, 8 * a, -4 * a}); };
  return {tap(-1, far(k.add(part, 1))), tap(0, near(part)), tap(1, near(k.from(1, part))),
          tap(2, far(k.from(2, part)))};
}

SmallVector<Value> readAt(NodeImport &in, Value x, Value sample,
                          ArrayRef<SmallVector<Tap>> dimensions) {
  OpBuilder &b = in.builder;
  ArrayRef<int64_t> s = tensorType(x).getShape();
  size_t rank = s.size() - 2;
  SmallVector<int64_t> channelsLast{0};
  for (size_t i = 0; i < rank; ++i)
    channelsLast.push_back(i + 2);
  channelsLast.push_back(1);
  int64_t pixels = elementCount(s.drop_front(2));
  Value table = nn::reshape(b, nn::transpose(b, x, channelsLast), {s[0] * pixels, s[1]});
  auto number = [&](int64_t value) { return scalar(b, in.loc, value, b.getI64Type()); };
  auto column = [&](Value value) { // one more dimension, for the channels
    SmallVector<int64_t> shape(tensorType(value).getShape());
    shape.push_back(1);
    return nn::reshape(b, value, shape);
  };
  Type element = tensorType(x).getElementType();

  SmallVector<Value> terms;
  SmallVector<size_t> choice(rank, 0);
  for (bool more = true; more;) {
    Value index = sample, weight, inside;
    for (size_t i = 0; i < rank; ++i) {
      const Tap &tap = dimensions[i][choice[i]];
      index = make<AddOp>(in, make<MulOp>(in, index, number(s[i + 2])), tap.index);
      if (tap.weight)
        weight = weight ? make<MulOp>(in, weight, tap.weight) : tap.weight;
      if (tap.inside)
        inside = inside ? make<LogicalAndOp>(in, inside, tap.inside) : tap.inside;
    }
    Value term = make<GatherOp>(in, table, index, 0);
    if (weight) {
      if (tensorType(weight).getElementType() != element)
        weight = make<CastOp>(in, weight, element);
      term = make<MulOp>(in, term, column(weight));
    }
    if (inside)
      term = make<SelectOp>(in, column(inside), term, scalar(b, in.loc, 0, element));
    terms.push_back(term);
    more = false;
    for (size_t i = rank; i-- > 0 && !more;) {
      more = ++choice[i] < dimensions[i].size();
      if (!more)
        choice[i] = 0;
    }
  }
  return terms;
}

Value sumOf(NodeImport &in, ArrayRef<Value> terms) {
  Value sum = terms.front();
  for (Value term : terms.drop_front())
    sum = make<AddOp>(in, sum, term);
  return sum;
}

Value wideEnough(NodeImport &in, Value x) {
  Type element = tensorType(x).getElementType();
  return element.isF16() || element.isBF16() ? make<CastOp>(in, x, in.builder.getF32Type()) : x;
}

} // namespace diffc
