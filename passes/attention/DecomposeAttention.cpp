// Writes attention as simpler operators. Contract: Passes.td.
#include "passes/attention/Passes.h"

namespace diffc {
#define GEN_PASS_DEF_DECOMPOSEATTENTION
#include "passes/attention/Passes.h.inc"
namespace {
using namespace mlir;

struct DecomposeAttention final : impl::DecomposeAttentionBase<DecomposeAttention> {
  void runOnOperation() override {
    SmallVector<nn::AttentionOp> found;
    getOperation()->walk([&](nn::AttentionOp attention) { found.push_back(attention); });
    for (nn::AttentionOp attention : found) {
      OpBuilder builder(attention);
      attention.getResult().replaceAllUsesWith(attention.decompose(builder).front());
      attention.erase();
    }
  }
};

} // namespace
} // namespace diffc
