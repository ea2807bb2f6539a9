#include "compiler/pipeline/Compile.h"

#include "compiler/compose/Compose.h"
#include "compiler/import/ParameterNames.h"
#include "compiler/pipeline/Weights.h"
#include "compiler/planwriter/Lowering.h"
#include "compiler/planwriter/PlanWriter.h"
#include "compiler/planwriter/Translation.h"
#include "passes/fusion/Passes.h"
#include "passes/recompute/Passes.h"

#include <fmt/format.h>
#include <llvm/Support/raw_ostream.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <chrono>
#include <filesystem>
#include <thread>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

std::string printed(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  module->print(stream, OpPrintingFlags().elideLargeElementsAttrs());
  return text;
}

Result<Recipe> recipeOf(const CompileOptions &options) {
  if (options.recipe.empty())
    return parseRecipe("", "(no recipe)");
  return readRecipe(options.recipe);
}

/// Runs passes; their diagnostics become the error.
Status runPasses(ModuleOp module, llvm::function_ref<void(PassManager &)> add) {
  std::string reason;
  ScopedDiagnosticHandler collect(module.getContext(), [&](Diagnostic &diagnostic) {
    reason += (reason.empty() ? "" : "; ") + diagnostic.str();
    return success();
  });
  PassManager pm(module.getContext());
  pm.enableVerifier(true);
  add(pm);
  if (failed(pm.run(module)))
    return Status::internal("a pass failed: " + reason);
  return {};
}

} // namespace

Result<CompileReport> compile(const CompileOptions &options) {
  auto start = std::chrono::steady_clock::now();
  CompileReport report;
  DIFFRUN_ASSIGN(Recipe recipe, recipeOf(options));
  if (!options.weights.empty()) {
    recipe.trained().weights = options.weights;
    if (recipe.trained().weightsAreFile()) // relative to here, not to the recipe
      recipe.trained().weights = std::filesystem::absolute(options.weights).string();
  }
  if (!options.parameters.empty())
    recipe.trained().parameters = std::filesystem::absolute(options.parameters).string();
  std::vector<std::string> paths;
  for (const ModelRecipe &model : recipe.models)
    paths.push_back(model.onnx.empty() ? "" : recipe.pathOf(model.onnx));
  if (!options.model.empty())
    paths[recipe.trainedIndex] = options.model;
  const std::string &model = paths[recipe.trainedIndex];
  if (model.empty())
    return Status::usage("no model is given", "diffc MODEL.onnx --recipe RECIPE.yaml");
  DIFFRUN_ASSIGN(CpuTarget target, parseCpuTarget(options.target));
  std::vector<ModelFile> files;
  for (const auto &[path, model] : llvm::zip_equal(paths, recipe.models)) {
    DIFFRUN_ASSIGN(ModelFile file, ModelFile::open(path));
    std::string own = model.parameters.empty() ? "" : recipe.pathOf(model.parameters);
    DIFFRUN_ASSIGN(auto lines, nameParameters(file, own));
    for (const std::string &line : lines)
      report.decisions.push_back(path + ": " + line);
    files.push_back(std::move(file));
  }

  MLIRContext context(MLIRContext::Threading::DISABLED);
  DIFFRUN_ASSIGN(Composed composed, compose(context, files, recipe));
  report.decisions.insert(report.decisions.end(), composed.decisions.begin(),
                          composed.decisions.end());
  if (options.stopAfter == "compose") {
    report.ir = printed(*composed.program);
    return report;
  }
  DIFFRUN_RETURN_IF_ERROR(runPasses(*composed.program, [&](PassManager &pm) {
    // Composite operators apart first: their parts find new neighbours.
    pm.addPass(createDecomposeOps());
    pm.addPass(createCanonicalizerPass());
    // One copy of what forward and backward both compute.
    pm.addPass(createCSEPass());
    FuseKernelsOptions fusion;
    fusion.fuse = options.fuse;
    pm.addPass(createFuseKernels(fusion));
    if (recipe.recompute != "none")
      pm.addPass(createRecomputePointwise());
  }));
  if (options.stopAfter == "fuse") {
    report.ir = printed(*composed.program);
    return report;
  }
  if (!options.stopAfter.empty() && options.stopAfter != "plan")
    return Status::usage("--stop-after " + options.stopAfter + " is no phase",
                         "one of: compose, fuse, plan");

  std::string output = options.output;
  if (output.empty())
    output = std::filesystem::path(model).stem().string() + ".plan";
  int64_t team =
      recipe.threads ? recipe.threads : std::max<int64_t>(1, std::thread::hardware_concurrency());
  report.decisions.push_back(fmt::format("target cpu:{}, {} threads", target.level, team));
  DIFFRUN_ASSIGN(PlanParts parts,
                 lowerToPlan(*composed.program, recipe, target, team,
                             std::filesystem::path(output).stem().string(), options.plantFault));
  if (options.stopAfter == "plan") {
    report.ir = printed(*parts.module);
    return report;
  }
  DIFFRUN_ASSIGN(auto plan, toProto(parts.program(), std::move(parts.blobs)));
  DIFFRUN_RETURN_IF_ERROR(writeWeights(files, recipe, *composed.program, output, plan));
  for (const std::string &decision : report.decisions)
    plan.set_decisions(plan.decisions() + decision + "\n");
  DIFFRUN_RETURN_IF_ERROR(writePlan(plan, output));
  report.output = output;
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

} // namespace diffc
