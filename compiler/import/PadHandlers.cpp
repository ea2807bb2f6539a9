// Import of Pad in all its modes.
#include "compiler/import/Spatial.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

const char *kDynamic = " must be known when the model is compiled";

struct Pads {
  SmallVector<int64_t> low, high; ///< per dimension; negative ones crop
};

Result<Pads> padsOf(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  SmallVector<int64_t> pads = in.integers(in.opset >= 2 ? "pads" : "paddings");
  if (in.opset >= 11) {
    auto given = in.operand(1) ? in.constantIntegers(1) : std::nullopt;
    if (!given)
      return in.fail(std::string("pads") + kDynamic);
    pads = *given;
  }
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (in.operand(3)) {
    auto given = in.constantIntegers(3);
    if (!given)
      return in.fail(std::string("axes") + kDynamic);
    axes = *given;
  }
  if (pads.size() != 2 * axes.size())
    return in.fail("pads has " + std::to_string(pads.size()) + " entries, not a begin and an end " +
                   "for each of " + std::to_string(axes.size()) + " axes");
  Pads result{SmallVector<int64_t>(rank, 0), SmallVector<int64_t>(rank, 0)};
  SmallVector<bool> seen(rank, false);
  for (size_t i = 0; i < axes.size(); ++i) {
    auto axis = NodeImport::wrapAxis(axes[i], rank);
    if (!axis || seen[*axis])
      return in.fail("axis " + std::to_string(axes[i]) +
                     (axis ? " is given twice" : " is out of range"));
    seen[*axis] = true;
    int64_t low = pads[i], high = pads[i + axes.size()], extent = in.type(0).getDimSize(*axis);
    constexpr int64_t kMost = 1 << 30;
    if (low < -kMost || low > kMost || high < -kMost || high > kMost)
      return in.fail("pads by more than 2^30");
    if (extent + low + high < 0)
      return in.fail("pads " + std::to_string(low) + " and " + std::to_string(high) +
                     " crop more than dimension " + std::to_string(*axis) + " of " +
                     std::to_string(extent));
    result.low[*axis] = low, result.high[*axis] = high;
  }
  return result;
}

/// The constant that surrounds; a number where it is known, else a value.
Outcome constantPad(NodeImport &in, const Pads &pads) {
  auto reals = in.constantReals(2);
  auto integers = in.constantIntegers(2);
  size_t count = reals ? reals->size() : integers ? integers->size() : 1;
  if (in.operand(2) && (in.type(2).getNumElements() != 1 || count != 1))
    return in.fail("the pad value is not one number");
  if (!in.operand(2) || reals || integers) {
    double value = in.operand(2) ? (reals ? (*reals)[0] : static_cast<double>((*integers)[0]))
                                 : in.real("value", 0);
    SmallVector<int64_t> none(pads.low.size(), 0);
    return in.build<PadOp>(in.operand(0), pads.low, pads.high, none, APFloat(value));
  }
  // Computed by the graph: blocks of it are joined on, axis by axis.
  if (in.type(2).getElementType() != in.type(0).getElementType())
    return in.fail("the pad value has another element type");
  Value x = in.operand(0), value = nn::reshape(in.builder, in.operand(2), {});
  for (size_t axis = 0; axis < pads.low.size(); ++axis) {
    SmallVector<Value> parts;
    auto block = [&](int64_t extent) {
      SmallVector<int64_t> shape(tensorType(x).getShape());
      shape[axis] = extent;
      if (extent > 0)
        parts.push_back(broadcastTo(in.builder, value, shape));
    };
    int64_t low = pads.low[axis], high = pads.high[axis];
    int64_t from = std::max<int64_t>(-low, 0);
    int64_t kept = tensorType(x).getDimSize(axis) - from - std::max<int64_t>(-high, 0);
    if (kept < 0)
      return in.fail("crops more than there is beside a pad value that is computed");
    block(low);
    if (kept > 0)
      parts.push_back(sliceOf(in, x, axis, from, kept));
    block(high);
    if (parts.empty())
      x = sliceOf(in, x, axis, 0, 0);
    else
      x = parts.size() == 1 ? parts[0] : make<ConcatOp>(in, ValueRange(parts), axis);
  }
  return NodeImport::Values{x};
}

