// Writes composite operators as simple ones. Contract: Passes.td.
#include "passes/fusion/Passes.h"

namespace diffc {
#define GEN_PASS_DEF_DECOMPOSEOPS
#include "passes/fusion/Passes.h.inc"
namespace {
using namespace mlir;

struct DecomposeOps final : impl::DecomposeOpsBase<DecomposeOps> {
  void runOnOperation() override {
    for (bool changed = true; changed;) {
      changed = false;
      SmallVector<nn::DecomposableOpInterface> found;
      getOperation()->walk([&](nn::DecomposableOpInterface op) { found.push_back(op); });
      for (nn::DecomposableOpInterface op : found) {
        OpBuilder builder(op);
        SmallVector<Value> parts = op.decompose(builder);
        op->replaceAllUsesWith(parts);
        op->erase();
        changed = true;
      }
    }
  }
};

} // namespace
} // namespace diffc
