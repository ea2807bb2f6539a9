// Import of matmul, convolution and attention.
#include "compiler/import/NodeImport.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// A vector operand counts as a one-row (left) or one-column (right) matrix;
/// the added dimension leaves the result again.
Outcome matmul(NodeImport &in) {
  Value a = in.operand(0), b = in.operand(1);
  int64_t ra = in.type(0).getRank(), rb = in.type(1).getRank();
  if (ra == 0 || rb == 0)
    return in.fail("an operand is a scalar");
  if (ra == 1)
    a = nn::reshape(in.builder, a, {1, in.type(0).getDimSize(0)});
  if (rb == 1)
    b = nn::reshape(in.builder, b, {in.type(1).getDimSize(0), 1});
  DIFFRUN_ASSIGN(auto product, in.build<MatmulOp>(a, b, false, false));
  SmallVector<int64_t> shape(tensorType(product[0]).getShape());
  if (rb == 1)
    shape.pop_back();
  if (ra == 1)
    shape.erase(shape.end() - (rb == 1 ? 1 : 2));
  return NodeImport::Values{nn::reshape(in.builder, product[0], shape)};
}

Outcome gemm(NodeImport &in) {
  Type element = in.type(0).getElementType();
  DIFFRUN_ASSIGN(auto product,
                 in.build<MatmulOp>(in.operand(0), in.operand(1), in.integer("transA", 0) != 0,
                                    in.integer("transB", 0) != 0));
  Value y = product[0];
  auto scaled = [&](Value x, double factor) -> Value {
    if (factor == 1)
      return x;
    return in.builder.create<MulOp>(in.loc, x, scalar(in.builder, in.loc, factor, element));
  };
  y = scaled(y, in.real("alpha", 1));
  if (!in.operand(2) || in.real("beta", 1) == 0)
    return NodeImport::Values{y};
  return in.build<AddOp>(y, scaled(in.operand(2), in.real("beta", 1)));
}

struct Window {
  SmallVector<int64_t> strides, low, high, dilations;
  int64_t groups;
};

Result<Window> windowOf(NodeImport &in, ArrayRef<int64_t> kernel, ArrayRef<int64_t> image) {
  size_t spatial = kernel.size();
  Window w{in.integers("strides"), {}, {}, in.integers("dilations"), in.integer("group", 1)};
  if (w.strides.empty())
    w.strides.assign(spatial, 1);
  if (w.dilations.empty())
    w.dilations.assign(spatial, 1);
  SmallVector<int64_t> pads = in.integers("pads");
  std::string automatic = in.text("auto_pad", "NOTSET");
  if (pads.empty())
    pads.assign(2 * spatial, 0);
  if (pads.size() != 2 * spatial || w.strides.size() != spatial || w.dilations.size() != spatial)
    return in.fail("strides, pads or dilations do not fit the kernel's dimensions");
  if (automatic == "SAME_UPPER" || automatic == "SAME_LOWER") {
    for (size_t i = 0; i < spatial; ++i) {
      int64_t reach = w.dilations[i] * (kernel[i] - 1) + 1;
      int64_t outputs = (image[i] + w.strides[i] - 1) / w.strides[i];
      int64_t total = std::max<int64_t>((outputs - 1) * w.strides[i] + reach - image[i], 0);
      bool upper = automatic == "SAME_UPPER";
      pads[i] = upper ? total / 2 : total - total / 2;
      pads[spatial + i] = total - pads[i];
    }
  } else if (automatic != "NOTSET" && automatic != "VALID") {
    return in.fail("auto_pad \"" + automatic + "\" is not supported");
  }
  w.low.assign(pads.begin(), pads.begin() + spatial);
  w.high.assign(pads.begin() + spatial, pads.end());
  return w;
}

/// y + bias over the channels.
Outcome withBias(NodeImport &in, Value y) {
  if (!in.operand(2))
    return NodeImport::Values{y};
  SmallVector<int64_t> shape(tensorType(y).getRank(), 1);
  shape[1] = in.type(2).getNumElements();
  return in.build<AddOp>(y, nn::reshape(in.builder, in.operand(2), shape));
}

Outcome conv(NodeImport &in) {
  if (in.type(0).getRank() < 3 || in.type(1).getRank() != in.type(0).getRank())
    return in.fail("needs 1 to 3 spatial dimensions on both sides");
  DIFFRUN_ASSIGN(Window w, windowOf(in, in.type(1).getShape().drop_front(2),
                                    in.type(0).getShape().drop_front(2)));
  DIFFRUN_ASSIGN(auto y, in.build<ConvolutionOp>(in.operand(0), in.operand(1), w.strides, w.low,
                                                 w.high, w.dilations, w.groups));
  return withBias(in, y[0]);
}

Outcome convTranspose(NodeImport &in) {
  ArrayRef<int64_t> x = in.type(0).getShape(), k = in.type(1).getShape();
  if (x.size() < 3 || k.size() != x.size())
    return in.fail("needs 1 to 3 spatial dimensions on both sides");
  if (in.has("output_shape") || in.text("auto_pad", "NOTSET") != "NOTSET")
    return in.fail("output_shape and auto_pad are not supported", "give pads instead");
  DIFFRUN_ASSIGN(Window w, windowOf(in, k.drop_front(2), x.drop_front(2)));
  SmallVector<int64_t> extra = in.integers("output_padding");
  extra.resize(x.size() - 2, 0);
  SmallVector<int64_t> shape{x[0], k[1] * w.groups};
  for (size_t i = 0; i + 2 < x.size(); ++i)
    shape.push_back((x[i + 2] - 1) * w.strides[i] + w.dilations[i] * (k[i + 2] - 1) + 1 + extra[i] -
                    w.low[i] - w.high[i]);
  DIFFRUN_ASSIGN(auto y,
                 in.build<ConvolutionInputGradOp>(in.operand(0), in.operand(1), w.strides, w.low,
                                                  w.high, w.dilations, w.groups, shape));
  return withBias(in, y[0]);
}

/// [B, H, T, d] operands; what a key-value cache or packed heads need is refused.
Outcome attention(NodeImport &in) {
  if (in.type(0).getRank() != 4 || in.node.output_size() > 1 || in.operand(4) || in.operand(5) ||
      in.real("softcap", 0) != 0 || in.integer("qk_matmul_output_mode", 0) != 0)
    return in.fail("supported: [batch, heads, tokens, head size] operands without cache, softcap "
                   "or further outputs");
  if (in.operand(3) && !isa<FloatType>(in.type(3).getElementType()))
    return in.fail("a boolean mask is not supported", "pass an additive mask");
  double scale = in.real("scale", 1.0 / std::sqrt(static_cast<double>(in.type(0).getDimSize(3))));
  return in.build<AttentionOp>(in.operand(0), in.operand(1), in.operand(2), in.operand(3),
                               APFloat(scale), in.integer("is_causal", 0) != 0);
}

} // namespace

void addContractionHandlers(HandlerTable &t) {
  t["MatMul"] = {matmul, 1, 2};
  t["Gemm"] = {gemm, 7, 2};
  t["Conv"] = {conv, 1, 2};
  t["ConvTranspose"] = {convTranspose, 1, 2};
  t["Attention"] = {attention, 23, 3};
}

} // namespace diffc
