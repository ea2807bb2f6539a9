#include "compiler/import/ParameterNames.h"

#include "compiler/import/ExporterNotes.h"
#include "compiler/import/WeightLayouts.h"
#include "runtime/checkpoint/Safetensors.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <set>

using diffrun::Result;
using diffrun::Status;
using onnx::GraphProto;
using onnx::NodeProto;
using onnx::TensorProto;

namespace diffc {
namespace {

/// What a tensor of the file was in the module.
struct Origin {
  enum Kind { kConstant, kParameter } kind = kParameter;
  std::string name;        ///< of the parameter
  bool transposed = false; ///< the tensor is the parameter's transpose
  Shape shape;             ///< of the parameter
};

/// A float tensor of the graph, and what is known of it.
struct Tensor {
  TensorProto proto;
  std::optional<Origin> origin; ///< nullopt: as the file has it

  Shape shape() const { return {proto.dims().begin(), proto.dims().end()}; }
};

class Tracer {
public:
  Tracer(ModelFile &file) : file(file), graph(*file.mutableModel().mutable_graph()) {}

  Result<std::vector<std::string>> run(const std::string &parameters) {
    if (!parameters.empty()) {
      DIFFRUN_ASSIGN(own, diffrun::SafetensorsReader::open(parameters));
    }
    if (auto parameters = exportedParameters(graph)) {
      hasSignature = true;
      signature = std::move(*parameters);
    }
    if (!own && !hasSignature && !isTorchScript())
      return decisions;
    if (!hasSignature)
      expandCopies();
    takeTensors();
    findReaders();
    for (const std::string &name : std::vector<std::string>(order))
      DIFFRUN_RETURN_IF_ERROR(trace(tensors.at(name)));
    restoreBiases();
    DIFFRUN_RETURN_IF_ERROR(separate());
    if (!own)
      DIFFRUN_RETURN_IF_ERROR(tie());
    DIFFRUN_RETURN_IF_ERROR(rewrite());
    sayWhatIsLeft();
    return decisions;
  }

private:
  //===--- What the file says ------------------------------------------------===//

  bool isSigned(const std::string &name) const {
    return std::find(signature.begin(), signature.end(), name) != signature.end();
  }

  bool isTorchScript() const {
    return std::any_of(graph.initializer().begin(), graph.initializer().end(),
                       [](const TensorProto &t) { return t.name().rfind("onnx::", 0) == 0; });
  }

  /// The TorchScript exporter stores tensors of equal values once; the others are
  /// Identity nodes outside of any scope. Each becomes a tensor of its own again.
  void expandCopies() {
    std::map<std::string, const TensorProto *> stored;
    for (const TensorProto &tensor : graph.initializer())
      stored[tensor.name()] = &tensor;
    std::vector<TensorProto> copies;
    google::protobuf::RepeatedPtrField<NodeProto> rest;
    for (const NodeProto &node : graph.node()) {
      auto from = node.op_type() == "Identity" && node.input_size() == 1 && node.output_size() == 1
                      ? stored.find(node.input(0))
                      : stored.end();
      bool isModule = !node.name().empty() && node.name()[0] == '/';
      if (from == stored.end() || isModule || isOutput(node.output(0))) {
        *rest.Add() = node;
        continue;
      }
      copies.push_back(*from->second);
      copies.back().set_name(node.output(0));
    }
    graph.mutable_node()->Swap(&rest);
    for (TensorProto &copy : copies)
      *graph.add_initializer() = copy;
  }

  bool isOutput(const std::string &name) const {
    return std::any_of(graph.output().begin(), graph.output().end(),
                       [&](const auto &output) { return output.name() == name; });
  }

