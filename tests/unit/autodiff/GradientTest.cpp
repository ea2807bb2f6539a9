// Derivatives against finite differences in double precision: 500 seeded
// random graphs over all differentiable operators; decompositions against the
// operators themselves; refusals.
#include "passes/autodiff/Gradient.h"
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/Evaluation.h"
#include "tests/unit/autodiff/RandomGraph.h"

#include <gtest/gtest.h>

#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/Verifier.h>

using namespace mlir;
using namespace diffc;
namespace ev = diffrun::evaluate;

namespace {

using Values = std::vector<std::optional<ev::Tensor>>;

/// A module whose block holds a graph on arguments of given shapes (f64).
struct Fixture {
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  Block *block;
  OpBuilder builder;

  explicit Fixture(ArrayRef<SmallVector<int64_t>> shapes) : builder(&context) {
    context.loadDialect<nn::NnDialect>();
    module = ModuleOp::create(builder.getUnknownLoc());
    // A region of its own, so that the graph can have arguments.
    OperationState state(builder.getUnknownLoc(), "builtin.unrealized_conversion_cast");
    state.addRegion();
    builder.setInsertionPointToEnd(module->getBody());
    Operation *holder = builder.create(state);
    block = &holder->getRegion(0).emplaceBlock();
    for (ArrayRef<int64_t> shape : shapes)
      block->addArgument(RankedTensorType::get(shape, builder.getF64Type()),
                         builder.getUnknownLoc());
    builder.setInsertionPointToEnd(block);
  }
};

/// Random inputs for the block's arguments, away from 0 (kinks of relu, abs).
Values inputsFor(Block &block, nn::EvaluationGraph &graph, uint32_t seed) {
  std::mt19937 random(seed);
  Values values(graph.graph().values.size());
  for (BlockArgument argument : block.getArguments()) {
    int64_t id = *graph.number(argument);
    values[id].emplace(graph.graph().values[id]);
    for (double &x : values[id]->real) {
      double u = static_cast<double>(random()) / 4294967296.0;
      x = (u < 0.5 ? -1 : 1) * (0.1 + 1.4 * static_cast<double>(random()) / 4294967296.0);
    }
  }
  return values;
}

ev::Tensor evaluateTo(nn::EvaluationGraph &graph, Values inputs, Value result) {
  auto status = ev::evaluate(graph.graph(), 0, graph.graph().nodes.size(), inputs);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.message());
  return *inputs[*graph.number(result)];
}

class RandomGradients : public ::testing::TestWithParam<int> {};

