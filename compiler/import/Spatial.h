// What convolutions, pooling and the operators on pictures share.
#pragma once

#include "compiler/import/NodeImport.h"

namespace diffc {

/// A sliding window, per spatial dimension.
struct Window {
  llvm::SmallVector<int64_t> kernel, strides, dilations, low, high;
  llvm::SmallVector<int64_t> outputs; ///< positions of the window

  size_t rank() const { return kernel.size(); }
  /// Elements from the window's first to its last, both included.
  int64_t reach(size_t i) const { return dilations[i] * (kernel[i] - 1) + 1; }
};

/// The window of a node: its strides, dilations, pads and auto_pad for a kernel
/// that slides over `image`. Fails where they do not fit. With ceil_mode the
/// last position may reach over the high padding, but starts before it.
diffrun::Result<Window> windowOf(NodeImport &in, llvm::ArrayRef<int64_t> kernel,
                                 llvm::ArrayRef<int64_t> image, bool ceilMode = false);

/// An attribute with one entry per dimension, each at least `least`; `fallback`
/// everywhere where the node has none.
diffrun::Result<llvm::SmallVector<int64_t>>
perDimension(NodeImport &in, const char *name, size_t count, int64_t fallback, int64_t least);

/// `auto_pad` ("NOTSET" where absent), or a failure where it is none of ONNX's.
diffrun::Result<std::string> automaticPadding(NodeImport &in);

/// x with `low` and `high` elements of `value` around each dimension from
/// `first` on; negative ones crop. x itself where all are 0.
mlir::Value surround(NodeImport &in, mlir::Value x, size_t first, llvm::ArrayRef<int64_t> low,
                     llvm::ArrayRef<int64_t> high, double value);

/// `count` elements of one dimension, from `start` in steps of `stride`.
mlir::Value sliceOf(NodeImport &in, mlir::Value x, int64_t axis, int64_t start, int64_t count,
                    int64_t stride = 1);

/// A constant of `element` type and `shape`.
mlir::Value realConstant(NodeImport &in, llvm::ArrayRef<double> values,
                         llvm::ArrayRef<int64_t> shape, mlir::Type element);

/// All ones but `extent` at `axis`: the shape of a vector that is broadcast
/// along that dimension.
llvm::SmallVector<int64_t> alongAxis(size_t rank, int64_t axis, int64_t extent);

/// x + bias over dimension 1; x itself where operand `index` is absent.
NodeImport::Outcome withBias(NodeImport &in, mlir::Value x, size_t index);

/// Short names for operations at a node's place.
template <typename Op, typename... Args> mlir::Value make(NodeImport &in, Args &&...args) {
  return in.builder.create<Op>(in.loc, std::forward<Args>(args)...);
}

} // namespace diffc
