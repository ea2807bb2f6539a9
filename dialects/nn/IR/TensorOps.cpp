// Operators that move or reduce elements: types, folds, derivatives, costs.
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/InferHelpers.h"

using namespace mlir;

namespace diffc::nn {

//===----------------------------------------------------------------------===//
// Constants
//===----------------------------------------------------------------------===//

DIFFC_INFER(ConstantOp) { return Type(cast<ElementsAttr>(op.getValue()).getType()); }
OpFoldResult ConstantOp::fold(FoldAdaptor) { return getValue(); }

DIFFC_INFER(IotaOp) {
  auto type = dyn_cast<RankedTensorType>(op.getType());
  if (!type || !type.hasStaticShape())
    return inferError(loc, "iota needs a static tensor type");
  return Type(type);
}
LogicalResult IotaOp::verify() {
  if (static_cast<int64_t>(getAxis()) >= tensorType(getResult()).getRank())
    return emitOpError("axis ") << getAxis() << " is not below the rank";
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

static bool sortedAxes(ArrayRef<int64_t> axes, int64_t rank) {
  for (size_t i = 0; i < axes.size(); ++i)
    if (axes[i] < 0 || axes[i] >= rank || (i && axes[i] <= axes[i - 1]))
      return false;
  return true;
}

template <typename Adaptor>
static FailureOr<Type> inferReduce(std::optional<Location> loc, Adaptor op) {
  RankedTensorType type = tensorType(op.getInput());
  if (!sortedAxes(op.getAxes(), type.getRank()))
    return inferError(loc, "axes must be sorted, distinct and within the rank of ", type);
  SmallVector<int64_t> shape;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    if (!llvm::is_contained(op.getAxes(), i))
      shape.push_back(type.getDimSize(i));
    else if (op.getKeepdims())
      shape.push_back(1);
  }
  return Type(type.clone(shape));
}
#define DIFFC_REDUCE(OP)                                                                           \
  DIFFC_INFER(OP) { return inferReduce(loc, op); }                                                 \
  int64_t OP::getFlops() { return tensorType(getInput()).getNumElements(); }
DIFFC_REDUCE(ReduceSumOp)
DIFFC_REDUCE(ReduceMeanOp)
DIFFC_REDUCE(ReduceMaxOp)
DIFFC_REDUCE(ReduceMinOp)

// The input's shape with 1 on each reduced axis.
template <typename Op> static SmallVector<int64_t> keptShape(Op op) {
  SmallVector<int64_t> shape(tensorType(op.getInput()).getShape());
  for (int64_t axis : op.getAxes())
    shape[axis] = 1;
  return shape;
}

template <typename Op> static int64_t reducedCount(Op op) {
  int64_t count = 1;
  for (int64_t axis : op.getAxes())
    count *= tensorType(op.getInput()).getDimSize(axis);
  return count;
}

LogicalResult ReduceSumOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                         SmallVectorImpl<Value> &grads) {
  grads.push_back(broadcastTo(builder, reshape(builder, resultGrads[0], keptShape(*this)),
                              tensorType(getInput()).getShape()));
  return success();
}

LogicalResult ReduceMeanOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                          ArrayRef<bool>, SmallVectorImpl<Value> &grads) {
  Value share = builder.create<MulOp>(getLoc(), resultGrads[0],
                                      scalar(builder, getLoc(), 1.0 / reducedCount(*this),
                                             tensorType(getInput()).getElementType()));
  grads.push_back(broadcastTo(builder, reshape(builder, share, keptShape(*this)),
                              tensorType(getInput()).getShape()));
  return success();
}

SmallVector<Value> ReduceMeanOp::decompose(OpBuilder &builder) {
  Value sum = builder.create<ReduceSumOp>(getLoc(), getInput(), getAxes(), getKeepdims());
  return {builder.create<MulOp>(getLoc(), sum,
                                scalar(builder, getLoc(), 1.0 / reducedCount(*this),
                                       tensorType(getInput()).getElementType()))};
}

// dy, shared equally among the elements that equal the extreme value.
template <typename Op> static Value extremeGradient(Op op, OpBuilder &builder, Value dy) {
  Location loc = op.getLoc();
  Type element = tensorType(op.getInput()).getElementType();
  SmallVector<int64_t> kept = keptShape(op);
  Value extreme = reshape(builder, op.getResult(), kept);
  Value hit = builder.create<EqualOp>(loc, op.getInput(), extreme);
  Value one = builder.create<CastOp>(loc, hit, element);
  Value hits = builder.create<ReduceSumOp>(loc, one, op.getAxes(), true);
  Value share = builder.create<DivOp>(loc, reshape(builder, dy, kept), hits);
  return builder.create<MulOp>(loc, one, share);
}
LogicalResult ReduceMaxOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                         SmallVectorImpl<Value> &grads) {
  grads.push_back(extremeGradient(*this, builder, resultGrads[0]));
  return success();
}
LogicalResult ReduceMinOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                         SmallVectorImpl<Value> &grads) {
  grads.push_back(extremeGradient(*this, builder, resultGrads[0]));
  return success();
}

