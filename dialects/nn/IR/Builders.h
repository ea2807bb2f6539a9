// Small building blocks that derivatives, decompositions and composing share.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

namespace diffc::nn {

/// The RankedTensorType of a value of the dialect.
mlir::RankedTensorType tensorType(mlir::Value value);

/// A rank-0 constant of `elementType`; broadcasts against everything.
mlir::Value scalar(mlir::OpBuilder &builder, mlir::Location loc, double value,
                   mlir::Type elementType);

/// Zeros of a type, as a splat constant.
mlir::Value zeros(mlir::OpBuilder &builder, mlir::Location loc, mlir::RankedTensorType type);

/// The gradient of a broadcast: `value` summed over the dimensions that were
/// added or repeated to get from `target`'s shape to value's, so that the
/// result has exactly `target`'s shape. A dimension that is 1 on both sides
/// is kept, not summed away.
mlir::Value sumToShape(mlir::OpBuilder &builder, mlir::Value value, llvm::ArrayRef<int64_t> target);

/// reshape / broadcast_to / transpose, or `value` itself where nothing changes.
mlir::Value reshape(mlir::OpBuilder &builder, mlir::Value value, llvm::ArrayRef<int64_t> shape);
mlir::Value broadcastTo(mlir::OpBuilder &builder, mlir::Value value, llvm::ArrayRef<int64_t> shape);
mlir::Value transpose(mlir::OpBuilder &builder, mlir::Value value,
                      llvm::ArrayRef<int64_t> permutation);

/// What a chain of reshapes is a view of; `value` itself if it is none.
mlir::Value viewedValue(mlir::Value value);

/// True for a transpose that exchanges the last two dimensions and no others.
bool exchangesLastTwo(TransposeOp transpose);

/// The shape that numpy broadcasting gives, or nullopt where it is refused.
std::optional<llvm::SmallVector<int64_t>> broadcastShape(llvm::ArrayRef<int64_t> a,
                                                         llvm::ArrayRef<int64_t> b);

/// Product of `shape`'s entries.
int64_t elementCount(llvm::ArrayRef<int64_t> shape);

} // namespace diffc::nn