  /// Moves the float tensors of rank 1 and more out of the graph.
  void takeTensors() {
    google::protobuf::RepeatedPtrField<TensorProto> rest;
    for (TensorProto &proto : *graph.mutable_initializer()) {
      bool isFloat =
          proto.data_type() == TensorProto::FLOAT || proto.data_type() == TensorProto::DOUBLE ||
          proto.data_type() == TensorProto::FLOAT16 || proto.data_type() == TensorProto::BFLOAT16;
      if (!isFloat || proto.dims_size() == 0 || tensors.count(proto.name())) {
        *rest.Add() = std::move(proto);
        continue;
      }
      order.push_back(proto.name());
      tensors[order.back()].proto = std::move(proto);
    }
    graph.mutable_initializer()->Swap(&rest);
  }

  /// Whether all elements are equal.
  Result<bool> isFilled(const Tensor &tensor) const {
    DIFFRUN_ASSIGN(std::string bytes, file.bytes(tensor.proto));
    size_t each = elementBytes(tensor.proto.data_type());
    return bytes.size() <= each ||
           !std::memcmp(bytes.data(), bytes.data() + each, bytes.size() - each);
  }

  void findReaders() {
    for (int i = 0; i < graph.node_size(); ++i)
      for (int k = 0; k < graph.node(i).input_size(); ++k)
        readers[graph.node(i).input(k)].emplace_back(i, k);
    for (const NodeProto &node : graph.node())
      for (const std::string &output : node.output())
        maker[output] = &node;
    for (const auto &info : graph.value_info())
      notes[info.name()] = &info;
  }

  //===--- One tensor --------------------------------------------------------===//

  Status trace(Tensor &tensor) {
    DIFFRUN_ASSIGN(std::optional<Origin> told, noted(tensor));
    if (!own) {
      tensor.origin = told;
      return {};
    }
    const std::string &name = tensor.proto.name();
    if (const auto *view = own->find(name); view && view->shape == tensor.shape()) {
      tensor.origin = Origin{Origin::kParameter, name, false, tensor.shape()};
      return {};
    }
    if (told && told->kind == Origin::kParameter) {
      const auto *view = own->find(told->name);
      if (view && view->shape == told->shape) {
        tensor.origin = told;
        return {};
      }
    }
    return traceByValue(tensor);
  }

  /// What the exporter's notes and scopes tell; nullopt: nothing, it is what it seems.
  Result<std::optional<Origin>> noted(const Tensor &tensor) const {
    const std::string &name = tensor.proto.name();
    Shape shape = tensor.shape();
    if (hasSignature) {
      if (isSigned(name))
        return parameter(name, false, shape);
      auto info = notes.find(name);
      auto parts = info == notes.end() ? std::vector<std::string>() : foldedFrom(*info->second);
      if (parts.size() == 1 && isSigned(parts[0]) && shape.size() == 2)
        return parameter(parts[0], true, {shape[1], shape[0]});
      parts.erase(std::remove_if(parts.begin(), parts.end(),
                                 [&](const std::string &part) { return !isSigned(part); }),
                  parts.end());
      if (parts.empty())
        return constant();
      // A parameter and more: only of a group norm it is clear that it is a reshape.
      std::string scope = commonScope(name);
      const char *leaf = isColumn(shape) ? affineLeaf(name, scope) : nullptr;
      if (parts.size() == 1 && leaf && parts[0] == scope + "." + leaf)
        return parameter(parts[0], false, {shape[0]});
      return nothing();
    }
    if (name.rfind("onnx::", 0) != 0)
      return nothing();
    std::string scope = commonScope(name);
    if (!scope.empty() && shape.size() == 2 && readAs(name, "MatMul", 1)) {
      DIFFRUN_ASSIGN(std::string module, unrepeated(scope, tensor));
      return parameter(module + ".weight", true, {shape[1], shape[0]});
    }
    if (!scope.empty() && isColumn(shape))
      if (const char *leaf = affineLeaf(name, scope))
        return parameter(scope + "." + leaf, false, {shape[0]});
    return constant();
  }

