// Raises the two formulas of GELU to nn.gelu. Contract: Passes.td.
#include "dialects/nn/IR/Builders.h"
#include "passes/raise/Matchers.h"
#include "passes/raise/Passes.h"

#include <mlir/IR/PatternMatch.h>
#include <mlir/Transforms/GreedyPatternRewriteDriver.h>

namespace diffc {
#define GEN_PASS_DEF_RAISEGELU
#include "passes/raise/Passes.h.inc"
namespace {
using namespace mlir;

bool isArithmetic(Operation *op) {
  return isa_and_nonnull<nn::AddOp, nn::SubOp, nn::MulOp, nn::DivOp, nn::NegOp, nn::PowOp>(op);
}

/// Values that arithmetic of up to `depth` operators makes `value` from.
void collectBases(Value value, int depth, llvm::SetVector<Value> &bases) {
  if (splatOf(value) || !bases.insert(value) || depth == 0)
    return;
  if (Operation *op = value.getDefiningOp(); isArithmetic(op))
    for (Value operand : op->getOperands())
      collectBases(operand, depth - 1, bases);
}

/// Arithmetic that reads `value`, up to `depth` operators away.
void collectReaders(Value value, int depth, llvm::SetVector<Operation *> &readers) {
  if (depth == 0)
    return;
  for (Operation *user : value.getUsers())
    if (isArithmetic(user) && readers.insert(user))
      collectReaders(user->getResult(0), depth - 1, readers);
}

/// x/2 * (1 + t) with t = f(inner(x))  ==>  gelu(x)
///
/// Both sides of t are compared as polynomials, so that neither the order of
/// operands nor where the constants stand matters.
template <typename Function> struct HalfTimesOnePlus final : OpRewritePattern<Function> {
  HalfTimesOnePlus(MLIRContext *context, Polynomial inner, nn::GeluForm form,
                   Pass::Statistic &numRaised)
      : OpRewritePattern<Function>(context), inner(std::move(inner)), form(form),
        numRaised(numRaised) {}

  LogicalResult matchAndRewrite(Function function, PatternRewriter &rewriter) const override {
    Value t = function.getResult();
    Type element = nn::tensorType(t).getElementType();
    Value x;
    llvm::SetVector<Value> bases;
    collectBases(function.getInput(), 5, bases);
    for (Value base : bases)
      if (auto polynomial = polynomialIn(function.getInput(), base, {});
          base.getType() == t.getType() && polynomial && isNearly(*polynomial, inner, element))
        x = base;
    if (!x)
      return rewriter.notifyMatchFailure(function, "not the argument of a GELU");

    const Polynomial whole{{{1, 0}, 0.5}, {{1, 1}, 0.5}};
    llvm::SetVector<Operation *> readers;
    collectReaders(t, 4, readers);
    for (Operation *reader : readers) {
      auto polynomial = polynomialIn(reader->getResult(0), x, t);
      if (reader->getResult(0).getType() != x.getType() || !polynomial ||
          !isNearly(*polynomial, whole, element))
        continue;
      rewriter.setInsertionPoint(reader);
      rewriter.replaceOpWithNewOp<nn::GeluOp>(reader, x, form);
      ++numRaised;
      return success();
    }
    return rewriter.notifyMatchFailure(function, "no product x/2 * (1 + t)");
  }

  const Polynomial inner;
  const nn::GeluForm form;
  Pass::Statistic &numRaised;
};

struct RaiseGelu final : impl::RaiseGeluBase<RaiseGelu> {
  void runOnOperation() override {
    const double halfRoot = 0.70710678118654752;  // 1 / sqrt(2)
    const double root2OverPi = 0.797884560802865; // sqrt(2 / pi)
    RewritePatternSet patterns(&getContext());
    patterns.add<HalfTimesOnePlus<nn::ErfOp>>(&getContext(), Polynomial{{{1, 0}, halfRoot}},
                                              nn::GeluForm::Erf, numRaised);
    patterns.add<HalfTimesOnePlus<nn::TanhOp>>(
        &getContext(), Polynomial{{{1, 0}, root2OverPi}, {{3, 0}, root2OverPi * 0.044715}},
        nn::GeluForm::Tanh, numRaised);
    if (failed(applyPatternsAndFoldGreedily(getOperation(), std::move(patterns)))) {
      getOperation()->emitError() << getArgument() << ": did not converge";
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace diffc
