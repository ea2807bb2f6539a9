// Kernels compiled for this machine and run on memory: for tests.
#pragma once

#include "compiler/codegen/KernelEmitter.h"
#include "compiler/codegen/ObjectCode.h"
#include "passes/fusion/Passes.h"

#include <gtest/gtest.h>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <dlfcn.h>
#include <unistd.h>

#include <map>
#include <string>
#include <vector>

namespace diffc::test {

inline void loadDialects(mlir::MLIRContext &context) {
  context.loadDialect<nn::NnDialect, mlir::func::FuncDialect, mlir::arith::ArithDialect,
                      mlir::math::MathDialect, mlir::scf::SCFDialect, mlir::vector::VectorDialect,
                      mlir::LLVM::LLVMDialect>();
}

/// All kernels of a function in one shared object.
class Compiled {
public:
  /// Kernels with equal signatures share their code.
  explicit Compiled(mlir::MLIRContext &context)
      : module(mlir::ModuleOp::create(mlir::UnknownLoc::get(&context))) {}

  void add(nn::KernelOp kernel) {
    std::string reason;
    auto info = analyzeKernel(kernel, reason);
    std::string text;
    llvm::raw_string_ostream(text) << kernel;
    ASSERT_TRUE(mlir::succeeded(info)) << reason << "\n" << text;
    std::string symbol = "k" + std::to_string(symbols.size());
    auto [known, isNew] = symbols.try_emplace(kernelSignature(kernel), symbol);
    if (isNew) {
      emitKernel(*module, kernel, *info, symbol);
      ASSERT_TRUE(mlir::succeeded(mlir::verify(*module))) << text;
    }
    infos.try_emplace(kernel, *info);
  }
  void link() {
    ASSERT_TRUE(mlir::succeeded(mlir::verify(*module)));
    auto target = parseCpuTarget("cpu");
    ASSERT_TRUE(target.ok());
    auto object = compileToSharedObject(*module, *target);
    ASSERT_TRUE(object.ok()) << object.status().message();
    char path[] = "/tmp/diffc-test-XXXXXX";
    int file = mkstemp(path);
    ASSERT_EQ(write(file, object->data(), object->size()), static_cast<ssize_t>(object->size()));
    close(file);
    library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    unlink(path);
    ASSERT_TRUE(library) << dlerror();
  }
  const KernelInfo &infoOf(nn::KernelOp kernel) const { return infos.at(kernel); }
  /// Runs a kernel on memory; inputs then results.
  void run(nn::KernelOp kernel, std::vector<void *> buffers) {
    auto function = reinterpret_cast<void (*)(void *const *, int64_t)>(
        dlsym(library, symbols.at(kernelSignature(kernel)).c_str()));
    ASSERT_TRUE(function);
    for (int64_t chunk = 0; chunk < infos.at(kernel).chunks; ++chunk)
      function(buffers.data(), chunk);
  }
  ~Compiled() {
    if (library)
      dlclose(library);
  }

private:
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::map<std::string, std::string> symbols;
  std::map<mlir::Operation *, KernelInfo> infos;
  void *library = nullptr;
};

inline void fuse(mlir::MLIRContext &context, mlir::ModuleOp module, bool together) {
  mlir::PassManager pm(&context);
  pm.addPass(createDecomposeOps());
  pm.addPass(mlir::createCanonicalizerPass());
  pm.addPass(mlir::createCSEPass());
  FuseKernelsOptions options;
  options.fuse = together;
  pm.addPass(createFuseKernels(options));
  ASSERT_TRUE(mlir::succeeded(pm.run(module)));
}

} // namespace diffc::test