  static std::optional<Origin> parameter(std::string name, bool transposed, Shape shape) {
    return Origin{Origin::kParameter, std::move(name), transposed, std::move(shape)};
  }
  static std::optional<Origin> constant() { return Origin{Origin::kConstant, "", false, {}}; }
  static std::optional<Origin> nothing() { return std::nullopt; }

  std::string commonScope(const std::string &name) const {
    std::string scope;
    auto found = readers.find(name);
    if (found == readers.end())
      return "";
    for (auto [node, operand] : found->second) {
      std::string one = scopeOf(graph.node(node));
      if (one.empty() || (!scope.empty() && one != scope))
        return "";
      scope = one;
    }
    return scope;
  }

  bool readAs(const std::string &name, const char *type, int operand) const {
    auto found = readers.find(name);
    return found != readers.end() &&
           std::all_of(found->second.begin(), found->second.end(), [&](auto reader) {
             return graph.node(reader.first).op_type() == type && reader.second == operand;
           });
  }

  /// A module called again has its scope counted, a.b_1. It is a.b if that has a weight
  /// of the same values.
  Result<std::string> unrepeated(const std::string &scope, const Tensor &tensor) const {
    size_t mark = scope.find_last_not_of("0123456789");
    if (mark == std::string::npos || mark + 1 == scope.size() || scope[mark] != '_')
      return scope;
    std::string base = scope.substr(0, mark);
    DIFFRUN_ASSIGN(std::string bytes, file.bytes(tensor.proto));
    for (const auto &[name, other] : tensors)
      if (other.shape() == tensor.shape() && commonScope(name) == base) {
        DIFFRUN_ASSIGN(std::string same, file.bytes(other.proto));
        if (same == bytes)
          return base;
      }
    return scope;
  }

  /// "weight" or "bias" if the tensor is that of Add(Mul(Reshape, weight), bias), all in
  /// one scope; null if not.
  const char *affineLeaf(const std::string &name, const std::string &scope) const {
    auto found = readers.find(name);
    if (found == readers.end() || found->second.size() != 1)
      return nullptr;
    const NodeProto &reader = graph.node(found->second[0].first);
    if (reader.op_type() == "Mul") {
      auto next = readers.find(reader.output(0));
      if (next == readers.end() || next->second.size() != 1)
        return nullptr;
      const NodeProto &add = graph.node(next->second[0].first);
      return add.op_type() == "Add" && scopeOf(add) == scope ? "weight" : nullptr;
    }
    if (reader.op_type() != "Add")
      return nullptr;
    auto from = maker.find(reader.input(1 - found->second[0].second));
    if (from == maker.end() || from->second->op_type() != "Mul" || scopeOf(*from->second) != scope)
      return nullptr;
    return "bias";
  }

  /// The parameter of the given file that has the tensor's values.
  Status traceByValue(Tensor &tensor) {
    Shape shape = tensor.shape(), reversed(shape.rbegin(), shape.rend());
    DIFFRUN_ASSIGN(std::string straight, file.bytes(tensor.proto));
    std::string turned =
        shape.size() == 2 ? transposedBytes(straight, shape[0], shape[1]) : std::string();
    std::vector<Origin> found;
    for (const std::string &name : own->names()) {
      const auto *view = own->find(name);
      auto holds = [&](const std::string &bytes) {
        return view->bytes == bytes.size() && !std::memcmp(view->data, bytes.data(), bytes.size());
      };
      if (holds(straight))
        found.push_back({Origin::kParameter, name, false, view->shape});
      else if (shape.size() == 2 && view->shape == reversed && holds(turned))
        found.push_back({Origin::kParameter, name, true, view->shape});
    }
    if (found.size() > 1)
      narrow(found, tensor.proto.name());
    if (found.size() > 1)
      return Status::invalid(
          file.path() + ": tensor \"" + tensor.proto.name() + "\" has the values of \"" +
              found[0].name + "\" and of \"" + found[1].name + "\"",
          "export the model with weights that differ, as they are after a few steps");
    tensor.origin = found.empty() ? constant() : found[0];
    return {};
  }

