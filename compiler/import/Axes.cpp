#include "compiler/import/Axes.h"

using namespace mlir;
using namespace diffc::nn;
using diffrun::Result;
using diffrun::Status;

namespace diffc {

Status wrapAxes(NodeImport &in, int64_t rank, SmallVector<int64_t> &axes) {
  for (int64_t &axis : axes) {
    auto wrapped = NodeImport::wrapAxis(axis, rank);
    if (!wrapped)
      return in.fail("axis " + std::to_string(axis) + " is out of range for rank " +
                     std::to_string(rank));
    axis = *wrapped;
  }
  llvm::sort(axes);
  if (std::adjacent_find(axes.begin(), axes.end()) != axes.end())
    return in.fail("an axis is given twice");
  return {};
}

Result<std::optional<SmallVector<int64_t>>> axesOf(NodeImport &in, int64_t rank,
                                                   int64_t operandSince) {
  using Maybe = std::optional<SmallVector<int64_t>>;
  SmallVector<int64_t> axes;
  if (in.opset >= operandSince) {
    if (!in.operand(1))
      return Maybe();
    auto given = in.constantIntegers(1);
    if (!given)
      return in.fail("axes must be known when the model is compiled: it depends on data");
    axes = *given;
  } else {
    if (!in.has("axes"))
      return Maybe();
    axes = in.integers("axes");
  }
  DIFFRUN_RETURN_IF_ERROR(wrapAxes(in, rank, axes));
  return Maybe(axes);
}

Value iota(const Terms &t, ArrayRef<int64_t> shape, int64_t axis) {
  SmallVector<int64_t> own(shape.size(), 1);
  own[axis] = shape[axis];
  auto type = RankedTensorType::get(own, t.in.builder.getI64Type());
  return t.make<IotaOp>(axis, type);
}

Value productAlong(const Terms &t, Value x, int64_t axis) {
  SmallVector<int64_t> shape(tensorType(x).getShape());
  size_t rank = shape.size();
  SmallVector<int64_t> none(rank, 0), unit(rank, 1);
  if (shape[axis] == 0) {
    shape[axis] = 1;
    return broadcastTo(t.in.builder, t.c(1), shape);
  }
  while (shape[axis] > 1) {
    int64_t half = (shape[axis] + 1) / 2;
    if (shape[axis] % 2) {
      SmallVector<int64_t> high(rank, 0);
      high[axis] = 1;
      x = t.make<PadOp>(x, none, high, none, APFloat(1.0));
    }
    shape[axis] = half;
    SmallVector<int64_t> second(rank, 0);
    second[axis] = half;
    x = t.mul(t.make<SliceOp>(x, none, shape, unit), t.make<SliceOp>(x, second, shape, unit));
  }
  return x;
}

} // namespace diffc
