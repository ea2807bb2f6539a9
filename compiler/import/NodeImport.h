// What a handler of one ONNX operator sees, and the table of handlers.
#pragma once

#include "compiler/import/ModelFile.h"
#include "dialects/nn/IR/Builders.h"

#include <map>

namespace diffc {

/// One ONNX node being imported: its operands as values, its attributes, and
/// the builder. Errors go through fail(), which names file, node and operator.
class NodeImport {
public:
  using Values = llvm::SmallVector<mlir::Value>;
  using Outcome = diffrun::Result<Values>;

  NodeImport(const ModelFile &file, const onnx::NodeProto &node, int64_t opset,
             mlir::OpBuilder &builder, mlir::Location loc, Values operands)
      : file(file), node(node), opset(opset), builder(builder), loc(loc),
        operands(std::move(operands)) {}

  const ModelFile &file;
  const onnx::NodeProto &node;
  const int64_t opset;
  mlir::OpBuilder &builder;
  const mlir::Location loc;
  const Values operands; ///< null where an optional input is absent

  mlir::Value operand(size_t i) const { return i < operands.size() ? operands[i] : mlir::Value(); }
  mlir::RankedTensorType type(size_t i) const { return nn::tensorType(operands[i]); }

  bool has(const char *name) const { return find(name) != nullptr; }
  int64_t integer(const char *name, int64_t fallback) const;
  double real(const char *name, double fallback) const;
  std::string text(const char *name, const std::string &fallback) const;
  llvm::SmallVector<int64_t> integers(const char *name) const;
  const onnx::AttributeProto *find(const char *name) const;

  /// The elements of an integer operand that is constant.
  std::optional<llvm::SmallVector<int64_t>> constantIntegers(size_t i) const;
  /// The elements of a float operand that is constant.
  std::optional<llvm::SmallVector<double>> constantReals(size_t i) const;
  mlir::Value constant(llvm::ArrayRef<int64_t> elements, llvm::ArrayRef<int64_t> shape) const;

  /// `axis` counted from the end where negative; nullopt out of range.
  static std::optional<int64_t> wrapAxis(int64_t axis, int64_t rank);

  diffrun::Status fail(const std::string &what, const std::string &help = {}) const;

  /// Builds an operator whose types are inferred; its errors are reported as
  /// this node's.
  template <typename Op, typename... Args> Outcome build(Args &&...args) const {
    std::string message;
    mlir::ScopedDiagnosticHandler collect(builder.getContext(), [&](mlir::Diagnostic &d) {
      message += (message.empty() ? "" : "; ") + d.str();
      return mlir::success();
    });
    mlir::OperationState state(loc, Op::getOperationName());
    llvm::SmallVector<mlir::Type> types;
    if (!checkAndBuild<Op>(state, std::forward<Args>(args)...))
      return fail(message.empty() ? "its operands do not fit together" : message);
    mlir::Operation *op = builder.create(state);
    return Values(op->getResults());
  }

private:
  // OpBuilder::create aborts where inference fails; so the state is built
  // without a type, and the type is inferred from it, which can fail.
  template <typename Op, typename... Args>
  bool checkAndBuild(mlir::OperationState &state, Args &&...args) const {
    Op::build(builder, state, mlir::Type(), std::forward<Args>(args)...);
    state.types.clear();
    return mlir::succeeded(
        Op::inferReturnTypes(builder.getContext(), loc, state.operands,
                             state.attributes.getDictionary(builder.getContext()),
                             state.getRawProperties(), state.regions, state.types));
  }
};

using Handler = NodeImport::Outcome (*)(NodeImport &);

/// The handler of one operator, the first operator-set version it understands,
/// how many leading inputs must be there (kAll: every one), and which inputs it
/// needs as constants even where they are floats.
struct HandlerEntry {
  static constexpr int kAll = -1;
  Handler handle;
  int64_t since = 1;
  int required = 1;
  std::vector<int> compileTime = {};
};
using HandlerTable = std::map<std::string, HandlerEntry>;

/// All operators that can be imported, by ONNX name.
const HandlerTable &handlers();

// One function per file of handlers.
void addElementwiseHandlers(HandlerTable &table);
void addActivationHandlers(HandlerTable &table);
void addReductionHandlers(HandlerTable &table);
void addIndexHandlers(HandlerTable &table);
void addEinsumHandlers(HandlerTable &table);
void addSearchHandlers(HandlerTable &table);
void addTensorHandlers(HandlerTable &table);
void addContractionHandlers(HandlerTable &table);
void addAttentionHandlers(HandlerTable &table);
void addSequenceHandlers(HandlerTable &table);
void addConvHandlers(HandlerTable &table);
void addNormHandlers(HandlerTable &table);
void addPadHandlers(HandlerTable &table);
void addResizeHandlers(HandlerTable &table);
void addPoolHandlers(HandlerTable &table);
void addBlockHandlers(HandlerTable &table);
void addSampleHandlers(HandlerTable &table);
void addChannelNormHandlers(HandlerTable &table);
void addRegionHandlers(HandlerTable &table);
void addConstantHandlers(HandlerTable &table);

/// The MLIR type of an ONNX element type; null where diffc has none.
mlir::Type elementType(mlir::MLIRContext &context, int32_t dataType);

} // namespace diffc
