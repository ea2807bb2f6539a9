// Plan IR -> the plan file's message.
#include "compiler/planwriter/Translation.h"

#include "dialects/nn/IR/Evaluation.h"
#include "runtime/core/Checksum.h"

#include <llvm/ADT/TypeSwitch.h>
#include <mlir/IR/Verifier.h>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;
namespace proto = diffrun::proto;

namespace diffc {
namespace {

template <typename List, typename Values> void fill(List *list, const Values &values) {
  for (int64_t value : values)
    list->Add(value);
}

proto::DType dtypeOf(Type type) {
  // The verifier has refused element types that nothing computes with.
  return static_cast<proto::DType>(nn::evaluationType(type)->dtype);
}

void writeType(RankedTensorType type, proto::TensorType &out) {
  out.set_dtype(dtypeOf(type));
  fill(out.mutable_shape(), type.getShape());
}

template <typename List> void writeMatrix(MemRefType type, List *shape, List *stridesOut) {
  SmallVector<int64_t> strides;
  int64_t offset;
  (void)getStridesAndOffset(type, strides, offset);
  fill(shape, type.getShape());
  fill(stridesOut, strides);
}

class ProtoWriter {
public:
  ProtoWriter(plan::ProgramOp program, PlanBlobs blobs)
      : program(program), blobs(std::move(blobs)) {}

  Result<proto::Plan> run() {
    out.set_version(static_cast<uint32_t>(program.getVersion()));
    out.set_name(program.getSymName().str());
    out.set_compiler(program.getCompiler().str());
    // Entries name spaces and slots by index.
    for (auto space : program.getOps<plan::SpaceOp>())
      DIFFRUN_RETURN_IF_ERROR(writeSpace(space));
    for (auto slot : program.getOps<plan::SlotOp>())
      writeSlot(slot);
    for (Operation &op : program.getBody().front())
      DIFFRUN_RETURN_IF_ERROR(writePart(&op));
    return std::move(out);
  }

private:
  Status writePart(Operation *op) {
    return llvm::TypeSwitch<Operation *, Status>(op)
        .Case<plan::TargetOp, plan::ObjectiveOp, plan::WeightsOp, plan::RemarkOp, plan::RecipeOp,
              plan::DecisionsOp>([&](auto part) {
          write(part);
          return Status();
        })
        .Case<plan::CodeOp>([&](auto code) { return writeCode(code); })
        .Case<plan::EntryOp>([&](auto entry) { return writeEntry(entry); })
        // Kernels are the launches' symbols; the others are written.
        .Case<plan::SpaceOp, plan::SlotOp, plan::KernelOp>([](auto) { return Status(); })
        .Default([](Operation *other) {
          return Status::internal("a plan file has no place for " +
                                  other->getName().getStringRef().str());
        });
  }

  static Status checkBlob(const std::string &bytes, int64_t size, int64_t checksum,
                          const std::string &what) {
    if (static_cast<int64_t>(bytes.size()) != size ||
        diffrun::crc32c(bytes.data(), bytes.size()) != checksum)
      return Status::internal("the bytes of " + what + " are not those of the plan's IR");
    return {};
  }

  Status writeSpace(plan::SpaceOp space) {
    proto::Space &made = *out.add_spaces();
    made.set_name(space.getSymName().str());
    made.set_lifetime(static_cast<proto::Space::Lifetime>(space.getLifetime()));
    made.set_bytes(static_cast<int64_t>(space.getBytes()));
    spaces[space.getSymNameAttr()] = static_cast<uint32_t>(out.spaces_size()) - 1;
    if (!space.getData())
      return {};
    std::string &data = blobs.data[made.name()];
    DIFFRUN_RETURN_IF_ERROR(checkBlob(data, made.bytes(), static_cast<int64_t>(*space.getData()),
                                      "space " + made.name()));
    made.set_data(std::move(data));
    return {};
  }

  Status writeCode(plan::CodeOp code) {
    DIFFRUN_RETURN_IF_ERROR(checkBlob(blobs.code, static_cast<int64_t>(code.getBytes()),
                                      static_cast<int64_t>(code.getChecksum()), "the code"));
    out.set_code(std::move(blobs.code));
    return {};
  }

  void writeBuffer(plan::BufferAttr buffer, proto::Buffer &made) {
    made.set_space(spaces.lookup(buffer.getSpace().getAttr()));
    made.set_offset(buffer.getOffset());
    made.set_bytes(buffer.getBytes());
  }

