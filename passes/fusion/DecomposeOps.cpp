// Writes composite operators as simple ones. Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
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

/// A library operator of another float type  ==>  casts around one of f32, the
/// type that the library computes all of them in
struct LibraryInF32 final : OpInterfaceRewritePattern<nn::LibraryOpInterface> {
  using OpInterfaceRewritePattern::OpInterfaceRewritePattern;

  LogicalResult matchAndRewrite(nn::LibraryOpInterface op,
                                PatternRewriter &rewriter) const override {
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Type f32 = rewriter.getF32Type();
    if (type.getElementType() == f32 || !isa<FloatType>(type.getElementType()))
      return rewriter.notifyMatchFailure(op, "it is f32 already");
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(rewriter.create<nn::CastOp>(op->getLoc(), operand, f32));
    Operation *wide = rewriter.clone(*op.getOperation());
    rewriter.modifyOpInPlace(wide, [&] {
      wide->setOperands(operands);
      wide->getResult(0).setType(type.clone(f32));
    });
    rewriter.replaceOpWithNewOp<nn::CastOp>(op, wide->getResult(0), type.getElementType());
    return success();
  }
};

/// An operator whose results have no elements  ==>  constants without any: there
/// is nothing to compute, and no loop nest over it
struct NothingToCompute final : RewritePattern {
  explicit NothingToCompute(MLIRContext *context)
      : RewritePattern(MatchAnyOpTypeTag(), /*benefit=*/10, context) {}

  LogicalResult matchAndRewrite(Operation *op, PatternRewriter &rewriter) const override {
    auto isEmpty = [](Type type) {
      auto tensor = dyn_cast<RankedTensorType>(type);
      return tensor && tensor.hasStaticShape() && tensor.getNumElements() == 0;
    };
    if (!isa<nn::NnDialect>(op->getDialect()) || isa<nn::ConstantOp>(op) || !isPure(op) ||
        op->getNumResults() == 0 || !llvm::all_of(op->getResultTypes(), isEmpty))
      return rewriter.notifyMatchFailure(op, "computes something");
    SmallVector<Value> constants;
    for (Type type : op->getResultTypes())
      constants.push_back(rewriter.create<nn::ConstantOp>(
          op->getLoc(),
          DenseElementsAttr::get(cast<RankedTensorType>(type), ArrayRef<Attribute>())));
    rewriter.replaceOp(op, constants);
    return success();
  }
};

/// What the largest (smallest) of no elements is.
DenseElementsAttr identityOfExtreme(RankedTensorType type, bool isMax) {
  if (auto real = dyn_cast<FloatType>(type.getElementType()))
    return DenseElementsAttr::get(type, APFloat::getInf(real.getFloatSemantics(), isMax));
  unsigned bits = type.getElementTypeBitWidth();
  if (bits == 1) // of booleans: false and true
    return DenseElementsAttr::get(type, !isMax);
  return DenseElementsAttr::get(type, isMax ? APInt::getSignedMinValue(bits)
                                            : APInt::getSignedMaxValue(bits));
}

/// Reductions of values without elements become constants: no loop computes them.
void replaceEmptyReductions(Operation *root) {
  auto isEmpty = [](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    return type && type.hasStaticShape() && type.getNumElements() == 0;
  };
  root->walk([&](Operation *op) {
    if (!isa<nn::NnDialect>(op->getDialect()) || isa<nn::ConstantOp>(op) ||
        op->getNumResults() != 1)
      return;
    OpBuilder builder(op);
    auto type = cast<RankedTensorType>(op->getResult(0).getType());
    Value made;
    bool isExtreme = isa<nn::ReduceMaxOp, nn::ReduceMinOp>(op), isMax = isa<nn::ReduceMaxOp>(op);
    if (isa<nn::ReduceSumOp>(op) && isEmpty(op->getOperand(0)))
      made = nn::zeros(builder, op->getLoc(), type);
    else if (isExtreme && isEmpty(op->getOperand(0)))
      made = builder.create<nn::ConstantOp>(op->getLoc(), identityOfExtreme(type, isMax));
    if (!made)
      return;
    op->getResult(0).replaceAllUsesWith(made);
    op->erase();
  });
}

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
    replaceEmptyReductions(getOperation());
    RewritePatternSet patterns(&getContext());
    patterns.add<SplitColumnSum, LibraryInF32, NothingToCompute>(&getContext());
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
} // namespace diffc
