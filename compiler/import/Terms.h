// Arithmetic on values in the order it reads on paper, for handlers that compose
// an ONNX operator of nn operations.
#pragma once

#include "compiler/import/NodeImport.h"

namespace diffc {

/// Constants have `element` type; shapes broadcast. Operands must fit together:
/// where a user's could fail to, handlers check first or use NodeImport::build.
class Terms {
public:
  Terms(NodeImport &in, mlir::Type element) : in(in), element(element) {}
  /// Of the element type of operand `i`.
  Terms(NodeImport &in, size_t i) : Terms(in, in.type(i).getElementType()) {}

  NodeImport &in;
  const mlir::Type element;

  template <typename Op, typename... Args> mlir::Value make(Args &&...args) const {
    return in.builder.create<Op>(in.loc, std::forward<Args>(args)...);
  }
  mlir::Value c(double value) const { return nn::scalar(in.builder, in.loc, value, element); }
  mlir::Value add(mlir::Value x, mlir::Value y) const { return make<nn::AddOp>(x, y); }
  mlir::Value sub(mlir::Value x, mlir::Value y) const { return make<nn::SubOp>(x, y); }
  mlir::Value mul(mlir::Value x, mlir::Value y) const { return make<nn::MulOp>(x, y); }
  mlir::Value div(mlir::Value x, mlir::Value y) const { return make<nn::DivOp>(x, y); }
  mlir::Value neg(mlir::Value x) const { return make<nn::NegOp>(x); }
  mlir::Value max(mlir::Value x, mlir::Value y) const { return make<nn::MaximumOp>(x, y); }
  mlir::Value min(mlir::Value x, mlir::Value y) const { return make<nn::MinimumOp>(x, y); }
  mlir::Value less(mlir::Value x, mlir::Value y) const { return make<nn::LessOp>(x, y); }
  mlir::Value greater(mlir::Value x, mlir::Value y) const { return make<nn::GreaterOp>(x, y); }
  mlir::Value equal(mlir::Value x, mlir::Value y) const { return make<nn::EqualOp>(x, y); }
  mlir::Value select(mlir::Value condition, mlir::Value x, mlir::Value y) const {
    return make<nn::SelectOp>(condition, x, y);
  }
  mlir::Value cast(mlir::Value x, mlir::Type to) const {
    if (nn::tensorType(x).getElementType() == to)
      return x;
    return make<nn::CastOp>(x, to);
  }
  bool isReal() const { return llvm::isa<mlir::FloatType>(element); }
};

} // namespace diffc
