// Writes composite operators as simple ones. Contract: Passes.td.
#include "passes/fusion/Passes.h"

#include <mlir/IR/PatternMatch.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>

namespace diffc {
#define GEN_PASS_DEF_DECOMPOSEOPS
#include "passes/fusion/Passes.h.inc"
namespace {
using namespace mlir;

/// A sum over several leading dimensions that keeps the last one, in two steps:
/// first over all but the outermost. The first step's parts are independent,
/// so that threads can share them, and its order does not depend on how many.
struct SplitColumnSum final : OpRewritePattern<nn::ReduceSumOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::ReduceSumOp sum, PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(sum.getInput().getType());
    ArrayRef<int64_t> axes = sum.getAxes();
    if (axes.size() < 2 || axes.front() != 0 || sum.getKeepdims() ||
        axes.back() == type.getRank() - 1 || type.getDimSize(0) == 1)
      return rewriter.notifyMatchFailure(sum, "no sum over several leading dimensions");
    SmallVector<int64_t> inner(axes.drop_front());
    Value first = rewriter.create<nn::ReduceSumOp>(sum.getLoc(), sum.getInput(), inner, false);
    rewriter.replaceOpWithNewOp<nn::ReduceSumOp>(sum, first, ArrayRef<int64_t>{0}, false);
    return success();
  }
};

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
    RewritePatternSet patterns(&getContext());
    patterns.add<SplitColumnSum>(&getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace diffc