//===----------------------------------------------------------------------===//
// Shape and order
//===----------------------------------------------------------------------===//

DIFFC_INFER(BroadcastToOp) {
  RankedTensorType type = tensorType(op.getInput());
  auto shape = broadcastShape(type.getShape(), op.getShape());
  if (!shape || ArrayRef<int64_t>(*shape) != op.getShape())
    return inferError(loc, type, " does not broadcast to [", op.getShape(), "]");
  return Type(type.clone(op.getShape()));
}
OpFoldResult BroadcastToOp::fold(FoldAdaptor in) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(in.getInput()); dense && dense.isSplat())
    return dense.resizeSplat(cast<ShapedType>(getType()));
  return {};
}
LogicalResult BroadcastToOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                           ArrayRef<bool>, SmallVectorImpl<Value> &grads) {
  grads.push_back(sumToShape(builder, resultGrads[0], tensorType(getInput()).getShape()));
  return success();
}

DIFFC_INFER(ReshapeOp) {
  RankedTensorType type = tensorType(op.getInput());
  for (int64_t extent : op.getShape())
    if (extent < 0)
      return inferError(loc, "reshape to a negative extent: [", op.getShape(), "]");
  if (elementCount(op.getShape()) != type.getNumElements())
    return inferError(loc, "reshape of ", type, " to [", op.getShape(),
                      "] changes the number of elements");
  return Type(type.clone(op.getShape()));
}
OpFoldResult ReshapeOp::fold(FoldAdaptor in) {
  if (getInput().getType() == getType())
    return getInput();
  if (auto inner = getInput().getDefiningOp<ReshapeOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(in.getInput()))
    return dense.reshape(cast<ShapedType>(getType()));
  return {};
}
namespace {
/// reshape(transpose(x)), the transpose exchanging the last two dimensions and
/// the reshape keeping both  ==>  transpose(reshape(x)): the transpose reaches
/// the matmul that takes it as a flag
struct ReshapeOfTransposedMatrices final : OpRewritePattern<ReshapeOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ReshapeOp op, PatternRewriter &rewriter) const override {
    auto inner = op.getInput().getDefiningOp<TransposeOp>();
    if (!inner || !inner->hasOneUse() || !exchangesLastTwo(inner) || op.getShape().size() < 2 ||
        op.getShape().take_back(2) != tensorType(inner.getResult()).getShape().take_back(2))
      return rewriter.notifyMatchFailure(op, "no transposed matrices that stay whole");
    SmallVector<int64_t> shape(op.getShape());
    std::swap(shape[shape.size() - 2], shape.back());
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, shape.size()));
    std::swap(permutation[permutation.size() - 2], permutation.back());
    Value matrices = reshape(rewriter, inner.getInput(), shape);
    rewriter.replaceOpWithNewOp<TransposeOp>(op, matrices, permutation);
    return success();
  }
};
} // namespace

void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReshapeOfTransposedMatrices>(context);
}

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                       SmallVectorImpl<Value> &grads) {
  grads.push_back(reshape(builder, resultGrads[0], tensorType(getInput()).getShape()));
  return success();
}

DIFFC_INFER(TransposeOp) {
  RankedTensorType type = tensorType(op.getInput());
  SmallVector<int64_t> sorted(op.getPermutation()), shape;
  llvm::sort(sorted);
  if (!llvm::equal(sorted, llvm::seq<int64_t>(0, type.getRank())))
    return inferError(loc, "[", op.getPermutation(), "] is no permutation of the dimensions of ",
                      type);
  for (int64_t from : op.getPermutation())
    shape.push_back(type.getDimSize(from));
  return Type(type.clone(shape));
}
OpFoldResult TransposeOp::fold(FoldAdaptor in) {
  if (llvm::equal(getPermutation(), llvm::seq<int64_t>(0, getPermutation().size())))
    return getInput();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(in.getInput()); dense && dense.isSplat())
    return dense.resizeSplat(cast<ShapedType>(getType()));
  if (auto inner = getInput().getDefiningOp<TransposeOp>()) {
    SmallVector<int64_t> combined;
    for (int64_t from : getPermutation())
      combined.push_back(inner.getPermutation()[from]);
    setPermutation(combined);
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}
LogicalResult TransposeOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                         SmallVectorImpl<Value> &grads) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [to, from] : llvm::enumerate(getPermutation()))
    inverse[from] = to;
  grads.push_back(transpose(builder, resultGrads[0], inverse));
  return success();
}

