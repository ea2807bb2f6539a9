// Raises chains of reductions to nn.layer_norm, nn.rms_norm and nn.group_norm.
// Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
#include "passes/raise/Matchers.h"
#include "passes/raise/Passes.h"

#include <mlir/IR/PatternMatch.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>

#include <cmath>

namespace diffc {
#define GEN_PASS_DEF_RAISENORM
#include "passes/raise/Passes.h.inc"
namespace {
using namespace mlir;

/// One factor of a product, below the line where `inverted`.
struct Factor {
  Value value;
  bool inverted;
};

/// The factors of `value`, down to `depth` products below it; `whole` is not
/// taken apart.
void collectFactors(Value value, bool inverted, Value whole, int depth,
                    SmallVectorImpl<Factor> &factors) {
  if (value != whole && depth > 0) {
    if (auto mul = value.getDefiningOp<nn::MulOp>()) {
      collectFactors(mul.getLhs(), inverted, whole, depth - 1, factors);
      collectFactors(mul.getRhs(), inverted, whole, depth - 1, factors);
      return;
    }
    if (auto div = value.getDefiningOp<nn::DivOp>()) {
      collectFactors(div.getLhs(), inverted, whole, depth - 1, factors);
      collectFactors(div.getRhs(), !inverted, whole, depth - 1, factors);
      return;
    }
    if (auto reciprocal = value.getDefiningOp<nn::ReciprocalOp>())
      return collectFactors(reciprocal.getInput(), !inverted, whole, depth - 1, factors);
  }
  // A factor of 1 on one element (the 1 of 1 / sqrt) changes no shape.
  if (splatOf(value) != 1.0 || nn::tensorType(value).getNumElements() != 1)
    factors.push_back({value, inverted});
}

/// 1 / sqrt(mean(value^2) + epsilon) over the dimensions from `axis` on.
struct InverseRms {
  Value value;
  int64_t axis;
  double epsilon;
};

std::optional<InverseRms> inverseRms(Factor factor) {
  Value sum; // what the root is taken of
  if (auto rsqrt = factor.value.getDefiningOp<nn::RsqrtOp>(); rsqrt && !factor.inverted)
    sum = rsqrt.getInput();
  if (auto sqrt = factor.value.getDefiningOp<nn::SqrtOp>(); sqrt && factor.inverted)
    sum = sqrt.getInput();
  if (auto pow = factor.value.getDefiningOp<nn::PowOp>();
      pow && pow.getType() == pow.getLhs().getType() &&
      splatOf(pow.getRhs()) == (factor.inverted ? 0.5 : -0.5))
    sum = pow.getLhs();
  auto add = sum ? sum.getDefiningOp<nn::AddOp>() : nn::AddOp();
  if (!add)
    return std::nullopt;
  for (auto [meanSquare, constant] :
       {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
    auto epsilon = splatOf(constant);
    auto mean = epsilon ? meanOf(meanSquare) : std::nullopt;
    if (!mean || !(*epsilon > 0) || !std::isfinite(*epsilon) ||
        add.getType() != meanSquare.getType())
      continue;
    Value value = rootOfSquare(mean->input);
    int64_t rank = nn::tensorType(mean->input).getRank(), axis = mean->axes.front();
    if (value && llvm::equal(mean->axes, llvm::seq<int64_t>(axis, rank)))
      return InverseRms{value, axis, *epsilon};
  }
  return std::nullopt;
}

/// The value that `centred` is less its mean over the dimensions from `axis` on.
Value uncentred(Value centred, int64_t axis) {
  auto sub = centred.getDefiningOp<nn::SubOp>();
  auto mean = sub ? meanOf(sub.getRhs()) : std::nullopt;
  int64_t rank = nn::tensorType(centred).getRank();
  if (!mean || mean->input != sub.getLhs() || sub.getType() != sub.getLhs().getType() ||
      !llvm::equal(mean->axes, llvm::seq<int64_t>(axis, rank)))
    return {};
  return sub.getLhs();
}

/// A product that holds a value and its own inverse root mean square.
struct NormProduct {
  InverseRms rms;
  SmallVector<Factor> rest;
};

std::optional<NormProduct> normProduct(Value product) {
  constexpr int kDepth = 3;
  SmallVector<Factor> all;
  collectFactors(product, false, {}, kDepth, all);
  for (Factor factor : all) {
    auto rms = inverseRms(factor);
    if (!rms)
      continue;
    // Again, with what is normalised in one piece: it may be a product itself.
    NormProduct found{*rms, {}};
    collectFactors(product, false, rms->value, kDepth, found.rest);
    auto remove = [&](Value value, bool inverted) {
      auto it = llvm::find_if(found.rest,
                              [&](Factor f) { return f.value == value && f.inverted == inverted; });
      if (it == found.rest.end())
        return false;
      found.rest.erase(it);
      return true;
    };
    if (remove(rms->value, false) && remove(factor.value, factor.inverted))
      return found;
  }
  return std::nullopt;
}

/// v * 1/sqrt(mean(v^2) + eps) * rest  ==>  rms_norm(v) * rest, and with
/// v = x - mean(x)  ==>  layer_norm(x) * rest
template <typename Product> struct ValueByItsRms final : OpRewritePattern<Product> {
  ValueByItsRms(MLIRContext *context, Pass::Statistic &numRaised)
      : OpRewritePattern<Product>(context), numRaised(numRaised) {}

  LogicalResult matchAndRewrite(Product product, PatternRewriter &rewriter) const override {
    if (!isa<FloatType>(nn::tensorType(product.getResult()).getElementType()))
      return rewriter.notifyMatchFailure(product, "integers");
    auto found = normProduct(product.getResult());
    if (!found)
      return rewriter.notifyMatchFailure(product, "no value times its inverse root mean square");
    // Where a smaller product has both factors, that one is the norm.
    if (!found->rest.empty() &&
        llvm::any_of(product->getOperands(), [](Value v) { return !!normProduct(v); }))
      return rewriter.notifyMatchFailure(product, "a norm times something");

    // A factor of 1 that was left out may have added dimensions.
    SmallVector<int64_t> shape(nn::tensorType(found->rms.value).getShape());
    for (Factor factor : found->rest)
      shape = *nn::broadcastShape(shape, nn::tensorType(factor.value).getShape());
    if (nn::tensorType(product.getResult()).getShape() != ArrayRef<int64_t>(shape))
      return rewriter.notifyMatchFailure(product, "a factor of 1 gives it its shape");

    Location loc = product.getLoc();
    APFloat epsilon(found->rms.epsilon);
    Value x = uncentred(found->rms.value, found->rms.axis), norm;
    if (x)
      norm = rewriter.create<nn::LayerNormOp>(loc, x, Value(), Value(), found->rms.axis, epsilon);
    else
      norm =
          rewriter.create<nn::RmsNormOp>(loc, found->rms.value, Value(), found->rms.axis, epsilon);
    for (Factor factor : found->rest)
      norm = factor.inverted ? rewriter.create<nn::DivOp>(loc, norm, factor.value).getResult()
                             : rewriter.create<nn::MulOp>(loc, norm, factor.value).getResult();
    rewriter.replaceOp(product, norm);
    ++numRaised;
    return success();
  }

  Pass::Statistic &numRaised;
};

//===----------------------------------------------------------------------===//
// Scale and bias
//===----------------------------------------------------------------------===//

/// The dimensions [first, last) of a norm's input that its scale runs over.
std::pair<int64_t, int64_t> affineDimensions(nn::LayerNormOp norm) {
  return {norm.getAxis(), nn::tensorType(norm.getInput()).getRank()};
}
std::pair<int64_t, int64_t> affineDimensions(nn::RmsNormOp norm) {
  return {norm.getAxis(), nn::tensorType(norm.getInput()).getRank()};
}
std::pair<int64_t, int64_t> affineDimensions(nn::GroupNormOp) { return {1, 2}; }

/// `value` in the shape of dimensions [first, last) of `x`, if broadcast to x it
/// runs over all of these and is the same along the others; null otherwise.
Value vectorOver(PatternRewriter &rewriter, Value value, RankedTensorType x,
                 std::pair<int64_t, int64_t> dimensions) {
  while (auto broadcast = value.getDefiningOp<nn::BroadcastToOp>())
    value = broadcast.getInput();
  ArrayRef<int64_t> shape = nn::tensorType(value).getShape();
  int64_t added = x.getRank() - static_cast<int64_t>(shape.size());
  if (added < 0)
    return {};
  for (int64_t i = 0; i < x.getRank(); ++i) {
    bool within = i >= dimensions.first && i < dimensions.second;
    if ((i < added ? 1 : shape[i - added]) != (within ? x.getDimSize(i) : 1))
      return {};
  }
  return nn::reshape(rewriter, value,
                     x.getShape().slice(dimensions.first, dimensions.second - dimensions.first));
}

nn::LayerNormOp withAffine(PatternRewriter &rewriter, nn::LayerNormOp norm, Value scale,
                           Value bias) {
  return rewriter.create<nn::LayerNormOp>(norm.getLoc(), norm.getInput(), scale, bias,
                                          norm.getAxis(), norm.getEpsilon());
}
nn::RmsNormOp withAffine(PatternRewriter &rewriter, nn::RmsNormOp norm, Value scale, Value) {
  return rewriter.create<nn::RmsNormOp>(norm.getLoc(), norm.getInput(), scale, norm.getAxis(),
                                        norm.getEpsilon());
}
nn::GroupNormOp withAffine(PatternRewriter &rewriter, nn::GroupNormOp norm, Value scale,
                           Value bias) {
  return rewriter.create<nn::GroupNormOp>(norm.getLoc(), norm.getInput(), scale, bias,
                                          norm.getGroups(), norm.getEpsilon());
}

/// norm(x) * scale  ==>  norm(x, scale), where nothing else reads norm(x)
template <typename Norm> struct ScaleOfNorm final : OpRewritePattern<nn::MulOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::MulOp mul, PatternRewriter &rewriter) const override {
    for (auto [value, factor] :
         {std::pair(mul.getLhs(), mul.getRhs()), std::pair(mul.getRhs(), mul.getLhs())}) {
      auto norm = dyn_cast_if_present<Norm>(value.getDefiningOp());
      if (!norm || norm.getScale() || !norm->hasOneUse() || norm.getType() != mul.getType())
        continue;
      if (Value scale = vectorOver(rewriter, factor, norm.getType(), affineDimensions(norm))) {
        rewriter.replaceOp(mul, withAffine(rewriter, norm, scale, {}));
        return success();
      }
    }
    return rewriter.notifyMatchFailure(mul, "no norm by a scale of its dimensions");
  }
};

/// norm(x, scale) + bias  ==>  norm(x, scale, bias), likewise
template <typename Norm> struct BiasOfNorm final : OpRewritePattern<nn::AddOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(nn::AddOp add, PatternRewriter &rewriter) const override {
    for (auto [value, term] :
         {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
      auto norm = dyn_cast_if_present<Norm>(value.getDefiningOp());
      if (!norm || !norm.getScale() || norm.getBias() || !norm->hasOneUse() ||
          norm.getType() != add.getType())
        continue;
      if (Value bias = vectorOver(rewriter, term, norm.getType(), affineDimensions(norm))) {
        rewriter.replaceOp(add, withAffine(rewriter, norm, norm.getScale(), bias));
        return success();
      }
    }
    return rewriter.notifyMatchFailure(add, "no scaled norm plus a bias of its dimensions");
  }
};

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

/// The number of groups of [N, C, ...] that `norm` normalises, each of
/// consecutive elements; 0 where it is none or has a scale.
int64_t groupsOf(Operation *norm) {
  if (auto group = dyn_cast_or_null<nn::GroupNormOp>(norm))
    return group.getScale() ? 0 : group.getGroups();
  // Rows of [N, G, ...] from dimension 2 on are groups too.
  if (auto layer = dyn_cast_or_null<nn::LayerNormOp>(norm))
    return layer.getScale() || layer.getAxis() != 2
               ? 0
               : nn::tensorType(layer.getInput()).getDimSize(1);
  return 0;
}

/// reshape(norm of groups(reshape(x)))  ==>  group_norm(reshape(x)): a reshape
/// within a sample keeps which elements are next to each other
struct ReshapedGroups final : OpRewritePattern<nn::ReshapeOp> {
  ReshapedGroups(MLIRContext *context, Pass::Statistic &numRaised)
      : OpRewritePattern(context), numRaised(numRaised) {}

