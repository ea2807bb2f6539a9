// Raises matmul, softmax, matmul to nn.attention. Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
#include "passes/raise/Matchers.h"
#include "passes/raise/Passes.h"

#include <mlir/IR/PatternMatch.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>

#include <cmath>

namespace diffc {
#define GEN_PASS_DEF_RAISEATTENTION
#include "passes/raise/Passes.h.inc"
namespace {
using namespace mlir;

/// Takes products and quotients by a constant off `value`; their factor is
/// multiplied into `scale`. With `onlyReader`, each must have no other reader.
Value unscaled(Value value, double &scale, bool onlyReader) {
  for (;;) {
    Operation *op = value.getDefiningOp();
    if (!isa_and_nonnull<nn::MulOp, nn::DivOp>(op) || (onlyReader && !value.hasOneUse()))
      return value;
    Value lhs = op->getOperand(0), rhs = op->getOperand(1), inner;
    if (auto factor = splatOf(rhs)) {
      inner = lhs;
      scale = isa<nn::DivOp>(op) ? scale / *factor : scale * *factor;
    } else if (auto factor = splatOf(lhs); factor && isa<nn::MulOp>(op)) {
      inner = rhs;
      scale *= *factor;
    }
    if (!inner || inner.getType() != value.getType())
      return value;
    value = inner;
  }
}

Value exchangeLastTwo(OpBuilder &builder, Value value) {
  auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, nn::tensorType(value).getRank()));
  std::swap(permutation[permutation.size() - 2], permutation.back());
  return nn::transpose(builder, value, permutation);
}

/// softmax(scale * q k^T + mask), the scores read by nothing else
struct Scores {
  nn::MatmulOp product;
  Value mask;
  double scale = 1;
};

std::optional<Scores> scoresOf(Value value) {
  auto scaledProduct = [](Value value) -> std::optional<Scores> {
    Scores scores;
    scores.product = unscaled(value, scores.scale, true).getDefiningOp<nn::MatmulOp>();
    if (!value.hasOneUse() || !scores.product || !scores.product->hasOneUse())
      return std::nullopt;
    return scores;
  };
  if (auto plain = scaledProduct(value))
    return plain;
  // A mask is added after scaling; one that is scaled too is left alone.
  auto add = value.hasOneUse() ? value.getDefiningOp<nn::AddOp>() : nn::AddOp();
  if (!add)
    return std::nullopt;
  for (auto [product, mask] :
       {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())})
    if (auto scores = scaledProduct(product); scores && product.getType() == add.getType()) {
      scores->mask = mask;
      return scores;
    }
  return std::nullopt;
}

/// matmul(softmax(scores), v)  ==>  attention; also the transposed product
struct WeightedValues final : OpRewritePattern<nn::MatmulOp> {
  WeightedValues(MLIRContext *context, Pass::Statistic &numRaised)
      : OpRewritePattern(context), numRaised(numRaised) {}

  LogicalResult matchAndRewrite(nn::MatmulOp matmul, PatternRewriter &rewriter) const override {
    // P V, or (P V)^T = V^T P^T as two flags say it.
    auto softmax = matmul.getLhs().getDefiningOp<nn::SoftmaxOp>();
    bool exchanged = false;
    if (!softmax || matmul.getTransposeA()) {
      softmax = matmul.getRhs().getDefiningOp<nn::SoftmaxOp>();
      exchanged = true;
      if (!softmax || !matmul.getTransposeB())
        return rewriter.notifyMatchFailure(matmul, "no softmax's rows weigh the other factor");
    }
    Value v = exchanged ? matmul.getLhs() : matmul.getRhs();
    bool valuesInColumns = exchanged ? !matmul.getTransposeA() : matmul.getTransposeB();
    RankedTensorType weights = nn::tensorType(softmax.getResult());
    if (!softmax->hasOneUse() || static_cast<int64_t>(softmax.getAxis()) != weights.getRank() - 1)
      return rewriter.notifyMatchFailure(matmul, "softmax over another axis, or read elsewhere");
    auto scores = scoresOf(softmax.getInput());
    if (!scores)
      return rewriter.notifyMatchFailure(matmul, "no scores that only the softmax reads");

    nn::MatmulOp product = scores->product;
    Value q = unscaled(product.getLhs(), scores->scale, false);
    Value k = unscaled(product.getRhs(), scores->scale, false);
    auto leading = [](Value x) { return nn::tensorType(x).getShape().drop_back(2); };
    if (weights.getRank() > 4 || leading(q) != leading(k) || leading(q) != leading(v))
      return rewriter.notifyMatchFailure(matmul, "q, k and v have other leading dimensions");
    if (!std::isfinite(scores->scale) || scores->scale == 0)
      return rewriter.notifyMatchFailure(matmul, "no scale");

    Location loc = rewriter.getFusedLoc({product.getLoc(), softmax.getLoc(), matmul.getLoc()});
    if (product.getTransposeA())
      q = exchangeLastTwo(rewriter, q);
    if (!product.getTransposeB())
      k = exchangeLastTwo(rewriter, k);
    if (valuesInColumns)
      v = exchangeLastTwo(rewriter, v);
    Value result = rewriter.create<nn::AttentionOp>(
        loc, ranked4(rewriter, q), ranked4(rewriter, k), ranked4(rewriter, v),
        scores->mask ? rankedMask(rewriter, scores->mask) : Value(), APFloat(scores->scale), false);
    SmallVector<int64_t> shape(nn::tensorType(q).getShape());
    shape.back() = nn::tensorType(v).getShape().back();
    result = nn::reshape(rewriter, result, shape);
    rewriter.replaceOp(matmul, exchanged ? exchangeLastTwo(rewriter, result) : result);
    ++numRaised;
    return success();
  }

  /// [T, d] as [1, 1, T, d], [B, T, d] as [B, 1, T, d].
  static Value ranked4(OpBuilder &builder, Value x) {
    SmallVector<int64_t> shape(nn::tensorType(x).getShape());
    while (shape.size() < 4)
      shape.insert(shape.end() - 2, 1);
    return nn::reshape(builder, x, shape);
  }
  /// A mask of three dimensions has one for B, none for H; smaller ones broadcast.
  static Value rankedMask(OpBuilder &builder, Value mask) {
    return nn::tensorType(mask).getRank() == 3 ? ranked4(builder, mask) : mask;
  }

  Pass::Statistic &numRaised;
};

struct RaiseAttention final : impl::RaiseAttentionBase<RaiseAttention> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<WeightedValues>(&getContext(), numRaised);
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) {
      getOperation()->emitError() << getArgument() << ": did not converge";
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace diffc
