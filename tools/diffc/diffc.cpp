// diffc: the compiler's command line.
#include "compiler/import/Importer.h"
#include "dialects/nn/IR/NnDialect.h"
#include "dialects/train/IR/TrainDialect.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <llvm/Support/raw_ostream.h>
#include <mlir/IR/MLIRContext.h>

#include <map>

using namespace diffc;
using diffrun::Status;

namespace {

/// What a model is: inputs, parameters by module, operators, work.
void printSummary(mlir::ModuleOp module) {
  auto model = *module.getOps<train::ModelOp>().begin();
  auto graph = *model.getOps<train::GraphOp>().begin();
  auto typeText = [](mlir::Type type) {
    std::string text;
    llvm::raw_string_ostream(text) << type;
    return text;
  };
  fmt::print("inputs\n");
  for (unsigned i = 0; i < graph.getNumArguments(); ++i)
    if (auto name = graph.getArgAttrOfType<mlir::StringAttr>(i, train::kInputAttr))
      fmt::print("  {:<24} {}\n", name.str(), typeText(graph.getArgumentTypes()[i]));
  fmt::print("outputs\n");
  for (mlir::Type type : graph.getResultTypes())
    fmt::print("  {}\n", typeText(type));

  std::map<std::string, std::pair<int64_t, int64_t>> modules; // tensors, elements
  int64_t total = 0;
  for (auto parameter : model.getOps<train::ParameterOp>()) {
    std::string name = parameter.getSymName().str();
    auto &entry = modules[name.substr(0, name.rfind('.') == std::string::npos ? 0
                                                                              : name.rfind('.'))];
    int64_t count = llvm::cast<mlir::RankedTensorType>(parameter.getType()).getNumElements();
    ++entry.first, entry.second += count, total += count;
  }
  fmt::print("parameters: {} elements\n", total);
  for (auto &[name, entry] : modules)
    fmt::print("  {:<40} {} tensors, {} elements\n", name.empty() ? "(top)" : name, entry.first,
               entry.second);

  std::map<std::string, int> operators;
  int64_t flops = 0;
  for (mlir::Operation &op : graph.getBody().front().without_terminator()) {
    ++operators[op.getName().getStringRef().str()];
    if (auto cost = llvm::dyn_cast<nn::CostOpInterface>(op))
      flops += cost.getFlops();
  }
  fmt::print("operators, {:.4g} GFLOP forward\n", 1e-9 * static_cast<double>(flops));
  for (auto &[name, count] : operators)
    fmt::print("  {:<32} {}\n", name, count);
}

Status runImport(const std::string &path, const std::vector<std::string> &dims, bool emitIr) {
  ImportOptions options;
  for (const std::string &dim : dims) {
    size_t equals = dim.find('=');
    char *end = nullptr;
    long value = equals == std::string::npos ? 0 : std::strtol(dim.c_str() + equals + 1, &end, 10);
    if (value < 1 || *end)
      return Status::usage("--dim " + dim + " is not NAME=N with N at least 1");
    options.dimensions[dim.substr(0, equals)] = value;
  }
  DIFFRUN_ASSIGN(ModelFile file, ModelFile::open(path));
  mlir::MLIRContext context;
  DIFFRUN_ASSIGN(auto module, importModel(context, file, options));
  if (emitIr)
    module->print(llvm::outs(), mlir::OpPrintingFlags().elideLargeElementsAttrs());
  else
    printSummary(*module);
  return {};
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"diffc: compiles diffusion models' training steps from ONNX"};
  app.require_subcommand(1);
  CLI::App *import = app.add_subcommand("import", "Print what a model is");
  std::string path;
  std::vector<std::string> dims;
  bool emitIr = false;
  import->add_option("model", path, "the ONNX file")->required();
  import->add_option("--dim", dims, "bind a symbolic dimension: NAME=N");
  import->add_flag("--emit-ir", emitIr, "print the imported IR instead");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Status status = runImport(path, dims, emitIr);
  diffrun::report("diffc", status);
  return diffrun::exitCode(status);
}
