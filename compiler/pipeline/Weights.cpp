#include "compiler/pipeline/Weights.h"

#include "dialects/nn/IR/Evaluation.h"
#include "dialects/train/IR/TrainDialect.h"
#include "runtime/checkpoint/Safetensors.h"

#include <filesystem>
#include <map>
#include <optional>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

/// A tensor of the given file that must fit a parameter.
Result<std::string> bytesOf(const diffrun::SafetensorsReader &given, const std::string &name,
                            const diffrun::evaluate::TensorType &type) {
  const diffrun::SafetensorsView *view = given.find(name);
  if (!view)
    return Status::invalid(given.path() + ": has no tensor \"" + name + "\"",
                           "the names must be the model's own");
  if (view->shape != type.shape || view->dtype != diffrun::fileDType(type.dtype))
    return Status::invalid(given.path() + ": tensor \"" + name + "\" is not " + type.str());
  return std::string(reinterpret_cast<const char *>(view->data), view->bytes);
}

} // namespace

Status writeWeights(ArrayRef<ModelFile> files, const Recipe &recipe, ModuleOp program,
                    const std::string &planPath, diffrun::proto::Plan &plan) {
  std::vector<std::string> data; // what the entries point into
  std::vector<std::pair<std::string, diffrun::evaluate::TensorType>> described;
  for (auto [description, file] : llvm::zip_equal(recipe.models, files)) {
    std::optional<diffrun::SafetensorsReader> given;
    if (description.weightsAreFile()) {
      DIFFRUN_ASSIGN(given, diffrun::SafetensorsReader::open(recipe.pathOf(description.weights)));
    }
    std::map<std::string, const onnx::TensorProto *> tensors;
    for (const auto &tensor : file.graph().initializer())
      tensors[tensor.name()] = &tensor;
    auto model = cast<train::ModelOp>(SymbolTable::lookupSymbolIn(program, description.name));
    for (auto parameter : model.getOps<train::ParameterOp>()) {
      std::string name = parameter.getSymName().str();
      DIFFRUN_ASSIGN(auto type, nn::evaluationType(parameter.getType()));
      std::string bytes;
      if (given) {
        DIFFRUN_ASSIGN(bytes, bytesOf(*given, name, type));
      } else {
        if (parameter.getInit())
          continue;
        DIFFRUN_ASSIGN(bytes, file.bytes(*tensors.at(name)));
      }
      data.push_back(std::move(bytes));
      described.emplace_back(files.size() > 1 ? description.name + "::" + name : name, type);
    }
  }
  if (data.empty())
    return {};
  std::vector<diffrun::SafetensorsEntry> entries;
  for (size_t i = 0; i < data.size(); ++i)
    entries.push_back({described[i].first, diffrun::fileDType(described[i].second.dtype),
                       described[i].second.shape, data[i].data()});
  std::filesystem::path path = std::filesystem::path(planPath).replace_extension(".safetensors");
  DIFFRUN_RETURN_IF_ERROR(diffrun::SafetensorsWriter::write(path.string(), entries, {}));
  plan.mutable_weights()->set_file(path.filename().string());
  DIFFRUN_ASSIGN(auto written, diffrun::SafetensorsReader::open(path.string()));
  plan.mutable_weights()->set_checksum(written.checksum());
  plan.mutable_weights()->set_bytes(static_cast<int64_t>(std::filesystem::file_size(path)));
  return {};
}

} // namespace diffc
