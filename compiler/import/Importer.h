// ONNX -> train.model with one train.graph of nn operations.
#pragma once

#include "compiler/import/ModelFile.h"

#include <mlir/IR/BuiltinOps.h>
#include <mlir/IR/OwningOpRef.h>

#include <map>
#include <string>

namespace diffc {

struct ImportOptions {
  std::string modelName = "model"; ///< symbol of the train.model
  std::string graphName = "graph"; ///< symbol of the train.graph
  /// Extents of the model's symbolic dimensions, by name.
  std::map<std::string, int64_t> dimensions;
  /// Inputs that are not asked for but known, by name: such as a shape.
  std::map<std::string, onnx::TensorProto> constants;
};

/// Imports a model under one binding of its symbolic dimensions.
///
/// Shapes become static, shape arithmetic and other constant subgraphs fold
/// away. A float initializer of rank 1 or more that is read as data becomes a parameter
/// (so does every empty sparse initializer, drawn as the file's training_info
/// says); other initializers, such as Resize's scales, are constants.
///
/// Errors: InvalidInput. Operators without an import are all listed at once
/// with their nodes; cycles, unbound dimensions and broken tensors name their
/// node, dimension or tensor.
diffrun::Result<mlir::OwningOpRef<mlir::ModuleOp>>
importModel(mlir::MLIRContext &context, const ModelFile &file, const ImportOptions &options);

/// A TensorProto's elements.
diffrun::Result<mlir::DenseElementsAttr>
tensorElements(mlir::MLIRContext &context, const ModelFile &file, const onnx::TensorProto &tensor);

} // namespace diffc
