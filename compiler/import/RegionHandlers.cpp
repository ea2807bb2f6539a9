// Import of RoiAlign and DeformConv: bilinear reading around regions of a picture
// and around the taps of a kernel.
#include "compiler/import/Sampling.h"

#include <cmath>

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// How one dimension of every region is read: `bins` outputs, each the mean (or
/// maximum) of up to `most` places. Rows of `at` and `share` are regions, or one
/// row for all of them.
struct Bins {
  int64_t bins, most;
  SmallVector<double> at;    ///< in bins from the region's start
  SmallVector<double> share; ///< of the bin's mean; 0: no place at all
  int64_t rows = 1;
};

/// With sampling_ratio 0 the number of places follows each region's extent, so the
/// regions must be constants.
Result<Bins> binsOf(NodeImport &in, int64_t axis, int64_t bins, double scale, bool halfPixel) {
  int64_t ratio = in.integer("sampling_ratio", 0);
  if (ratio < 0 || ratio > 1024 || bins < 1 || bins > (1 << 20))
    return in.fail("sampling_ratio or an output extent is out of range");
  SmallVector<int64_t> counts{ratio};
  if (ratio == 0) {
    auto regions = in.constantReals(1);
    if (!regions)
      return in.fail("sampling_ratio 0 with regions that the graph computes",
                     "give sampling_ratio: then the number of places is known when compiling");
    counts.clear();
    for (size_t r = 0; r + 3 < regions->size(); r += 4) {
      double extent = ((*regions)[r + axis + 2] - (*regions)[r + axis]) * scale;
      if (!halfPixel)
        extent = std::max(extent, 1.0);
      double count = std::ceil(extent / static_cast<double>(bins));
      if (!(count < 1024))
        return in.fail("a region is too large");
      counts.push_back(std::max<int64_t>(static_cast<int64_t>(count), 0));
    }
  }
  Bins result{bins, std::max<int64_t>(*std::max_element(counts.begin(), counts.end()), 1), {}, {}};
  result.rows = counts.size();
  for (int64_t count : counts)
    for (int64_t bin = 0; bin < bins; ++bin)
      for (int64_t i = 0; i < result.most; ++i) {
        double n = static_cast<double>(std::max<int64_t>(count, 1));
        result.at.push_back(static_cast<double>(bin) + (static_cast<double>(i) + 0.5) / n);
        result.share.push_back(i < count ? 1 / n : 0);
      }
  return result;
}

/// Bilinear taps of places between -1 and the extent, clamped to the picture;
/// those further out count as 0.
SmallVector<Tap> regionTaps(const Coordinates &k, Value at, int64_t size) {
  double last = static_cast<double>(size - 1);
  Value inside = k.both(k.atLeast(at, -1), k.atMost(at, last + 1));
  Reading reading{Interpolation::kLinear, Padding::kBorder, true};
  SmallVector<Tap> taps = tapsOf(k, at, size, reading);
  for (Tap &tap : taps)
    tap.inside = inside;
  return taps;
}

