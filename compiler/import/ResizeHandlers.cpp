// Import of Resize and Upsample: axis by axis, each output element is a sum of
// input elements whose places and weights are known when compiling.
#include "compiler/import/Spatial.h"

#include <cmath>

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// One axis to be resized.
struct Axis {
  int64_t index, from, to; ///< dimension, its extents before and after
  double scale;
  double length; ///< the output's extent before it was rounded
  bool bySize;   ///< the extent was given, not the scale
  /// Quotients by the scale are rounded to float, as others do: in double
  /// precision 6 / 1.2f is just below 5, and its floor another element.
  bool inFloat = false;
  double start = 0, end = 1; ///< region of interest, of tf_crop_and_resize
};

/// The input's coordinate of an output element.
using Coordinate = double (*)(const Axis &, double x);

double over(const Axis &a, double x) {
  if (a.bySize)
    return x * static_cast<double>(a.from) / a.length;
  return a.inFloat ? static_cast<float>(x) / static_cast<float>(a.scale) : x / a.scale;
}
double halfPixel(const Axis &a, double x) { return over(a, x + 0.5) - 0.5; }
double asymmetric(const Axis &a, double x) { return over(a, x); }
double halfPixelForNearest(const Axis &a, double x) { return over(a, x + 0.5); }
double pytorchHalfPixel(const Axis &a, double x) { return a.to > 1 ? halfPixel(a, x) : 0; }
double halfPixelSymmetric(const Axis &a, double x) {
  double center = static_cast<double>(a.from) / 2;
  return center * (1 - static_cast<double>(a.to) / a.length) + halfPixel(a, x);
}
double alignCorners(const Axis &a, double x) {
  return a.length == 1 ? 0 : x * static_cast<double>(a.from - 1) / (a.length - 1);
}
double cropAndResize(const Axis &a, double x) {
  double last = static_cast<double>(a.from - 1), to = static_cast<double>(a.to);
  if (a.to == 1)
    return 0.5 * (a.start + a.end) * last;
  return a.start * last + x * (a.end - a.start) * last / (to - 1);
}

/// The nearest element of a coordinate.
using Nearest = double (*)(double x);
double roundPreferFloor(double x) { return std::ceil(x - 0.5); }
double roundPreferCeil(double x) { return std::floor(x + 0.5); }
double floorOf(double x) { return std::floor(x); }
double ceilOf(double x) { return std::ceil(x); }

/// How a node resizes, whatever its opset.
struct Method {
  enum Kind { kNearest, kLinear, kCubic } kind = kNearest;
  Coordinate coordinate = asymmetric;
  Nearest nearest = floorOf;
  bool antialias = false, excludeOutside = false;
  double cubic = -0.75, extrapolation = 0;
};

template <typename T>
Result<T> choice(NodeImport &in, const char *attribute, const std::string &value,
                 const std::map<std::string, T> &all) {
  auto found = all.find(value);
  if (found != all.end())
    return found->second;
  std::string names;
  for (const auto &[name, ignored] : all)
    names += (names.empty() ? "" : ", ") + name;
  return in.fail(std::string(attribute) + " is \"" + value + "\"", "it is one of " + names);
}

Result<Method> methodOf(NodeImport &in) {
  static const std::map<std::string, Method::Kind> kinds = {
      {"nearest", Method::kNearest}, {"linear", Method::kLinear}, {"cubic", Method::kCubic}};
  static const std::map<std::string, Coordinate> coordinates = {
      {"half_pixel", halfPixel},
      {"half_pixel_symmetric", halfPixelSymmetric},
      {"pytorch_half_pixel", pytorchHalfPixel},
      {"align_corners", alignCorners},
      {"asymmetric", asymmetric},
      {"tf_half_pixel_for_nn", halfPixelForNearest},
      {"tf_crop_and_resize", cropAndResize}};
  static const std::map<std::string, Nearest> nearests = {{"round_prefer_floor", roundPreferFloor},
                                                          {"round_prefer_ceil", roundPreferCeil},
                                                          {"floor", floorOf},
                                                          {"ceil", ceilOf}};
  Method m;
  std::string kind = in.text("mode", "nearest");
  DIFFRUN_ASSIGN(m.kind, choice(in, "mode", kind == "bilinear" ? "linear" : kind, kinds));
  if (in.node.op_type() == "Upsample" || in.opset < 11)
    return m; // asymmetric, floor
  DIFFRUN_ASSIGN(m.coordinate,
                 choice(in, "coordinate_transformation_mode",
                        in.text("coordinate_transformation_mode", "half_pixel"), coordinates));
  DIFFRUN_ASSIGN(m.nearest, choice(in, "nearest_mode",
                                   in.text("nearest_mode", "round_prefer_floor"), nearests));
  m.antialias = in.integer("antialias", 0) != 0 && m.kind != Method::kNearest;
  m.excludeOutside = in.integer("exclude_outside", 0) != 0;
  m.cubic = in.real("cubic_coeff_a", -0.75);
  m.extrapolation = in.real("extrapolation_value", 0);
  return m;
}

