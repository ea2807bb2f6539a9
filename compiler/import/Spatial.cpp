#include "compiler/import/Spatial.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;

namespace diffc {

// Far above any model's and far below where sums of products overflow.
static constexpr int64_t kMost = int64_t{1} << 30;

Result<SmallVector<int64_t>> perDimension(NodeImport &in, const char *name, size_t count,
                                          int64_t fallback, int64_t least) {
  SmallVector<int64_t> values = in.integers(name);
  if (values.empty())
    values.assign(count, fallback);
  if (values.size() != count)
    return in.fail(std::string(name) + " has " + std::to_string(values.size()) + " entries, not " +
                   std::to_string(count));
  for (int64_t value : values)
    if (value < least || value > kMost)
      return in.fail(std::string(name) + " holds " + std::to_string(value));
  return values;
}

Result<std::string> automaticPadding(NodeImport &in) {
  std::string automatic = in.text("auto_pad", "NOTSET");
  for (const char *known : {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"})
    if (automatic == known)
      return automatic;
  return in.fail("auto_pad is \"" + automatic + "\"",
                 "it is one of NOTSET, SAME_UPPER, SAME_LOWER and VALID");
}

Result<Window> windowOf(NodeImport &in, ArrayRef<int64_t> kernel, ArrayRef<int64_t> image,
                        bool ceilMode) {
  size_t rank = kernel.size();
  Window w;
  w.kernel.assign(kernel.begin(), kernel.end());
  for (int64_t extent : kernel)
    if (extent < 1 || extent > kMost)
      return in.fail("a kernel dimension is " + std::to_string(extent));
  DIFFRUN_ASSIGN(w.strides, perDimension(in, "strides", rank, 1, 1));
  DIFFRUN_ASSIGN(w.dilations, perDimension(in, "dilations", rank, 1, 1));
  DIFFRUN_ASSIGN(std::string automatic, automaticPadding(in));
  DIFFRUN_ASSIGN(auto pads, perDimension(in, "pads", 2 * rank, 0, -kMost));
  if (automatic != "NOTSET")
    pads.assign(2 * rank, 0);
  for (size_t i = 0; i < rank; ++i) {
    int64_t &low = pads[i], &high = pads[rank + i], stride = w.strides[i];
    if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
      int64_t outputs = (image[i] + stride - 1) / stride;
      int64_t total = std::max<int64_t>((outputs - 1) * stride + w.reach(i) - image[i], 0);
      low = automatic == "SAME_UPPER" ? total / 2 : total - total / 2;
      high = total - low;
    }
    int64_t room = image[i] + low + high - w.reach(i);
    if (room < 0 || image[i] + std::min<int64_t>(low, 0) + std::min<int64_t>(high, 0) < 0)
      return in.fail("the kernel reaches over " + std::to_string(w.reach(i)) +
                     " elements, the padded input has " + std::to_string(image[i] + low + high));
    int64_t outputs = room / stride + 1;
    if (ceilMode && automatic == "NOTSET" && room % stride && outputs * stride < image[i] + low)
      ++outputs;
    w.outputs.push_back(outputs);
  }
  w.low.assign(pads.begin(), pads.begin() + rank);
  w.high.assign(pads.begin() + rank, pads.end());
  return w;
}

Value surround(NodeImport &in, Value x, size_t first, ArrayRef<int64_t> low, ArrayRef<int64_t> high,
               double value) {
  auto none = [](int64_t pad) { return pad == 0; };
  if (llvm::all_of(low, none) && llvm::all_of(high, none))
    return x;
  size_t rank = tensorType(x).getRank();
  SmallVector<int64_t> before(rank, 0), after(rank, 0), interior(rank, 0);
  llvm::copy(low, before.begin() + first);
  llvm::copy(high, after.begin() + first);
  return make<PadOp>(in, x, before, after, interior, APFloat(value));
}

Value sliceOf(NodeImport &in, Value x, int64_t axis, int64_t start, int64_t count, int64_t stride) {
  RankedTensorType type = tensorType(x);
  if (start == 0 && stride == 1 && count == type.getDimSize(axis))
    return x;
  SmallVector<int64_t> starts(type.getRank(), 0), sizes(type.getShape()),
      strides(type.getRank(), 1);
  starts[axis] = start;
  sizes[axis] = count;
  strides[axis] = stride;
  return make<SliceOp>(in, x, starts, sizes, strides);
}

Value realConstant(NodeImport &in, ArrayRef<double> values, ArrayRef<int64_t> shape, Type element) {
  SmallVector<APFloat> elements;
  for (double value : values) {
    APFloat exact(value);
    bool lost;
    exact.convert(cast<FloatType>(element).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                  &lost);
    elements.push_back(exact);
  }
  return make<ConstantOp>(in, DenseElementsAttr::get(RankedTensorType::get(shape, element),
                                                     ArrayRef<APFloat>(elements)));
}

SmallVector<int64_t> alongAxis(size_t rank, int64_t axis, int64_t extent) {
  SmallVector<int64_t> shape(rank, 1);
  shape[axis] = extent;
  return shape;
}

NodeImport::Outcome withBias(NodeImport &in, Value x, size_t index) {
  Value bias = in.operand(index);
  if (!bias)
    return NodeImport::Values{x};
  int64_t channels = tensorType(x).getDimSize(1);
  if (tensorType(bias).getRank() != 1 || tensorType(bias).getDimSize(0) != channels)
    return in.fail("the bias is no vector of " + std::to_string(channels) + " channels");
  return in.build<AddOp>(
      x, nn::reshape(in.builder, bias, alongAxis(tensorType(x).getRank(), 1, channels)));
}

} // namespace diffc
