// Import of operators that put blocks of elements elsewhere.
#include "compiler/import/Spatial.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// DCR: the block's place runs slower than the channel; CRD: faster.
Result<bool> channelFirst(NodeImport &in) {
  std::string mode = in.text("mode", "DCR");
  if (mode != "DCR" && mode != "CRD")
    return in.fail("mode is \"" + mode + "\"", "it is DCR or CRD");
  return mode == "CRD";
}

Result<int64_t> blockOf(NodeImport &in) {
  int64_t block = in.integer("blocksize", 0);
  if (in.type(0).getRank() != 4)
    return in.fail("needs [batch, channels, height, width]");
  if (block < 1 || block > (1 << 15))
    return in.fail("blocksize is " + std::to_string(block));
  return block;
}

Outcome depthToSpace(NodeImport &in) {
  DIFFRUN_ASSIGN(int64_t block, blockOf(in));
  DIFFRUN_ASSIGN(bool crd, channelFirst(in));
  ArrayRef<int64_t> s = in.type(0).getShape();
  if (s[1] % (block * block))
    return in.fail(std::to_string(s[1]) + " channels are no multiple of blocksize squared");
  int64_t channels = s[1] / (block * block);
  OpBuilder &b = in.builder;
  Value x = crd ? nn::reshape(b, in.operand(0), {s[0], channels, block, block, s[2], s[3]})
                : nn::reshape(b, in.operand(0), {s[0], block, block, channels, s[2], s[3]});
  x = crd ? nn::transpose(b, x, {0, 1, 4, 2, 5, 3}) : nn::transpose(b, x, {0, 3, 4, 1, 5, 2});
  return NodeImport::Values{nn::reshape(b, x, {s[0], channels, s[2] * block, s[3] * block})};
}

Outcome spaceToDepth(NodeImport &in) {
  DIFFRUN_ASSIGN(int64_t block, blockOf(in));
  DIFFRUN_ASSIGN(bool crd, channelFirst(in));
  ArrayRef<int64_t> s = in.type(0).getShape();
  if (s[2] % block || s[3] % block)
    return in.fail("height or width is no multiple of blocksize");
  OpBuilder &b = in.builder;
  Value x = nn::reshape(b, in.operand(0), {s[0], s[1], s[2] / block, block, s[3] / block, block});
  x = crd ? nn::transpose(b, x, {0, 1, 3, 5, 2, 4}) : nn::transpose(b, x, {0, 3, 5, 1, 2, 4});
  return NodeImport::Values{
      nn::reshape(b, x, {s[0], s[1] * block * block, s[2] / block, s[3] / block})};
}

/// Columns [N, C * block, positions] summed into an image; one dimension after the
/// other, each tap of the block spread over its places.
Outcome col2Im(NodeImport &in) {
  auto image = in.constantIntegers(1), block = in.constantIntegers(2);
  if (!image || !block)
    return in.fail("image_shape and block_shape must be known when the model is compiled");
  size_t rank = image->size();
  if (in.type(0).getRank() != 3 || rank == 0 || block->size() != rank)
    return in.fail("needs [batch, channels x block, positions], and as many block dimensions as "
                   "image dimensions");
  for (int64_t extent : *image)
    if (extent < 1 || extent > (1 << 30))
      return in.fail("an image dimension is " + std::to_string(extent));
  DIFFRUN_ASSIGN(Window w, windowOf(in, *block, *image));
  ArrayRef<int64_t> s = in.type(0).getShape();
  if (s[1] % elementCount(w.kernel) || s[2] != elementCount(w.outputs))
    return in.fail("columns of " + std::to_string(s[1]) + " x " + std::to_string(s[2]) +
                   " do not fit blocks of " + std::to_string(elementCount(w.kernel)) + " at " +
                   std::to_string(elementCount(w.outputs)) + " positions");
  // [N, C, block..., positions...], of which pairs become image dimensions.
  SmallVector<int64_t> shape{s[0], s[1] / elementCount(w.kernel)};
  shape.append(w.kernel);
  shape.append(w.outputs);
  Value x = nn::reshape(in.builder, in.operand(0), shape);
  for (size_t i = 0; i < rank; ++i) {
    int64_t position = tensorType(x).getRank() - static_cast<int64_t>(rank - i);
    Value sum;
    for (int64_t j = 0; j < w.kernel[i]; ++j) {
      Value part = sliceOf(in, x, 2, j, 1);
      size_t all = tensorType(part).getRank();
      SmallVector<int64_t> low(all, 0), high(all, 0), interior(all, 0);
      int64_t last = j * w.dilations[i] - w.low[i] + (w.outputs[i] - 1) * w.strides[i];
      low[position] = j * w.dilations[i] - w.low[i];
      high[position] = (*image)[i] - 1 - last;
      interior[position] = w.strides[i] - 1;
      part = make<PadOp>(in, part, low, high, interior, APFloat(0.0));
      sum = sum ? make<AddOp>(in, sum, part) : part;
    }
    shape.assign(tensorType(sum).getShape().begin(), tensorType(sum).getShape().end());
    shape.erase(shape.begin() + 2);
    x = nn::reshape(in.builder, sum, shape);
  }
  return NodeImport::Values{x};
}

