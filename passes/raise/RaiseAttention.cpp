// Raises matmul, softmax, matmul to nn.attention. Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
#include "passes/raise/Matchers.h"
#include "passes/raise/Passes.h"

#include <mlir/IR/PatternMatch.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>

#include <cmath>
#include <limits>

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

/// A reshape of the leading dimensions alone: the matrices stay what they are.
bool keepsMatrices(nn::ReshapeOp reshape) {
  auto from = nn::tensorType(reshape.getInput()).getShape();
  auto to = nn::tensorType(reshape.getResult()).getShape();
  return from.size() >= 2 && to.size() >= 2 && from.take_back(2) == to.take_back(2);
}

/// Added to the scores: `added`, or -inf where `condition` is `hidden`.
struct Mask {
  Value added, condition;
  bool hidden = true;
};

/// scale * q k^T + masks, read by nothing but a softmax. All masks broadcast to
/// one shape, that of the scores.
struct Scores {
  nn::MatmulOp product;
  SmallVector<Mask> masks;
  RankedTensorType type;
  double scale = 1;

  /// Finds the product; `value`, and all on the way, must have one reader.
  bool find(Value value) {
    if (!value.hasOneUse())
      return false;
    if (auto reshape = value.getDefiningOp<nn::ReshapeOp>(); reshape && keepsMatrices(reshape))
      return find(reshape.getInput());
    // A mask is added after scaling; one that is scaled too is left alone.
    if (auto add = value.getDefiningOp<nn::AddOp>())
      return masked(add.getLhs(), {add.getRhs(), {}}, value) ||
             masked(add.getRhs(), {add.getLhs(), {}}, value);
    // Only -inf hides a key whatever its score: another number would be its score.
    if (auto select = value.getDefiningOp<nn::SelectOp>())
      return (isNever(select.getOnTrue()) &&
              masked(select.getOnFalse(), {{}, select.getCondition(), true}, value)) ||
             (isNever(select.getOnFalse()) &&
              masked(select.getOnTrue(), {{}, select.getCondition(), false}, value));
    return findProduct(value);
  }

private:
  static bool isNever(Value value) {
    return splatOf(value) == -std::numeric_limits<double>::infinity();
  }

  bool masked(Value scores, Mask mask, Value result) {
    if (scores.getType() != result.getType())
      return false;
    Scores inner;
    if (!inner.find(scores) || (!inner.masks.empty() && inner.type != result.getType()))
      return false;
    *this = std::move(inner);
    type = nn::tensorType(result);
    masks.push_back(mask);
    return true;
  }

  bool findProduct(Value value) {
    type = nn::tensorType(value);
    for (;;) {
      value = unscaled(value, scale, true);
      auto reshape = value.getDefiningOp<nn::ReshapeOp>();
      if (!reshape || !value.hasOneUse() || !keepsMatrices(reshape))
        break;
      value = reshape.getInput();
    }
    product = value.getDefiningOp<nn::MatmulOp>();
    return product && product->hasOneUse();
  }
};

/// matmul(softmax(scores), v)  ==>  attention; also the transposed product
struct WeightedValues final : OpRewritePattern<nn::MatmulOp> {
  WeightedValues(MLIRContext *context, Pass::Statistic &numRaised)
      : OpRewritePattern(context), numRaised(numRaised) {}

