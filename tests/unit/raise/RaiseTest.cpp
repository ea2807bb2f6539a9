// Raising changes no number: every function of tests/lit/passes/raise, what is
// raised there and what is refused, is evaluated in double precision before and
// after, results and gradients.
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/Evaluation.h"
#include "passes/attention/Passes.h"
#include "passes/autodiff/Gradient.h"
#include "passes/raise/Passes.h"

#include <gtest/gtest.h>

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/IR/MLIRContext.h>
#include <mlir/IR/Verifier.h>
#include <mlir/Parser/Parser.h>

#include <filesystem>
#include <fstream>
#include <random>

using namespace mlir;
namespace ev = diffrun::evaluate;

namespace diffc::test {
namespace {

using Numbers = std::vector<std::vector<double>>;

std::vector<double> random(int64_t count, uint32_t seed) {
  std::mt19937 engine(seed);
  std::vector<double> numbers;
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(4.0 * static_cast<double>(engine()) / 4294967296.0 - 2);
  return numbers;
}

/// The results of the function on random arguments (the same for the same types).
Numbers evaluateResults(func::FuncOp function) {
  Block &block = function.getBody().front();
  nn::EvaluationGraph graph;
  for (BlockArgument argument : block.getArguments())
    EXPECT_TRUE(graph.number(argument).ok());
  auto appended = graph.append(block);
  EXPECT_TRUE(appended.ok()) << (appended.ok() ? "" : appended.message());
  std::vector<std::optional<ev::Tensor>> values(graph.graph().values.size());
  for (BlockArgument argument : block.getArguments()) {
    int64_t id = *graph.number(argument);
    values[id].emplace(graph.graph().values[id]);
    values[id]->real = random(values[id]->type.count(), 7 + argument.getArgNumber());
  }
  auto status = ev::evaluate(graph.graph(), 0, graph.graph().nodes.size(), values);
  EXPECT_TRUE(status.ok()) << (status.ok() ? "" : status.message());
  Numbers results;
  for (Value result : block.getTerminator()->getOperands())
    results.push_back(values[*graph.number(result)]->real);
  return results;
}

/// Replaces the results by the gradients, for every argument, of the sum of all
/// results' elements, each by a weight of its own.
void differentiate(func::FuncOp function) {
  Operation *terminator = function.getBody().front().getTerminator();
  OpBuilder builder(terminator);
  Location loc = function.getLoc();
  Value total;
  for (auto [i, result] : llvm::enumerate(terminator->getOperands())) {
    RankedTensorType type = nn::tensorType(result);
    SmallVector<APFloat> weights;
    for (double weight : random(type.getNumElements(), 100 + i)) {
      bool loses = false;
      weights.emplace_back(weight);
      weights.back().convert(cast<FloatType>(type.getElementType()).getFloatSemantics(),
                             APFloat::rmNearestTiesToEven, &loses);
    }
    Value weighed = builder.create<nn::MulOp>(
        loc, result, builder.create<nn::ConstantOp>(loc, DenseElementsAttr::get(type, weights)));
    Value sum = builder.create<nn::ReduceSumOp>(
        loc, weighed, llvm::to_vector(llvm::seq<int64_t>(0, type.getRank())), false);
    total = total ? builder.create<nn::AddOp>(loc, total, sum).getResult() : sum;
  }
  SmallVector<Value> arguments(function.getArguments());
  auto gradients = buildGradients(builder, total, arguments);
  ASSERT_TRUE(succeeded(gradients));
  SmallVector<Value> results;
  for (auto [argument, gradient] : llvm::zip_equal(arguments, *gradients)) {
    ASSERT_TRUE(!gradient || gradient.getType() == argument.getType());
    results.push_back(gradient ? gradient : nn::zeros(builder, loc, nn::tensorType(argument)));
  }
  terminator->setOperands(results);
  function.setFunctionType(
      builder.getFunctionType(function.getArgumentTypes(), ValueRange(results).getTypes()));
  ASSERT_TRUE(succeeded(verify(function)));
}

/// Elements may differ by the rounding of a formula's constants to the type.
void expectEqual(const Numbers &before, const Numbers &after, double tolerance) {
  ASSERT_EQ(before.size(), after.size());
  for (size_t k = 0; k < before.size(); ++k) {
    ASSERT_EQ(before[k].size(), after[k].size());
    for (size_t i = 0; i < before[k].size(); ++i) {
      double a = before[k][i], b = after[k][i];
      if (std::isnan(a) && std::isnan(b))
        continue;
      EXPECT_NEAR(a, b, tolerance * (1 + std::fabs(a))) << "value " << k << ", element " << i;
    }
  }
}

bool hasRaised(func::FuncOp function) {
  return function
      .walk([](Operation *op) {
        bool named = isa<nn::SiluOp, nn::GeluOp, nn::LayerNormOp, nn::RmsNormOp, nn::GroupNormOp,
                         nn::AttentionOp>(op);
        return named ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

template <typename AddPasses> void run(ModuleOp module, AddPasses add) {
  PassManager pm(module.getContext());
  add(pm);
  ASSERT_TRUE(succeeded(pm.run(module)));
}

TEST(Raise, ChangesNoNumber) {
  int compared = 0, raised = 0;
  std::filesystem::path folder(DIFFC_SOURCE_DIR "/tests/lit/passes/raise");
  for (const auto &file : std::filesystem::directory_iterator(folder)) {
    MLIRContext context;
    context.loadDialect<nn::NnDialect, func::FuncDialect>();
    std::ifstream stream(file.path());
    std::string text((std::istreambuf_iterator<char>(stream)), {});
    // "// -----" is a comment to the parser: names differ, so one module will do.
    auto before = parseSourceString<ModuleOp>(text, &context);
    ASSERT_TRUE(before) << file.path();
    OwningOpRef<ModuleOp> after(before->clone());
    run(*after, buildRaisePipeline);
    auto compareEach = [&](auto check) {
      for (auto function : before->getOps<func::FuncOp>()) {
        SCOPED_TRACE(file.path().filename().string() + " @" + function.getName().str());
        auto other = after->lookupSymbol<func::FuncOp>(function.getName());
        ASSERT_TRUE(other);
        check(function, other);
        Type element = nn::tensorType(function.getArgument(0)).getElementType();
        expectEqual(evaluateResults(function), evaluateResults(other),
                    element.isF16() ? 2e-3 : 1e-6);
      }
    };
    compareEach([&](func::FuncOp function, func::FuncOp other) {
      bool refused = function.getName().starts_with("refused_");
      EXPECT_TRUE(refused || hasRaised(other));
      raised += !refused;
      ++compared;
    });
    // Attention is rewritten before it is differentiated, as in the compiler.
    run(*after, [](PassManager &pm) { pm.addPass(createDecomposeAttention()); });
    compareEach([&](func::FuncOp function, func::FuncOp other) {
      ASSERT_NO_FATAL_FAILURE(differentiate(function));
      ASSERT_NO_FATAL_FAILURE(differentiate(other));
    });
  }
  EXPECT_GT(compared, 90);
  EXPECT_GT(raised, 50);
}

} // namespace
} // namespace diffc::test
