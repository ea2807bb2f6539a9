// Import of operators that read a picture at computed places. Places are clamped
// before they become indices, so that no grid, not even of NaN, reads outside.
#include "compiler/import/Sampling.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// [N, P..., C] -> [N, C, P...]
Value channelsSecond(NodeImport &in, Value x) {
  int64_t rank = tensorType(x).getRank();
  SmallVector<int64_t> order{0, rank - 1};
  for (int64_t i = 1; i + 1 < rank; ++i)
    order.push_back(i);
  return nn::transpose(in.builder, x, order);
}

/// The place of each sample in its batch, [N, 1...] of a rank.
Value samples(NodeImport &in, int64_t count, size_t rank) {
  return in.constant(llvm::to_vector(llvm::seq<int64_t>(0, count)), alongAxis(rank, 0, count));
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
  Value y = sumOf(in, readAt(in, in.operand(0), samples(in, s[0], rank + 1), dimensions));
  return NodeImport::Values{channelsSecond(in, y)};
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
