// diffc: the compiler's command line.
#include "compiler/import/Importer.h"
#include "compiler/import/ParameterNames.h"
#include "compiler/pipeline/Compile.h"
#include "compiler/planwriter/Translation.h"
#include "compiler/report/Report.h"
#include "dialects/nn/IR/NnDialect.h"
#include "dialects/train/IR/TrainDialect.h"
#include "runtime/plan/LoadedPlan.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <llvm/Support/raw_ostream.h>
#include <mlir/IR/MLIRContext.h>

#include <map>
#include <new>

using namespace diffc;
using diffrun::Status;

namespace {

/// What a model is: inputs, parameters by module, operators, work.
void printSummary(mlir::ModuleOp module, const std::vector<std::string> &decisions) {
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
    auto &entry =
        modules[name.substr(0, name.rfind('.') == std::string::npos ? 0 : name.rfind('.'))];
    int64_t count = llvm::cast<mlir::RankedTensorType>(parameter.getType()).getNumElements();
    ++entry.first, entry.second += count, total += count;
  }
  fmt::print("parameters: {} elements\n", total);
  for (const std::string &decision : decisions)
    fmt::print("  {}\n", decision);
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

Status runImport(const std::string &path, const std::vector<std::string> &dims,
                 const std::string &parameters, bool emitIr) {
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
  DIFFRUN_ASSIGN(std::vector<std::string> decisions, nameParameters(file, parameters));
  mlir::MLIRContext context;
  DIFFRUN_ASSIGN(auto module, importModel(context, file, options));
  if (emitIr)
    module->print(llvm::outs(), mlir::OpPrintingFlags().elideLargeElementsAttrs());
  else
    printSummary(*module, decisions);
  return {};
}

Status runCompile(const CompileOptions &options) {
  DIFFRUN_ASSIGN(CompileReport report, compile(options));
  if (report.output.empty()) {
    fmt::print("{}", report.ir);
    return {};
  }
  for (const std::string &decision : report.decisions)
    fmt::print("{}\n", decision);
  fmt::print("{} written in {:.1f} s\n", report.output, report.seconds);
  return {};
}

void addCompileOptions(CLI::App &app, CompileOptions &options) {
  app.add_option("model", options.model, "the ONNX file (default: the recipe's)");
  app.add_option("--recipe", options.recipe, "how it is trained: recipe.yaml");
  app.add_option("-o,--output", options.output, "the plan to write (default: MODEL.plan)");
  app.add_option("--target", options.target, "cpu[:avx2|avx512|avx512bf16|amx]")
      ->capture_default_str();
  app.add_option("--weights", options.weights, "model | init | FILE.safetensors");
  app.add_option("--parameters", options.parameters,
                 "FILE.safetensors with the module's own parameters: their names and layouts");
  app.add_option("--stop-after", options.stopAfter,
                 "print the IR after a phase: compose, fuse, plan");
  app.add_flag("!--no-fuse", options.fuse, "one kernel per operator");
  // An empty group: not in --help.
  app.add_option("--plant-fault", options.plantFault)->group("");
}

Status runInspect(const std::string &path, const ReportOptions &options, bool emitIr) {
  DIFFRUN_ASSIGN(auto plan, diffrun::LoadedPlan::open(path));
  if (emitIr) {
    mlir::MLIRContext context;
    auto parts = fromProto(plan.plan(), context);
    if (!parts)
      return parts.status().withContext(path);
    llvm::outs() << **parts->module << '\n';
    return {};
  }
  fmt::print("{}", report(plan.plan(), options));
  return {};
}

} // namespace

int main(int argc, char **argv) {
  CLI::App app{"diffc: compiles diffusion models' training steps from ONNX"};
  app.require_subcommand(0, 1);
  CompileOptions options;
  CLI::App *compileCommand = app.add_subcommand("compile", "Compile a plan (the default)");
  addCompileOptions(*compileCommand, options);
  addCompileOptions(app, options);
  CLI::App *import = app.add_subcommand("import", "Print what a model is");
  std::string path;
  std::vector<std::string> dims;
  std::string parameters;
  bool emitIr = false;
  import->add_option("model", path, "the ONNX file")->required();
  import->add_option("--dim", dims, "bind a symbolic dimension: NAME=N");
  import->add_option("--parameters", parameters,
                     "FILE.safetensors with the module's own parameters");
  import->add_flag("--emit-ir", emitIr, "print the imported IR instead");
  CLI::App *inspect = app.add_subcommand("inspect", "Print what a plan does");
  std::string plan;
  ReportOptions reporting;
  inspect->add_option("plan", plan, "the plan")->required();
  inspect->add_flag("--fusion", reporting.fusion, "every operation, and what was not fused");
  inspect->add_flag("--memory", reporting.memory, "the peak, and who holds it");
  inspect->add_flag("--kernels", reporting.kernels, "distinct kernels");
  inspect->add_flag("--json", reporting.json, "for machines");
  bool planIr = false;
  CLI::Option *ir = inspect->add_flag("--ir", planIr, "the plan as IR instead, without its bytes");
  for (const char *other : {"--fusion", "--memory", "--kernels", "--json"})
    ir->excludes(inspect->get_option(other));
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  Status status;
  try {
    status = import->parsed()    ? runImport(path, dims, parameters, emitIr)
             : inspect->parsed() ? runInspect(plan, reporting, planIr)
                                 : runCompile(options);
  } catch (const std::bad_alloc &) {
    status = Status::machine("not enough memory", "use a smaller batch or model");
  } catch (const std::exception &error) { // of a library: ours are values
    status = Status::internal(std::string("an exception nobody expected: ") + error.what());
  }
  diffrun::report("diffc", status);
  return diffrun::exitCode(status);
}