  void writeSlot(plan::SlotOp slot) {
    proto::Slot &made = *out.add_slots();
    made.set_model(slot.getSlot().getModel().str());
    made.set_parameter(slot.getSlot().getParameter().str());
    made.set_role(slot.getSlot().getRole().str());
    writeType(slot.getType(), *made.mutable_type());
    writeBuffer(slot.getBuffer(), *made.mutable_buffer());
    made.set_trainable(slot.getTrainable());
    slots[slot.getSlot()] = static_cast<uint32_t>(out.slots_size()) - 1;
  }

  void write(plan::TargetOp target) {
    proto::Target &made = *out.mutable_target();
    made.set_level(target.getLevel().str());
    for (StringRef feature : target.getFeatures().getAsValueRange<StringAttr>())
      made.add_features(feature.str());
    made.set_team(static_cast<int32_t>(target.getTeam()));
  }

  void write(plan::ObjectiveOp objective) {
    proto::Objective &made = *out.mutable_objective();
    made.set_kind(objective.getKind().str());
    made.set_predict(objective.getPredict().str());
    made.set_schedule(objective.getSchedule().str());
    made.set_steps(static_cast<int64_t>(objective.getSteps()));
    made.set_beta_start(objective.getBetaStart().convertToDouble());
    made.set_beta_end(objective.getBetaEnd().convertToDouble());
    made.set_null_label(static_cast<int64_t>(objective.getNullLabel()));
    made.set_classes(static_cast<int64_t>(objective.getClasses()));
    made.set_accumulate(static_cast<int64_t>(objective.getAccumulate()));
  }

  void write(plan::WeightsOp weights) {
    proto::Weights &made = *out.mutable_weights();
    made.set_file(weights.getFile().str());
    made.set_bytes(static_cast<int64_t>(weights.getBytes()));
    made.set_checksum(weights.getChecksum());
  }

  void write(plan::RemarkOp remark) {
    proto::Remark &made = *out.add_remarks();
    made.set_kind(remark.getKind().str());
    made.set_location(remark.getLocation().str());
    made.set_text(remark.getText().str());
  }

  void write(plan::RecipeOp recipe) { out.set_recipe(recipe.getText().str()); }
  void write(plan::DecisionsOp decisions) { out.set_decisions(decisions.getText().str()); }

  Status writeEntry(plan::EntryOp entry) {
    proto::Entry &made = *out.add_entries();
    made.set_name(entry.getEntryName().str());
    made.set_model(entry.getModel().str());
    made.set_batch(static_cast<int64_t>(entry.getBatch()));
    made.set_arena_bytes(static_cast<int64_t>(entry.getArenaBytes()));
    proto::Program &nodes = blobs.programs[made.name()];
    if (nodes.values_size() != static_cast<int64_t>(entry.getNumValues()) ||
        nodes.nodes_size() != static_cast<int64_t>(entry.getNumNodes()))
      return Status::internal("the nn program of entry " + made.name() +
                              " is not that of the plan's IR");
    *made.mutable_program() = std::move(nodes);
    for (Operation &op : entry.getBody().front())
      llvm::TypeSwitch<Operation *>(&op)
          .Case<plan::InputOp, plan::OutputOp>([&](auto port) { write(port, made); })
          .Case<plan::ReadOp>([&](auto use) { write(use, *made.add_reads()); })
          .Case<plan::CommitOp>([&](auto use) { write(use, *made.add_commits()); })
          .Case<plan::LaunchOp, plan::MatmulOp, plan::ConvolutionOp, plan::DrawOp, plan::CopyOp>(
              [&](auto step) {
                proto::Op &written = *made.add_ops();
                write(step, written);
                writeStep(step, written);
              });
    return {};
  }

  void write(plan::InputOp input, proto::Entry &entry) {
    proto::Input &made = *entry.add_inputs();
    made.set_name(input.getName().str());
    made.set_role(input.getRole().value_or("").str());
    writeType(input.getType(), *made.mutable_type());
    writeBuffer(input.getBuffer(), *made.mutable_buffer());
    if (auto initial = input.getScalar()) {
      made.set_scalar(true);
      made.set_initial(initial->convertToDouble());
    }
    entry.add_input_values(static_cast<int64_t>(input.getValue()));
  }

  void write(plan::OutputOp output, proto::Entry &entry) {
    proto::Output &made = *entry.add_outputs();
    made.set_name(output.getName().str());
    writeType(output.getType(), *made.mutable_type());
    writeBuffer(output.getBuffer(), *made.mutable_buffer());
    entry.add_output_values(static_cast<int64_t>(output.getValue()));
  }

