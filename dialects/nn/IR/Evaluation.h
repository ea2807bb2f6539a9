// From operations to the MLIR-free evaluator: one generic conversion, by name
// and attributes, that serves constant folding, tests and the plan.
#pragma once

#include "runtime/evaluate/Evaluate.h"

#include <mlir/IR/BuiltinAttributes.h>
#include <mlir/IR/Operation.h>

namespace diffc::nn {

/// The evaluator's type of a tensor type. Errors: InvalidInput for an element
/// type that the evaluator does not have.
diffrun::Result<diffrun::evaluate::TensorType> evaluationType(mlir::Type type);

/// A constant's elements, and back (float elements round to nearest even).
diffrun::Result<diffrun::evaluate::Tensor> toTensor(mlir::ElementsAttr value);
mlir::DenseElementsAttr toAttribute(const diffrun::evaluate::Tensor &tensor,
                                    mlir::RankedTensorType type);

/// Operations and values of a block in the evaluator's form.
///
/// Region operators (nn.kernel, nn.call) are inlined: their bodies' operations
/// appear in order, on the numbers of the operands. Value numbers are given in
/// the order of appearance and can be asked for.
class EvaluationGraph {
public:
  /// Appends every operation of `block` except its terminator.
  diffrun::Status append(mlir::Block &block);
  /// Appends one operation.
  diffrun::Status append(mlir::Operation *op);

  /// The number of `value`, giving it one if it has none yet.
  diffrun::Result<int64_t> number(mlir::Value value);

  const diffrun::evaluate::Graph &graph() const { return built; }

private:
  diffrun::Status appendRegion(mlir::Operation *op);

  diffrun::evaluate::Graph built;
  llvm::DenseMap<mlir::Value, int64_t> numbers;
};

/// The constant results of `op` when every operand is the given constant
/// (null: not constant, then nothing is folded); empty where it has no kernel.
llvm::SmallVector<mlir::DenseElementsAttr>
evaluateConstants(mlir::Operation *op, llvm::ArrayRef<mlir::Attribute> operands);

} // namespace diffc::nn
