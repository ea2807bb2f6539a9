// Import of normalisations and softmax.
#include "compiler/import/NodeImport.h"

using namespace mlir;
using namespace diffc::nn;

namespace diffc {
namespace {

using Outcome = NodeImport::Outcome;

/// Before opset 13 an axis means: flatten to a matrix at the axis (default 1)
/// and normalise its rows; since then the one dimension (default -1).
template <typename Op> Outcome softmax(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  auto axis = NodeImport::wrapAxis(in.integer("axis", in.opset < 13 ? 1 : -1), rank);
  if (!axis)
    return in.fail("axis is out of range");
  if (in.opset >= 13 || *axis == rank - 1)
    return in.build<Op>(in.operand(0), *axis);
  ArrayRef<int64_t> shape = in.type(0).getShape();
  Value rows =
      nn::reshape(in.builder, in.operand(0),
                  {elementCount(shape.take_front(*axis)), elementCount(shape.drop_front(*axis))});
  DIFFRUN_ASSIGN(auto result, in.build<Op>(rows, 1));
  return NodeImport::Values{nn::reshape(in.builder, result[0], shape)};
}

/// y * scale + bias, element-wise with broadcasting.
Outcome affine(NodeImport &in, Value y, Value scale, Value bias) {
  if (scale) {
    DIFFRUN_ASSIGN(auto scaled, in.build<MulOp>(y, scale));
    y = scaled[0];
  }
  if (bias)
    return in.build<AddOp>(y, bias);
  return NodeImport::Values{y};
}

/// The type that LayerNormalization and RMSNormalization normalise in: that of
/// stash_type, unless the input's holds more.
diffrun::Result<Type> stageOneType(NodeImport &in) {
  Type own = in.type(0).getElementType();
  Type stash =
      elementType(*in.builder.getContext(),
                  static_cast<int32_t>(in.integer("stash_type", onnx::TensorProto::FLOAT)));
  if (!stash || !isa<FloatType>(stash))
    return in.fail("stash_type is no float type");
  return stash.getIntOrFloatBitWidth() > own.getIntOrFloatBitWidth() ? stash : own;
}

Value castTo(NodeImport &in, Value value, Type type) {
  if (tensorType(value).getElementType() == type)
    return value;
  return in.builder.create<CastOp>(in.loc, value, type);
}

/// The mean of `x` and 1 / its standard deviation over `axes`, which stay as 1.
std::pair<Value, Value> statistics(NodeImport &in, Value x, ArrayRef<int64_t> axes) {
  OpBuilder &b = in.builder;
  SmallVector<int64_t> one(tensorType(x).getShape());
  for (int64_t axis : axes)
    one[axis] = std::min<int64_t>(one[axis], 1);
  // Differences to a value of the row are small where the mean is large.
  SmallVector<int64_t> starts(one.size(), 0), strides(one.size(), 1);
  Value first = b.create<SliceOp>(in.loc, x, starts, one, strides);
  Value shifted = b.create<SubOp>(in.loc, x, first);
  Value offset = b.create<ReduceMeanOp>(in.loc, shifted, axes, true);
  Value centred = b.create<SubOp>(in.loc, shifted, offset);
  Value variance =
      b.create<ReduceMeanOp>(in.loc, b.create<MulOp>(in.loc, centred, centred), axes, true);
  Value epsilon = scalar(b, in.loc, in.real("epsilon", 1e-5), tensorType(x).getElementType());
  Value inverse = b.create<RsqrtOp>(in.loc, b.create<AddOp>(in.loc, variance, epsilon));
  return {b.create<AddOp>(in.loc, first, offset), inverse};
}

Outcome layerNorm(NodeImport &in) {
  int64_t rank = in.type(0).getRank();
  auto axis = NodeImport::wrapAxis(in.integer("axis", -1), rank);
  if (!axis)
    return in.fail("axis is out of range");
  DIFFRUN_ASSIGN(Type type, stageOneType(in));
  ArrayRef<int64_t> tail = in.type(0).getShape().drop_front(*axis);
  APFloat epsilon(in.real("epsilon", 1e-5));
  Value x = castTo(in, in.operand(0), type), scale = in.operand(1), bias = in.operand(2);
  bool own = x == in.operand(0) && (!scale || in.type(1).getShape() == tail) &&
             (!bias || (scale && in.type(2).getShape() == tail));
  NodeImport::Values results;
  if (own) {
    DIFFRUN_ASSIGN(results, in.build<LayerNormOp>(x, scale, bias, *axis, epsilon));
  } else {
    // A scale that broadcasts is no scale of the normalised dimensions.
    DIFFRUN_ASSIGN(auto y, in.build<LayerNormOp>(x, Value(), Value(), *axis, epsilon));
    DIFFRUN_ASSIGN(results, affine(in, castTo(in, y[0], in.type(0).getElementType()), scale, bias));
  }
  if (in.node.output_size() > 1) {
    if (llvm::is_contained(tail, 0))
      return in.fail("there is no mean over an empty dimension");
    Type stash =
        elementType(*in.builder.getContext(), static_cast<int32_t>(in.integer("stash_type", 1)));
    auto [mean, inverse] = statistics(in, x, llvm::to_vector(llvm::seq<int64_t>(*axis, rank)));
    results.append({castTo(in, mean, stash), castTo(in, inverse, stash)});
  }
  return results;
}

Outcome rmsNorm(NodeImport &in) {
  auto axis = NodeImport::wrapAxis(in.integer("axis", -1), in.type(0).getRank());
  if (!axis)
    return in.fail("axis is out of range");
  DIFFRUN_ASSIGN(Type type, stageOneType(in));
  APFloat epsilon(in.real("epsilon", 1e-5));
  Value x = castTo(in, in.operand(0), type);
  if (x == in.operand(0) && in.type(1).getShape() == in.type(0).getShape().drop_front(*axis))
    return in.build<RmsNormOp>(x, in.operand(1), *axis, epsilon);
  DIFFRUN_ASSIGN(auto y, in.build<RmsNormOp>(x, Value(), *axis, epsilon));
  return affine(in, castTo(in, y[0], in.type(0).getElementType()), in.operand(1), {});
}

/// Opset 18 scales per group, 21 per channel.
Outcome groupNorm(NodeImport &in) {
  int64_t groups = in.integer("num_groups", 0);
  if (groups < 1 || in.type(0).getRank() < 2 || in.type(0).getDimSize(1) % groups)
    return in.fail("num_groups does not divide the channels");
  int64_t channels = in.type(0).getDimSize(1);
  auto perChannel = [&](size_t i) -> Value {
    if (in.opset >= 21 || in.type(i).getNumElements() == channels)
      return in.operand(i);
    Value column = nn::reshape(in.builder, in.operand(i), {groups, 1});
    return nn::reshape(in.builder, broadcastTo(in.builder, column, {groups, channels / groups}),
                       {channels});
  };
  return in.build<GroupNormOp>(in.operand(0), perChannel(1), perChannel(2), groups,
                               APFloat(in.real("epsilon", 1e-5)));
}

Outcome instanceNorm(NodeImport &in) {
  if (in.type(0).getRank() < 3)
    return in.fail("needs at least one spatial dimension");
  return in.build<GroupNormOp>(in.operand(0), in.operand(1), in.operand(2),
                               in.type(0).getDimSize(1), APFloat(in.real("epsilon", 1e-5)));
}

} // namespace

void addNormHandlers(HandlerTable &t) {
  t["Softmax"] = {softmax<SoftmaxOp>};
  t["LogSoftmax"] = {softmax<LogSoftmaxOp>};
  t["LayerNormalization"] = {layerNorm, 17};
  t["RMSNormalization"] = {rmsNorm, 23, 2};
  t["GroupNormalization"] = {groupNorm, 18, 3};
  t["InstanceNormalization"] = {instanceNorm, 6, 3};
}

} // namespace diffc
