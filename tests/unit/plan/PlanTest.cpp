// What the loader refuses, and how it says so.
#include "runtime/plan/LoadedPlan.h"
#include "runtime/plan/Seal.h"
#include "tests/unit/plan/PlanMaker.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <unistd.h>

namespace diffrun {
namespace {

using ::testing::HasSubstr;
namespace fs = std::filesystem;

std::string sealed(const proto::Plan &plan) {
  std::string bytes = plan.SerializeAsString();
  sealPlan(bytes);
  return bytes;
}

TEST(Plan, GoodPlanLoads) {
  for (bool withCode : {false, true}) {
    auto loaded = LoadedPlan::parse(sealed(samplePlan(withCode)), "p.plan");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    EXPECT_NE(loaded->findEntry("step"), nullptr);
    EXPECT_EQ(loaded->findEntry("other"), nullptr);
    EXPECT_EQ(loaded->findSlot("fc.weight", "ema0"), 1);
    EXPECT_EQ(loaded->findSlot("fc.weight", "m"), -1);
  }
}

TEST(Plan, EveryCutAndEveryFlippedBitIsFound) {
  std::string bytes = sealed(samplePlan(false));
  for (size_t length = 0; length < bytes.size(); ++length) {
    auto loaded = LoadedPlan::parse(bytes.substr(0, length), "p.plan");
    ASSERT_FALSE(loaded.ok()) << length;
    ASSERT_THAT(loaded.status().message(), HasSubstr("p.plan: is not a complete plan"));
  }
  for (size_t i = 0; i < bytes.size(); i += 7) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ (1 << i % 8));
    ASSERT_FALSE(LoadedPlan::parse(damaged, "p.plan").ok()) << i;
  }
}

TEST(Plan, FilesThatAreNoPlans) {
  fs::path folder = fs::temp_directory_path() / ("plan-test-" + std::to_string(::getpid()));
  fs::create_directory(folder);
  auto missing = LoadedPlan::open(folder / "no.plan");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(exitCode(missing.status()), 1);
  EXPECT_THAT(missing.status().message(), HasSubstr("no.plan: cannot be opened"));
  EXPECT_THAT(LoadedPlan::open(folder).status().message(), HasSubstr("is not a file"));
  std::ofstream(folder / "text.plan") << "this is no plan";
  EXPECT_THAT(LoadedPlan::open(folder / "text.plan").status().message(),
              HasSubstr("text.plan: is not a complete plan"));
  std::ofstream(folder / "big.plan") << "x";
  fs::resize_file(folder / "big.plan", (size_t{1} << 30) + 1); // sparse
  EXPECT_THAT(LoadedPlan::open(folder / "big.plan").status().message(), HasSubstr("is no plan"));
  std::string good = sealed(samplePlan(false));
  std::ofstream(folder / "good.plan", std::ios::binary) << good;
  EXPECT_TRUE(LoadedPlan::open(folder / "good.plan").ok());
  fs::remove_all(folder);
}

struct Fault {
  const char *name;
  std::function<void(proto::Plan &)> plant;
  const char *message;
  int exit = 1;
};

proto::Entry &step(proto::Plan &plan) { return *plan.mutable_entries(1); }
/// The first operation of the step entry with this label.
proto::Op &opOf(proto::Plan &plan, const std::string &label) {
  for (proto::Op &op : *step(plan).mutable_ops())
    if (op.label() == label)
      return op;
  ADD_FAILURE() << label;
  return *step(plan).mutable_ops(0);
}