  /// Of several parameters with a tensor's values those that nothing is called by, and of
  /// these the one in the reader's scope.
  void narrow(std::vector<Origin> &found, const std::string &name) const {
    auto keep = [&](auto holds) {
      if (std::any_of(found.begin(), found.end(), holds))
        found.erase(std::remove_if(found.begin(), found.end(),
                                   [&](const Origin &one) { return !holds(one); }),
                    found.end());
    };
    keep([&](const Origin &one) { return !tensors.count(one.name); });
    std::string scope = commonScope(name);
    keep([&](const Origin &one) { return !scope.empty() && one.name.rfind(scope + ".", 0) == 0; });
    keep(
        [&](const Origin &one) { return one.shape == tensors.at(name).shape() || one.transposed; });
  }

  //===--- Tensors that several modules read ---------------------------------===//

  std::vector<std::string> allNames() const { return own ? own->names() : signature; }

  /// torch.export stores tensors of equal values once. Where a module lacks a parameter
  /// and reads another module's instead, it gets its own again.
  Status separate() {
    std::set<std::string> present = found();
    std::map<std::string, std::vector<std::string>> missing; // scope -> names
    for (const std::string &name : allNames())
      if (size_t dot = name.rfind('.'); dot != std::string::npos && !present.count(name))
        missing[name.substr(0, dot)].push_back(name);
    if (missing.empty())
      return {};
    std::map<std::string, std::vector<std::pair<int, int>>> foreign; // scope -> operands
    for (int i = 0; i < graph.node_size(); ++i) {
      std::string scope = scopeOf(graph.node(i));
      if (!missing.count(scope))
        continue;
      for (int k = 0; k < graph.node(i).input_size(); ++k) {
        auto tensor = tensors.find(graph.node(i).input(k));
        if (tensor == tensors.end() || !tensor->second.origin ||
            tensor->second.origin->kind != Origin::kParameter)
          continue;
        const std::string &name = tensor->second.origin->name;
        bool isOwn = name.rfind(scope + ".", 0) == 0;
        // A module's weight that serves as its bias, too: all their elements are equal.
        bool twice = isOwn && k > 0 && graph.node(i).input(k) == graph.node(i).input(k - 1);
        if (isOwn && !twice)
          continue;
        DIFFRUN_ASSIGN(bool filled, isFilled(tensor->second));
        if (own || filled)
          foreign[scope].emplace_back(i, k);
      }
    }
    for (auto &[scope, operands] : foreign) {
      auto &names = missing[scope];
      auto isBias = [](const std::string &name) { return name.rfind("bias") == name.size() - 4; };
      // Operators read weights before biases.
      std::stable_partition(names.begin(), names.end(),
                            [&](const std::string &name) { return !isBias(name); });
      if (names.size() != operands.size())
        continue;
      for (size_t i = 0; i < names.size(); ++i)
        giveOwn(names[i], operands[i]);
    }
    return {};
  }

  /// The parameters that tensors were traced to.
  std::set<std::string> found() const {
    std::set<std::string> names;
    for (const auto &[name, tensor] : tensors)
      if (tensor.origin && tensor.origin->kind == Origin::kParameter)
        names.insert(tensor.origin->name);
    return names;
  }

