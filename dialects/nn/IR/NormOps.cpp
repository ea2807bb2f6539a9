// Normalisations and softmax: types, derivatives, decomposition into
// reductions and element-wise operators, costs.
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/InferHelpers.h"

using namespace mlir;

namespace diffc::nn {
namespace {

/// Element-wise arithmetic and row reductions of a decomposition. The reduced
/// axes are kept as 1, so that results broadcast against their input.
struct Rows {
  OpBuilder &b;
  Location loc;
  SmallVector<int64_t> axes;
  Type element;
  int64_t count = 1; ///< elements of one row

  Rows(OpBuilder &builder, Value x, ArrayRef<int64_t> reduced)
      : b(builder), loc(x.getLoc()), axes(reduced), element(tensorType(x).getElementType()) {
    for (int64_t axis : axes)
      count *= tensorType(x).getDimSize(axis);
  }
  Value c(double value) const { return scalar(b, loc, value, element); }
  Value add(Value x, Value y) const { return b.create<AddOp>(loc, x, y); }
  Value sub(Value x, Value y) const { return b.create<SubOp>(loc, x, y); }
  Value mul(Value x, Value y) const { return b.create<MulOp>(loc, x, y); }
  Value sum(Value x) const { return b.create<ReduceSumOp>(loc, x, axes, true); }
  Value mean(Value x) const { return mul(sum(x), c(1.0 / count)); }

  /// One value of each row, broadcast over it: subtracting it first keeps the
  /// mean of large values exact (their differences are small).
  Value firstOfRow(Value x) const {
    SmallVector<int64_t> sizes(tensorType(x).getShape());
    for (int64_t axis : axes)
      sizes[axis] = 1;
    SmallVector<int64_t> starts(sizes.size(), 0), strides(sizes.size(), 1);
    return b.create<SliceOp>(loc, x, starts, sizes, strides);
  }
  Value rstd(Value meanSquare, double epsilon) const {
    return b.create<RsqrtOp>(loc, add(meanSquare, c(epsilon)));
  }
  struct Normalised {
    Value value, rstd;
  };
  Normalised normalise(Value x, double epsilon) const {
    Value shifted = sub(x, firstOfRow(x));
    Value centred = sub(shifted, mean(shifted));
    Value r = rstd(mean(mul(centred, centred)), epsilon);
    return {mul(centred, r), r};
  }
  /// dx of y = normalise(x): rstd * (g - mean(g) - xhat * mean(g * xhat)).
  Value normaliseGrad(Normalised n, Value g) const {
    Value inner = sub(sub(g, mean(g)), mul(n.value, mean(mul(g, n.value))));
    return mul(n.rstd, inner);
  }
};

SmallVector<int64_t> axesFrom(int64_t axis, int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(axis, rank));
}

// Sums `value` over every dimension before `axis`.
Value sumLeading(OpBuilder &builder, Value value, int64_t axis) {
  if (axis == 0)
    return value;
  return builder.create<ReduceSumOp>(value.getLoc(), value,
                                     llvm::to_vector(llvm::seq<int64_t>(0, axis)), false);
}

template <typename Adaptor>
LogicalResult checkTail(std::optional<Location> loc, Adaptor op, Value affine) {
  RankedTensorType x = tensorType(op.getInput());
  if (static_cast<int64_t>(op.getAxis()) >= x.getRank())
    return inferError(loc, "axis ", op.getAxis(), " is not below the rank of ", x);
  if (affine && tensorType(affine).getShape() != x.getShape().drop_front(op.getAxis()))
    return inferError(loc, "scale and bias must have the normalised dimensions' shape, got ",
                      affine.getType(), " for ", x);
  return success();
}

template <typename Adaptor>
LogicalResult checkGroups(std::optional<Location> loc, Adaptor op, Value affine) {
  RankedTensorType x = tensorType(op.getInput());
  if (x.getRank() < 2 || x.getDimSize(1) % static_cast<int64_t>(op.getGroups()))
    return inferError(loc, op.getGroups(), " groups do not divide the channels of ", x);
  if (affine && tensorType(affine).getShape() != x.getShape().slice(1, 1))
    return inferError(loc, "scale and bias must have one entry per channel, got ", affine.getType(),
                      " for ", x);
  return success();
}

/// Defines the grad operator's result types: dx, then scale's type `affine` times.
#define DIFFC_INFER_NORM_GRAD(OP, CHECK, AFFINE_RESULTS)                                           \
  LogicalResult OP::inferReturnTypes(MLIRContext *context, std::optional<Location> loc,            \
                                     ValueRange operands, DictionaryAttr attributes,               \
                                     OpaqueProperties properties, RegionRange regions,             \
                                     SmallVectorImpl<Type> &types) {                               \
    Adaptor op(operands, attributes, properties, regions);                                         \
    if (failed(CHECK(loc, op, op.getScale())))                                                     \
      return failure();                                                                            \
    if (op.getInput().getType() != op.getOutputGrad().getType())                                   \
      return inferError(loc, "the gradient's type differs from the input's");                      \
    types.push_back(op.getInput().getType());                                                      \
    if (op.getScale())                                                                             \
      types.append(AFFINE_RESULTS, op.getScale().getType());                                       \
    return success();                                                                              \
  }

} // namespace