/// An operand's elements, or an attribute's (Upsample-7); none where both are
/// absent or empty.
Result<SmallVector<double>> scalesOf(NodeImport &in, size_t operand) {
  SmallVector<double> scales;
  if (in.operand(operand)) {
    auto given = in.constantReals(operand);
    if (!given)
      return in.fail("scales must be known when the model is compiled: they depend on data");
    scales = *given;
  } else if (const auto *attribute = in.find("scales")) {
    scales.assign(attribute->floats().begin(), attribute->floats().end());
  }
  for (double scale : scales)
    if (!(scale > 0) || scale > 1e6)
      return in.fail("a scale is " + std::to_string(scale));
  return scales;
}

/// Gives each axis the extents of `sizes`, as keep_aspect_ratio_policy has it.
Status applySizes(NodeImport &in, ArrayRef<int64_t> sizes, SmallVectorImpl<Axis> &axes) {
  static const std::map<std::string, int> policies = {
      {"stretch", 0}, {"not_larger", -1}, {"not_smaller", 1}};
  DIFFRUN_ASSIGN(int policy, choice(in, "keep_aspect_ratio_policy",
                                    in.text("keep_aspect_ratio_policy", "stretch"), policies));
  double common = 0;
  for (auto [axis, size] : llvm::zip_equal(axes, sizes)) {
    if (size < 0)
      return in.fail("a size is " + std::to_string(size));
    axis.to = size;
    axis.length = static_cast<double>(size);
    axis.bySize = true;
    if (axis.from == 0 && (size != 0 || policy != 0))
      return in.fail("dimension " + std::to_string(axis.index) + " is empty");
    double scale = axis.from ? axis.length / static_cast<double>(axis.from) : 1;
    axis.scale = scale;
    if (policy != 0 && (&axis == axes.begin() || (policy < 0 ? scale < common : scale > common)))
      common = scale;
  }
  if (policy != 0)
    for (Axis &axis : axes) {
      axis.scale = common;
      axis.bySize = false;
      axis.length = common * static_cast<double>(axis.from);
      axis.to = static_cast<int64_t>(std::floor(axis.length + 0.5));
    }
  return {};
}

void applyScales(ArrayRef<double> scales, bool nearest, SmallVectorImpl<Axis> &axes) {
  for (auto [axis, scale] : llvm::zip_equal(axes, scales)) {
    // In float, as PyTorch and ONNX Runtime do: 10 * 0.7f is 7 there.
    float length = static_cast<float>(axis.from) * static_cast<float>(scale);
    axis.to = static_cast<int64_t>(std::floor(length));
    axis.scale = scale;
    axis.bySize = false;
    axis.inFloat = nearest;
    axis.length = scale * static_cast<double>(axis.from);
  }
}

Result<SmallVector<Axis>> axesOf(NodeImport &in, const Method &method) {
  int64_t rank = in.type(0).getRank();
  bool early = in.node.op_type() == "Upsample" || in.opset < 11;
  SmallVector<int64_t> indices = in.integers("axes");
  if (!in.has("axes"))
    indices = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  SmallVector<Axis> axes;
  for (int64_t index : indices) {
    auto wrapped = NodeImport::wrapAxis(index, rank);
    if (!wrapped || llvm::any_of(axes, [&](const Axis &a) { return a.index == *wrapped; }))
      return in.fail("axis " + std::to_string(index) +
                     (wrapped ? " is given twice" : " is out of range"));
    axes.push_back({*wrapped, in.type(0).getDimSize(*wrapped), 0, 1, 0, false});
  }
  DIFFRUN_ASSIGN(auto scales, scalesOf(in, early ? 1 : 2));
  SmallVector<int64_t> sizes;
  if (!early && in.operand(3)) {
    auto given = in.constantIntegers(3);
    if (!given)
      return in.fail("sizes must be known when the model is compiled: they depend on data");
    sizes = *given;
  }
  if (scales.size() != axes.size() && sizes.size() != axes.size())
    return in.fail("neither scales nor sizes has one entry for each of " +
                   std::to_string(axes.size()) + " axes");
  if (scales.size() == axes.size())
    applyScales(scales, method.kind == Method::kNearest, axes);
  else
    DIFFRUN_RETURN_IF_ERROR(applySizes(in, sizes, axes));
  if (method.coordinate == cropAndResize) {
    auto roi = in.operand(1) ? in.constantReals(1) : std::nullopt;
    if (!roi || roi->size() != 2 * axes.size() ||
        !llvm::all_of(*roi, [](double at) { return std::fabs(at) < 1e6; }))
      return in.fail("tf_crop_and_resize needs roi, known when the model is compiled, with a "
                     "start and an end per axis");
    for (size_t i = 0; i < axes.size(); ++i)
      axes[i].start = (*roi)[i], axes[i].end = (*roi)[i + axes.size()];
  }
  int64_t count = 1;
  SmallVector<int64_t> shape(in.type(0).getShape());
  for (Axis &axis : axes) {
    shape[axis.index] = axis.to;
    if (axis.from == 0 && axis.to != 0)
      return in.fail("dimension " + std::to_string(axis.index) + " is empty");
    if (std::fabs(axis.length - static_cast<double>(axis.to)) < 1e-5 * axis.length)
      axis.length = static_cast<double>(axis.to); // a float's rounding, no fraction
  }
  for (int64_t extent : shape)
    if (__builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 48))
      return in.fail("asks for an impossible shape");
  return axes;
}

