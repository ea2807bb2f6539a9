#include "compiler/codegen/ObjectCode.h"

#include "runtime/plan/CpuFeatures.h"

#include <lld/Common/Driver.h>
#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/LegacyPassManager.h>
#include <llvm/IR/Module.h>
#include <llvm/MC/TargetRegistry.h>
#include <llvm/Passes/PassBuilder.h>
#include <llvm/Support/FileSystem.h>
#include <llvm/Support/TargetSelect.h>
#include <llvm/Target/TargetMachine.h>
#include <mlir/Conversion/MathToLibm/MathToLibm.h>
#include <mlir/Conversion/Passes.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/Math/Transforms/Passes.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h>
#include <mlir/Target/LLVMIR/Export.h>
#include <mlir/Transforms/DialectConversion.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>
#include <mlir/Transforms/Passes.h>

#include <filesystem>
#include <fstream>
#include <sstream>

LLD_HAS_DRIVER(elf)

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

/// Functions of doubles become calls of the C library, whose error is below a
/// unit in the last place. (MLIR's polynomials are f32, its intrinsics lack some,
/// and it expands expm1 and log1p to what they exist to avoid.)
struct DoubleMathToCalls : PassWrapper<DoubleMathToCalls, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(DoubleMathToCalls)
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<vector::VectorDialect, func::FuncDialect, arith::ArithDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    populateMathToLibmConversionPatterns(patterns);
    ConversionTarget target(getContext());
    target.markUnknownOpDynamicallyLegal([](Operation *) { return true; });
    target.addDynamicallyLegalOp<math::PowFOp, math::AtanOp, math::ErfOp, math::TanhOp,
                                 math::ExpM1Op, math::Log1pOp>(
        [](Operation *op) { return !getElementTypeOrSelf(op->getResult(0).getType()).isF64(); });
    if (failed(applyPartialConversion(getOperation(), target, std::move(patterns))))
      signalPassFailure();
  }
};

/// Replaces math on f32 by polynomials.
struct MathToPolynomials : PassWrapper<MathToPolynomials, OperationPass<ModuleOp>> {
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(MathToPolynomials)
  void getDependentDialects(DialectRegistry &registry) const override {
    registry.insert<vector::VectorDialect>();
  }
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    MathPolynomialApproximationOptions options;
    populateMathPolynomialApproximationPatterns(patterns, options);
    (void)applyPatternsAndFoldGreedily(getOperation(), std::move(patterns));
  }
};

LogicalResult lowerToLlvm(ModuleOp module) {
  PassManager pm(module.getContext());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createLoopInvariantCodeMotionPass());
  pm.addPass(std::make_unique<DoubleMathToCalls>());
  pm.addPass(std::make_unique<MathToPolynomials>());
  pm.addPass(createCSEPass());
  pm.addPass(createConvertSCFToCFPass());
  pm.addPass(createConvertVectorToLLVMPass());
  pm.addPass(createConvertMathToLLVMPass());
  pm.addPass(createArithToLLVMConversionPass());
  pm.addPass(createConvertFuncToLLVMPass());
  pm.addPass(createConvertControlFlowToLLVMPass());
  pm.addPass(createReconcileUnrealizedCastsPass());
  return pm.run(module);
}

void optimize(llvm::Module &module, llvm::TargetMachine &machine) {
  llvm::PipelineTuningOptions tuning;
  // Loop nests have their vectors; the copies of gather, concat and pad are
  // scalar loops.
  tuning.LoopVectorization = true;
  tuning.SLPVectorization = false;
  llvm::PassBuilder builder(&machine, tuning);
  llvm::LoopAnalysisManager loops;
  llvm::FunctionAnalysisManager functions;
  llvm::CGSCCAnalysisManager graphs;
  llvm::ModuleAnalysisManager modules;
  builder.registerModuleAnalyses(modules);
  builder.registerCGSCCAnalyses(graphs);
  builder.registerFunctionAnalyses(functions);
  builder.registerLoopAnalyses(loops);
  builder.crossRegisterProxies(loops, functions, graphs, modules);
  builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
}

/// A folder of its own that goes when the scope ends.
struct TemporaryFolder {
  TemporaryFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "diffc-XXXXXX").string();
    if (mkdtemp(pattern.data()))
      path = pattern;
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path.empty())
      std::filesystem::remove_all(path, ignored);
  }
  std::filesystem::path path;
};