/// Which element of `extent` stands at `at`, which may be outside.
using Place = int64_t (*)(int64_t at, int64_t extent);

int64_t reflected(int64_t at, int64_t extent) {
  return at < 0 ? -at : at >= extent ? 2 * (extent - 1) - at : at;
}
int64_t clamped(int64_t at, int64_t extent) { return std::clamp<int64_t>(at, 0, extent - 1); }
int64_t wrapped(int64_t at, int64_t extent) { return (at % extent + extent) % extent; }

Outcome pad(NodeImport &in) {
  static const std::map<std::string, Place> places = {
      {"reflect", reflected}, {"edge", clamped}, {"wrap", wrapped}};
  DIFFRUN_ASSIGN(Pads pads, padsOf(in));
  std::string mode = in.text("mode", "constant");
  if (mode == "constant")
    return constantPad(in, pads);
  auto place = places.find(mode);
  if (place == places.end())
    return in.fail("mode \"" + mode + "\" is unknown",
                   "it is one of constant, reflect, edge and wrap");
  Value x = in.operand(0);
  for (size_t axis = 0; axis < pads.low.size(); ++axis) {
    // What is cropped is gone before the rest is continued.
    int64_t low = std::max<int64_t>(pads.low[axis], 0),
            high = std::max<int64_t>(pads.high[axis], 0);
    int64_t from = low - pads.low[axis], cropped = from + high - pads.high[axis];
    int64_t extent = tensorType(x).getDimSize(axis) - cropped;
    x = sliceOf(in, x, axis, from, std::max<int64_t>(extent, 0));
    if (low == 0 && high == 0)
      continue;
    if (extent < 1)
      return in.fail("mode \"" + mode + "\" has nothing to continue in dimension " +
                     std::to_string(axis));
    if (place->second == reflected && std::max(low, high) >= extent)
      return in.fail("mode \"reflect\" by " + std::to_string(std::max(low, high)) +
                         " on dimension " + std::to_string(axis) + " of " + std::to_string(extent),
                     "it reaches at most the length less one");
    SmallVector<int64_t> indices;
    for (int64_t at = -low; at < extent + high; ++at)
      indices.push_back(place->second(at, extent));
    x = make<GatherOp>(in, x, in.constant(indices, {static_cast<int64_t>(indices.size())}), axis);
  }
  return NodeImport::Values{x};
}

/// Crops or pads (with zeros) both sides of the named axes to a shape; what is odd
/// goes to the end when padding, to the end too when cropping.
Outcome centerCropPad(NodeImport &in) {
  auto shape = in.constantIntegers(1);
  if (!shape)
    return in.fail(std::string("the shape") + kDynamic);
  int64_t rank = in.type(0).getRank();
  SmallVector<int64_t> axes = in.integers("axes");
  if (!in.has("axes"))
    axes = llvm::to_vector(llvm::seq<int64_t>(0, rank));
  if (axes.size() != shape->size())
    return in.fail("the shape does not have one entry per axis");
  SmallVector<int64_t> low(rank, 0), high(rank, 0), none(rank, 0);
  for (auto [axis, wanted] : llvm::zip_equal(axes, *shape)) {
    auto at = NodeImport::wrapAxis(axis, rank);
    if (!at || wanted < 0 || wanted > (1 << 30))
      return in.fail(at ? "a wanted extent is " + std::to_string(wanted) : "axis out of range");
    int64_t more = wanted - in.type(0).getDimSize(*at);
    low[*at] = more / 2; // toward zero: both for what is added and what goes
    high[*at] = more - low[*at];
  }
  return in.build<PadOp>(in.operand(0), low, high, none, APFloat(0.0));
}

} // namespace

void addPadHandlers(HandlerTable &t) {
  t["Pad"] = {pad, 1, 1, {2}};
  t["CenterCropPad"] = {centerCropPad, 18, 2};
}

} // namespace diffc
