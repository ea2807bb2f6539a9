// Nodes of a graph, a branch or a function as operations of one block.
#pragma once

#include "compiler/import/Importer.h"
#include "compiler/import/NodeImport.h"

#include <deque>
#include <map>
#include <set>
#include <string>

namespace diffc {

/// The names that nodes see: their own graph's over those of the graphs around.
/// A function's body sees nothing around it.
struct ImportScope {
  const ImportScope *around = nullptr;
  std::string prefix; ///< "call/" of a function's or a branch's nodes, for messages
  std::map<std::string, int64_t> opsets;
  std::map<std::string, mlir::Value> values;
  std::map<std::string, std::string> missing; ///< outputs without a value, and why

  /// Null if no graph here or around has the name.
  mlir::Value find(const std::string &name) const;
  const std::string *findMissing(const std::string &name) const;
  /// The version of an operator set that counts here; 0 if the model has none.
  int64_t opset(const std::string &domain) const;
};

/// Builds operations for nodes; constant ones are folded as they come.
class GraphImport {
public:
  GraphImport(const ModelFile &file, mlir::OpBuilder &builder) : file(file), builder(builder) {}

  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  /// Imports nodes in an order in which they can be computed; their results
  /// join `scope`. Errors: InvalidInput. All operators without an import are
  /// listed at once.
  diffrun::Status importNodes(const Nodes &nodes, ImportScope &scope);

  /// Names that some node reads as data rather than as a compile-time constant,
  /// in branches too.
  std::set<std::string> readAsData(const Nodes &nodes) const;

private:
  using ControlFlow = diffrun::Status (GraphImport::*)(const onnx::NodeProto &, ImportScope &,
                                                       NodeImport &);
  /// Operators that have graphs of their own, by name.
  static const std::map<std::string, ControlFlow> &controlFlow();

  /// Names that a node or its branches read.
  static void collectReads(const onnx::NodeProto &node, std::set<std::string> &names);
  /// What a function's body sees when `call` calls it: no value yet.
  static ImportScope functionScope(const onnx::FunctionProto &callee, const ImportScope &scope,
                                   const std::string &call);
  const onnx::FunctionProto *function(const onnx::NodeProto &node) const;
  void listUnknown(const Nodes &nodes, const ImportScope &scope, int depth, std::string &list,
                   int &count) const;
  diffrun::Result<std::vector<const onnx::NodeProto *>>
  topologicalOrder(const Nodes &nodes, const ImportScope &scope) const;
  diffrun::Status importNode(const onnx::NodeProto &node, ImportScope &scope);
  diffrun::Status importCall(const onnx::FunctionProto &callee, const NodeImport &call,
                             ImportScope &scope);
  diffrun::Result<NodeImport::Values>
  importBranch(const onnx::GraphProto &branch, const NodeImport &node, const ImportScope &scope);
  diffrun::Status importIf(const onnx::NodeProto &node, ImportScope &scope, NodeImport &in);
  diffrun::Status bind(const NodeImport &in, const NodeImport::Values &results,
                       ImportScope &scope) const;
  diffrun::Status verifyNew(mlir::Operation *before, NodeImport &in);
  void foldNew(mlir::Operation *before, NodeImport::Values &results);
  mlir::Block &block() { return *builder.getInsertionBlock(); }

  const ModelFile &file;
  mlir::OpBuilder &builder;
  std::deque<Nodes> bodies; ///< of functions, with a call's attributes
  int depth = 0;            ///< of calls and branches
};

} // namespace diffc