DIFFC_INFER(ReverseOp) {
  RankedTensorType type = tensorType(op.getInput());
  if (!sortedAxes(op.getAxes(), type.getRank()))
    return inferError(loc, "axes must be sorted, distinct and within the rank of ", type);
  return Type(type);
}
LogicalResult ReverseOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                       SmallVectorImpl<Value> &grads) {
  grads.push_back(builder.create<ReverseOp>(getLoc(), resultGrads[0], getAxes()));
  return success();
}

//===----------------------------------------------------------------------===//
// Slice, pad, concat
//===----------------------------------------------------------------------===//

DIFFC_INFER(SliceOp) {
  RankedTensorType type = tensorType(op.getInput());
  size_t rank = type.getRank();
  if (op.getStarts().size() != rank || op.getSizes().size() != rank ||
      op.getStrides().size() != rank)
    return inferError(loc, "slice needs a start, size and stride per dimension of ", type);
  for (size_t i = 0; i < rank; ++i) {
    int64_t first = op.getStarts()[i], size = op.getSizes()[i], stride = op.getStrides()[i];
    int64_t last = first + (size - 1) * stride, extent = type.getDimSize(i);
    if (stride == 0 || size < 0)
      return inferError(loc, "slice with stride ", stride, ", size ", size);
    if (size && (first < 0 || first >= extent || last < 0 || last >= extent))
      return inferError(loc, "slice from ", first, " to ", last, " leaves dimension ", i, " of ",
                        type);
  }
  return Type(type.clone(op.getSizes()));
}
OpFoldResult SliceOp::fold(FoldAdaptor in) {
  bool unit = llvm::all_of(getStrides(), [](int64_t s) { return s == 1; });
  if (unit && getInput().getType() == getType())
    return getInput();
  if (auto dense = dyn_cast_or_null<DenseElementsAttr>(in.getInput()); dense && dense.isSplat())
    return dense.resizeSplat(cast<ShapedType>(getType()));
  return {};
}
LogicalResult SliceOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                     SmallVectorImpl<Value> &grads) {
  // Reverse what ran backwards, then spread to the places that were read.
  RankedTensorType type = tensorType(getInput());
  if (type.getNumElements() == 0 || tensorType(getResult()).getNumElements() == 0) {
    grads.push_back(zeros(builder, getLoc(), type));
    return success();
  }
  SmallVector<int64_t> backwards, low, high, interior;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    int64_t first = getStarts()[i], stride = getStrides()[i];
    int64_t last = first + (getSizes()[i] - 1) * stride;
    if (stride < 0) {
      backwards.push_back(i);
      std::swap(first, last);
    }
    low.push_back(first);
    high.push_back(type.getDimSize(i) - 1 - last);
    interior.push_back(std::abs(stride) - 1);
  }
  Value dy = resultGrads[0];
  if (!backwards.empty())
    dy = builder.create<ReverseOp>(getLoc(), dy, backwards);
  grads.push_back(builder.create<PadOp>(getLoc(), dy, low, high, interior, APFloat(0.0)));
  return success();
}

DIFFC_INFER(PadOp) {
  RankedTensorType type = tensorType(op.getInput());
  size_t rank = type.getRank();
  if (op.getLow().size() != rank || op.getHigh().size() != rank || op.getInterior().size() != rank)
    return inferError(loc, "pad needs low, high and interior per dimension of ", type);
  SmallVector<int64_t> shape;
  for (size_t i = 0; i < rank; ++i) {
    int64_t extent = type.getDimSize(i), inside = op.getInterior()[i];
    int64_t spread = extent + std::max<int64_t>(extent - 1, 0) * inside;
    shape.push_back(spread + op.getLow()[i] + op.getHigh()[i]);
    if (inside < 0 || shape.back() < 0)
      return inferError(loc, "pad makes dimension ", i, " of ", type, " negative");
  }
  return Type(type.clone(shape));
}
LogicalResult PadOp::buildGradient(OpBuilder &builder, ValueRange resultGrads, ArrayRef<bool>,
                                   SmallVectorImpl<Value> &grads) {
  // Where elements were cropped their gradient is 0: pad the result's gradient
  // by what was cropped, then read each element's place.
  RankedTensorType type = tensorType(getInput());
  if (type.getNumElements() == 0) {
    grads.push_back(zeros(builder, getLoc(), type));
    return success();
  }
  SmallVector<int64_t> low, high, none(type.getRank(), 0), starts, strides;
  bool cropped = false;
  for (int64_t i = 0; i < type.getRank(); ++i) {
    low.push_back(std::max<int64_t>(-getLow()[i], 0));
    high.push_back(std::max<int64_t>(-getHigh()[i], 0));
    cropped |= low.back() || high.back();
    starts.push_back(std::max<int64_t>(getLow()[i], 0));
    strides.push_back(getInterior()[i] + 1);
  }
  Value dy = resultGrads[0];
  if (cropped)
    dy = builder.create<PadOp>(getLoc(), dy, low, high, none, APFloat(0.0));
  grads.push_back(builder.create<SliceOp>(getLoc(), dy, starts, type.getShape(), strides));
  return success();
}

