// diffc-opt: runs the project's passes on IR files.
#include "dialects/nn/IR/NnDialect.h"
#include "dialects/plan/IR/PlanDialect.h"
#include "dialects/train/IR/TrainDialect.h"
#include "passes/attention/Passes.h"
#include "passes/autodiff/Passes.h"
#include "passes/fusion/Passes.h"
#include "passes/raise/Passes.h"
#include "passes/recompute/Passes.h"

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Tools/mlir-opt/MlirOptMain.h>
#include <mlir/Transforms/Passes.h>

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  registry.insert<diffc::nn::NnDialect, diffc::train::TrainDialect, diffc::plan::PlanDialect,
                  mlir::func::FuncDialect>();
  diffc::registerRaisePasses();
  diffc::registerRaisePipeline();
  diffc::registerAttentionPasses();
  diffc::registerAutodiffPasses();
  diffc::registerFusionPasses();
  diffc::registerRecomputePasses();
  mlir::registerCanonicalizerPass();
  mlir::registerCSEPass();
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(argc, argv, "diffc-opt: the passes of diffc\n", registry));
}
