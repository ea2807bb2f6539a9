// Seeded random graphs over the nn dialect's operators.
#pragma once

#include "dialects/nn/IR/NnDialect.h"

#include <mlir/IR/BuiltinOps.h>
#include <random>

namespace diffc::randomgraph {

/// Builds operators on random values into a block, keeping values in a range
/// where every operator is smooth and well-conditioned. Float values have the
/// element type of the block's first argument.
class RandomGraph {
public:
  RandomGraph(mlir::OpBuilder &builder, mlir::Block &block, uint32_t seed);

  /// Adds `operators` random operators to the block's arguments; the result is
  /// a scalar that weighs every element of every value made.
  mlir::Value grow(int operators);

  /// The operators' names, in the order in which they can be drawn.
  static std::vector<std::string> operatorNames();

private:
  using Maker = mlir::Value (RandomGraph::*)();
  struct Entry {
    const char *name;
    Maker make;
  };
  static const std::vector<Entry> &entries();

  int64_t pick(int64_t low, int64_t high);
  mlir::Value any();                ///< a random value so far
  mlir::Value ofRank(int64_t rank); ///< a value of that rank, by reshape if need be
  mlir::Value constant(llvm::ArrayRef<int64_t> shape, double low, double high);
  mlir::Value bounded(mlir::Value value);  ///< tanh: in (-1, 1)
  mlir::Value positive(mlir::Value value); ///< 1.5 + tanh: in (0.5, 2.5)

  mlir::Value unary();
  mlir::Value positiveUnary();
  mlir::Value binary();
  mlir::Value divide();
  mlir::Value power();
  mlir::Value select();
  mlir::Value castBothWays();
  mlir::Value reduce();
  mlir::Value broadcast();
  mlir::Value reshapeSome();
  mlir::Value transposeSome();
  mlir::Value slice();
  mlir::Value pad();
  mlir::Value reverse();
  mlir::Value concat();
  mlir::Value gather();
  mlir::Value matmul();
  mlir::Value convolution();
  mlir::Value transposedConvolution();
  mlir::Value layerNorm();
  mlir::Value rmsNorm();
  mlir::Value groupNorm();
  mlir::Value softmax();

  mlir::OpBuilder &builder;
  mlir::Location loc;
  std::mt19937 random;
  mlir::Type element;
  std::vector<mlir::Value> values;
};

} // namespace diffc::randomgraph