DIFFC_INFER(ConcatOp) {
  if (op.getInputs().empty())
    return inferError(loc, "concat of nothing");
  RankedTensorType first = tensorType(op.getInputs().front());
  int64_t axis = op.getAxis(), total = 0;
  if (axis >= first.getRank())
    return inferError(loc, "axis ", axis, " is not below the rank of ", first);
  for (Value input : op.getInputs()) {
    RankedTensorType type = tensorType(input);
    SmallVector<int64_t> other(type.getShape());
    bool ranked = type.getRank() == first.getRank();
    if (ranked)
      other[axis] = first.getDimSize(axis);
    if (!ranked || ArrayRef<int64_t>(other) != first.getShape() ||
        type.getElementType() != first.getElementType())
      return inferError(loc, type, " cannot be joined to ", first, " along axis ", axis);
    total += type.getDimSize(axis);
  }
  SmallVector<int64_t> shape(first.getShape());
  shape[axis] = total;
  return Type(first.clone(shape));
}
OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? OpFoldResult(getInputs().front()) : OpFoldResult();
}
LogicalResult ConcatOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                      ArrayRef<bool> needed, SmallVectorImpl<Value> &grads) {
  int64_t rank = tensorType(getResult()).getRank(), axis = getAxis();
  SmallVector<int64_t> starts(rank, 0), strides(rank, 1);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    RankedTensorType type = tensorType(input);
    grads.push_back(needed[i] ? builder.create<SliceOp>(getLoc(), resultGrads[0], starts,
                                                        type.getShape(), strides)
                              : Value());
    starts[axis] += type.getDimSize(axis);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Gather and scatter
//===----------------------------------------------------------------------===//

DIFFC_INFER(GatherOp) {
  RankedTensorType table = tensorType(op.getTable()), indices = tensorType(op.getIndices());
  int64_t axis = op.getAxis();
  if (axis >= table.getRank())
    return inferError(loc, "axis ", axis, " is not below the rank of ", table);
  SmallVector<int64_t> shape(table.getShape().take_front(axis));
  llvm::append_range(shape, indices.getShape());
  llvm::append_range(shape, table.getShape().drop_front(axis + 1));
  return Type(table.clone(shape));
}
LogicalResult GatherOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                      ArrayRef<bool> needed, SmallVectorImpl<Value> &grads) {
  grads.push_back(
      needed[0] ? builder.create<ScatterAddOp>(getLoc(), getIndices(), resultGrads[0], getAxis(),
                                               tensorType(getTable()).getDimSize(getAxis()))
                : Value());
  grads.push_back(Value());
  return success();
}

DIFFC_INFER(ScatterAddOp) {
  RankedTensorType indices = tensorType(op.getIndices()), updates = tensorType(op.getUpdates());
  int64_t axis = op.getAxis(), middle = indices.getRank();
  if (updates.getRank() < axis + middle ||
      updates.getShape().slice(axis, middle) != indices.getShape())
    return inferError(loc, updates, " does not hold the shape of ", indices, " at axis ", axis);
  SmallVector<int64_t> shape(updates.getShape().take_front(axis));
  shape.push_back(op.getSize());
  llvm::append_range(shape, updates.getShape().drop_front(axis + middle));
  return Type(updates.clone(shape));
}

LogicalResult ScatterAddOp::buildGradient(OpBuilder &builder, ValueRange resultGrads,
                                          ArrayRef<bool>, SmallVectorImpl<Value> &grads) {
  grads.push_back(Value());
  grads.push_back(builder.create<GatherOp>(getLoc(), resultGrads[0], getIndices(), getAxis()));
  return success();
}

} // namespace diffc::nn