  /// torch.export drops biases that are zero, as fresh ones of zero layers are. Where the
  /// module has one it comes back: it is to be trained.
  void restoreBiases() {
    std::set<std::string> present = found(), restored;
    std::vector<std::string> all = allNames();
    for (NodeProto &node : *graph.mutable_node()) {
      bool bare = node.input_size() == 2 || (node.input_size() == 3 && node.input(2).empty());
      auto weight = bare ? tensors.find(node.input(1)) : tensors.end();
      std::string name = scopeOf(node) + ".bias";
      if (weight == tensors.end() || present.count(name) ||
          std::find(all.begin(), all.end(), name) == all.end())
        continue;
      int64_t extent = biasExtent(node, weight->second.shape());
      if (extent < 0 || (own && !isZero(*own->find(name), extent)))
        continue;
      if (node.input_size() == 3)
        node.set_input(2, name);
      else
        node.add_input(name);
      if (!restored.insert(name).second) // a module that is called again
        continue;
      Tensor bias;
      bias.proto.set_name(name);
      bias.proto.set_data_type(weight->second.proto.data_type());
      bias.proto.add_dims(extent);
      bias.proto.set_raw_data(std::string(extent * elementBytes(bias.proto.data_type()), '\0'));
      bias.origin = parameter(name, false, {extent});
      tensors[name] = std::move(bias);
      order.push_back(name);
    }
  }

  static bool isZero(const diffrun::SafetensorsView &view, int64_t extent) {
    const auto *bytes = reinterpret_cast<const char *>(view.data);
    return view.shape == Shape{extent} &&
           std::all_of(bytes, bytes + view.bytes, [](char byte) { return byte == 0; });
  }

  void giveOwn(const std::string &name, std::pair<int, int> operand) {
    std::string *input = graph.mutable_node(operand.first)->mutable_input(operand.second);
    Tensor copy = tensors.at(*input);
    if (own) {
      const auto *view = own->find(name);
      if (view->shape != copy.origin->shape)
        return;
    }
    copy.origin->name = name;
    copy.proto.set_name(copy.origin->transposed ? name + "/transposed" : name);
    *input = copy.proto.name();
    order.push_back(copy.proto.name());
    tensors[copy.proto.name()] = std::move(copy);
  }

  /// Without the module's own list: a traced name whose values another parameter has is
  /// that parameter, unless all elements are equal.
  Status tie() {
    bool any = std::any_of(tensors.begin(), tensors.end(), [](const auto &entry) {
      return entry.second.origin && entry.second.origin->kind == Origin::kParameter &&
             entry.second.origin->name != entry.first;
    });
    if (!any)
      return {};
    // Hash of the bytes in the parameter's layout -> tensor of that layout.
    std::map<size_t, std::string> firstWith;
    for (bool named : {true, false})
      for (const std::string &key : order) {
        Tensor &tensor = tensors.at(key);
        if (tensor.origin && tensor.origin->kind == Origin::kConstant)
          continue;
        bool isNamed = !tensor.origin || tensor.origin->name == key;
        DIFFRUN_ASSIGN(bool filled, isFilled(tensor));
        if (isNamed != named || filled)
          continue;
        DIFFRUN_ASSIGN(std::string bytes, bytesOf(tensor));
        auto [first, isNew] = firstWith.emplace(std::hash<std::string>()(bytes), key);
        if (isNew || isNamed)
          continue;
        Tensor &other = tensors.at(first->second);
        std::string name = other.origin ? other.origin->name : first->second;
        DIFFRUN_ASSIGN(std::string same, bytesOf(other));
        if (name == tensor.origin->name || same != bytes)
          continue;
        decisions.push_back("parameter " + tensor.origin->name + " holds the values of " + name +
                            ": taken as one, tied");
        tensor.origin->name = name;
        if (!other.origin)
          tensor.origin->shape = other.shape();
      }
    return {};
  }

  /// The elements in the parameter's layout.
  Result<std::string> bytesOf(const Tensor &tensor) const {
    DIFFRUN_ASSIGN(std::string bytes, file.bytes(tensor.proto));
    Shape shape = tensor.shape();
    return tensor.origin && tensor.origin->transposed ? transposedBytes(bytes, shape[0], shape[1])
                                                      : bytes;
  }

  //===--- The graph ---------------------------------------------------------===//

  void addNode(const char *type, const std::vector<std::string> &inputs,
               const std::string &output) {
    NodeProto *node = graph.add_node();
    node->set_op_type(type);
    node->set_name(output);
    for (const std::string &input : inputs)
      node->add_input(input);
    node->add_output(output);
  }

