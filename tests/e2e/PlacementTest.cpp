// Where values lie: results in the place of operands, and plans of more memory
// than 32 bits can count.
#include "compiler/planwriter/Translation.h"
#include "runtime/verify/Verify.h"
#include "tests/e2e/CompiledProgram.h"
#include "tests/unit/import/OnnxBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>

namespace diffc::test {
namespace {

using diffrun::LoadedPlan;
using diffrun::Program;
using ::testing::HasSubstr;
namespace proto = diffrun::proto;

/// y = h + t where t is h under another order of its elements: an in-place sum
/// would read what it has written.
TEST(Placement, AResultDoesNotTakeThePlaceOfAnOperandThatAnotherViewReadsElsewhere) {
  OnnxBuilder b(17);
  b.input("x", {"N", "2"});
  b.floats("w", {2, 128}, Values(256, 0.5));
  b.ints("four", {8, 2, 32});
  b.ints("two", {2, 8, 32});
  b.ints("back", {4, 128});
  b.node("MatMul", {"x", "w"}, {"h"});
  b.node("Reshape", {"h", "four"}, {"r"});
  b.node("Reshape", {"h", "two"}, {"q"});
  OnnxBuilder::attribute(b.node("Transpose", {"r"}, {"t"}), "perm", Ints{1, 0, 2});
  b.node("Add", {"q", "t"}, {"z"});
  b.node("Reshape", {"z", "back"});
  auto program = build("other_view", b.save(), R"(
inputs: {x: clean}
batch: 4
objective: {kind: regression}
entries: {denoise: {batch: 4}}
threads: 1
)");
  ASSERT_TRUE(program);
  std::vector<float> x{1, 0, 2, 0, 4, 0, 8, 0};
  ASSERT_TRUE(program->run("denoise", {{"clean", x.data()}}).ok());
  std::vector<float> got = outputOf(*program, "denoise");
  ASSERT_EQ(got.size(), 512u);
  for (int64_t i = 0; i < 512; ++i) {
    // Element [a, b, c] of [2, 8, 32] and element [b, a, c] of [8, 2, 32].
    int64_t a = i / 256, b8 = i / 32 % 8, other = (b8 * 2 + a) * 32 + i % 32;
    EXPECT_EQ(got[static_cast<size_t>(i)], 0.5f * x[static_cast<size_t>(i / 128 * 2)] +
                                               0.5f * x[static_cast<size_t>(other / 128 * 2)])
        << i;
  }
  Feed step(*program, "step");
  auto verified = diffrun::verifyEntry(*program, step.data, {});
  EXPECT_TRUE(verified.ok()) << verified.status().message();
}

//===--- More than 32 bits ---------------------------------------------------===//

constexpr int64_t k32 = int64_t{1} << 32;

int64_t elementsOf(const proto::TensorType &type) {
  int64_t count = 1;
  for (int64_t extent : type.shape())
    count *= extent;
  return count;
}

/// Compiles without running anything; null after a test failure.
std::unique_ptr<LoadedPlan> planOf(const OnnxBuilder &model, const std::string &recipe) {
  CompileOptions options;
  options.model = model.save();
  options.recipe = options.model + ".yaml";
  options.output = options.model + ".plan";
  std::ofstream(options.recipe) << recipe;
  auto start = std::chrono::steady_clock::now();
  auto compiled = compile(options);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  // Nothing in the compiler goes through the elements one by one: that takes minutes.
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(60));
  auto plan = LoadedPlan::open(options.output);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  return plan.ok() ? std::make_unique<LoadedPlan>(*plan) : nullptr;
}

/// Sizes are those of the types, offsets rise and stay inside, an entry's share
/// is what its buffers need, in the message and in the IR alike.
void checkSizes(const LoadedPlan &loaded) {
  const proto::Plan &plan = loaded.plan();
  auto spaceOf = [&](const proto::Buffer &buffer) {
    return plan.spaces(static_cast<int>(buffer.space()));
  };
  int64_t end = 0;
  for (const proto::Slot &slot : plan.slots()) {
    EXPECT_EQ(slot.buffer().bytes(),
              elementsOf(slot.type()) * diffrun::byteSize(diffrun::DType(slot.type().dtype())));
    EXPECT_GE(slot.buffer().offset(), end) << slot.parameter() << "/" << slot.role();
    EXPECT_LT(slot.buffer().offset() - end, diffrun::kPlanAlignment);
    end = slot.buffer().offset() + slot.buffer().bytes();
    EXPECT_LE(end, spaceOf(slot.buffer()).bytes());
  }
  int64_t largest = 0;
  for (const proto::Entry &entry : plan.entries()) {
    int64_t reach = 0;
    for (const proto::Op &op : entry.ops()) {
      EXPECT_GE(op.bytes_read(), 0) << op.label();
      EXPECT_GE(op.bytes_written(), 0) << op.label();
      EXPECT_GE(op.flops(), 0) << op.label();
      for (const auto *list : {&op.operands(), &op.results()})
        for (const proto::Buffer &buffer : *list) {
          EXPECT_GE(buffer.offset(), 0);
          EXPECT_GE(buffer.bytes(), 0);
          EXPECT_LE(buffer.offset() + buffer.bytes(), spaceOf(buffer).bytes());
          if (spaceOf(buffer).lifetime() == proto::Space::ENTRY)
            reach = std::max(reach, buffer.offset() + buffer.bytes());
        }
    }
    EXPECT_LE(reach, entry.arena_bytes()) << entry.name();
    largest = std::max(largest, entry.arena_bytes());
  }
  for (const proto::Space &space : plan.spaces())
    if (space.lifetime() == proto::Space::ENTRY) {
      EXPECT_EQ(space.bytes(), largest);
    }
  mlir::MLIRContext context;
  auto parts = fromProto(plan, context);
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  std::string text;
  llvm::raw_string_ostream(text) << **parts->module;
  EXPECT_THAT(text, HasSubstr("plan.space @arena lives entry bytes " + std::to_string(largest)));
}

/// A machine with less memory says so before it takes any of it.
void checkRefusal(const LoadedPlan &plan, int64_t needs) {
  int64_t free = diffrun::freeMemory(), resident = diffrun::residentBytes();
  ASSERT_GT(free, 0);
  if (needs <= free)
    GTEST_SKIP() << "this machine has room for " << needs << " bytes";
  auto program = Program::create(plan);
  ASSERT_FALSE(program.ok());
  EXPECT_EQ(diffrun::exitCode(program.status()), 4);
  EXPECT_THAT(program.status().message(), HasSubstr("needs "));
  EXPECT_THAT(program.status().message(), HasSubstr(" bytes of memory, this machine has "));
  EXPECT_LT(diffrun::residentBytes() - resident, int64_t{64} << 20);
}

int64_t bytesOfSpaces(const LoadedPlan &plan) {
  int64_t all = 0;
  for (const proto::Space &space : plan.plan().spaces())
    all += space.bytes();
  return all;
}

TEST(LargePlans, ATableOfMoreThan2To31Elements) {
  constexpr int64_t kRows = 262144, kWidth = 8960, kTable = 9395240960;
  OnnxBuilder b(17);
  b.input("ids", {"N"});
  b.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      onnx::TensorProto::INT64);
  b.drawn("table", {kRows, kWidth}, 0.02f);
  b.drawn("gain", {kWidth}, 0.02f);
  b.node("Gather", {"table", "ids"}, {"rows"});
  b.node("Mul", {"rows", "gain"});
  auto plan = planOf(b, R"(
inputs: {ids: label}
batch: 64
objective: {kind: regression}
entries: {denoise: {batch: 4}}
threads: 1
)");
  ASSERT_TRUE(plan);
  checkSizes(*plan);
  int tables = 0;
  for (const proto::Slot &slot : plan->plan().slots())
    if (slot.parameter() == "table") {
      EXPECT_EQ(slot.buffer().bytes(), kTable);
      ++tables;
    }
  EXPECT_EQ(tables, 3) << "weight and moments";
  // A gradient for the table, and nothing else of its size at once but the
  // gradients that step_fed has as outputs.
  EXPECT_GE(plan->findEntry("step")->arena_bytes(), kTable);
  EXPECT_LT(plan->findEntry("denoise")->arena_bytes(), int64_t{1} << 20);
  int gathers = 0;
  for (const proto::Op &op : plan->findEntry("denoise")->ops())
    if (op.label() == "gather") {
      EXPECT_EQ(op.operands(0).bytes(), kTable);
      EXPECT_EQ(op.bytes_read(), 4 * kWidth * 4 + 4 * 8) << "rows that are read, not the table";
      ++gathers;
    }
  EXPECT_EQ(gathers, 1);
  EXPECT_GT(bytesOfSpaces(*plan), 4 * kTable);
  checkRefusal(*plan, bytesOfSpaces(*plan));
}

