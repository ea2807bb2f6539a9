// Import of convolutions in one to three spatial dimensions.
#include "compiler/import/Spatial.h"

#include <llvm/Support/MathExtras.h>

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// Both operands have the same one to three spatial dimensions, and kernel_shape
/// says what the weight says.
Status checkOperands(NodeImport &in) {
  if (in.type(0).getRank() < 3 || in.type(0).getRank() > 5 ||
      in.type(1).getRank() != in.type(0).getRank())
    return in.fail("needs 1 to 3 spatial dimensions on both sides");
  SmallVector<int64_t> kernel = in.integers("kernel_shape");
  if (!kernel.empty() && ArrayRef<int64_t>(kernel) != in.type(1).getShape().drop_front(2))
    return in.fail("kernel_shape differs from the weight's dimensions");
  if (in.integer("group", 1) < 1)
    return in.fail("group is " + std::to_string(in.integer("group", 1)));
  return {};
}

SmallVector<int64_t> clampedBelow(ArrayRef<int64_t> values) {
  return llvm::map_to_vector(values, [](int64_t v) { return std::max<int64_t>(v, 0); });
}
SmallVector<int64_t> clampedAbove(ArrayRef<int64_t> values) {
  return llvm::map_to_vector(values, [](int64_t v) { return std::min<int64_t>(v, 0); });
}

Outcome conv(NodeImport &in) {
  DIFFRUN_RETURN_IF_ERROR(checkOperands(in));
  DIFFRUN_ASSIGN(Window w, windowOf(in, in.type(1).getShape().drop_front(2),
                                    in.type(0).getShape().drop_front(2)));
  // nn.convolution does not crop.
  Value x = surround(in, in.operand(0), 2, clampedAbove(w.low), clampedAbove(w.high), 0);
  DIFFRUN_ASSIGN(auto y, in.build<ConvolutionOp>(x, in.operand(1), w.strides, clampedBelow(w.low),
                                                 clampedBelow(w.high), w.dilations,
                                                 in.integer("group", 1)));
  return withBias(in, y[0], 2);
}

/// What a transposed convolution does to its full result: `low` and `high`
/// elements go, `extra` are added at the end.
struct Trim {
  SmallVector<int64_t> low, high, extra;
};

Result<Trim> trimOf(NodeImport &in, const Window &w, ArrayRef<int64_t> image) {
  size_t rank = image.size();
  Trim trim;
  DIFFRUN_ASSIGN(trim.extra, perDimension(in, "output_padding", rank, 0, 0));
  DIFFRUN_ASSIGN(std::string automatic, automaticPadding(in));
  bool same = automatic == "SAME_UPPER" || automatic == "SAME_LOWER";
  SmallVector<int64_t> wanted = in.integers("output_shape");
  if (wanted.size() == rank + 2) // some exporters write batch and channels too
    wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (!wanted.empty() && wanted.size() != rank)
    return in.fail("output_shape does not have one entry per spatial dimension");
  if (wanted.empty() && !same) {
    DIFFRUN_ASSIGN(auto pads, perDimension(in, "pads", 2 * rank, 0, -(int64_t{1} << 30)));
    if (automatic == "VALID")
      pads.assign(2 * rank, 0);
    trim.low.assign(pads.begin(), pads.begin() + rank);
    trim.high.assign(pads.begin() + rank, pads.end());
    return trim;
  }
  for (size_t i = 0; i < rank; ++i) {
    int64_t full = w.strides[i] * (image[i] - 1) + w.reach(i) + trim.extra[i];
    int64_t total = full - (wanted.empty() ? image[i] * w.strides[i] : wanted[i]);
    int64_t half = llvm::divideFloorSigned(total, 2);
    trim.low.push_back(automatic == "SAME_UPPER" ? half : total - half);
    trim.high.push_back(total - trim.low.back());
  }
  return trim;
}