  LogicalResult matchAndRewrite(nn::ReshapeOp back, PatternRewriter &rewriter) const override {
    Operation *norm = back.getInput().getDefiningOp();
    int64_t groups = groupsOf(norm);
    auto there = groups ? norm->getOperand(0).getDefiningOp<nn::ReshapeOp>() : nn::ReshapeOp();
    if (!there || !norm->hasOneUse())
      return rewriter.notifyMatchFailure(back, "no norm of groups between two reshapes");
    RankedTensorType type = nn::tensorType(back.getResult());
    if (type.getRank() < 3 || type.getDimSize(1) % groups ||
        type.getDimSize(0) != nn::tensorType(there.getResult()).getDimSize(0))
      return rewriter.notifyMatchFailure(back, "the groups are not whole channels");
    APFloat epsilon = isa<nn::GroupNormOp>(norm) ? cast<nn::GroupNormOp>(norm).getEpsilon()
                                                 : cast<nn::LayerNormOp>(norm).getEpsilon();
    Value x = nn::reshape(rewriter, there.getInput(), type.getShape());
    rewriter.replaceOpWithNewOp<nn::GroupNormOp>(back, x, Value(), Value(), groups, epsilon);
    ++numRaised;
    return success();
  }

  Pass::Statistic &numRaised;
};

struct RaiseNorm final : impl::RaiseNormBase<RaiseNorm> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<ValueByItsRms<nn::MulOp>, ValueByItsRms<nn::DivOp>, ReshapedGroups>(&getContext(),
                                                                                     numRaised);
    patterns
        .add<ScaleOfNorm<nn::LayerNormOp>, ScaleOfNorm<nn::RmsNormOp>, ScaleOfNorm<nn::GroupNormOp>,
             BiasOfNorm<nn::LayerNormOp>, BiasOfNorm<nn::GroupNormOp>>(&getContext());
    // A scale of 1 and a bias of 0 (InstanceNormalization has no other way to
    // say that it has none) hide the norm from the patterns above.
    nn::LayerNormOp::getCanonicalizationPatterns(patterns, &getContext());
    nn::RmsNormOp::getCanonicalizationPatterns(patterns, &getContext());
    nn::GroupNormOp::getCanonicalizationPatterns(patterns, &getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) {
      getOperation()->emitError() << getArgument() << ": did not converge";
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace diffc