  LogicalResult matchAndRewrite(nn::MatmulOp matmul, PatternRewriter &rewriter) const override {
    // P V, or (P V)^T = V^T P^T as two flags say it.
    auto softmax = softmaxOf(matmul.getLhs());
    bool exchanged = false;
    if (!softmax || matmul.getTransposeA()) {
      softmax = softmaxOf(matmul.getRhs());
      exchanged = true;
      if (!softmax || !matmul.getTransposeB())
        return rewriter.notifyMatchFailure(matmul, "no softmax's rows weigh the other factor");
    }
    Value v = exchanged ? matmul.getLhs() : matmul.getRhs();
    bool valuesInColumns = exchanged ? !matmul.getTransposeA() : matmul.getTransposeB();
    RankedTensorType weights = nn::tensorType(softmax.getResult());
    if (!softmax->hasOneUse() || static_cast<int64_t>(softmax.getAxis()) != weights.getRank() - 1)
      return rewriter.notifyMatchFailure(matmul, "softmax over another axis, or read elsewhere");
    Scores scores;
    if (!scores.find(softmax.getInput()))
      return rewriter.notifyMatchFailure(matmul, "no scores that only the softmax reads");

    nn::MatmulOp product = scores.product;
    Value q = unscaled(product.getLhs(), scores.scale, false);
    Value k = unscaled(product.getRhs(), scores.scale, false);
    auto leading = [](Value x) { return nn::tensorType(x).getShape().drop_back(2); };
    if (scores.type.getRank() > 4 || leading(q) != leading(k) ||
        leading(v) != leading(exchanged ? matmul.getRhs() : matmul.getLhs()))
      return rewriter.notifyMatchFailure(matmul, "q, k and v have other leading dimensions");
    if (!std::isfinite(scores.scale) || scores.scale == 0)
      return rewriter.notifyMatchFailure(matmul, "no scale");

    Location loc = rewriter.getFusedLoc({product.getLoc(), softmax.getLoc(), matmul.getLoc()});
    if (product.getTransposeA())
      q = exchangeLastTwo(rewriter, q);
    if (!product.getTransposeB())
      k = exchangeLastTwo(rewriter, k);
    if (valuesInColumns)
      v = exchangeLastTwo(rewriter, v);
    SmallVector<int64_t> shape(nn::tensorType(q).getShape());
    shape.back() = nn::tensorType(v).getShape().back();
    auto lead = scores.type.getShape().drop_back(2);
    Value mask = maskOf(rewriter, loc, scores);
    Value result = rewriter.create<nn::AttentionOp>(
        loc, ranked4(rewriter, q, lead), ranked4(rewriter, k, lead), ranked4(rewriter, v, lead),
        mask, APFloat(scores.scale), false);
    auto own = nn::tensorType(matmul.getResult()).getShape().drop_back(2);
    SmallVector<int64_t> there(own);
    there.append(shape.end() - 2, shape.end());
    result = nn::reshape(rewriter, result, there);
    rewriter.replaceOp(matmul, exchanged ? exchangeLastTwo(rewriter, result) : result);
    ++numRaised;
    return success();
  }

  /// The softmax whose matrices `weights` holds.
  static nn::SoftmaxOp softmaxOf(Value weights) {
    auto reshape = weights.getDefiningOp<nn::ReshapeOp>();
    if (reshape && weights.hasOneUse() && keepsMatrices(reshape))
      weights = reshape.getInput();
    return weights.getDefiningOp<nn::SoftmaxOp>();
  }

  /// x's matrices under `lead`ing dimensions, [] as [1, 1] and [B] as [B, 1].
  static Value ranked4(OpBuilder &builder, Value x, ArrayRef<int64_t> lead) {
    SmallVector<int64_t> shape(lead);
    llvm::append_range(shape, nn::tensorType(x).getShape().take_back(2));
    while (shape.size() < 4)
      shape.insert(shape.end() - 2, 1);
    return nn::reshape(builder, x, shape);
  }

  /// All masks as one to add; null for none.
  static Value maskOf(OpBuilder &builder, Location loc, const Scores &scores) {
    Type element = scores.type.getElementType();
    Value sum;
    for (const Mask &mask : scores.masks) {
      Value added = mask.added;
      if (!added) {
        Value zero = nn::scalar(builder, loc, 0, element);
        Value never = nn::scalar(builder, loc, -std::numeric_limits<double>::infinity(), element);
        added = builder.create<nn::SelectOp>(loc, mask.condition, mask.hidden ? never : zero,
                                             mask.hidden ? zero : never);
      }
      sum = sum ? builder.create<nn::AddOp>(loc, sum, added).getResult() : added;
    }
    // One of three dimensions has one for B, none for H; smaller ones broadcast.
    if (!sum || nn::tensorType(sum).getRank() != 3 || scores.type.getRank() != 3)
      return sum;
    return ranked4(builder, sum, nn::tensorType(sum).getShape().take_front(1));
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