Outcome convTranspose(NodeImport &in) {
  DIFFRUN_RETURN_IF_ERROR(checkOperands(in));
  ArrayRef<int64_t> x = in.type(0).getShape(), k = in.type(1).getShape();
  ArrayRef<int64_t> image = x.drop_front(2);
  size_t rank = image.size();
  Window w;
  w.kernel.assign(k.begin() + 2, k.end());
  DIFFRUN_ASSIGN(w.strides, perDimension(in, "strides", rank, 1, 1));
  DIFFRUN_ASSIGN(w.dilations, perDimension(in, "dilations", rank, 1, 1));
  DIFFRUN_ASSIGN(Trim trim, trimOf(in, w, image));
  // The gradient of a convolution whose pads are what is trimmed; where no
  // convolution has such pads, the full result, cropped and padded.
  bool direct = true;
  for (size_t i = 0; i < rank; ++i)
    direct &= trim.low[i] >= 0 && trim.high[i] >= 0 && trim.extra[i] < w.strides[i];
  SmallVector<int64_t> shape{x[0], k[1] * in.integer("group", 1)}, zeros(rank, 0), low, high;
  for (size_t i = 0; i < rank; ++i) {
    int64_t full = (image[i] - 1) * w.strides[i] + w.reach(i);
    int64_t kept = full + trim.extra[i] - trim.low[i] - trim.high[i];
    if (image[i] < 1 || kept < 1)
      return in.fail("dimension " + std::to_string(i + 2) + " of the output would be " +
                     std::to_string(image[i] < 1 ? 0 : kept));
    shape.push_back(direct ? kept : full);
    low.push_back(-trim.low[i]);
    high.push_back(trim.extra[i] - trim.high[i]);
  }
  DIFFRUN_ASSIGN(auto y, in.build<ConvolutionInputGradOp>(in.operand(0), in.operand(1), w.strides,
                                                          direct ? trim.low : zeros,
                                                          direct ? trim.high : zeros, w.dilations,
                                                          in.integer("group", 1), shape));
  return withBias(in, direct ? y[0] : surround(in, y[0], 2, low, high, 0), 2);
}

/// A depthwise convolution over what came before (`past_state`, or zeros) and x;
/// its second output is what the next call's past_state is.
Outcome causalConv(NodeImport &in) {
  if (in.type(0).getRank() != 3 || in.type(1).getRank() != 3)
    return in.fail("needs [batch, channels, length] and [channels, 1, kernel]");
  std::string activation = in.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    return in.fail("activation \"" + activation + "\" is none of none, silu and swish");
  int64_t channels = in.type(0).getDimSize(1), before = in.type(1).getDimSize(2) - 1;
  if (before < 0)
    return in.fail("the kernel is empty");
  Value x = in.operand(0);
  if (!in.operand(3)) {
    x = surround(in, x, 2, {before}, {0}, 0);
  } else if (before > 0) {
    DIFFRUN_ASSIGN(auto joined, in.build<ConcatOp>(ValueRange{in.operand(3), x}, 2));
    x = joined[0];
  }
  int64_t length = tensorType(x).getDimSize(2);
  DIFFRUN_ASSIGN(auto y, in.build<ConvolutionOp>(x, in.operand(1), ArrayRef<int64_t>{1},
                                                 ArrayRef<int64_t>{0}, ArrayRef<int64_t>{0},
                                                 ArrayRef<int64_t>{1}, channels));
  DIFFRUN_ASSIGN(auto result, withBias(in, y[0], 2));
  if (activation != "none")
    result[0] = make<SiluOp>(in, result[0]);
  result.push_back(sliceOf(in, x, 2, length - before, before));
  return result;
}

} // namespace

void addConvHandlers(HandlerTable &t) {
  t["Conv"] = {conv, 1, 2};
  t["ConvTranspose"] = {convTranspose, 1, 2};
  t["CausalConvWithState"] = {causalConv, 27, 2};
}

} // namespace diffc
