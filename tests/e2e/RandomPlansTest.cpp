// Seeded random graphs over all operators, with their gradients, as entries of
// plans: decomposed, fused, placed in memory, compiled, run, and every operation
// compared with the evaluator (runtime/verify). Outputs keep their bits in a second
// run and where freed memory is filled with NaN.
#include "compiler/compose/EntryBuilder.h"
#include "compiler/planwriter/Lowering.h"
#include "compiler/planwriter/Translation.h"
#include "passes/autodiff/Gradient.h"
#include "passes/fusion/Passes.h"
#include "passes/recompute/Passes.h"
#include "runtime/verify/Verify.h"
#include "tests/unit/autodiff/RandomGraph.h"

#include <gtest/gtest.h>

#include <mlir/Pass/PassManager.h>
#include <mlir/Transforms/Passes.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>

using namespace mlir;
using namespace diffc;

namespace {

constexpr int kGraphs = 500, kPerPlan = 25;

/// Entry `name`: a random graph on f32 inputs, its loss and all gradients.
void addEntry(ModuleOp module, const std::string &name, int seed) {
  // Around the vector width, small, odd, and of one element.
  static const SmallVector<SmallVector<int64_t>> menus[] = {
      {{2, 6}, {2, 4, 3}}, {{33}, {3, 31}},     {{5, 64}, {2, 2, 65}}, {{4, 8, 16}, {1, 7}},
      {{1}, {17, 3}},      {{2, 3, 4, 4}, {1}}, {{130}, {2, 1, 9}},
  };
  EntryBuilder e(module, name, 64 * seed, /*seed=*/0);
  SmallVector<Value> inputs;
  for (auto [i, shape] : llvm::enumerate(menus[seed % std::size(menus)]))
    inputs.push_back(e.input("in" + std::to_string(i), RankedTensorType::get(shape, e.f32())));
  randomgraph::RandomGraph graph(e.builder(), *inputs[0].getParentBlock(), seed);
  Value loss = graph.grow(4 + seed % 9);
  auto gradients = buildGradients(e.builder(), loss, inputs);
  ASSERT_TRUE(succeeded(gradients));
  e.output("loss", loss);
  for (auto [i, gradient] : llvm::enumerate(*gradients))
    if (gradient)
      e.output("g" + std::to_string(i), gradient);
  e.finish();
}

/// The float elements of an operation's operands that its results depend on: each
/// is made NaN in turn. Less than what is read where a comparison hides one.
int64_t elementsThatMatter(diffrun::Program &program, const diffrun::proto::Entry &entry,
                           int index) {
  const diffrun::proto::Op &op = entry.ops(index);
  auto bytesOf = [&](const auto &buffers) {
    std::vector<std::vector<char>> all;
    for (const auto &buffer : buffers)
      all.emplace_back(static_cast<char *>(program.at(buffer)),
                       static_cast<char *>(program.at(buffer)) + buffer.bytes());
    return all;
  };
  std::vector<std::vector<char>> operands = bytesOf(op.operands());
  auto restore = [&] { // a kernel may write over its operands
    for (int k = 0; k < op.operands_size(); ++k)
      std::memcpy(program.at(op.operands(k)), operands[static_cast<size_t>(k)].data(),
                  operands[static_cast<size_t>(k)].size());
  };
  EXPECT_TRUE(program.runOp(entry, index).ok());
  std::vector<std::vector<char>> right = bytesOf(op.results());
  int64_t count = 0;
  for (int k = 0; k < op.operands_size(); ++k) {
    if (entry.program().values(static_cast<int>(op.operand_values(k))).dtype() !=
        diffrun::proto::F32)
      continue;
    for (int64_t at = 0; at < op.operands(k).bytes(); at += 4) {
      restore();
      float nan = std::numeric_limits<float>::quiet_NaN();
      std::memcpy(static_cast<char *>(program.at(op.operands(k))) + at, &nan, 4);
      EXPECT_TRUE(program.runOp(entry, index).ok());
      count += bytesOf(op.results()) != right;
    }
  }
  restore();
  EXPECT_TRUE(program.runOp(entry, index).ok());
  return count;
}

/// The bytes of the outputs, one after another.
std::vector<char> outputBytes(const diffrun::Program &program, const diffrun::proto::Entry &entry) {
  std::vector<char> all;
  for (const auto &output : entry.outputs()) {
    const auto *data = static_cast<const char *>(program.at(output.buffer()));
    all.insert(all.end(), data, data + output.buffer().bytes());
  }
  return all;
}

/// Runs the entry with every arena byte that no later operation reads made NaN
/// (0xff): before the first operation and after each. What is needed comes from the
/// operations alone, byte by byte, not from the planner. Returns the bytes of results
/// that were overwritten so.
int64_t runOverFreedBytes(diffrun::Program &program, const diffrun::proto::Entry &entry,
                          const diffrun::InputData &inputs) {
  const diffrun::proto::Plan &plan = program.plan().plan();
  diffrun::proto::Buffer arena;
  for (int i = 0; i < plan.spaces_size(); ++i)
    if (plan.spaces(i).lifetime() == diffrun::proto::Space::ENTRY)
      arena.set_space(static_cast<uint32_t>(i));
  auto size = static_cast<size_t>(entry.arena_bytes());
  using Mask = std::vector<bool>;
  auto mark = [&](Mask &mask, const diffrun::proto::Buffer &buffer, bool value) {
    if (buffer.space() == arena.space())
      std::fill_n(mask.begin() + buffer.offset(), buffer.bytes(), value);
  };
  // needed[i]: the bytes that are read after operation i - 1.
  std::vector<Mask> needed(static_cast<size_t>(entry.ops_size()) + 1, Mask(size));
  for (const auto &output : entry.outputs())
    mark(needed.back(), output.buffer(), true);
  for (int i = entry.ops_size(); i-- > 0;) {
    Mask &before = needed[static_cast<size_t>(i)] = needed[static_cast<size_t>(i) + 1];
    for (const auto &buffer : entry.ops(i).results())
      mark(before, buffer, false);
    for (const auto &buffer : entry.ops(i).operands())
      mark(before, buffer, true);
  }
  auto *bytes = static_cast<char *>(program.at(arena));
  Mask written(size);
  int64_t lost = 0;
  auto poison = [&](const Mask &keep) {
    for (size_t at = 0; at < size; ++at)
      if (!keep[at]) {
        lost += written[at];
        written[at] = false;
        bytes[at] = '\xff';
      }
  };
  EXPECT_TRUE(program.placeInputs(entry, inputs).ok());
  poison(needed[0]);
  for (int i = 0; i < entry.ops_size(); ++i) {
    EXPECT_TRUE(program.runOp(entry, i).ok());
    for (const auto &buffer : entry.ops(i).results())
      mark(written, buffer, true);
    poison(needed[static_cast<size_t>(i) + 1]);
  }
  return lost;
}

class RandomPlans : public ::testing::TestWithParam<int> {};

TEST_P(RandomPlans, EveryOperationEqualsTheEvaluator) {
  int plan = GetParam();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  context.loadDialect<nn::NnDialect, train::TrainDialect>();
  OwningOpRef<ModuleOp> module = ModuleOp::create(UnknownLoc::get(&context));
  for (int i = 0; i < kPerPlan; ++i) {
    addEntry(*module, "graph" + std::to_string(i), plan * kPerPlan + i);
    ASSERT_FALSE(HasFatalFailure());
  }
  PassManager pm(&context);
  pm.addPass(createDecomposeOps());
  pm.addPass(createCanonicalizerPass());
  pm.addPass(createCSEPass());
  FuseKernelsOptions fusion;
  fusion.fuse = plan % 5 != 4; // one plan in five without fusion
  pm.addPass(createFuseKernels(fusion));
  pm.addPass(createRecomputePointwise());
  ASSERT_TRUE(succeeded(pm.run(*module)));

  auto recipe = parseRecipe("", "(none)");
  auto target = parseCpuTarget("cpu");
  ASSERT_TRUE(recipe.ok() && target.ok());
  auto parts = lowerToPlan(*module, *recipe, *target, /*team=*/2, "random");
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  auto proto = toProto(parts->program(), std::move(parts->blobs));
  ASSERT_TRUE(proto.ok()) << proto.status().message();
  auto loaded = diffrun::LoadedPlan::check(*proto, "random.plan");
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  auto program = diffrun::Program::create(*loaded);
  ASSERT_TRUE(program.ok()) << program.status().message();
  int64_t touched = 0, reported = 0, freed = 0;
  for (int i = 0; i < kPerPlan; ++i) {
    diffrun::VerifyOptions options;
    options.entry = "graph" + std::to_string(i);
    const diffrun::proto::Entry &entry = *(*program)->plan().findEntry(options.entry);
    std::mt19937 random(plan * kPerPlan + i);
    std::map<std::string, std::vector<float>> data;
    diffrun::InputData inputs;
    for (const auto &input : entry.inputs()) {
      std::vector<float> &values = data[input.role()];
      values.resize(static_cast<size_t>(input.buffer().bytes()) / 4);
      for (float &x : values) // away from 0, where some operators have a kink
        x = static_cast<float>((random() % 2 ? 1 : -1) * (0.1 + 1.4 * (random() % 65536) / 65536));
      inputs[input.role()] = values.data();
    }
    // The same bits in a second run, and over NaN where memory is free.
    ASSERT_TRUE((*program)->run(options.entry, inputs).ok());
    std::vector<char> right = outputBytes(**program, entry);
    ASSERT_TRUE((*program)->run(options.entry, inputs).ok());
    ASSERT_EQ(outputBytes(**program, entry), right) << "seed " << plan * kPerPlan + i;
    freed += runOverFreedBytes(**program, entry, inputs);
    ASSERT_EQ(outputBytes(**program, entry), right) << "seed " << plan * kPerPlan + i;
    if (plan == 0) { // the bytes that the report names are those that are touched
      ASSERT_TRUE((*program)->placeInputs(entry, inputs).ok());
      for (int k = 0; k < entry.ops_size(); ++k) {
        const auto &op = entry.ops(k);
        if (!op.has_launch()) {
          ASSERT_TRUE((*program)->runOp(entry, k).ok());
          continue;
        }
        int64_t floats = op.bytes_read(), matter = elementsThatMatter(**program, entry, k);
        for (int64_t id : op.operand_values())
          if (auto &type = entry.program().values(static_cast<int>(id));
              type.dtype() != diffrun::proto::F32)
            floats -= diffrun::bytesOf(type);
        ASSERT_LE(4 * matter, floats) << options.entry << ", operation " << k << " " << op.label();
        touched += 4 * matter;
        reported += floats;
      }
    }
    auto report = diffrun::verifyEntry(**program, inputs, options);
    ASSERT_TRUE(report.ok()) << "seed " << plan * kPerPlan + i << ": " << report.status().message();
    ASSERT_GT(report->operations, 0);
    ASSERT_TRUE(std::isfinite(report->loss)) << "seed " << plan * kPerPlan + i;
  }
  EXPECT_GT(freed, 0);
  // Comparisons and selections hide some reads; all else shows.
  EXPECT_GE(touched, reported * 0.97);
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomPlans, ::testing::Range(0, kGraphs / kPerPlan));

} // namespace