Outcome roiAlign(NodeImport &in) {
  ArrayRef<int64_t> s = in.type(0).getShape();
  if (s.size() != 4 || in.type(1).getRank() != 2 || in.type(1).getDimSize(1) != 4 ||
      in.type(2).getShape() != in.type(1).getShape().take_front(1))
    return in.fail("needs [batch, channels, height, width], regions [R, 4] and batch indices [R]");
  if (s[2] * s[3] == 0 || in.type(1).getDimSize(0) == 0)
    return in.fail("has no picture or no region");
  std::string mode = in.text("mode", "avg");
  if (mode != "avg" && mode != "max")
    return in.fail("mode is \"" + mode + "\"", "it is avg or max");
  // Before 16 there was no shift by half a pixel.
  bool halfPixel =
      in.opset >= 16 && in.text("coordinate_transformation_mode", "half_pixel") == "half_pixel";
  double scale = in.real("spatial_scale", 1);
  int64_t regions = in.type(1).getDimSize(0);
  Value corners = wideEnough(in, in.operand(1));
  Coordinates k{in, tensorType(corners).getElementType()};
  Type element = in.type(0).getElementType();

  SmallVector<SmallVector<Tap>> dimensions;
  SmallVector<Bins> all;
  SmallVector<Value> shares;
  for (int64_t d = 0; d < 2; ++d) { // y then x; corners are x1, y1, x2, y2
    DIFFRUN_ASSIGN(Bins bins, binsOf(in, 1 - d, in.integer(d ? "output_width" : "output_height", 1),
                                     scale, halfPixel));
    int64_t places = bins.bins * bins.most;
    SmallVector<int64_t> shape =
        d ? SmallVector<int64_t>{bins.rows, 1, places} : SmallVector<int64_t>{bins.rows, places, 1};
    auto corner = [&](int64_t which) {
      Value c = nn::reshape(in.builder, sliceOf(in, corners, 1, which, 1), {regions, 1, 1});
      return k.add(k.mul(c, scale), halfPixel ? -0.5 : 0);
    };
    Value start = corner(1 - d), extent = k.sub(corner(3 - d), start);
    if (!halfPixel)
      extent = make<MaximumOp>(in, extent, k.c(1));
    Value bin = k.mul(extent, 1 / static_cast<double>(bins.bins));
    Value at =
        make<AddOp>(in, start, make<MulOp>(in, bin, realConstant(in, bins.at, shape, k.element)));
    dimensions.push_back(regionTaps(k, at, s[2 + d]));
    shape.push_back(1);
    shares.push_back(realConstant(in, bins.share, shape, element));
    all.push_back(std::move(bins));
  }
  Value sample = in.operand(2);
  if (!in.type(2).getElementType().isInteger(64))
    sample = make<CastOp>(in, sample, in.builder.getI64Type());
  SmallVector<Value> terms =
      readAt(in, in.operand(0), nn::reshape(in.builder, sample, {regions, 1, 1}), dimensions);
  SmallVector<int64_t> apart{regions, all[0].bins, all[0].most, all[1].bins, all[1].most, s[1]};
  Value share = make<MulOp>(in, shares[0], shares[1]), y;
  if (mode == "avg") {
    y = make<MulOp>(in, sumOf(in, terms), share);
    y = make<ReduceSumOp>(in, nn::reshape(in.builder, y, apart), ArrayRef<int64_t>{2, 4}, false);
  } else {
    // The largest weighted corner, as ONNX defines it; of existing places only.
    y = terms.front();
    for (Value term : ArrayRef<Value>(terms).drop_front())
      y = make<MaximumOp>(in, y, term);
    Value none = scalar(in.builder, in.loc, -std::numeric_limits<double>::infinity(), element);
    Value exists = make<GreaterOp>(in, share, scalar(in.builder, in.loc, 0, element));
    y = make<SelectOp>(in, exists, y, none);
    y = make<ReduceMaxOp>(in, nn::reshape(in.builder, y, apart), ArrayRef<int64_t>{2, 4}, false);
    // A region without any place gives 0.
    Value empty = make<EqualOp>(in, y, none);
    y = make<SelectOp>(in, empty, scalar(in.builder, in.loc, 0, element), y);
  }
  return NodeImport::Values{nn::transpose(in.builder, y, {0, 3, 1, 2})};
}

/// Positions of a kernel's taps along one dimension, without offsets: [1, taps,
/// outputs...].
Value tapPlaces(NodeImport &in, const Window &w, size_t d, Type element) {
  SmallVector<double> places;
  for (int64_t t = 0; t < w.kernel[0] * w.kernel[1]; ++t)
    for (int64_t o = 0; o < w.outputs[0] * w.outputs[1]; ++o) {
      int64_t tap = d ? t % w.kernel[1] : t / w.kernel[1];
      int64_t at = d ? o % w.outputs[1] : o / w.outputs[1];
      places.push_back(static_cast<double>(at * w.strides[d] - w.low[d] + tap * w.dilations[d]));
    }
  return realConstant(in, places, {1, w.kernel[0] * w.kernel[1], w.outputs[0], w.outputs[1]},
                      element);
}