  void addInitializer(const std::string &name, int32_t type, const Shape &shape,
                      std::string bytes) {
    TensorProto *tensor = graph.add_initializer();
    tensor->set_name(name);
    tensor->set_data_type(type);
    for (int64_t extent : shape)
      tensor->add_dims(extent);
    tensor->set_raw_data(std::move(bytes));
  }

  Status rewrite() {
    std::set<std::string> made;
    int traced = 0, constants = 0;
    for (const std::string &key : order) {
      Tensor &tensor = tensors.at(key);
      if (!tensor.origin ||
          (tensor.origin->kind == Origin::kParameter && tensor.origin->name == key &&
           !tensor.origin->transposed && tensor.origin->shape == tensor.shape())) {
        if (made.insert(key).second)
          *graph.add_initializer() = std::move(tensor.proto);
        continue;
      }
      const Origin &origin = *tensor.origin;
      dropInput(key);
      if (origin.kind == Origin::kConstant) {
        ++constants;
        addNode("Constant", {}, key);
        auto *value = graph.mutable_node(graph.node_size() - 1)->add_attribute();
        value->set_name("value");
        value->set_type(onnx::AttributeProto::TENSOR);
        *value->mutable_t() = std::move(tensor.proto);
        continue;
      }
      ++traced;
      if (made.insert(origin.name).second) {
        DIFFRUN_ASSIGN(std::string bytes, bytesOf(tensor));
        addInitializer(origin.name, tensor.proto.data_type(), origin.shape, std::move(bytes));
      }
      if (origin.transposed) {
        addNode("Transpose", {origin.name}, key);
      } else if (origin.shape == tensor.shape()) {
        addNode("Identity", {origin.name}, key);
      } else {
        Shape shape = tensor.shape();
        std::string dims = key + "/shape";
        addInitializer(dims, TensorProto::INT64, {static_cast<int64_t>(shape.size())},
                       std::string(reinterpret_cast<const char *>(shape.data()),
                                   shape.size() * sizeof(int64_t)));
        addNode("Reshape", {origin.name, dims}, key);
      }
    }
    if (traced)
      decisions.push_back(std::to_string(traced) +
                          " tensors traced to the parameters that they were made from");
    if (constants)
      decisions.push_back(std::to_string(constants) + " tensors are no parameters but constants");
    return {};
  }

  /// Initializers may also be listed as inputs: not one that is computed now.
  void dropInput(const std::string &name) {
    for (int i = graph.input_size(); i-- > 0;)
      if (graph.input(i).name() == name)
        graph.mutable_input()->DeleteSubrange(i, 1);
  }

  void sayWhatIsLeft() {
    std::set<std::string> present;
    for (const TensorProto &tensor : graph.initializer())
      present.insert(tensor.name());
    std::string left;
    int count = 0;
    for (const std::string &name : allNames())
      if (!present.count(name) && ++count <= 5)
        left += (count > 1 ? ", " : "") + name;
    if (count)
      decisions.push_back(std::to_string(count) +
                          " parameters of the module are tied to others or not in the graph: " +
                          left + (count > 5 ? ", ..." : ""));
  }

  ModelFile &file;
  GraphProto &graph;
  std::optional<diffrun::SafetensorsReader> own;
  bool hasSignature = false;
  std::vector<std::string> signature; ///< parameters by torch.export
  std::map<std::string, Tensor> tensors;
  std::vector<std::string> order;                                  ///< of `tensors` in the file
  std::map<std::string, std::vector<std::pair<int, int>>> readers; ///< node, operand
  std::map<std::string, const NodeProto *> maker;
  std::map<std::string, const onnx::ValueInfoProto *> notes;
  std::vector<std::string> decisions;
};

} // namespace

Result<std::vector<std::string>> nameParameters(ModelFile &file, const std::string &parameters) {
  return Tracer(file).run(parameters);
}

} // namespace diffc