/// The input elements and weights of every output element along one axis:
/// `taps` of each, row by row.
struct Taps {
  int64_t taps;
  SmallVector<int64_t> places;
  SmallVector<double> weights;
  SmallVector<bool> outside; ///< output elements that are extrapolated
};

double cubicAt(double x, double a) {
  x = std::fabs(x);
  if (x <= 1)
    return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

Taps tapsOf(const Method &method, const Axis &axis) {
  double reach = method.kind == Method::kLinear ? 1 : 2;
  double squeeze = method.antialias ? std::min(axis.scale, 1.0) : 1;
  int64_t first = static_cast<int64_t>(std::floor(-reach / squeeze)) + 1;
  Taps result{2 - 2 * first, {}, {}, {}};
  for (int64_t i = 0; i < axis.to; ++i) {
    double x = method.coordinate(axis, static_cast<double>(i)), base = std::floor(x);
    SmallVector<double> weights;
    double sum = 0;
    for (int64_t t = 0; t < result.taps; ++t) {
      double place = base + static_cast<double>(first + t), distance = (place - x) * squeeze;
      double weight = method.kind == Method::kLinear ? std::max(1 - std::fabs(distance), 0.0)
                                                     : cubicAt(distance, method.cubic);
      double last = static_cast<double>(axis.from - 1);
      if (method.excludeOutside && (place < 0 || place > last))
        weight = 0;
      weights.push_back(weight);
      sum += weight;
      result.places.push_back(static_cast<int64_t>(std::clamp(place, 0.0, last)));
    }
    bool normalise = method.antialias || method.excludeOutside;
    for (double weight : weights)
      result.weights.push_back(normalise && sum != 0 ? weight / sum : weight);
    result.outside.push_back(method.coordinate == cropAndResize &&
                             (x < 0 || x > static_cast<double>(axis.from - 1)));
  }
  return result;
}

/// x at `places` of an axis: a slice where they are evenly spaced.
Value pick(NodeImport &in, Value x, int64_t axis, ArrayRef<int64_t> places) {
  int64_t count = places.size(), stride = count > 1 ? places[1] - places[0] : 1;
  bool even = stride != 0 && count > 0;
  for (int64_t i = 1; i < count; ++i)
    even &= places[i] - places[i - 1] == stride;
  if (even)
    return sliceOf(in, x, axis, places[0], count, stride);
  return make<GatherOp>(in, x, in.constant(places, {count}), axis);
}

Value extrapolated(NodeImport &in, Value x, int64_t axis, ArrayRef<bool> outside, double value) {
  if (!llvm::is_contained(outside, true))
    return x;
  RankedTensorType type = tensorType(x);
  auto mask = RankedTensorType::get(alongAxis(type.getRank(), axis, outside.size()),
                                    in.builder.getI1Type());
  Value where = make<ConstantOp>(in, DenseElementsAttr::get(mask, outside));
  return make<SelectOp>(in, where, scalar(in.builder, in.loc, value, type.getElementType()), x);
}

/// Linear and cubic: the weighted sum of the taps.
Value interpolate(NodeImport &in, Value x, const Method &method, const Axis &axis) {
  Taps taps = tapsOf(method, axis);
  RankedTensorType type = tensorType(x);
  Value sum;
  if (taps.taps <= 4) {
    for (int64_t t = 0; t < taps.taps; ++t) {
      SmallVector<int64_t> places;
      SmallVector<double> weights;
      for (int64_t i = 0; i < axis.to; ++i) {
        places.push_back(taps.places[i * taps.taps + t]);
        weights.push_back(taps.weights[i * taps.taps + t]);
      }
      if (llvm::all_of(weights, [](double w) { return w == 0; }))
        continue;
      Value factor = realConstant(in, weights, alongAxis(type.getRank(), axis.index, axis.to),
                                  type.getElementType());
      Value term = make<MulOp>(in, pick(in, x, axis.index, places), factor);
      sum = sum ? make<AddOp>(in, sum, term) : term;
    }
  } else {
    SmallVector<int64_t> shape(type.getRank() + 1, 1);
    shape[axis.index] = axis.to, shape[axis.index + 1] = taps.taps;
    Value rows = make<GatherOp>(in, x, in.constant(taps.places, {axis.to, taps.taps}), axis.index);
    Value factor = realConstant(in, taps.weights, shape, type.getElementType());
    sum = make<ReduceSumOp>(in, make<MulOp>(in, rows, factor), ArrayRef<int64_t>{axis.index + 1},
                            false);
  }
  return extrapolated(in, sum, axis.index, taps.outside, method.extrapolation);
}

/// Nearest: elements repeated a whole number of times are a broadcast over all
/// such axes at once, others are picked.
Value nearest(NodeImport &in, Value x, const Method &method, ArrayRef<Axis> axes) {
  SmallVector<int64_t> apart, repeated, joined;
  SmallVector<int64_t> factors(tensorType(x).getRank(), 1);
  SmallVector<std::pair<const Axis *, SmallVector<bool>>> masks;
  for (const Axis &axis : axes) {
    SmallVector<int64_t> places;
    SmallVector<bool> outside;
    for (int64_t i = 0; i < axis.to; ++i) {
      double at = method.coordinate(axis, static_cast<double>(i));
      double last = static_cast<double>(axis.from - 1);
      places.push_back(static_cast<int64_t>(std::clamp(method.nearest(at), 0.0, last)));
      outside.push_back(method.coordinate == cropAndResize && (at < 0 || at > last));
    }
    masks.emplace_back(&axis, outside);
    int64_t factor = axis.to / axis.from;
    bool whole = factor > 1 && axis.to == factor * axis.from;
    for (int64_t i = 0; i < axis.to; ++i)
      whole &= factor > 0 && places[i] == i / factor;
    if (whole)
      factors[axis.index] = factor;
    else
      x = pick(in, x, axis.index, places);
  }
  for (auto [extent, factor] : llvm::zip_equal(tensorType(x).getShape(), factors)) {
    apart.append({extent, 1});
    repeated.append({extent, factor});
    joined.push_back(extent * factor);
  }
  if (llvm::any_of(factors, [](int64_t f) { return f > 1; }))
    x = nn::reshape(in.builder,
                    broadcastTo(in.builder, nn::reshape(in.builder, x, apart), repeated), joined);
  for (auto &[axis, outside] : masks)
    x = extrapolated(in, x, axis->index, outside, method.extrapolation);
  return x;
}

Outcome resize(NodeImport &in) {
  DIFFRUN_ASSIGN(Method method, methodOf(in));
  DIFFRUN_ASSIGN(auto all, axesOf(in, method));
  // An axis that keeps its extent keeps its elements, whatever the rounding.
  SmallVector<Axis> axes;
  for (const Axis &axis : all)
    if (axis.to != axis.from || std::fabs(axis.scale - 1) > 1e-9 ||
        (method.coordinate == cropAndResize && (axis.start != 0 || axis.end != 1)))
      axes.push_back(axis);
  Value x = in.operand(0);
  SmallVector<int64_t> shape(in.type(0).getShape());
  for (const Axis &axis : axes)
    shape[axis.index] = axis.to;
  if (elementCount(shape) == 0)
    return in.build<BroadcastToOp>(scalar(in.builder, in.loc, 0, in.type(0).getElementType()),
                                   shape);
  if (method.kind == Method::kNearest)
    return NodeImport::Values{nearest(in, x, method, axes)};
  Type element = in.type(0).getElementType();
  bool whole = !isa<FloatType>(element); // computed as floats, truncated
  if (whole)
    x = make<CastOp>(in, x, in.builder.getF32Type());
  for (const Axis &axis : axes)
    x = interpolate(in, x, method, axis);
  if (whole)
    x = make<CastOp>(in, x, element);
  return NodeImport::Values{x};
}

} // namespace

void addResizeHandlers(HandlerTable &t) {
  t["Resize"] = {resize, 10, 1, {1, 2}};
  t["Upsample"] = {resize, 7, 1, {1}};
}

} // namespace diffc