// Directional derivatives: (L(x + h d) - L(x - h d)) / 2h = <dL/dx, d> for
// random directions d, with h = 1e-6. Central differences err by h^2 L'''/6
// plus eps |L| / h ~ 1e-10 |L|; kinks (relu, max) hit within h are rare and
// show as isolated seeds, so a mismatch must persist for a smaller h too.
TEST_P(RandomGradients, EqualFiniteDifferences) {
  for (int seed = GetParam(); seed < GetParam() + 50; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Fixture f({{2, 6}, {2, 4, 3}});
    randomgraph::RandomGraph graph(f.builder, *f.block, seed);
    Value loss = graph.grow(8);
    SmallVector<Value> inputs(f.block->args_begin(), f.block->args_end());
    auto gradients = buildGradients(f.builder, loss, inputs);
    ASSERT_TRUE(succeeded(gradients));
    for (Operation &op : *f.block)
      ASSERT_TRUE(succeeded(verify(&op)));

    nn::EvaluationGraph built;
    for (Value input : inputs)
      ASSERT_TRUE(built.number(input).ok());
    ASSERT_TRUE(built.append(*f.block).ok());
    Values at = inputsFor(*f.block, built, seed);
    std::mt19937 random(seed + 1);
    for (auto [input, gradient] : llvm::zip_equal(inputs, *gradients)) {
      ASSERT_TRUE(gradient);
      ASSERT_EQ(gradient.getType(), input.getType());
      ev::Tensor g = evaluateTo(built, at, gradient);
      std::vector<double> direction(g.real.size());
      double expected = 0, size = 0;
      for (size_t i = 0; i < direction.size(); ++i) {
        direction[i] = 2.0 * static_cast<double>(random()) / 4294967296.0 - 1;
        expected += g.real[i] * direction[i];
        size += std::fabs(g.real[i]);
      }
      int64_t id = *built.number(input);
      double best = 1e300;
      for (double h : {1e-5, 1e-6, 1e-7}) {
        Values above = at, below = at;
        for (size_t i = 0; i < direction.size(); ++i) {
          above[id]->real[i] += h * direction[i];
          below[id]->real[i] -= h * direction[i];
        }
        double slope =
            (evaluateTo(built, above, loss).real[0] - evaluateTo(built, below, loss).real[0]) /
            (2 * h);
        best = std::min(best, std::fabs(slope - expected));
      }
      EXPECT_LT(best, 1e-6 * (1 + size));
    }
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomGradients, ::testing::Range(0, 500, 50));

// A composite operator and what it decomposes into mean the same, gradients
// included.
TEST(Decompositions, EqualTheirOperators) {
  int compared = 0;
  for (int seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Fixture f({{2, 6}, {2, 4, 3}});
    randomgraph::RandomGraph graph(f.builder, *f.block, seed);
    Value loss = graph.grow(6);
    SmallVector<Value> inputs(f.block->args_begin(), f.block->args_end());
    ASSERT_TRUE(succeeded(buildGradients(f.builder, loss, inputs)));
    SmallVector<std::pair<Value, Value>> pairs;
    for (Operation &op : llvm::make_early_inc_range(*f.block))
      if (auto composite = dyn_cast<nn::DecomposableOpInterface>(&op)) {
        f.builder.setInsertionPointAfter(&op);
        SmallVector<Value> parts = composite.decompose(f.builder);
        ASSERT_EQ(parts.size(), op.getNumResults());
        for (auto pair : llvm::zip_equal(op.getResults(), parts))
          pairs.emplace_back(std::get<0>(pair), std::get<1>(pair));
      }
    nn::EvaluationGraph built;
    for (Value input : inputs)
      ASSERT_TRUE(built.number(input).ok());
    ASSERT_TRUE(built.append(*f.block).ok());
    Values values = inputsFor(*f.block, built, seed);
    ASSERT_TRUE(ev::evaluate(built.graph(), 0, built.graph().nodes.size(), values).ok());
    for (auto [whole, parts] : pairs) {
      ASSERT_EQ(whole.getType(), parts.getType());
      const ev::Tensor &a = *values[*built.number(whole)], &b = *values[*built.number(parts)];
      for (size_t i = 0; i < a.real.size(); ++i)
        EXPECT_NEAR(a.real[i], b.real[i], 1e-9 * (1 + std::fabs(a.real[i])));
      ++compared;
    }
  }
  EXPECT_GT(compared, 100);
}

// The gradient of a broadcast has the operand's own shape, also where a
// dimension is 1 on both sides.
TEST(Broadcasts, GradientsHaveTheOperandsShape) {
  struct Case {
    SmallVector<int64_t> a, b;
    std::vector<double> expected;
  };
  std::vector<Case> cases = {{{3, 4}, {1, 4}, {15, 18, 21, 24}},
                             {{3, 4}, {4}, {15, 18, 21, 24}},
                             {{3, 4}, {3, 1}, {10, 26, 42}},
                             {{3, 4}, {1, 1}, {78}},
                             {{3, 4}, {}, {78}},
                             {{1, 4}, {1, 4}, {1, 2, 3, 4}}};
  for (const Case &c : cases) {
    Fixture f({c.a, c.b});
    Location loc = f.builder.getUnknownLoc();
    Value sum = f.builder.create<nn::AddOp>(loc, f.block->getArgument(0), f.block->getArgument(1));
    Value half = nn::scalar(f.builder, loc, 0.5, f.builder.getF64Type());
    Value square =
        f.builder.create<nn::MulOp>(loc, half, f.builder.create<nn::MulOp>(loc, sum, sum));
    Value loss = f.builder.create<nn::ReduceSumOp>(loc, square, ArrayRef<int64_t>{0, 1}, false);
    auto gradients = buildGradients(f.builder, loss, {f.block->getArgument(1)});
    ASSERT_TRUE(succeeded(gradients));
    nn::EvaluationGraph built;
    ASSERT_TRUE(built.append(*f.block).ok());
    Values values = inputsFor(*f.block, built, 0);
    auto &a = *values[*built.number(f.block->getArgument(0))];
    for (size_t i = 0; i < a.real.size(); ++i)
      a.real[i] = static_cast<double>(i + 1);
    for (double &b : values[*built.number(f.block->getArgument(1))]->real)
      b = 0;
    ev::Tensor g = evaluateTo(built, values, (*gradients)[0]);
    ASSERT_EQ(g.real.size(), c.expected.size());
    for (size_t i = 0; i < g.real.size(); ++i)
      EXPECT_NEAR(g.real[i], c.expected[i], 1e-12);
  }
}

// y = W * (W * x): both uses count.
TEST(Accumulation, AWeightUsedTwice) {
  Fixture f({{}, {}});
  Location loc = f.builder.getUnknownLoc();
  Value w = f.block->getArgument(0), x = f.block->getArgument(1);
  Value y = f.builder.create<nn::MulOp>(loc, w, f.builder.create<nn::MulOp>(loc, w, x));
  auto gradients = buildGradients(f.builder, y, {w});
  ASSERT_TRUE(succeeded(gradients));
  nn::EvaluationGraph built;
  ASSERT_TRUE(built.append(*f.block).ok());
  Values values = inputsFor(*f.block, built, 0);
  values[*built.number(w)]->real[0] = 3;
  values[*built.number(x)]->real[0] = 2;
  EXPECT_NEAR(evaluateTo(built, values, (*gradients)[0]).real[0], 12, 1e-12);
}

} // namespace
