// Raises x * sigmoid(x) to nn.silu. Contract: Passes.td.
#include "passes/raise/Passes.h"

#include <mlir/IR/PatternMatch.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>

namespace diffc {
#define GEN_PASS_DEF_RAISESILU
#include "passes/raise/Passes.h.inc"
namespace {
using namespace mlir;

/// x * sigmoid(x)  ==>  silu(x), in either order
struct ProductWithOwnSigmoid final : OpRewritePattern<nn::MulOp> {
  ProductWithOwnSigmoid(MLIRContext *context, Pass::Statistic &numRaised)
      : OpRewritePattern(context), numRaised(numRaised) {}

  LogicalResult matchAndRewrite(nn::MulOp mul, PatternRewriter &rewriter) const override {
    for (auto [x, factor] :
         {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())}) {
      auto sigmoid = factor.getDefiningOp<nn::SigmoidOp>();
      if (!sigmoid || sigmoid.getInput() != x)
        continue;
      rewriter.replaceOpWithNewOp<nn::SiluOp>(mul, x);
      ++numRaised;
      return success();
    }
    return rewriter.notifyMatchFailure(mul, "no factor is the sigmoid of the other");
  }

  Pass::Statistic &numRaised;
};

struct RaiseSilu final : impl::RaiseSiluBase<RaiseSilu> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ProductWithOwnSigmoid>(&getContext(), numRaised);
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) {
      getOperation()->emitError() << getArgument() << ": did not converge";
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace diffc
