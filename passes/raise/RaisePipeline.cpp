// The order of raising: one place for the compiler and diffc-opt.
#include "passes/raise/Passes.h"

#include <mlir/Pass/PassManager.h>
#include <mlir/Pass/PassRegistry.h>
#include <mlir/Transforms/Passes.h>

using namespace mlir;

namespace diffc {

void buildRaisePipeline(OpPassManager &pm) {
  // Transposes into matmul flags, powers into products, one copy of equal
  // values: the patterns compare values, not what they are made of.
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  pm.addPass(createRaiseSilu());
  pm.addPass(createRaiseGelu());
  pm.addPass(createRaiseNorm());
  pm.addPass(createRaiseAttention());
  // Transposes and reshapes that raising put in meet those of the exporter.
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
}

void registerRaisePipeline() {
  PassPipelineRegistration<>("nn-raise",
                             "Name what exporters decomposed: SiLU, GELU, norms, attention",
                             buildRaisePipeline);
}

} // namespace diffc