std::vector<Fault> faults() {
  using P = proto::Plan;
  return {
      {"version", [](P &p) { p.set_version(99); }, "is of plan version 99"},
      {"no team", [](P &p) { p.mutable_target()->set_team(0); }, "a team of 0"},
      {"level", [](P &p) { p.mutable_target()->set_level("avx1024"); }, "avx1024"},
      {"feature", [](P &p) { p.mutable_target()->add_features("avx9000"); },
       "this CPU lacks avx9000", 4},
      {"space size", [](P &p) { p.mutable_spaces(0)->set_bytes(-64); }, "impossible size"},
      {"space data", [](P &p) { p.mutable_spaces(1)->mutable_data()->push_back('x'); },
       "space constants has an impossible size"},
      {"arena data",
       [](P &p) {
         p.mutable_spaces(2)->set_data(std::string(static_cast<size_t>(p.spaces(2).bytes()), 'x'));
       },
       "has data but does not last"},
      {"slot offset", [](P &p) { p.mutable_slots(0)->mutable_buffer()->set_offset(1 << 20); },
       "slot fc.weight/weight: its buffer does not hold it"},
      {"slot alignment", [](P &p) { p.mutable_slots(0)->mutable_buffer()->set_offset(32); },
       "slot fc.weight/weight"},
      {"slot type", [](P &p) { p.mutable_slots(0)->mutable_type()->set_shape(0, 7); },
       "slot fc.weight/weight"},
      {"slot space", [](P &p) { p.mutable_slots(0)->mutable_buffer()->set_space(7); },
       "slot fc.weight/weight"},
      {"slot twice", [](P &p) { p.mutable_slots(1)->set_role("weight"); }, "is there twice"},
      {"slots overlap", [](P &p) { *p.mutable_slots(1)->mutable_buffer() = p.slots(0).buffer(); },
       "fc.weight/ema0 overlap"},
      {"weights file", [](P &p) { p.mutable_weights()->set_file("../../etc/passwd"); },
       "is not beside the plan"},
      {"entry twice", [](P &p) { step(p).set_name("init"); }, "entry init is there twice"},
      {"input size", [](P &p) { step(p).mutable_inputs(1)->mutable_buffer()->set_bytes(64); },
       "entry step: input clean does not fit"},
      {"input value", [](P &p) { step(p).set_input_values(1, 999); }, "value number"},
      {"input role", [](P &p) { step(p).mutable_inputs(2)->set_role("clean"); },
       "no name or role of its own"},
      {"inputs overlap",
       [](P &p) {
         *step(p).mutable_inputs(0)->mutable_buffer() = step(p).inputs(1).buffer();
         step(p).mutable_inputs(0)->mutable_buffer()->set_bytes(8);
       },
       "inputs seed and clean overlap"},
      {"output size", [](P &p) { step(p).mutable_outputs(0)->mutable_type()->add_shape(2); },
       "output y does not fit"},
      {"missing values", [](P &p) { step(p).clear_output_values(); }, "are missing"},
      {"slot number", [](P &p) { step(p).mutable_reads(0)->set_slot(77); }, "a slot or its value"},
      {"commit type", [](P &p) { p.mutable_entries(0)->mutable_commits(0)->set_value(0); },
       "a slot or its value"},
      {"arena share", [](P &p) { step(p).set_arena_bytes(64); }, "does not fit its buffer"},
      {"offset", [](P &p) { opOf(p, "matmul").mutable_operands(0)->set_offset(1 << 30); },
       "step, operation 2 (matmul, where/matmul): a buffer at offset 1073741824"},
      {"alignment", [](P &p) { opOf(p, "matmul").mutable_operands(0)->set_offset(8); },
       "operation 2 (matmul, where/matmul): a buffer at offset 8"},
      {"negative", [](P &p) { opOf(p, "matmul").mutable_results(0)->set_bytes(-128); },
       "out of range"},
      {"wrap",
       [](P &p) {
         opOf(p, "matmul").mutable_results(0)->set_bytes(std::numeric_limits<int64_t>::max());
       },
       "out of range"},
      {"constant written",
       [](P &p) { *opOf(p, "draw").mutable_results(0) = opOf(p, "draw").operands(2); },
       "writes to constants"},
      {"nodes", [](P &p) { opOf(p, "matmul").set_node_count(1000); }, "its nodes are out of range"},
      {"operand value", [](P &p) { opOf(p, "matmul").set_operand_values(0, -5); },
       "operand 0 does not have its value's size"},
      {"value size", [](P &p) { opOf(p, "matmul").set_operand_values(0, 0); },
       "operand 0 does not have its value's size"},
      {"no kind", [](P &p) { opOf(p, "matmul").clear_matmul(); }, "of a kind that this diffrun"},
      {"operands",
       [](P &p) {
         opOf(p, "matmul").mutable_operands()->RemoveLast();
         opOf(p, "matmul").mutable_operand_values()->RemoveLast();
       },
       "wrong number of buffers"},
      {"matmul depth", [](P &p) { opOf(p, "matmul").mutable_matmul()->set_a_shape(1, 5); },
       "do not go together"},
      {"matmul strides", [](P &p) { opOf(p, "matmul").mutable_matmul()->set_a_strides(0, 1000); },
       "do not fit its buffers"},
      {"matmul stride wrap",
       [](P &p) {
         opOf(p, "matmul").mutable_matmul()->set_a_strides(0, std::numeric_limits<int64_t>::max());
       },
       "do not fit its buffers"},
      {"matmul type", [](P &p) { opOf(p, "matmul").mutable_matmul()->set_dtype(proto::I64); },
       "of a type that it cannot have"},
      {"convolution stride",
       [](P &p) { opOf(p, "convolution").mutable_convolution()->set_strides(0, 0); },
       "stride, dilation or kernel out of range"},
      {"convolution groups",
       [](P &p) { opOf(p, "convolution").mutable_convolution()->set_groups(2); },
       "channels that do not go together"},
      {"convolution extent",
       [](P &p) { opOf(p, "convolution").mutable_convolution()->set_pads_low(0, 3); },
       "extents that do not go together"},
      {"draw size", [](P &p) { opOf(p, "draw").mutable_draw()->set_samples(5); },
       "a draw that does not fit"},
      {"chunks", [](P &p) { opOf(p, "twice").mutable_launch()->set_chunks(0); },
       "impossible number of chunks"},
      {"no code", [](P &p) { p.set_code("#!/bin/sh"); }, "the plan has no code"},
      {"copy size",
       [](P &p) { p.mutable_entries(0)->mutable_ops(1)->mutable_results(0)->set_bytes(64); },
       "result 0 does not have its value's size"},
      {"program value",
       [](P &p) { step(p).mutable_program()->mutable_nodes(3)->set_results(0, 99); },
       "a value number is out of range"},
      {"program type", [](P &p) { step(p).mutable_program()->mutable_values(1)->set_shape(0, -1); },
       "a type of its nn program is impossible"},
      {"program constant",
       [](P &p) {
         (*step(p).mutable_program()->mutable_nodes(0)->mutable_attributes())["value"]
             .mutable_tensor()
             ->set_data("xy");
       },
       "constant value does not have the size"},
  };
}

