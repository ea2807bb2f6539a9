// Reverse-mode differentiation of one block of nn operations.
#pragma once

#include <mlir/IR/Builders.h>
#include <mlir/IR/Value.h>

namespace diffc {

/// Builds d(scalar)/d(input) for each of `inputs` at the builder's insertion
/// point, which must come after `scalar` in its block.
///
/// Only operations on a path from an input to `scalar` are differentiated, in
/// reverse order; a value that is used several times sums its gradients. A
/// null Value stands for an input that `scalar` does not depend on.
///
/// Shapes: scalar is a rank-0 float; gradients have their inputs' types.
/// Errors: emitted on the first operation that lies on such a path and has no
/// derivative.
mlir::FailureOr<llvm::SmallVector<mlir::Value>>
buildGradients(mlir::OpBuilder &builder, mlir::Value scalar, llvm::ArrayRef<mlir::Value> inputs);

} // namespace diffc
