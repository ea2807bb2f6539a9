// Axes that a node names, and values that run along one axis.
#pragma once

#include "compiler/import/Terms.h"

namespace diffc {

/// Axes counted from the end where negative, sorted. Fails where one is out of
/// range or named twice.
diffrun::Status wrapAxes(NodeImport &in, int64_t rank, llvm::SmallVector<int64_t> &axes);

/// Axes from operand 1 (since `operandSince`) or an attribute, wrapped and sorted;
/// nullopt where there are none.
diffrun::Result<std::optional<llvm::SmallVector<int64_t>>> axesOf(NodeImport &in, int64_t rank,
                                                                  int64_t operandSince);

/// i64 numbers 0, 1, ... along `axis` of `shape`, the other dimensions being 1.
mlir::Value iota(const Terms &t, llvm::ArrayRef<int64_t> shape, int64_t axis);

/// The product along an axis, which stays as 1. Of no elements it is 1.
mlir::Value productAlong(const Terms &t, mlir::Value x, int64_t axis);

/// Where along `axis` the largest (ReduceMaxOp) or smallest element stands: the
/// first such place, or the last one; the first NaN where there is one. An i64
/// value; the axis is not empty.
template <typename Reduce>
mlir::Value placeOfExtreme(const Terms &t, mlir::Value x, int64_t axis, bool keep, bool last) {
  llvm::ArrayRef<int64_t> shape = nn::tensorType(x).getShape(), axes(axis);
  mlir::Value top = t.make<Reduce>(x, axes, true);
  mlir::Value hit = t.equal(x, top);
  if (t.isReal())
    hit = t.make<nn::LogicalOrOp>(hit, t.make<nn::NotEqualOp>(x, x));
  Terms n(t.in, t.in.builder.getI64Type());
  mlir::Value at =
      n.select(hit, iota(t, shape, axis), n.c(last ? -1 : static_cast<double>(shape[axis])));
  if (last)
    return t.make<nn::ReduceMaxOp>(at, axes, keep);
  return t.make<nn::ReduceMinOp>(at, axes, keep);
}

} // namespace diffc