TEST(Plan, EachFaultIsRefusedByName) {
  for (const Fault &fault : faults()) {
    proto::Plan plan = samplePlan(true);
    fault.plant(plan);
    auto loaded = LoadedPlan::parse(sealed(plan), "p.plan");
    ASSERT_FALSE(loaded.ok()) << fault.name;
    EXPECT_THAT(loaded.status().message(), HasSubstr(fault.message)) << fault.name;
    EXPECT_THAT(loaded.status().message(), HasSubstr("p.plan: ")) << fault.name;
    EXPECT_EQ(exitCode(loaded.status()), fault.exit) << fault.name;
  }
}

//===--- What the buffers hold ---------------------------------------------===//

/// weight [4,4]; step: t = rows x weight, weight' = t + t, out = rows x t.
struct StateStep {
  PlanMaker maker;
  uint32_t slot = 0;
  PlanValue rows, weight, t, updated, out;

  explicit StateStep(bool readLate = false) {
    maker.addCode();
    slot = maker.slot("w", "weight", f32({4, 4}));
    maker.beginEntry("step");
    rows = maker.input("rows", f32({4, 4}));
    weight = maker.read(slot);
    t = maker.matmul(rows, weight);
    updated = maker.placeAt(weight);
    maker.node("nn.add", {t, t}, {updated});
    auto &launch = *maker.op("twice", {t, t}, {updated}).mutable_launch();
    launch.set_symbol("twice");
    launch.set_chunks(2);
    out = maker.matmul(rows, readLate ? weight : t);
    maker.commit(slot, updated);
    maker.output("out", out);
  }
  std::string verdict() {
    auto loaded = LoadedPlan::check(maker.finish(), "p.plan");
    return loaded.ok() ? "" : loaded.status().message();
  }
};