DIFFC_INFER(LayerNormOp) {
  if (failed(checkTail(loc, op, op.getScale())) || failed(checkTail(loc, op, op.getBias())))
    return failure();
  if (op.getBias() && !op.getScale())
    return inferError(loc, "a bias needs a scale");
  return op.getInput().getType();
}
DIFFC_INFER(RmsNormOp) {
  if (failed(checkTail(loc, op, op.getScale())))
    return failure();
  return op.getInput().getType();
}
DIFFC_INFER(GroupNormOp) {
  if (failed(checkGroups(loc, op, op.getScale())) || failed(checkGroups(loc, op, op.getBias())))
    return failure();
  if (op.getBias() && !op.getScale())
    return inferError(loc, "a bias needs a scale");
  return op.getInput().getType();
}
DIFFC_INFER_NORM_GRAD(LayerNormGradOp, checkTail, 2)
DIFFC_INFER_NORM_GRAD(RmsNormGradOp, checkTail, 1)
DIFFC_INFER_NORM_GRAD(GroupNormGradOp, checkGroups, 2)

template <typename Adaptor>
static FailureOr<Type> inferAlong(std::optional<Location> loc, Adaptor op, Value value) {
  if (static_cast<int64_t>(op.getAxis()) >= tensorType(value).getRank())
    return inferError(loc, "axis ", op.getAxis(), " is not below the rank of ", value.getType());
  return value.getType();
}
DIFFC_INFER(SoftmaxOp) { return inferAlong(loc, op, op.getInput()); }
DIFFC_INFER(LogSoftmaxOp) { return inferAlong(loc, op, op.getInput()); }
DIFFC_INFER(SoftmaxGradOp) {
  if (op.getOutput().getType() != op.getOutputGrad().getType())
    return inferError(loc, "the gradient's type differs from the output's");
  return inferAlong(loc, op, op.getOutput());
}

// Rough counts, for reports: operations per element of the forward formula.
int64_t LayerNormOp::getFlops() { return 8 * tensorType(getInput()).getNumElements(); }
int64_t LayerNormGradOp::getFlops() { return 16 * tensorType(getInput()).getNumElements(); }
int64_t RmsNormOp::getFlops() { return 5 * tensorType(getInput()).getNumElements(); }
int64_t RmsNormGradOp::getFlops() { return 12 * tensorType(getInput()).getNumElements(); }
int64_t GroupNormOp::getFlops() { return 8 * tensorType(getInput()).getNumElements(); }
int64_t GroupNormGradOp::getFlops() { return 16 * tensorType(getInput()).getNumElements(); }
int64_t SoftmaxOp::getFlops() { return 5 * tensorType(getInput()).getNumElements(); }
int64_t LogSoftmaxOp::getFlops() { return 5 * tensorType(getInput()).getNumElements(); }
int64_t SoftmaxGradOp::getFlops() { return 4 * tensorType(getOutput()).getNumElements(); }

//===----------------------------------------------------------------------===//
// A scale of 1 and a bias of 0, which exporters write for norms that have none
//===----------------------------------------------------------------------===//

static bool isConstantOf(Value value, double expected) {
  auto constant = value ? value.getDefiningOp<ConstantOp>() : ConstantOp();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  return dense && dense.isSplat() && dense.getSplatValue<APFloat>().convertToDouble() == expected;
}

// Removes bias, scale or both from the operands.
template <typename Norm>
static LogicalResult dropNeutralAffine(Norm norm, PatternRewriter &rewriter) {
  bool dropBias = isConstantOf(norm.getBias(), 0);
  bool dropScale = isConstantOf(norm.getScale(), 1) && (!norm.getBias() || dropBias);
  if (!dropBias && !dropScale)
    return rewriter.notifyMatchFailure(norm, "scale and bias do something");
  rewriter.modifyOpInPlace(norm, [&] {
    if (dropBias)
      norm.getBiasMutable().clear();
    if (dropScale)
      norm.getScaleMutable().clear();
  });
  return success();
}

void LayerNormOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(dropNeutralAffine<LayerNormOp>);
}
void GroupNormOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(dropNeutralAffine<GroupNormOp>);
}
void RmsNormOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *) {
  patterns.add(+[](RmsNormOp norm, PatternRewriter &rewriter) -> LogicalResult {
    if (!isConstantOf(norm.getScale(), 1))
      return rewriter.notifyMatchFailure(norm, "the scale does something");
    rewriter.modifyOpInPlace(norm, [&] { norm.getScaleMutable().clear(); });
    return success();
  });
}

//===----------------------------------------------------------------------===//
// Derivatives
//===----------------------------------------------------------------------===//

// dx, dscale and dbias of a norm from its grad operator; operands are input,
// scale and (where `hasBias`) bias.
static void pushNormGrads(Operation *grad, bool hasScale, bool hasBias,
                          SmallVectorImpl<Value> &grads) {
  grads.push_back(grad->getResult(0));
  if (hasScale)
    grads.push_back(grad->getResult(1));
  if (hasBias)
    grads.push_back(grad->getResult(2));
}

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                         SmallVectorImpl<Value> &grads) {
  auto grad = builder.create<LayerNormGradOp>(getLoc(), getInput(), getScale(), resultGrads[0],
                                              getAxis(), getEpsilon());
  pushNormGrads(grad, !!getScale(), !!getBias(), grads);
  return success();
}
LogicalResult RmsNormOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                       SmallVectorImpl<Value> &grads) {
  auto grad = builder.create<RmsNormGradOp>(getLoc(), getInput(), getScale(), resultGrads[0],
                                            getAxis(), getEpsilon());
  pushNormGrads(grad, !!getScale(), false, grads);
  return success();
}
LogicalResult GroupNormOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                         SmallVectorImpl<Value> &grads) {
  auto grad = builder.create<GroupNormGradOp>(getLoc(), getInput(), getScale(), resultGrads[0],
                                              getGroups(), getEpsilon());
  pushNormGrads(grad, !!getScale(), !!getBias(), grads);
  return success();
}
LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                       SmallVectorImpl<Value> &grads) {
  grads.push_back(builder.create<SoftmaxGradOp>(getLoc(), getResult(), resultGrads[0], getAxis()));
  return success();
}
LogicalResult LogSoftmaxOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                          ArrayRef<bool>, SmallVectorImpl<Value> &grads) {
  // dx = dy - softmax(x) * sum(dy)
  Rows rows(builder, getInput(), {static_cast<int64_t>(getAxis())});
  Value probability = builder.create<ExpOp>(getLoc(), getResult());
  Value dy = resultGrads[0];
  grads.push_back(rows.sub(dy, rows.mul(probability, rows.sum(dy))));
  return success();
}

//===----------------------------------------------------------------------===//
// Decompositions
//===----------------------------------------------------------------------===//

SmallVector<Value> LayerNormOp::decompose(OpBuilder &builder) {
  Rows rows(builder, getInput(), axesFrom(getAxis(), tensorType(getInput()).getRank()));
  Value y = rows.normalise(getInput(), getEpsilon().convertToDouble()).value;
  if (getScale())
    y = rows.mul(y, getScale());
  if (getBias())
    y = rows.add(y, getBias());
  return {y};
}

SmallVector<Value> LayerNormGradOp::decompose(OpBuilder &builder) {
  int64_t axis = getAxis();
  Rows rows(builder, getInput(), axesFrom(axis, tensorType(getInput()).getRank()));
  Value dy = getOutputGrad(), g = getScale() ? rows.mul(dy, getScale()) : dy;
  Rows::Normalised n = rows.normalise(getInput(), getEpsilon().convertToDouble());
  SmallVector<Value> results{rows.normaliseGrad(n, g)};
  if (getScale()) {
    results.push_back(sumLeading(builder, rows.mul(dy, n.value), axis));
    results.push_back(sumLeading(builder, dy, axis));
  }
  return results;
}

SmallVector<Value> RmsNormOp::decompose(OpBuilder &builder) {
  Value x = getInput();
  Rows rows(builder, x, axesFrom(getAxis(), tensorType(x).getRank()));
  Value r = rows.rstd(rows.mean(rows.mul(x, x)), getEpsilon().convertToDouble());
  Value y = rows.mul(x, r);
  return {getScale() ? rows.mul(y, getScale()) : y};
}

