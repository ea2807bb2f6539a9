#include "compiler/import/Importer.h"

#include "compiler/import/GraphImport.h"
#include "dialects/train/IR/TrainDialect.h"

#include <mlir/IR/Verifier.h>

#include <set>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

/// True if a tensor of this shape can exist: no negative extent, and few enough
/// elements that their bytes fit 64 bits with room to spare.
bool isPlausible(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t extent : shape)
    if (extent < 0 || __builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 48))
      return false;
  return true;
}

class Importer {
public:
  Importer(MLIRContext &context, const ModelFile &file, const ImportOptions &options)
      : context(context), file(file), options(options), builder(&context), opset(file.opset()),
        nodes(file, builder) {
    for (const auto &set : file.model().opset_import())
      scope.opsets[set.domain() == "ai.onnx" ? "" : set.domain()] = set.version();
  }

  Result<OwningOpRef<ModuleOp>> run() {
    DIFFRUN_RETURN_IF_ERROR(readDrawnParameters());
    createModel();
    DIFFRUN_RETURN_IF_ERROR(addInputs());
    DIFFRUN_RETURN_IF_ERROR(addInitializers());
    DIFFRUN_RETURN_IF_ERROR(nodes.importNodes(file.graph().node(), scope));
    DIFFRUN_RETURN_IF_ERROR(finish());
    return std::move(module);
  }

private:
  /// How training_info draws each parameter, as attributes by tensor name.
  Status readDrawnParameters() {
    for (const auto &info : file.model().training_info()) {
      std::map<std::string, const onnx::NodeProto *> maker;
      for (const auto &node : info.initialization().node())
        for (const std::string &output : node.output())
          maker[output] = &node;
      for (const auto &binding : info.initialization_binding()) {
        auto found = maker.find(binding.value());
        if (found == maker.end())
          return Status::invalid(file.path() + ": training_info binds \"" + binding.key() +
                                 "\" to \"" + binding.value() + "\", which nothing makes");
        NodeImport node(file, *found->second, opset, builder, builder.getUnknownLoc(), {});
        DIFFRUN_ASSIGN(draws[binding.key()], drawOf(node));
      }
    }
    return {};
  }

  Result<Attribute> drawOf(NodeImport &node) {
    using Maker = Attribute (*)(Builder &, NodeImport &);
    static const std::map<std::string, Maker> makers = {
        {"RandomNormal",
         [](Builder &b, NodeImport &n) -> Attribute {
           return train::NormalInitAttr::get(b.getContext(), b.getF64FloatAttr(n.real("mean", 0)),
                                             b.getF64FloatAttr(n.real("scale", 1)));
         }},
        {"RandomUniform",
         [](Builder &b, NodeImport &n) -> Attribute {
           return train::UniformInitAttr::get(b.getContext(), b.getF64FloatAttr(n.real("low", 0)),
                                              b.getF64FloatAttr(n.real("high", 1)));
         }},
    };
    if (auto maker = makers.find(node.node.op_type()); maker != makers.end())
      return maker->second(builder, node);
    if (node.node.op_type() != "ConstantOfShape")
      return node.fail("cannot draw a parameter",
                       "use RandomNormal, RandomUniform or ConstantOfShape");
    double value = 0;
    if (const auto *attribute = node.find("value")) {
      DIFFRUN_ASSIGN(auto elements, tensorElements(context, file, attribute->t()));
      if (!isa<FloatType>(elements.getElementType()) || elements.getNumElements() != 1)
        return node.fail("the value must be one float");
      APFloat element = *elements.getValues<APFloat>().begin();
      bool lost;
      element.convert(APFloat::IEEEdouble(), APFloat::rmNearestTiesToEven, &lost);
      value = element.convertToDouble();
    }
    return Attribute(train::ConstantInitAttr::get(&context, builder.getF64FloatAttr(value)));
  }