TEST(PlanValidator, UpdateInPlaceIsFine) { EXPECT_EQ(StateStep().verdict(), ""); }

TEST(PlanValidator, OldStateReadAfterItsUpdate) {
  EXPECT_THAT(StateStep(true).verdict(),
              HasSubstr("step, operation 2 (matmul, where/matmul): operand 1 reads value"));
}

TEST(PlanValidator, CommitThatNobodyWrote) {
  StateStep s;
  s.maker.entry().mutable_commits(0)->set_value(s.t.id);
  EXPECT_THAT(s.verdict(), HasSubstr("entry step: slot w/weight does not hold what is committed"));
  StateStep untold;
  untold.maker.entry().clear_commits();
  EXPECT_THAT(untold.verdict(), HasSubstr("slot w/weight does not hold"));
}

TEST(PlanValidator, MemoryThatNothingWrote) {
  StateStep s;
  PlanValue hole = s.maker.place(f32({4, 4}));
  *s.maker.entry().mutable_ops(0)->mutable_operands(0) = hole.buffer;
  EXPECT_THAT(s.verdict(), HasSubstr("operand 0 reads memory that holds no whole value"));
}

TEST(PlanValidator, ReuseBeforeTheLastReader) {
  StateStep s;
  // t is put where rows are, which the last matmul still reads.
  for (auto *buffer : {s.maker.entry().mutable_ops(1)->mutable_results(0)})
    *buffer = s.rows.buffer;
  EXPECT_THAT(s.verdict(), HasSubstr("operation 2 (matmul, where/matmul): operand 0 reads value"));
}

TEST(PlanValidator, OverlapWithinAnOperation) {
  StateStep s;
  *s.maker.entry().mutable_ops(0)->mutable_results(0) = s.rows.buffer;
  EXPECT_THAT(s.verdict(), HasSubstr("a result overlaps an operand"));
  StateStep scratch;
  *scratch.maker.entry().mutable_ops(0)->add_scratch() = scratch.t.buffer;
  EXPECT_THAT(scratch.verdict(), HasSubstr("scratch overlaps a result"));
  StateStep operand;
  *operand.maker.entry().mutable_ops(0)->add_scratch() = operand.rows.buffer;
  EXPECT_THAT(operand.verdict(), HasSubstr("scratch overlaps an operand"));
}

TEST(PlanValidator, ScratchDestroysWhatWasThere) {
  StateStep s;
  *s.maker.entry().mutable_ops(1)->add_scratch() = s.rows.buffer;
  EXPECT_THAT(s.verdict(), HasSubstr("operation 2 (matmul, where/matmul): operand 0 reads"));
}

TEST(PlanValidator, OutputThatWasOverwritten) {
  StateStep s;
  *s.maker.entry().mutable_outputs(0)->mutable_buffer() = s.t.buffer;
  EXPECT_THAT(s.verdict(), HasSubstr("entry step: output out reads value"));
}

TEST(PlanValidator, NodesThatDoNotMakeTheResult) {
  StateStep s;
  s.maker.entry().mutable_ops(1)->set_first_node(0);
  EXPECT_THAT(s.verdict(), HasSubstr("operation 1 (twice, where/twice): "));
}

TEST(PlanValidator, ConstantsAreTheProgramsOwn) {
  proto::Plan plan = samplePlan(false);
  plan.mutable_spaces(PlanMaker::kConstants)->mutable_data()->at(0) ^= 1;
  auto loaded = LoadedPlan::check(plan, "p.plan");
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.status().message(), HasSubstr("is not the constant of the nn program"));
}

} // namespace
} // namespace diffrun
