// What PyTorch's exporters note in a file about the module it came from.
#pragma once

#include <onnx/onnx_pb.h>

#include <optional>
#include <string>
#include <vector>

namespace diffc {

/// The module whose forward made a node, "a.b.0"; empty for the outermost or where the node
/// does not say. torch.export notes it, the TorchScript exporter puts it into the name.
std::string scopeOf(const onnx::NodeProto &node);

/// torch.export's list of the module's parameters, in the module's order; nullopt in a file
/// of another exporter.
std::optional<std::vector<std::string>> exportedParameters(const onnx::GraphProto &graph);

/// The values that torch.export folded into one; empty where it does not say.
std::vector<std::string> foldedFrom(const onnx::ValueInfoProto &value);

} // namespace diffc