SmallVector<Value> RmsNormGradOp::decompose(OpBuilder &builder) {
  Value x = getInput(), dy = getOutputGrad();
  Rows rows(builder, x, axesFrom(getAxis(), tensorType(x).getRank()));
  Value r = rows.rstd(rows.mean(rows.mul(x, x)), getEpsilon().convertToDouble());
  Value xhat = rows.mul(x, r), g = getScale() ? rows.mul(dy, getScale()) : dy;
  Value dx = rows.mul(r, rows.sub(g, rows.mul(xhat, rows.mean(rows.mul(g, xhat)))));
  SmallVector<Value> results{dx};
  if (getScale())
    results.push_back(sumLeading(builder, rows.mul(dy, xhat), getAxis()));
  return results;
}

// [N, C, spatial...] as [N, groups, C / groups, pixels].
static SmallVector<int64_t> groupedShape(RankedTensorType x, int64_t groups) {
  ArrayRef<int64_t> shape = x.getShape();
  return {shape[0], groups, shape[1] / groups, elementCount(shape.drop_front(2))};
}

SmallVector<Value> GroupNormOp::decompose(OpBuilder &builder) {
  RankedTensorType type = tensorType(getInput());
  SmallVector<int64_t> shape = groupedShape(type, getGroups());
  Value x = reshape(builder, getInput(), shape);
  Rows rows(builder, x, {2, 3});
  Value y = rows.normalise(x, getEpsilon().convertToDouble()).value;
  SmallVector<int64_t> perChannel{1, shape[1], shape[2], 1};
  if (getScale())
    y = rows.mul(y, reshape(builder, getScale(), perChannel));
  if (getBias())
    y = rows.add(y, reshape(builder, getBias(), perChannel));
  return {reshape(builder, y, type.getShape())};
}

SmallVector<Value> GroupNormGradOp::decompose(OpBuilder &builder) {
  RankedTensorType type = tensorType(getInput());
  SmallVector<int64_t> shape = groupedShape(type, getGroups());
  Value x = reshape(builder, getInput(), shape);
  Value dy = reshape(builder, getOutputGrad(), shape);
  Rows rows(builder, x, {2, 3});
  Value g = dy;
  if (getScale())
    g = rows.mul(dy, reshape(builder, getScale(), {1, shape[1], shape[2], 1}));
  Rows::Normalised n = rows.normalise(x, getEpsilon().convertToDouble());
  SmallVector<Value> results{reshape(builder, rows.normaliseGrad(n, g), type.getShape())};
  if (getScale()) {
    auto perChannel = [&](Value v) {
      Value sum = builder.create<ReduceSumOp>(getLoc(), v, ArrayRef<int64_t>{0, 3}, false);
      return reshape(builder, sum, {type.getDimSize(1)});
    };
    results.push_back(perChannel(rows.mul(dy, n.value)));
    results.push_back(perChannel(dy));
  }
  return results;
}

SmallVector<Value> SoftmaxOp::decompose(OpBuilder &builder) {
  Value x = getInput();
  SmallVector<int64_t> axes{static_cast<int64_t>(getAxis())};
  Rows rows(builder, x, axes);
  Location loc = getLoc();
  // A row of -inf alone: its maximum is replaced by a finite number, every
  // exponential is 0, and 0 / 1 is 0.
  Value maximum = builder.create<ReduceMaxOp>(loc, x, axes, true);
  APFloat least = APFloat::getLargest(cast<FloatType>(rows.element).getFloatSemantics(), true);
  bool loses;
  least.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &loses);
  Value lowest = rows.c(least.convertToDouble());
  Value safe = builder.create<MaximumOp>(loc, maximum, lowest);
  Value e = builder.create<ExpOp>(loc, rows.sub(x, safe));
  Value total = rows.sum(e);
  Value empty = builder.create<EqualOp>(loc, total, rows.c(0));
  Value divisor = builder.create<SelectOp>(loc, empty, rows.c(1), total);
  Value inverse = builder.create<ReciprocalOp>(loc, divisor);
  return {rows.mul(e, inverse)};
}

SmallVector<Value> SoftmaxGradOp::decompose(OpBuilder &builder) {
  Value y = getOutput(), dy = getOutputGrad();
  Rows rows(builder, y, {static_cast<int64_t>(getAxis())});
  return {rows.mul(y, rows.sub(dy, rows.sum(rows.mul(y, dy))))};
}

SmallVector<Value> LogSoftmaxOp::decompose(OpBuilder &builder) {
  Value x = getInput();
  SmallVector<int64_t> axes{static_cast<int64_t>(getAxis())};
  Rows rows(builder, x, axes);
  Value shifted = rows.sub(x, builder.create<ReduceMaxOp>(getLoc(), x, axes, true));
  Value total = rows.sum(builder.create<ExpOp>(getLoc(), shifted));
  return {rows.sub(shifted, builder.create<LogOp>(getLoc(), total))};
}

} // namespace diffc::nn
