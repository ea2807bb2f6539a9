// Import of operators that read a picture at computed places. Places are clamped
// before they become indices, so that no grid, not even of NaN, reads outside.
#include "compiler/import/Spatial.h"

#include <cmath>

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// Arithmetic on coordinates of one element type.
struct Coordinates {
  NodeImport &in;
  Type element;

  Value c(double value) const { return scalar(in.builder, in.loc, value, element); }
  Value add(Value x, double y) const { return y == 0 ? x : make<AddOp>(in, x, c(y)); }
  Value mul(Value x, double y) const { return y == 1 ? x : make<MulOp>(in, x, c(y)); }
  Value sub(Value x, Value y) const { return make<SubOp>(in, x, y); }
  Value from(double x, Value y) const { return make<SubOp>(in, c(x), y); }
  Value less(Value x, double y) const { return make<LessOp>(in, x, c(y)); }
  Value atLeast(Value x, double y) const { return make<GreaterEqualOp>(in, x, c(y)); }
  Value atMost(Value x, double y) const { return make<LessEqualOp>(in, x, c(y)); }

  /// Between low and high; NaN is low. No gradient at the ends, nor outside.
  Value clamp(Value x, double low, double high) const {
    x = make<SelectOp>(in, make<GreaterOp>(in, x, c(low)), x, c(low));
    return make<SelectOp>(in, make<LessOp>(in, x, c(high)), x, c(high));
  }
  Value both(Value a, Value b) const { return make<LogicalAndOp>(in, a, b); }

  /// Back and forth between low and high, as often as it takes.
  Value reflect(Value x, double low, double high) const {
    double range = high - low;
    if (range <= 0)
      return make<SelectOp>(in, make<EqualOp>(in, x, x), c(low), c(low));
    Value distance = make<AbsOp>(in, add(x, -low));
    Value turns = make<FloorOp>(in, mul(distance, 1 / range));
    Value rest = sub(distance, mul(turns, range));
    Value half = make<FloorOp>(in, mul(turns, 0.5));
    Value even = make<EqualOp>(in, turns, mul(half, 2));
    Value folded = make<SelectOp>(in, even, add(rest, low), from(high, rest));
    return make<SelectOp>(in, both(atLeast(x, low), atMost(x, high)), x, folded);
  }
};

enum class Padding { kZeros, kBorder, kReflection };
enum class Interpolation { kNearest, kLinear, kCubic };

/// One input element that takes part, along one dimension.
struct Tap {
  Value index;  ///< i64, always inside
  Value weight; ///< null: 1
  Value inside; ///< null: always
};

/// How positions along one dimension of `extent` are read.
struct Reading {
  Interpolation interpolation;
  Padding padding;
  bool alignCorners;
};

/// The taps of a dimension for positions in its own unit (0 is the first element).
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

/// x [N, C, spatial...] read at positions [N, P...] per spatial dimension: the
/// products of all dimensions' taps, summed; [N, P..., C].
Value readAt(NodeImport &in, Value x, ArrayRef<SmallVector<Tap>> dimensions) {
  OpBuilder &b = in.builder;
  ArrayRef<int64_t> s = tensorType(x).getShape();
  size_t rank = s.size() - 2;
  SmallVector<int64_t> channelsLast{0};
  for (size_t i = 0; i < rank; ++i)
    channelsLast.push_back(i + 2);
  channelsLast.push_back(1);
  int64_t pixels = elementCount(s.drop_front(2));
  Value table = nn::reshape(b, nn::transpose(b, x, channelsLast), {s[0] * pixels, s[1]});
  SmallVector<int64_t> shape(tensorType(dimensions[0][0].index).getShape());
  SmallVector<int64_t> starts;
  for (int64_t n = 0; n < s[0]; ++n)
    starts.push_back(n * pixels);
  Value sample = in.constant(starts, alongAxis(shape.size(), 0, s[0]));
  SmallVector<int64_t> column(shape);
  column.push_back(1);

  Value sum;
  SmallVector<size_t> choice(rank, 0);
  for (bool more = true; more;) {
    Value index, weight, inside;
    for (size_t i = 0; i < rank; ++i) {
      const Tap &tap = dimensions[i][choice[i]];
      Value scaled =
          index ? make<MulOp>(in, index, scalar(b, in.loc, s[i + 2], b.getI64Type())) : Value();
      index = scaled ? make<AddOp>(in, scaled, tap.index) : tap.index;
      if (tap.weight)
        weight = weight ? make<MulOp>(in, weight, tap.weight) : tap.weight;
      if (tap.inside)
        inside = inside ? make<LogicalAndOp>(in, inside, tap.inside) : tap.inside;
    }
    index = make<AddOp>(in, index, sample);
    Value term = make<GatherOp>(in, table, index, 0);
    Type element = tensorType(term).getElementType();
    if (weight) {
      if (tensorType(weight).getElementType() != element)
        weight = make<CastOp>(in, weight, element);
      term = make<MulOp>(in, term, nn::reshape(b, weight, column));
    }
    if (inside)
      term =
          make<SelectOp>(in, nn::reshape(b, inside, column), term, scalar(b, in.loc, 0, element));
    sum = sum ? make<AddOp>(in, sum, term) : term;
    more = false;
    for (size_t i = rank; i-- > 0 && !more;) {
      more = ++choice[i] < dimensions[i].size();
      if (!more)
        choice[i] = 0;
    }
  }
  return sum;
}

