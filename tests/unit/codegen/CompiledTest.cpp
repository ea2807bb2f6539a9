// Compiled kernels against the evaluator: seeded random graphs with their
// gradients, decomposed, fused (or not), compiled for this machine and run.
#include "tests/unit/codegen/Compiled.h"
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/Evaluation.h"
#include "passes/autodiff/Gradient.h"
#include "tests/unit/autodiff/RandomGraph.h"

#include <fstream>
#include <random>
#include <set>

using namespace mlir;
using namespace diffc;
using namespace diffc::test;
namespace ev = diffrun::evaluate;

namespace {

struct Case {
  OwningOpRef<ModuleOp> module;
  func::FuncOp function;
};

/// A function of a random graph with its gradients, in f32.
Case randomCase(MLIRContext &context, int seed, ArrayRef<SmallVector<int64_t>> shapes) {
  Case made;
  OpBuilder builder(&context);
  made.module = ModuleOp::create(builder.getUnknownLoc());
  builder.setInsertionPointToEnd(made.module->getBody());
  SmallVector<Type> types;
  for (ArrayRef<int64_t> shape : shapes)
    types.push_back(RankedTensorType::get(shape, builder.getF32Type()));
  made.function = builder.create<func::FuncOp>(builder.getUnknownLoc(), "f",
                                               builder.getFunctionType(types, {}));
  Block *block = made.function.addEntryBlock();
  builder.setInsertionPointToEnd(block);
  randomgraph::RandomGraph graph(builder, *block, seed);
  Value loss = graph.grow(8);
  SmallVector<Value> inputs(block->args_begin(), block->args_end()), results{loss};
  auto gradients = buildGradients(builder, loss, inputs);
  EXPECT_TRUE(succeeded(gradients));
  llvm::append_range(results, *gradients);
  // Some values in between are results too, so that kernels store them.
  int count = 0;
  for (Operation &op : *block)
    if (++count % 7 == 0 && op.getNumResults() == 1 &&
        isa<FloatType>(nn::tensorType(op.getResult(0)).getElementType()))
      results.push_back(op.getResult(0));
  builder.create<func::ReturnOp>(builder.getUnknownLoc(), results);
  made.function.setFunctionType(builder.getFunctionType(types, ValueRange(results).getTypes()));
  return made;
}

/// Bytes of a value, 64 spare ones of a known pattern behind them.
struct Memory {
  std::vector<char> bytes;
  int64_t size = 0;
  void allocate(int64_t count) {
    size = count;
    bytes.assign(count + 64, 0x5a);
  }
  bool intact() const {
    for (size_t i = size; i < bytes.size(); ++i)
      if (bytes[i] != 0x5a)
        return false;
    return true;
  }
};

/// Operands whose memory results take, as a plan lets them: each result and each
/// operand at most once, which ones is random.
std::map<int64_t, int64_t> somePlaces(const KernelInfo &info, std::mt19937 &random) {
  auto pairs = info.inPlace;
  std::shuffle(pairs.begin(), pairs.end(), random);
  std::map<int64_t, int64_t> places;
  std::set<int64_t> taken;
  for (auto [result, operand] : pairs)
    if (!places.count(result) && taken.insert(operand).second)
      places[result] = operand;
  return places;
}

/// Runs one kernel on the evaluator's values of its operands; `places` says which
/// results lie where an operand does.
void checkKernel(nn::KernelOp kernel, Compiled &compiled, nn::EvaluationGraph &graph,
                 const std::map<int64_t, ev::Tensor> &known,
                 const std::map<int64_t, int64_t> &places) {
  Operation &op = *kernel;
  std::vector<Memory> memory(op.getNumOperands() + op.getNumResults());
  std::vector<void *> buffers;
  int64_t longest = 1;
  for (auto [i, operand] : llvm::enumerate(op.getOperands())) {
    memory[i].allocate(nn::byteSize(operand.getType()));
    ev::toBytes(known.at(*graph.number(operand)), memory[i].bytes.data());
    longest = std::max<int64_t>(longest, nn::tensorType(operand).getNumElements());
  }
  for (auto [i, result] : llvm::enumerate(op.getResults()))
    memory[op.getNumOperands() + i].allocate(nn::byteSize(result.getType()));
  for (Memory &each : memory)
    buffers.push_back(each.bytes.data());
  for (auto [result, operand] : places)
    buffers[op.getNumOperands() + result] = buffers[operand];
  compiled.run(kernel, buffers);
  for (auto [i, result] : llvm::enumerate(op.getResults())) {
    auto place = places.find(i);
    const Memory &each = memory[place == places.end() ? op.getNumOperands() + i : place->second];
    ASSERT_TRUE(each.intact()) << "kernel " << kernel.getLabel().str() << " writes past result "
                               << i;
    const ev::Tensor &right = known.at(*graph.number(result));
    ev::Tensor got = ev::fromBytes(right.type, each.bytes.data());
    // f32 rounding of up to some dozen operations and a sum over `longest`
    // terms: 2^-23 * (64 + sqrt(longest)) of the largest value around.
    double scale = 1;
    for (double x : right.real)
      scale = std::max(scale, std::fabs(x));
    double tolerance = 1.2e-7 * (64 + 4 * std::sqrt(double(longest))) * scale;
    for (size_t k = 0; k < got.real.size(); ++k) {
      if (std::isnan(right.real[k]) && std::isnan(got.real[k]))
        continue;
      if (got.real[k] == right.real[k]) // infinities
        continue;
      if (std::fabs(got.real[k] - right.real[k]) > tolerance) {
        std::string text;
        llvm::raw_string_ostream(text) << op;
        FAIL() << "result " << i << (place == places.end() ? "" : " in place") << " element " << k
               << ": " << got.real[k] << ", expected " << right.real[k] << " within " << tolerance
               << "\n"
               << text;
      }
    }
    for (size_t k = 0; k < got.integer.size(); ++k)
      ASSERT_EQ(got.integer[k], right.integer[k]);
  }
}

/// Runs each kernel on the evaluator's values of its operands (rounded to f32)
/// and compares: errors do not pile up, and the first wrong kernel is named.
void checkKernels(Case &made, Compiled &compiled, int seed) {
  Block &block = made.function.getBody().front();
  nn::EvaluationGraph graph;
  for (Value argument : block.getArguments())
    ASSERT_TRUE(graph.number(argument).ok());
  std::mt19937 random(seed);
  std::map<int64_t, ev::Tensor> known;
  for (Value argument : block.getArguments()) {
    ev::Tensor tensor(*nn::evaluationType(argument.getType()));
    for (double &x : tensor.real)
      x = static_cast<float>((random() % 2 ? 1 : -1) * (0.1 + 1.4 * (random() % 65536) / 65536.0));
    known[*graph.number(argument)] = tensor;
  }
  for (Operation &op : block.without_terminator()) {
    int64_t first = graph.graph().nodes.size();
    ASSERT_TRUE(graph.append(&op).ok());
    std::vector<std::optional<ev::Tensor>> values(graph.graph().values.size());
    for (auto &[id, tensor] : known)
      values[id] = tensor;
    auto status = ev::evaluate(graph.graph(), first, graph.graph().nodes.size() - first, values);
    ASSERT_TRUE(status.ok()) << status.message();
    for (Value result : op.getResults()) {
      int64_t id = *graph.number(result);
      ev::Tensor exact = *values[id], &rounded = known[id] = exact;
      std::vector<char> bytes(nn::byteSize(result.getType()));
      ev::toBytes(exact, bytes.data());
      rounded = ev::fromBytes(exact.type, bytes.data());
    }
    auto kernel = dyn_cast<nn::KernelOp>(op);
    if (!kernel)
      continue;
    checkKernel(kernel, compiled, graph, known, {});
    checkKernel(kernel, compiled, graph, known, somePlaces(compiled.infoOf(kernel), random));
  }
}

class RandomKernels : public ::testing::TestWithParam<std::pair<int, bool>> {};

TEST_P(RandomKernels, EqualTheEvaluator) {
  auto [first, together] = GetParam();
  MLIRContext context(MLIRContext::Threading::DISABLED);
  loadDialects(context);
  // Shapes around the vector width: 31, 33 and so on, small and odd ones.
  SmallVector<SmallVector<int64_t>> menus[] = {
      {{2, 6}, {2, 4, 3}}, {{33}, {3, 31}}, {{5, 64}, {2, 2, 65}}, {{4, 8, 16}, {1, 7}}};
  constexpr int kCases = 12;
  std::vector<Case> cases;
  Compiled compiled(context);
  for (int i = 0; i < kCases; ++i) {
    cases.push_back(randomCase(context, first + i, menus[i % 4]));
    fuse(context, *cases.back().module, together);
    cases.back().function.walk([&](nn::KernelOp kernel) { compiled.add(kernel); });
    ASSERT_FALSE(HasFatalFailure()) << "seed " << first + i;
  }
  compiled.link();
  ASSERT_FALSE(HasFatalFailure());
  for (int i = 0; i < kCases; ++i) {
    SCOPED_TRACE("seed " + std::to_string(first + i));
    checkKernels(cases[i], compiled, first + i);
    if (HasFatalFailure())
      return;
  }
}
INSTANTIATE_TEST_SUITE_P(Seeds, RandomKernels,
                         ::testing::Values(std::pair(0, true), std::pair(12, true),
                                           std::pair(24, true), std::pair(36, true),
                                           std::pair(0, false)));

} // namespace