  template <typename Use> void write(Use use, proto::SlotUse &made) {
    made.set_slot(slots.lookup(use.getSlot()));
    made.set_value(static_cast<int64_t>(use.getValue()));
  }

  void write(plan::LaunchOp launch, proto::Op &op) {
    op.mutable_launch()->set_symbol(launch.getKernel().str());
    op.mutable_launch()->set_chunks(static_cast<int64_t>(launch.getChunks()));
  }

  void write(plan::MatmulOp matmul, proto::Op &op) {
    proto::Matmul &made = *op.mutable_matmul();
    writeMatrix(matmul.getA(), made.mutable_a_shape(), made.mutable_a_strides());
    writeMatrix(matmul.getB(), made.mutable_b_shape(), made.mutable_b_strides());
    fill(made.mutable_c_shape(), matmul.getC().getShape());
    made.set_dtype(
        dtypeOf(RankedTensorType::get(matmul.getC().getShape(), matmul.getC().getElementType())));
    made.set_bias(matmul.getBias());
  }

  void write(plan::ConvolutionOp conv, proto::Op &op) {
    proto::Convolution &made = *op.mutable_convolution();
    made.set_kind(static_cast<proto::Convolution::Kind>(conv.getKind()));
    fill(made.mutable_x_shape(), conv.getX().getShape());
    fill(made.mutable_w_shape(), conv.getW().getShape());
    fill(made.mutable_y_shape(), conv.getY().getShape());
    fill(made.mutable_strides(), conv.getStrides());
    fill(made.mutable_pads_low(), conv.getPadsLow());
    fill(made.mutable_pads_high(), conv.getPadsHigh());
    fill(made.mutable_dilations(), conv.getDilations());
    made.set_groups(static_cast<int64_t>(conv.getGroups()));
    made.set_dtype(dtypeOf(conv.getX()));
    made.set_bias(conv.getBias());
  }

  void write(plan::DrawOp draw, proto::Op &op) {
    proto::Draw &made = *op.mutable_draw();
    made.set_distribution(static_cast<proto::Draw::Distribution>(draw.getDistribution()));
    made.set_stream(static_cast<uint32_t>(draw.getStream()));
    made.set_samples(static_cast<int64_t>(draw.getSamples()));
    made.set_elements(static_cast<int64_t>(draw.getElements()));
  }

  void write(plan::CopyOp, proto::Op &op) { op.mutable_copy(); }

  void writeStep(plan::StepOpInterface step, proto::Op &op) {
    for (Attribute buffer : step.getInputs())
      writeBuffer(cast<plan::BufferAttr>(buffer), *op.add_operands());
    for (Attribute buffer : step.getOutputs())
      writeBuffer(cast<plan::BufferAttr>(buffer), *op.add_results());
    for (Attribute buffer : step.getScratch())
      writeBuffer(cast<plan::BufferAttr>(buffer), *op.add_scratch());
    fill(op.mutable_operand_values(), step.getInputValues());
    fill(op.mutable_result_values(), step.getOutputValues());
    op.set_label(step.getLabel().str());
    op.set_location(step.getLocation().str());
    op.set_first_node(static_cast<int64_t>(step.getFirstNode()));
    op.set_node_count(static_cast<int64_t>(step.getNodeCount()));
    op.set_bytes_read(static_cast<int64_t>(step.getBytesRead()));
    op.set_bytes_written(static_cast<int64_t>(step.getBytesWritten()));
    op.set_flops(static_cast<int64_t>(step.getFlops()));
  }

  plan::ProgramOp program;
  PlanBlobs blobs;
  proto::Plan out;
  DenseMap<StringAttr, uint32_t> spaces;
  DenseMap<Attribute, uint32_t> slots;
};

} // namespace

Result<proto::Plan> toProto(plan::ProgramOp program, PlanBlobs blobs) {
  return ProtoWriter(program, std::move(blobs)).run();
}

Status verifyPlan(ModuleOp module, diffrun::ErrorCode code) {
  std::string reason;
  ScopedDiagnosticHandler collect(module.getContext(), [&](Diagnostic &diagnostic) {
    if (reason.empty()) {
      if (auto where = dyn_cast<NameLoc>(diagnostic.getLocation()))
        reason = where.getName().str() + ": ";
      reason += diagnostic.str();
    }
    return success();
  });
  if (failed(mlir::verify(module)))
    return Status::error(code, "the plan contradicts itself: " + reason);
  return {};
}

} // namespace diffc
