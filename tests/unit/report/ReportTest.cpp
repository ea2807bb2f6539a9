// The memory report of hand-made entries: bytes by hand.
#include "compiler/report/Report.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace diffc::test {
namespace {

namespace proto = diffrun::proto;
using Pairs = std::vector<std::pair<std::string, int64_t>>;

void place(proto::Buffer *buffer, int64_t offset, int64_t bytes) {
  buffer->set_space(2);
  buffer->set_offset(offset);
  buffer->set_bytes(bytes);
}

/// A plan with state, constants and an arena, and one entry of one input.
struct Entry {
  proto::Plan plan;
  proto::Entry *entry = plan.add_entries();

  explicit Entry(int64_t arena) {
    for (const char *name : {"state", "constants", "arena"})
      plan.add_spaces()->set_name(name);
    plan.mutable_spaces(2)->set_bytes(arena);
    entry->set_name("step");
    entry->set_arena_bytes(arena);
    proto::Input *input = entry->add_inputs();
    input->set_name("x");
    place(input->mutable_buffer(), 0, 64);
  }

  proto::Op &op(const std::string &label) {
    proto::Op *op = entry->add_ops();
    op->set_label(label);
    return *op;
  }

  nlohmann::json memory() const {
    ReportOptions options;
    options.memory = options.json = true;
    return nlohmann::json::parse(report(plan, options))["entries"][0];
  }
};

Pairs holders(const nlohmann::json &entry) {
  Pairs out;
  for (const nlohmann::json &holder : entry["peak_holders"])
    out.emplace_back(holder["who"], holder["bytes"]);
  return out;
}

TEST(MemoryReport, APlaceThatIsTakenOverCountsOnce) {
  Entry made(64 + 256 + 128);
  proto::Op &wide = made.op("wide");
  place(wide.add_operands(), 0, 64);
  place(wide.add_results(), 64, 256);
  proto::Op &inPlace = made.op("in place");
  place(inPlace.add_operands(), 64, 256);
  place(inPlace.add_results(), 64, 256);
  proto::Op &narrow = made.op("narrow");
  place(narrow.add_operands(), 64, 256);
  place(narrow.add_results(), 320, 128);
  auto memory = made.memory();
  EXPECT_EQ(memory["peak_live_bytes"], 256 + 128);
  EXPECT_EQ(memory["peak_at"], "narrow ()");
  EXPECT_EQ(holders(memory), (Pairs{{"in place", 256}, {"narrow", 128}}));
}

TEST(MemoryReport, AResultSmallerThanItsOperandLeavesTheRestLive) {
  Entry made(1024);
  proto::Op &wide = made.op("wide");
  place(wide.add_results(), 64, 960);
  proto::Op &inPlace = made.op("in place");
  place(inPlace.add_operands(), 0, 64);
  place(inPlace.add_operands(), 64, 960);
  place(inPlace.add_results(), 64, 64);
  auto memory = made.memory();
  EXPECT_EQ(memory["peak_live_bytes"], 1024);
  EXPECT_EQ(holders(memory), (Pairs{{"wide", 960}, {"input x", 64}}));
}

TEST(MemoryReport, WorkspacesAreHolders) {
  Entry made(64 + 64 + 512);
  proto::Op &gemm = made.op("matmul");
  gemm.set_location("fc1");
  place(gemm.add_operands(), 0, 64);
  place(gemm.add_scratch(), 128, 512);
  place(gemm.add_results(), 64, 64);
  auto memory = made.memory();
  EXPECT_EQ(memory["peak_live_bytes"], 640);
  EXPECT_EQ(holders(memory),
            (Pairs{{"workspace of matmul (fc1)", 512}, {"matmul (fc1)", 64}, {"input x", 64}}));
}

} // namespace
} // namespace diffc::test