Result<std::string> link(const std::string &object) {
  TemporaryFolder folder;
  if (folder.path.empty())
    return Status::machine("no temporary folder can be made", "set TMPDIR to a writable folder");
  std::string input = folder.path / "kernels.o", output = folder.path / "kernels.so";
  if (!(std::ofstream(input, std::ios::binary) << object).flush())
    return Status::machine(input + " cannot be written", "free space or set TMPDIR");
  std::vector<const char *> arguments = {"ld.lld", "-shared",      "--build-id=none", "-s",
                                         "-o",     output.c_str(), input.c_str()};
  std::string messages;
  llvm::raw_string_ostream stream(messages);
  const lld::DriverDef driver{lld::Gnu, &lld::elf::link};
  lld::Result result = lld::lldMain(arguments, stream, stream, {driver});
  if (result.retCode != 0)
    return Status::internal("linking the kernels failed: " + messages);
  std::ifstream linked(output, std::ios::binary);
  std::stringstream bytes;
  bytes << linked.rdbuf();
  return bytes.str();
}

} // namespace

Result<CpuTarget> parseCpuTarget(const std::string &text) {
  const diffrun::CpuLevel *best = nullptr;
  for (const diffrun::CpuLevel &level : diffrun::cpuLevels()) {
    if (text == "cpu:" + level.name)
      return CpuTarget{level.name, level.features};
    if (llvm::all_of(level.features, diffrun::cpuHas))
      best = &level;
  }
  if (text != "cpu")
    return Status::usage("target \"" + text + "\" is not known",
                         "one of: cpu, cpu:avx2, cpu:avx512, cpu:avx512bf16, cpu:amx");
  if (!best)
    return Status::machine("this CPU has no AVX2, which diffc's kernels need",
                           "name the target: --target cpu:LEVEL");
  return CpuTarget{best->name, best->features};
}

Result<std::string> compileToSharedObject(ModuleOp module, const CpuTarget &target) {
  if (failed(lowerToLlvm(module)))
    return Status::internal("lowering the kernels to LLVM failed");
  module->walk([&](LLVM::LLVMFuncOp function) {
    function.setPassthroughAttr(
        ArrayAttr::get(module.getContext(),
                       {ArrayAttr::get(module.getContext(),
                                       {StringAttr::get(module.getContext(), "prefer-vector-width"),
                                        StringAttr::get(module.getContext(), "512")}),
                        StringAttr::get(module.getContext(), "no-builtins"),
                        StringAttr::get(module.getContext(), "nounwind")}));
  });
  registerBuiltinDialectTranslation(*module.getContext());
  registerLLVMDialectTranslation(*module.getContext());
  llvm::LLVMContext llvmContext;
  auto llvmModule = translateModuleToLLVMIR(module, llvmContext, "kernels");
  if (!llvmModule)
    return Status::internal("translating the kernels to LLVM IR failed");

  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  std::string triple = "x86_64-unknown-linux-gnu", error, features;
  const llvm::Target *backend = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!backend)
    return Status::internal("LLVM has no x86 target: " + error);
  for (const std::string &feature : target.features)
    features += (features.empty() ? "+" : ",+") + feature;
  if (llvm::is_contained(target.features, "avx512f"))
    features += ",+evex512"; // LLVM's own name for vectors of 512 bits
  std::unique_ptr<llvm::TargetMachine> machine(backend->createTargetMachine(
      triple, "x86-64-v3", features, llvm::TargetOptions(), llvm::Reloc::PIC_, std::nullopt,
      llvm::CodeGenOptLevel::Default));
  llvmModule->setTargetTriple(triple);
  llvmModule->setDataLayout(machine->createDataLayout());
  optimize(*llvmModule, *machine);

  llvm::SmallVector<char, 0> object;
  llvm::raw_svector_ostream stream(object);
  llvm::legacy::PassManager emit;
  if (machine->addPassesToEmitFile(emit, stream, nullptr, llvm::CodeGenFileType::ObjectFile))
    return Status::internal("LLVM cannot write object files");
  emit.run(*llvmModule);
  return link(std::string(object.data(), object.size()));
}

} // namespace diffc
