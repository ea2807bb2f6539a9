// Reading a picture at computed places.
#pragma once

#include "compiler/import/Spatial.h"

namespace diffc {

/// Arithmetic on coordinates of one element type.
struct Coordinates {
  NodeImport &in;
  mlir::Type element;

  mlir::Value c(double value) const { return nn::scalar(in.builder, in.loc, value, element); }
  mlir::Value add(mlir::Value x, double y) const {
    return y == 0 ? x : make<nn::AddOp>(in, x, c(y));
  }
  mlir::Value mul(mlir::Value x, double y) const {
    return y == 1 ? x : make<nn::MulOp>(in, x, c(y));
  }
  mlir::Value sub(mlir::Value x, mlir::Value y) const { return make<nn::SubOp>(in, x, y); }
  mlir::Value from(double x, mlir::Value y) const { return make<nn::SubOp>(in, c(x), y); }
  mlir::Value less(mlir::Value x, double y) const { return make<nn::LessOp>(in, x, c(y)); }
  mlir::Value atLeast(mlir::Value x, double y) const {
    return make<nn::GreaterEqualOp>(in, x, c(y));
  }
  mlir::Value atMost(mlir::Value x, double y) const { return make<nn::LessEqualOp>(in, x, c(y)); }

  /// Between low and high; NaN is low. No gradient at the ends, nor outside.
  mlir::Value clamp(mlir::Value x, double low, double high) const {
    x = make<nn::SelectOp>(in, make<nn::GreaterOp>(in, x, c(low)), x, c(low));
    return make<nn::SelectOp>(in, make<nn::LessOp>(in, x, c(high)), x, c(high));
  }
  mlir::Value both(mlir::Value a, mlir::Value b) const { return make<nn::LogicalAndOp>(in, a, b); }

  /// Back and forth between low and high, as often as it takes.
  mlir::Value reflect(mlir::Value x, double low, double high) const {
    double range = high - low;
    if (range <= 0)
      return make<nn::SelectOp>(in, make<nn::EqualOp>(in, x, x), c(low), c(low));
    // The slope of |NaN| is NaN: a place that is no number is low, without slope.
    x = make<nn::SelectOp>(in, make<nn::EqualOp>(in, x, x), x, c(low));
    mlir::Value distance = make<nn::AbsOp>(in, add(x, -low));
    mlir::Value turns = make<nn::FloorOp>(in, mul(distance, 1 / range));
    mlir::Value rest = sub(distance, mul(turns, range));
    mlir::Value half = make<nn::FloorOp>(in, mul(turns, 0.5));
    mlir::Value even = make<nn::EqualOp>(in, turns, mul(half, 2));
    mlir::Value folded = make<nn::SelectOp>(in, even, add(rest, low), from(high, rest));
    return make<nn::SelectOp>(in, both(atLeast(x, low), atMost(x, high)), x, folded);
  }
};

enum class Padding { kZeros, kBorder, kReflection };
enum class Interpolation { kNearest, kLinear, kCubic };

/// One input element that takes part, along one dimension.
struct Tap {
  mlir::Value index;  ///< i64, always inside
  mlir::Value weight; ///< null: 1
  mlir::Value inside; ///< null: always
};

/// How positions along one dimension of `extent` are read.
struct Reading {
  Interpolation interpolation;
  Padding padding;
  bool alignCorners;
};

/// The taps of a dimension of `size` elements for positions in its own unit: 0 is
/// the first element.
llvm::SmallVector<Tap> tapsOf(const Coordinates &k, mlir::Value at, int64_t size,
                              const Reading &reading);

/// x [N, C, spatial...] at the taps of its dimensions, every combination of them:
/// [P..., C] each, where the taps broadcast to [P...] with the i64 `sample`, which
/// says where in the batch to read.
llvm::SmallVector<mlir::Value> readAt(NodeImport &in, mlir::Value x, mlir::Value sample,
                                      llvm::ArrayRef<llvm::SmallVector<Tap>> dimensions);

mlir::Value sumOf(NodeImport &in, llvm::ArrayRef<mlir::Value> terms);

/// f32 for the narrow types, in which coordinates would be too coarse.
mlir::Value wideEnough(NodeImport &in, mlir::Value x);

} // namespace diffc