/// [N, P..., C] -> [N, C, P...]
Value channelsSecond(NodeImport &in, Value x) {
  int64_t rank = tensorType(x).getRank();
  SmallVector<int64_t> order{0, rank - 1};
  for (int64_t i = 1; i + 1 < rank; ++i)
    order.push_back(i);
  return nn::transpose(in.builder, x, order);
}

/// f32 for the narrow types, whose coordinates would be too coarse.
Value wideEnough(NodeImport &in, Value x) {
  Type element = tensorType(x).getElementType();
  return element.isF16() || element.isBF16() ? make<CastOp>(in, x, in.builder.getF32Type()) : x;
}

Result<Reading> readingOf(NodeImport &in) {
  static const std::map<std::string, Interpolation> interpolations = {
      {"nearest", Interpolation::kNearest},
      {"bilinear", Interpolation::kLinear},
      {"linear", Interpolation::kLinear},
      {"bicubic", Interpolation::kCubic},
      {"cubic", Interpolation::kCubic}};
  static const std::map<std::string, Padding> paddings = {{"zeros", Padding::kZeros},
                                                          {"border", Padding::kBorder},
                                                          {"reflection", Padding::kReflection}};
  auto interpolation = interpolations.find(in.text("mode", "linear"));
  auto padding = paddings.find(in.text("padding_mode", "zeros"));
  if (interpolation == interpolations.end())
    return in.fail("mode is \"" + in.text("mode", "") + "\"",
                   "it is one of nearest, linear (bilinear) and cubic (bicubic)");
  if (padding == paddings.end())
    return in.fail("padding_mode is \"" + in.text("padding_mode", "") + "\"",
                   "it is one of zeros, border and reflection");
  return Reading{interpolation->second, padding->second, in.integer("align_corners", 0) != 0};
}

Outcome gridSample(NodeImport &in) {
  int64_t rank = in.type(0).getRank() - 2;
  ArrayRef<int64_t> s = in.type(0).getShape(), g = in.type(1).getShape();
  if (rank < 1 || rank > 3 || in.type(1).getRank() != rank + 2 || g.back() != rank || g[0] != s[0])
    return in.fail("needs [batch, channels, 1 to 3 dimensions...] and a grid [batch, places..., "
                   "as many coordinates]");
  if (elementCount(s.drop_front(2)) == 0)
    return in.fail("has no picture to read");
  DIFFRUN_ASSIGN(Reading reading, readingOf(in));
  Value grid = wideEnough(in, in.operand(1));
  Coordinates k{in, tensorType(grid).getElementType()};
  SmallVector<SmallVector<Tap>> dimensions;
  for (int64_t i = 0; i < rank; ++i) {
    // The grid's coordinates are x, y, z: the last dimension comes first.
    Value at = nn::reshape(in.builder, sliceOf(in, grid, rank + 1, rank - 1 - i, 1), g.drop_back());
    double extent = static_cast<double>(s[i + 2]);
    at = reading.alignCorners ? k.mul(k.add(at, 1), (extent - 1) / 2)
                              : k.mul(k.add(k.mul(k.add(at, 1), extent), -1), 0.5);
    dimensions.push_back(tapsOf(k, at, s[i + 2], reading));
  }
  return NodeImport::Values{channelsSecond(in, readAt(in, in.operand(0), dimensions))};
}

/// theta [N, r, r + 1] times the homogeneous coordinates of every place of a grid.
Outcome affineGrid(NodeImport &in) {
  auto size = in.constantIntegers(1);
  if (!size)
    return in.fail("size must be known when the model is compiled");
  int64_t rank = static_cast<int64_t>(size->size()) - 2;
  ArrayRef<int64_t> theta = in.type(0).getShape();
  if ((rank != 2 && rank != 3) || theta.size() != 3 || theta[0] != (*size)[0] || theta[1] != rank ||
      theta[2] != rank + 1)
    return in.fail("needs theta [N, 2, 3] with size [N, C, H, W], or [N, 3, 4] with one dimension "
                   "more");
  bool corners = in.integer("align_corners", 0) != 0;
  int64_t count = 1;
  for (int64_t extent : ArrayRef<int64_t>(*size).drop_front(2))
    if (extent < 1 || __builtin_mul_overflow(count, extent, &count) || count > (1 << 26))
      return in.fail("size asks for an impossible grid");
  SmallVector<double> coordinates;
  for (int64_t place = 0; place < count; ++place) {
    int64_t rest = place;
    for (int64_t i = rank; i-- > 0;) { // x, y, z
      int64_t extent = (*size)[i + 2];
      double at = static_cast<double>(rest % extent), n = static_cast<double>(extent);
      rest /= extent;
      coordinates.push_back(!corners ? (2 * at + 1) / n - 1 : n > 1 ? 2 * at / (n - 1) - 1 : 0);
    }
    coordinates.push_back(1);
  }
  Value places = realConstant(in, coordinates, {count, rank + 1}, in.type(0).getElementType());
  DIFFRUN_ASSIGN(auto grid, in.build<MatmulOp>(places, in.operand(0), false, true));
  SmallVector<int64_t> shape{theta[0]};
  shape.append(size->begin() + 2, size->end());
  shape.push_back(rank);
  return NodeImport::Values{nn::reshape(in.builder, grid[0], shape)};
}

} // namespace

void addSampleHandlers(HandlerTable &t) {
  t["GridSample"] = {gridSample, 16, 2};
  t["AffineGrid"] = {affineGrid, 20, 2};
}

} // namespace diffc