  void createModel() {
    Location loc = NameLoc::get(builder.getStringAttr(file.path()));
    module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(module->getBody());
    model =
        builder.create<train::ModelOp>(loc, options.modelName, builder.getStringAttr(file.path()));
    model.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&model.getBody().front());
    graph = builder.create<train::GraphOp>(loc, options.graphName, builder.getFunctionType({}, {}),
                                           ArrayAttr(), ArrayAttr());
    graph.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&graph.getBody().front());
  }

  Value addArgument(RankedTensorType type, StringRef key, Attribute value, Location loc) {
    argumentTypes.push_back(type);
    argumentAttributes.push_back(builder.getDictionaryAttr(builder.getNamedAttr(key, value)));
    return graph.getBody().front().addArgument(type, loc);
  }

  Result<RankedTensorType> boundType(const onnx::ValueInfoProto &input) const {
    std::string where = file.path() + ": input \"" + input.name() + "\"";
    if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape())
      return Status::invalid(where + " is no tensor of known rank");
    const auto &tensor = input.type().tensor_type();
    Type element = elementType(context, tensor.elem_type());
    if (!element)
      return Status::invalid(where + " has element type " + std::to_string(tensor.elem_type()) +
                             ", which diffc does not have");
    SmallVector<int64_t> shape;
    for (const auto &dim : tensor.shape().dim()) {
      if (dim.has_dim_value()) {
        shape.push_back(dim.dim_value());
        continue;
      }
      auto bound = options.dimensions.find(dim.dim_param());
      if (bound == options.dimensions.end())
        return Status::invalid(where + ": dimension " + std::to_string(shape.size()) + " (\"" +
                                   dim.dim_param() + "\") is open",
                               "bind it: --dim " +
                                   (dim.dim_param().empty() ? "NAME" : dim.dim_param()) + "=N");
      shape.push_back(bound->second);
    }
    if (!isPlausible(shape))
      return Status::invalid(where + " has impossible dimensions");
    return RankedTensorType::get(shape, element);
  }

  Status addInputs() {
    std::set<std::string> initialized;
    for (const auto &tensor : file.graph().initializer())
      initialized.insert(tensor.name());
    for (const auto &sparse : file.graph().sparse_initializer())
      initialized.insert(sparse.values().name());
    for (const auto &input : file.graph().input()) {
      if (initialized.count(input.name())) // IR versions below 4 list them twice
        continue;
      if (auto bound = options.constants.find(input.name()); bound != options.constants.end()) {
        DIFFRUN_ASSIGN(auto elements, tensorElements(context, file, bound->second));
        scope.values[input.name()] = builder.create<nn::ConstantOp>(
            NameLoc::get(builder.getStringAttr(input.name())), elements);
        continue;
      }
      DIFFRUN_ASSIGN(RankedTensorType type, boundType(input));
      scope.values[input.name()] =
          addArgument(type, train::kInputAttr, builder.getStringAttr(input.name()),
                      NameLoc::get(builder.getStringAttr(input.name())));
    }
    return {};
  }

  Status addParameter(const std::string &name, RankedTensorType type, Attribute init) {
    Location loc = NameLoc::get(builder.getStringAttr(name));
    if (SymbolTable::lookupSymbolIn(model, name))
      return Status::invalid(file.path() + ": two initializers are called \"" + name + "\"");
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(graph);
    builder.create<train::ParameterOp>(loc, name, type, init);
    scope.values[name] =
        addArgument(type, train::kParameterAttr, FlatSymbolRefAttr::get(&context, name), loc);
    return {};
  }

  Status addInitializers() {
    std::set<std::string> data = nodes.readAsData(file.graph().node());
    for (const auto &output : file.graph().output())
      data.insert(output.name());
    for (const auto &tensor : file.graph().initializer()) {
      Type element = elementType(context, tensor.data_type());
      if (!element)
        return Status::invalid(file.path() + ": tensor \"" + tensor.name() +
                               "\" has element type " + std::to_string(tensor.data_type()) +
                               ", which diffc does not have");
      if (isa<FloatType>(element) && tensor.dims_size() > 0 && data.count(tensor.name())) {
        // The data is checked here and read again when weights are written.
        DIFFRUN_RETURN_IF_ERROR(file.bytes(tensor).status());
        SmallVector<int64_t> shape(tensor.dims().begin(), tensor.dims().end());
        DIFFRUN_RETURN_IF_ERROR(
            addParameter(tensor.name(), RankedTensorType::get(shape, element), {}));
        continue;
      }
      DIFFRUN_ASSIGN(auto elements, tensorElements(context, file, tensor));
      scope.values[tensor.name()] = builder.create<nn::ConstantOp>(
          NameLoc::get(builder.getStringAttr(tensor.name())), elements);
    }
    for (const auto &sparse : file.graph().sparse_initializer()) {
      const std::string &name = sparse.values().name();
      Type element = elementType(context, sparse.values().data_type());
      auto draw = draws.find(name);
      bool empty = sparse.values().dims_size() == 1 && sparse.values().dims(0) == 0;
      if (!element || !isa<FloatType>(element) || !empty || draw == draws.end())
        return Status::invalid(file.path() + ": sparse tensor \"" + name +
                                   "\" is not an empty float one whose values training_info draws",
                               "store weights as dense initializers or safetensors");
      SmallVector<int64_t> shape(sparse.dims().begin(), sparse.dims().end());
      if (!isPlausible(shape))
        return Status::invalid(file.path() + ": sparse tensor \"" + name +
                               "\" has impossible dimensions");
      DIFFRUN_RETURN_IF_ERROR(
          addParameter(name, RankedTensorType::get(shape, element), draw->second));
    }
    return {};
  }

  Status finish() {
    SmallVector<Value> outputs;
    for (const auto &output : file.graph().output()) {
      Value found = scope.find(output.name());
      if (const std::string *why = scope.findMissing(output.name()); !found && why)
        return Status::invalid(*why);
      if (!found)
        return Status::invalid(file.path() + ": output \"" + output.name() +
                               "\" is made by nothing");
      outputs.push_back(found);
    }
    builder.create<train::ReturnOp>(graph.getLoc(), outputs);
    graph.setFunctionType(builder.getFunctionType(argumentTypes, ValueRange(outputs).getTypes()));
    graph.setArgAttrsAttr(builder.getArrayAttr(argumentAttributes));
    // What nothing reads any more goes: shape arithmetic that was folded.
    for (Operation &op : llvm::make_early_inc_range(llvm::reverse(graph.getBody().front())))
      if (isOpTriviallyDead(&op))
        op.erase();
    if (failed(verify(*module)))
      return Status::internal(file.path() + ": the imported model does not verify");
    return {};
  }

  MLIRContext &context;
  const ModelFile &file;
  const ImportOptions &options;
  OpBuilder builder;
  int64_t opset;
  OwningOpRef<ModuleOp> module;
  train::ModelOp model;
  train::GraphOp graph;
  GraphImport nodes;
  ImportScope scope;
  std::map<std::string, Attribute> draws;
  SmallVector<Type> argumentTypes;
  SmallVector<Attribute> argumentAttributes;
};

} // namespace

Result<OwningOpRef<ModuleOp>> importModel(MLIRContext &context, const ModelFile &file,
                                          const ImportOptions &options) {
  context.loadDialect<nn::NnDialect, train::TrainDialect>();
  return Importer(context, file, options).run();
}

} // namespace diffc