/// A convolution whose taps are displaced, each at each output by its own offset,
/// and weighted by a mask.
Outcome deformConv(NodeImport &in) {
  ArrayRef<int64_t> s = in.type(0).getShape(), k = in.type(1).getShape();
  int64_t groups = in.integer("group", 1), offsetGroups = in.integer("offset_group", 1);
  if (s.size() != 4 || k.size() != 4)
    return in.fail("needs two spatial dimensions");
  if (groups < 1 || offsetGroups < 1 || s[1] != k[1] * groups || k[0] % groups ||
      s[1] % offsetGroups || s[2] * s[3] == 0)
    return in.fail("channels, group and offset_group do not fit together");
  DIFFRUN_ASSIGN(Window w, windowOf(in, k.drop_front(2), s.drop_front(2)));
  int64_t taps = k[2] * k[3], h = w.outputs[0], v = w.outputs[1];
  SmallVector<int64_t> offsetShape{s[0], offsetGroups * taps * 2, h, v},
      maskShape{s[0], offsetGroups * taps, h, v};
  if (in.type(2).getShape() != ArrayRef<int64_t>(offsetShape) ||
      (in.operand(4) && in.type(4).getShape() != ArrayRef<int64_t>(maskShape)))
    return in.fail("offset or mask does not have one entry per tap and output");
  OpBuilder &b = in.builder;
  Value offsets =
      nn::reshape(b, wideEnough(in, in.operand(2)), {s[0], offsetGroups, taps, 2, h, v});
  Coordinates c{in, tensorType(offsets).getElementType()};
  Value sample = in.constant(llvm::to_vector(llvm::seq<int64_t>(0, s[0])), alongAxis(4, 0, s[0]));
  int64_t channels = s[1] / offsetGroups;
  SmallVector<Value> parts;
  for (int64_t g = 0; g < offsetGroups; ++g) {
    SmallVector<SmallVector<Tap>> dimensions;
    for (size_t d = 0; d < 2; ++d) {
      Value own = sliceOf(in, sliceOf(in, offsets, 1, g, 1), 3, d, 1);
      Value at =
          make<AddOp>(in, nn::reshape(b, own, {s[0], taps, h, v}), tapPlaces(in, w, d, c.element));
      dimensions.push_back(
          tapsOf(c, at, s[2 + d], {Interpolation::kLinear, Padding::kZeros, true}));
    }
    Value x = sliceOf(in, in.operand(0), 1, g * channels, channels);
    Value read = sumOf(in, readAt(in, x, sample, dimensions)); // [N, taps, h, v, channels]
    if (in.operand(4)) {
      Value mask = sliceOf(in, in.operand(4), 1, g * taps, taps);
      read = make<MulOp>(in, read, nn::reshape(b, mask, {s[0], taps, h, v, 1}));
    }
    parts.push_back(read);
  }
  Value columns = parts.size() == 1 ? parts[0] : make<ConcatOp>(in, ValueRange(parts), 4);
  columns = nn::transpose(b, columns, {0, 4, 1, 2, 3}); // [N, C, taps, h, v]
  columns = nn::reshape(b, columns, {s[0], groups, k[1] * taps, h * v});
  Value weight = nn::reshape(b, in.operand(1), {groups, k[0] / groups, k[1] * taps});
  DIFFRUN_ASSIGN(auto y, in.build<MatmulOp>(weight, columns, false, false));
  return withBias(in, nn::reshape(b, y[0], {s[0], k[0], h, v}), 3);
}

} // namespace

void addRegionHandlers(HandlerTable &t) {
  t["RoiAlign"] = {roiAlign, 10, 3, {1}};
  t["DeformConv"] = {deformConv, 19, 3};
}

} // namespace diffc