/// 2 x 2 max-pooling of [64, 320, 512, 512] as an exporter's strided slices: four
/// views of one activation that is larger than 2^32 elements.
TEST(LargePlans, ActivationsOfMoreThan2To32Elements) {
  constexpr int64_t kElements = int64_t{64} * 320 * 512 * 512;
  OnnxBuilder b(17);
  b.input("x", {"N", "3", "512", "512"});
  b.drawn("w", {320, 3, 3, 3}, 0.02f);
  b.drawn("v", {3, 320, 1, 1}, 0.02f);
  auto &wide = b.node("Conv", {"x", "w"}, {"c"});
  OnnxBuilder::attribute(wide, "kernel_shape", Ints{3, 3});
  OnnxBuilder::attribute(wide, "pads", Ints{1, 1, 1, 1});
  b.ints("axes", {2, 3});
  b.ints("ends", {512, 512});
  b.ints("steps", {2, 2});
  for (int64_t k = 0; k < 4; ++k) {
    std::string n = std::to_string(k);
    b.ints("at" + n, {k / 2, k % 2});
    b.node("Slice", {"c", "at" + n, "ends", "axes", "steps"}, {"p" + n});
  }
  b.node("Max", {"p0", "p1"}, {"top"});
  b.node("Max", {"p2", "p3"}, {"bottom"});
  b.node("Max", {"top", "bottom"}, {"pooled"});
  OnnxBuilder::attribute(b.node("Conv", {"pooled", "v"}), "kernel_shape", Ints{1, 1});
  auto plan = planOf(b, R"(
inputs: {x: clean}
batch: 64
objective: {kind: regression}
entries: {denoise: {batch: 64}}
threads: 1
)");
  ASSERT_TRUE(plan);
  checkSizes(*plan);
  ASSERT_GT(kElements, k32);
  EXPECT_GT(plan->findEntry("denoise")->arena_bytes(), 4 * kElements);
  EXPECT_GT(plan->findEntry("step")->arena_bytes(), 8 * kElements) << "with their gradient";
  // The lower rows' maximum, then the upper rows' with it: half of the elements
  // each, and a quarter.
  std::vector<int64_t> read;
  for (const proto::Op &op : plan->findEntry("denoise")->ops())
    if (op.has_launch()) {
      read.push_back(op.bytes_read());
      EXPECT_EQ(op.bytes_written(), kElements) << op.label();
    }
  EXPECT_THAT(read, ::testing::ElementsAre(2 * kElements, 3 * kElements));
  checkRefusal(*plan, bytesOfSpaces(*plan));
}

} // namespace
} // namespace diffc::test
