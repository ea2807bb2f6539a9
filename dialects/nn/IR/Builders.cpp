#include "dialects/nn/IR/Builders.h"

using namespace mlir;

namespace diffc::nn {

RankedTensorType tensorType(Value value) { return cast<RankedTensorType>(value.getType()); }

int64_t elementCount(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

static Attribute elementAttr(double value, Type elementType) {
  if (isa<FloatType>(elementType))
    return FloatAttr::get(elementType, value);
  return IntegerAttr::get(elementType, static_cast<int64_t>(value));
}

static Value splat(OpBuilder &builder, Location loc, double value, RankedTensorType type) {
  return builder.create<ConstantOp>(
      loc, DenseElementsAttr::get(type, elementAttr(value, type.getElementType())));
}

Value scalar(OpBuilder &builder, Location loc, double value, Type elementType) {
  return splat(builder, loc, value, RankedTensorType::get({}, elementType));
}

Value zeros(OpBuilder &builder, Location loc, RankedTensorType type) {
  return splat(builder, loc, 0.0, type);
}

Value reshape(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  if (tensorType(value).getShape() == shape)
    return value;
  return builder.create<ReshapeOp>(value.getLoc(), value, shape);
}

Value broadcastTo(OpBuilder &builder, Value value, ArrayRef<int64_t> shape) {
  if (tensorType(value).getShape() == shape)
    return value;
  return builder.create<BroadcastToOp>(value.getLoc(), value, shape);
}

Value transpose(OpBuilder &builder, Value value, ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return value;
  return builder.create<TransposeOp>(value.getLoc(), value, permutation);
}

Value viewedValue(Value value) {
  while (auto view = value.getDefiningOp<ReshapeOp>())
    value = view.getInput();
  return value;
}

bool exchangesLastTwo(TransposeOp transpose) {
  ArrayRef<int64_t> permutation = transpose.getPermutation();
  int64_t rank = permutation.size();
  if (rank < 2 || permutation[rank - 1] != rank - 2 || permutation[rank - 2] != rank - 1)
    return false;
  return llvm::equal(permutation.drop_back(2), llvm::seq<int64_t>(0, rank - 2));
}

Value sumToShape(OpBuilder &builder, Value value, ArrayRef<int64_t> target) {
  ArrayRef<int64_t> shape = tensorType(value).getShape();
  if (shape == target)
    return value;
  int64_t added = shape.size() - target.size();
  SmallVector<int64_t> axes;
  for (int64_t i = 0, rank = shape.size(); i < rank; ++i)
    if (i < added || (target[i - added] == 1 && shape[i] != 1))
      axes.push_back(i);
  if (!axes.empty())
    value = builder.create<ReduceSumOp>(value.getLoc(), value, axes, false);
  return reshape(builder, value, target);
}

std::optional<SmallVector<int64_t>> broadcastShape(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  size_t rank = std::max(a.size(), b.size());
  SmallVector<int64_t> shape(rank);
  for (size_t i = 0; i < rank; ++i) {
    int64_t x = i < rank - a.size() ? 1 : a[i - (rank - a.size())];
    int64_t y = i < rank - b.size() ? 1 : b[i - (rank - b.size())];
    if (x != y && x != 1 && y != 1)
      return std::nullopt;
    shape[i] = x == 1 ? y : x;
  }
  return shape;
}

} // namespace diffc::nn
