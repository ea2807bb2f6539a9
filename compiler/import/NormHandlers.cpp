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

Outcome layerNorm(NodeImport &in) {
  auto axis = NodeImport::wrapAxis(in.integer("axis", -1), in.type(0).getRank());
  if (!axis)
    return in.fail("axis is out of range");
  ArrayRef<int64_t> tail = in.type(0).getShape().drop_front(*axis);
  APFloat epsilon(in.real("epsilon", 1e-5));
  Value scale = in.operand(1), bias = in.operand(2);
  bool own = (!scale || in.type(1).getShape() == tail) && (!bias || in.type(2).getShape() == tail);
  if (own)
    return in.build<LayerNormOp>(in.operand(0), scale, bias, *axis, epsilon);
  // A scale that broadcasts is no scale of the normalised dimensions.
  DIFFRUN_ASSIGN(auto y, in.build<LayerNormOp>(in.operand(0), Value(), Value(), *axis, epsilon));
  return affine(in, y[0], scale, bias);
}

Outcome rmsNorm(NodeImport &in) {
  auto axis = NodeImport::wrapAxis(in.integer("axis", -1), in.type(0).getRank());
  if (!axis)
    return in.fail("axis is out of range");
  APFloat epsilon(in.real("epsilon", 1e-5));
  if (in.type(1).getShape() == in.type(0).getShape().drop_front(*axis))
    return in.build<RmsNormOp>(in.operand(0), in.operand(1), *axis, epsilon);
  DIFFRUN_ASSIGN(auto y, in.build<RmsNormOp>(in.operand(0), Value(), *axis, epsilon));
  return affine(in, y[0], in.operand(1), {});
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
