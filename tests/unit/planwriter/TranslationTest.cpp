// Plans as IR: the message survives the way through IR and its text, field by
// field, and what does not fit together is refused.
#include "compiler/planwriter/Translation.h"
#include "tests/unit/plan/PlanMaker.h"

#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <gtest/gtest.h>
#include <mlir/Parser/Parser.h>

#include <set>

namespace diffc::test {
namespace {

namespace proto = diffrun::proto;
using diffrun::ErrorCode;
using diffrun::PlanMaker;
using diffrun::PlanValue;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using testing::HasSubstr;

/// A plan in which every field of every message is set.
proto::Plan fullPlan() {
  proto::Plan plan = diffrun::samplePlan(/*withCode=*/true);
  plan.set_compiler("diffc test");
  plan.set_recipe("model: \"a b\".onnx\nbatch: 2\n");
  plan.set_decisions("one\ntwo\n");
  plan.mutable_slots(0)->set_trainable(true);
  proto::Objective &objective = *plan.mutable_objective();
  objective.set_kind("diffusion");
  objective.set_predict("eps");
  objective.set_schedule("linear");
  objective.set_steps(1000);
  objective.set_beta_start(1e-4);
  objective.set_beta_end(0.1 + 0.2); // no short decimal
  objective.set_null_label(-1);
  objective.set_classes(10);
  objective.set_accumulate(4);
  proto::Weights &weights = *plan.mutable_weights();
  weights.set_file("t.safetensors");
  weights.set_bytes(77);
  weights.set_checksum(0xFFFFFFFF);
  proto::Remark &remark = *plan.add_remarks();
  remark.set_kind("not fused");
  remark.set_location("step: \"matmul\"");
  remark.set_text("because");

  proto::Entry &step = *plan.mutable_entries(1);
  step.set_batch(2);
  int number = 1;
  for (proto::Op &op : *step.mutable_ops()) {
    op.set_bytes_read(number++);
    op.set_bytes_written(number++);
    op.set_flops(number++);
    if (op.has_launch())
      continue;
    proto::Buffer &scratch = *op.add_scratch();
    scratch.set_space(PlanMaker::kArena);
    scratch.set_offset(64);
    scratch.set_bytes(number++);
    if (!op.has_matmul() && !op.has_convolution())
      continue;
    // A bias, though the nn program has none: the translation does not look.
    proto::Buffer &bias = *op.add_operands();
    bias.set_space(PlanMaker::kArena);
    op.add_operand_values(1);
    if (op.has_matmul()) {
      op.mutable_matmul()->set_bias(true);
      bias.set_bytes(4 * op.matmul().c_shape(op.matmul().c_shape_size() - 1));
    } else {
      op.mutable_convolution()->set_bias(true);
      bias.set_bytes(4 * op.convolution().w_shape(0));
    }
  }
  // The samples have only forward convolutions, whose kind is 0: as if unset.
  proto::Op &grad = *plan.mutable_entries(0)->add_ops();
  *grad.mutable_convolution() = diffrun::convolutionOf(proto::Convolution::WEIGHT_GRAD, {1, 1, 4},
                                                       {1, 1, 1}, {1}, {0}, {0}, {1}, 1);
  for (int64_t bytes : {16, 16, 4}) {
    proto::Buffer &buffer = *(bytes == 16 ? grad.add_operands() : grad.add_results());
    buffer.set_space(PlanMaker::kArena);
    buffer.set_bytes(bytes);
  }
  for (int i : {0, 0})
    grad.add_operand_values(i);
  grad.add_result_values(0);
  return plan;
}

/// The plan after message -> IR -> text -> IR -> message.
diffrun::Result<proto::Plan> throughText(const proto::Plan &plan, std::string *text = nullptr) {
  mlir::MLIRContext context;
  DIFFRUN_ASSIGN(PlanParts parts, fromProto(plan, context));
  std::string printed;
  llvm::raw_string_ostream(printed) << *parts.module;
  if (text)
    *text = printed;
  mlir::MLIRContext other;
  other.loadDialect<plan::PlanDialect>();
  PlanParts read;
  read.module = mlir::parseSourceString<mlir::ModuleOp>(printed, &other);
  if (!read.module)
    return diffrun::Status::internal("what was printed does not parse");
  return toProto(read.program(), std::move(parts.blobs));
}

void expectSame(const proto::Plan &plan) {
  auto back = throughText(plan);
  ASSERT_TRUE(back.ok()) << back.status().message();
  std::string difference;
  google::protobuf::util::MessageDifferencer differencer;
  differencer.ReportDifferencesToString(&difference);
  EXPECT_TRUE(differencer.Compare(plan, *back)) << difference;
}

TEST(Translation, KeepsPlans) {
  expectSame(diffrun::samplePlan(/*withCode=*/true));
  expectSame(diffrun::samplePlan(/*withCode=*/false));
  expectSame(fullPlan());
}

TEST(Translation, KeepsEveryKindAndType) {
  for (auto kind : {proto::Convolution::FORWARD, proto::Convolution::INPUT_GRAD,
                    proto::Convolution::WEIGHT_GRAD}) {
    PlanMaker maker;
    maker.beginEntry("step");
    auto conv =
        diffrun::convolutionOf(kind, {2, 4, 9, 7}, {6, 2, 3, 3}, {2, 1}, {1, 0}, {0, 2}, {1, 2}, 2);
    auto at = [&](const auto &shape) {
      return maker.place(diffrun::f32({shape.begin(), shape.end()}));
    };
    PlanValue first = at(kind == proto::Convolution::INPUT_GRAD ? conv.y_shape() : conv.x_shape());
    PlanValue second =
        at(kind == proto::Convolution::WEIGHT_GRAD ? conv.y_shape() : conv.w_shape());
    addConvolution(maker, conv, first, second);
    expectSame(maker.finish());
  }
  PlanMaker maker;
  maker.beginEntry("step");
  for (int dtype = proto::DType_MIN; dtype <= proto::DType_MAX; ++dtype)
    maker.input("input" + std::to_string(dtype),
                diffrun::tensorOf(static_cast<proto::DType>(dtype), {2, 3}));
  PlanValue a = maker.place(diffrun::f32({5, 4, 3})), b = maker.place(diffrun::f32({6, 4}));
  maker.matmul(a, b, /*transposeA=*/true, /*transposeB=*/true);
  expectSame(maker.finish());
}

/// Every field that a message or one in it has set, by full name.
void collectSet(const Message &message, std::set<std::string> &names) {
  std::vector<const FieldDescriptor *> fields;
  const auto &reflection = *message.GetReflection();
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor *field : fields) {
    names.insert(field->full_name());
    if (field->message_type() == proto::Program::descriptor() ||
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE)
      continue;
    if (!field->is_repeated()) {
      collectSet(reflection.GetMessage(message, field), names);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i)
      collectSet(reflection.GetRepeatedMessage(message, field, i), names);
  }
}

/// Every field that there is, outside the nn program.
void collectAll(const Descriptor *message, std::set<std::string> &names) {
  for (int i = 0; i < message->field_count(); ++i) {
    const FieldDescriptor *field = message->field(i);
    if (names.insert(field->full_name()).second && field->message_type() &&
        field->message_type() != proto::Program::descriptor())
      collectAll(field->message_type(), names);
  }
}

// A new field of plan.proto fails here until fullPlan sets it, and then in
// KeepsPlans until both directions translate it.
TEST(Translation, EveryFieldIsTested) {
  std::set<std::string> set, all;
  collectSet(fullPlan(), set);
  collectAll(proto::Plan::descriptor(), all);
  all.erase("diffrun.proto.Plan.checksum"); // the file's seal, no part of the plan
  EXPECT_THAT(set, testing::ContainerEq(all));
}

TEST(Translation, PrintsNoBytes) {
  proto::Plan plan = fullPlan();
  std::string text;
  ASSERT_TRUE(throughText(plan, &text).ok());
  EXPECT_THAT(text, HasSubstr("plan.code bytes " + std::to_string(plan.code().size())));
  EXPECT_LT(text.size(), 8000u);
  EXPECT_GT(plan.code().size(), 8000u);
}

TEST(Translation, BytesBelongToTheirIr) {
  mlir::MLIRContext context;
  auto parts = fromProto(fullPlan(), context);
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  auto refused = [&](const std::string &what, PlanBlobs blobs) {
    auto plan = toProto(parts->program(), std::move(blobs));
    ASSERT_FALSE(plan.ok());
    EXPECT_EQ(plan.status().code(), ErrorCode::kInternal);
    EXPECT_THAT(plan.status().message(), HasSubstr(what));
  };
  PlanBlobs code = parts->blobs, data = parts->blobs, program = parts->blobs;
  code.code[100] ^= 1;
  refused("the code", code);
  data.data.at("constants")[0] ^= 1;
  refused("space constants", data);
  program.programs.at("step").mutable_nodes()->RemoveLast();
  refused("entry step", program);
}

TEST(Translation, RefusesContradictions) {
  auto reason = [](const proto::Plan &plan) {
    mlir::MLIRContext context;
    auto parts = fromProto(plan, context);
    EXPECT_FALSE(parts.ok());
    if (parts.ok())
      return std::string();
    EXPECT_EQ(parts.status().code(), ErrorCode::kInvalidInput);
    return parts.status().message();
  };
  // Two launches of one kernel with different numbers of buffers.
  proto::Plan plan = fullPlan();
  for (proto::Op &op : *plan.mutable_entries(1)->mutable_ops())
    if (op.has_launch())
      op.mutable_launch()->set_symbol("same"), op.set_location("where");
  proto::Op &last = *plan.mutable_entries(1)->mutable_ops()->rbegin();
  last.mutable_operands()->RemoveLast();
  last.mutable_operand_values()->RemoveLast();
  EXPECT_THAT(reason(plan), HasSubstr("where: 'plan.launch' op has 1 inputs and 1 outputs, "
                                      "kernel @same 2 and 1"));
  // Two spaces of one name.
  plan = fullPlan();
  plan.mutable_spaces(1)->set_name("state");
  EXPECT_THAT(reason(plan), HasSubstr("redefinition of symbol named 'state'"));
  // A value without a scalar, which IR cannot say.
  plan = fullPlan();
  plan.mutable_entries(1)->mutable_inputs(1)->set_initial(2);
  EXPECT_THAT(reason(plan), HasSubstr("entry step: input clean has a value but is no scalar"));
  plan = fullPlan();
  plan.mutable_entries(1)->mutable_ops(0)->clear_draw();
  EXPECT_THAT(reason(plan), HasSubstr("is of a kind that this diffc does not have"));
}

} // namespace
} // namespace diffc::test
