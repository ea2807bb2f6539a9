// Raises chains of reductions to nn.layer_norm, nn.rms_norm and nn.group_norm.
// Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
#include "passes/raise/Matchers.h"
#include "passes/raise/Passes.h"

#include <mlir/Dialect/Utils/IndexingUtils.h>
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

/// The value that `centred` is less its mean over `axes`; null where it is no such.
Value uncentred(Value centred, ArrayRef<int64_t> axes) {
  auto sub = centred.getDefiningOp<nn::SubOp>();
  auto mean = sub ? meanOf(sub.getRhs()) : std::nullopt;
  if (!mean || mean->input != sub.getLhs() || sub.getType() != sub.getLhs().getType() ||
      ArrayRef<int64_t>(mean->axes) != axes)
    return {};
  return sub.getLhs();
}

/// max(value, 0) of a variance, which is never below 0, changes nothing.
Value unclamped(Value value) {
  if (auto relu = value.getDefiningOp<nn::ReluOp>())
    return relu.getInput();
  if (auto maximum = value.getDefiningOp<nn::MaximumOp>())
    for (auto [x, bound] : {std::pair(maximum.getLhs(), maximum.getRhs()),
                            std::pair(maximum.getRhs(), maximum.getLhs())})
      if (splatOf(bound) == 0.0 && x.getType() == value.getType())
        return x;
  return value;
}

/// 1 / sqrt(m + epsilon), m being a mean square over `axes`: of `value`, or of
/// `source` less its mean, however that is written.
struct InverseRms {
  Value value;  ///< null where the variance is E[x^2] - E[x]^2
  Value source; ///< null where no mean is subtracted
  SmallVector<int64_t> axes;
  double epsilon;

  /// True for the value that, times this, is normalised.
  bool normalises(Value factor) const {
    return source ? uncentred(factor, axes) == source : factor == value;
  }
};

/// The mean square part of an InverseRms.
std::optional<InverseRms> meanSquare(Value value) {
  value = unclamped(value);
  if (auto mean = meanOf(value))
    if (Value root = rootOfSquare(mean->input))
      return InverseRms{root, uncentred(root, mean->axes), mean->axes, 0};
  // E[x^2] - E[x]^2; the operator's own derivative and lowering keep what this
  // form loses to rounding.
  auto sub = value.getDefiningOp<nn::SubOp>();
  auto ofSquares = sub ? meanOf(sub.getLhs()) : std::nullopt;
  Value root = ofSquares ? rootOfSquare(ofSquares->input) : Value();
  Value squared = root ? rootOfSquare(sub.getRhs()) : Value();
  auto ofValues = squared ? meanOf(squared) : std::nullopt;
  if (!ofValues || ofValues->input != root || ofValues->axes != ofSquares->axes ||
      sub.getType() != sub.getLhs().getType())
    return std::nullopt;
  return InverseRms{Value(), root, ofSquares->axes, 0};
}

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
  for (auto [square, constant] :
       {std::pair(add.getLhs(), add.getRhs()), std::pair(add.getRhs(), add.getLhs())}) {
    auto epsilon = splatOf(constant);
    if (!epsilon || !(*epsilon > 0) || !std::isfinite(*epsilon) ||
        add.getType() != square.getType())
      continue;
    if (auto rms = meanSquare(square)) {
      rms->epsilon = *epsilon;
      return rms;
    }
  }
  return std::nullopt;
}

/// A product that holds a value and its own inverse root mean square.
struct NormProduct {
  InverseRms rms;
  Value normalised;
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
    NormProduct found{*rms, {}, {}};
    collectFactors(product, false, rms->value, kDepth, found.rest);
    auto remove = [&](auto matches) -> Value {
      auto it = llvm::find_if(found.rest, matches);
      if (it == found.rest.end())
        return {};
      Value value = it->value;
      found.rest.erase(it);
      return value;
    };
    found.normalised = remove([&](Factor f) { return !f.inverted && rms->normalises(f.value); });
    if (found.normalised &&
        remove([&](Factor f) { return f.value == factor.value && f.inverted == factor.inverted; }))
      return found;
  }
  return std::nullopt;
}