/// Each element to its place in an output of zeros. Windows that overlapped name a
/// maximum more than once: it stands there once, and its gradient is shared.
Outcome maxUnpool(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  ArrayRef<int64_t> s = in.type(0).getShape();
  SmallVector<int64_t> kernel = in.integers("kernel_shape");
  if (rank < 3 || static_cast<int64_t>(kernel.size()) != rank - 2)
    return in.fail("kernel_shape does not have one entry per spatial dimension");
  if (in.type(1).getShape() != s || !in.type(1).getElementType().isInteger(64))
    return in.fail("the places are no i64 tensor of the input's shape");
  DIFFRUN_ASSIGN(auto strides, perDimension(in, "strides", kernel.size(), 1, 1));
  DIFFRUN_ASSIGN(auto pads, perDimension(in, "pads", 2 * kernel.size(), 0, 0));
  SmallVector<int64_t> shape(s.take_front(2)), wanted;
  for (size_t i = 0; i < kernel.size(); ++i) {
    shape.push_back((s[i + 2] - 1) * strides[i] - pads[i] - pads[kernel.size() + i] + kernel[i]);
    if (shape.back() < 1 || kernel[i] < 1 || kernel[i] > (1 << 30))
      return in.fail("dimension " + std::to_string(i + 2) + " of the output would be " +
                     std::to_string(shape.back()));
  }
  wanted = shape;
  if (in.operand(2)) {
    auto given = in.constantIntegers(2);
    if (!given || static_cast<int64_t>(given->size()) != rank)
      return in.fail("output_shape must be known when the model is compiled, an entry per "
                     "dimension");
    wanted = *given;
  }
  OpBuilder &b = in.builder;
  Type element = in.type(0).getElementType();
  int64_t count = in.type(0).getNumElements(), total = elementCount(shape);
  Value places = nn::reshape(b, in.operand(1), {count}), x = nn::reshape(b, in.operand(0), {count});
  DIFFRUN_ASSIGN(auto sum, in.build<ScatterAddOp>(places, x, 0, total));
  Value ones = broadcastTo(b, scalar(b, in.loc, 1, element), {count});
  Value hits = make<ScatterAddOp>(in, places, ones, 0, total);
  Value y = make<DivOp>(in, sum[0], make<MaximumOp>(in, hits, scalar(b, in.loc, 1, element)));
  y = nn::reshape(b, y, shape);
  SmallVector<int64_t> low(rank, 0), high;
  for (int64_t i = 0; i < rank; ++i)
    high.push_back(wanted[i] - shape[i]);
  if (llvm::any_of(wanted, [](int64_t extent) { return extent < 0 || extent > (1 << 30); }))
    return in.fail("output_shape holds an impossible extent");
  return NodeImport::Values{surround(in, y, 0, low, high, 0)};
}

} // namespace

void addBlockHandlers(HandlerTable &t) {
  t["DepthToSpace"] = {depthToSpace};
  t["SpaceToDepth"] = {spaceToDepth};
  t["Col2Im"] = {col2Im, 18, 3};
  t["MaxUnpool"] = {maxUnpool, 9, 2};
}

} // namespace diffc
