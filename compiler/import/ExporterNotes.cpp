#include "compiler/import/ExporterNotes.h"

#include <google/protobuf/unknown_field_set.h>

#include <algorithm>

using onnx::GraphProto;
using onnx::NodeProto;

namespace diffc {
namespace {

// Fields `metadata_props` of messages: Debian's schema is older than they are, so that
// they come as unknown fields.
constexpr int kOfNode = 9, kOfGraph = 16, kOfValue = 4;

/// A note that an exporter left at a node, graph or value.
template <typename Message>
std::optional<std::string> noteOf(const Message &of, int field, const char *key) {
  const auto &unknown = of.GetReflection()->GetUnknownFields(of);
  for (int i = 0; i < unknown.field_count(); ++i) {
    onnx::StringStringEntryProto entry;
    if (unknown.field(i).number() == field &&
        unknown.field(i).type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED &&
        entry.ParseFromString(unknown.field(i).length_delimited()) && entry.key() == key)
      return entry.value();
  }
  return std::nullopt;
}

/// The strings of a list as Python prints it: ['a', "b"].
std::vector<std::string> quoted(const std::string &text) {
  std::vector<std::string> parts;
  for (size_t at = 0; (at = text.find_first_of("'\"", at)) != std::string::npos;) {
    size_t end = text.find(text[at], at + 1);
    if (end == std::string::npos)
      break;
    parts.push_back(text.substr(at + 1, end - at - 1));
    at = end + 1;
  }
  return parts;
}

} // namespace

std::string scopeOf(const NodeProto &node) {
  if (auto scopes = noteOf(node, kOfNode, "pkg.torch.onnx.name_scopes")) {
    auto parts = quoted(*scopes); // from the outermost on, the operation last
    return parts.size() < 2 ? "" : parts[parts.size() - 2];
  }
  std::string name = node.name(); // /a/b.0/MatMul
  if (name.empty() || name[0] != '/' || name.rfind('/') == 0)
    return "";
  name = name.substr(1, name.rfind('/') - 1);
  std::replace(name.begin(), name.end(), '/', '.');
  return name;
}

std::optional<std::vector<std::string>> exportedParameters(const GraphProto &graph) {
  auto text = noteOf(graph, kOfGraph, "pkg.torch.export.ExportedProgram.graph_signature");
  if (!text)
    return std::nullopt;
  std::vector<std::string> names; // of lines NAME: PARAMETER target='a.weight'
  for (size_t at = 0; at < text->size();) {
    size_t end = std::min(text->find('\n', at), text->size());
    std::string line = text->substr(at, end - at);
    at = end + 1;
    auto targets = quoted(line);
    if (!targets.empty() && line.find(": PARAMETER") != std::string::npos)
      names.push_back(targets[0]);
  }
  return names;
}

std::vector<std::string> foldedFrom(const onnx::ValueInfoProto &value) {
  auto names = noteOf(value, kOfValue, "pkg.onnxscript.optimizer.folded_from");
  return names ? quoted(*names) : std::vector<std::string>();
}

} // namespace diffc