/// The dimensions of `rank` with `axes` moved to the end.
SmallVector<int64_t> axesLast(ArrayRef<int64_t> axes, int64_t rank) {
  SmallVector<int64_t> order;
  for (int64_t i = 0; i < rank; ++i)
    if (!llvm::is_contained(axes, i))
      order.push_back(i);
  llvm::append_range(order, axes);
  return order;
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
    SmallVector<int64_t> shape(nn::tensorType(found->normalised).getShape());
    for (Factor factor : found->rest)
      shape = *nn::broadcastShape(shape, nn::tensorType(factor.value).getShape());
    if (nn::tensorType(product.getResult()).getShape() != ArrayRef<int64_t>(shape))
      return rewriter.notifyMatchFailure(product, "a factor of 1 gives it its shape");

    Value norm = normOf(rewriter, product.getLoc(), found->rms);
    for (Factor factor : found->rest)
      norm = factor.inverted
                 ? rewriter.create<nn::DivOp>(product.getLoc(), norm, factor.value).getResult()
                 : rewriter.create<nn::MulOp>(product.getLoc(), norm, factor.value).getResult();
    rewriter.replaceOp(product, norm);
    ++numRaised;
    return success();
  }

  /// The operators normalise the last dimensions; others are moved there.
  static Value normOf(PatternRewriter &rewriter, Location loc, const InverseRms &rms) {
    Value x = rms.source ? rms.source : rms.value;
    int64_t rank = nn::tensorType(x).getRank();
    SmallVector<int64_t> order = axesLast(rms.axes, rank);
    int64_t axis = rank - static_cast<int64_t>(rms.axes.size());
    APFloat epsilon(rms.epsilon);
    x = nn::transpose(rewriter, x, order);
    Value norm =
        rms.source
            ? rewriter.create<nn::LayerNormOp>(loc, x, Value(), Value(), axis, epsilon).getResult()
            : rewriter.create<nn::RmsNormOp>(loc, x, Value(), axis, epsilon).getResult();
    return nn::transpose(rewriter, norm, invertPermutationVector(order));
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

/// transpose(norm(x)) op v  ==>  transpose(norm(x) op v'), where v runs over the
/// normalised dimensions only and nothing else reads the norm: its scale or bias
template <typename Op, typename Norm> struct AffineOfMovedNorm final : OpRewritePattern<Op> {
  using OpRewritePattern<Op>::OpRewritePattern;

  LogicalResult matchAndRewrite(Op op, PatternRewriter &rewriter) const override {
    for (auto [value, vector] :
         {std::pair(op.getLhs(), op.getRhs()), std::pair(op.getRhs(), op.getLhs())}) {
      auto moved = value.template getDefiningOp<nn::TransposeOp>();
      auto norm = moved ? moved.getInput().template getDefiningOp<Norm>() : Norm();
      if (!norm || !moved->hasOneUse() || !norm->hasOneUse() || value.getType() != op.getType())
        continue;
      // The vector by the norm's dimensions; a reshape where these keep their order.
      ArrayRef<int64_t> permutation = moved.getPermutation();
      int64_t rank = permutation.size(), axis = affineDimensions(norm).first;
      SmallVector<int64_t> shape(nn::tensorType(vector).getShape());
      shape.insert(shape.begin(), rank - static_cast<int64_t>(shape.size()), 1);
      bool along = llvm::all_of(llvm::seq<int64_t>(0, rank), [&](int64_t i) {
        return shape[i] == (permutation[i] >= axis ? nn::tensorType(value).getDimSize(i) : 1);
      });
      if (!along ||
          !llvm::is_sorted(ArrayRef(invertPermutationVector(permutation)).drop_front(axis)))
        continue;
      Value there = nn::reshape(rewriter, vector,
                                nn::tensorType(norm.getResult()).getShape().drop_front(axis));
      Value inner = rewriter.create<Op>(op.getLoc(), norm.getResult(), there);
      rewriter.replaceOp(op, nn::transpose(rewriter, inner, permutation));
      return success();
    }
    return rewriter.notifyMatchFailure(op, "no moved norm by a vector of its dimensions");
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
    patterns.add<ScaleOfNorm<nn::LayerNormOp>, ScaleOfNorm<nn::RmsNormOp>,
                 ScaleOfNorm<nn::GroupNormOp>, BiasOfNorm<nn::LayerNormOp>,
                 BiasOfNorm<nn::GroupNormOp>, AffineOfMovedNorm<nn::MulOp, nn::LayerNormOp>,
                 AffineOfMovedNorm<nn::MulOp, nn::RmsNormOp>,
                 AffineOfMovedNorm<nn::AddOp, nn::LayerNormOp>>(&getContext());
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
