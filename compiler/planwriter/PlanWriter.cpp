#include "compiler/planwriter/PlanWriter.h"

#include "compiler/codegen/KernelEmitter.h"
#include "compiler/planwriter/EntryLowering.h"
#include "dialects/nn/IR/Builders.h"
#include "dialects/train/IR/TrainDialect.h"
#include "runtime/checkpoint/AtomicFile.h"
#include "runtime/plan/Seal.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;
namespace proto = diffrun::proto;

namespace diffc {
namespace {

int64_t aligned(int64_t bytes) { return (bytes + 63) / 64 * 64; }

class PlanBuilder {
public:
  PlanBuilder(ModuleOp program, const Recipe &recipe, const CpuTarget &target)
      : program(program), recipe(recipe), target(target),
        kernels(ModuleOp::create(program.getLoc())) {
    program.getContext()
        ->loadDialect<func::FuncDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                      vector::VectorDialect, LLVM::LLVMDialect>();
  }

  Result<proto::Plan> build(int64_t team, const std::string &name) {
    plan.set_version(kPlanVersion);
    plan.set_name(name);
    plan.set_compiler("diffc 0.1.0");
    plan.mutable_target()->set_level(target.level);
    for (const std::string &feature : target.features)
      plan.mutable_target()->add_features(feature);
    plan.mutable_target()->set_team(static_cast<int32_t>(team));
    for (auto [spaceName, lifetime] :
         {std::pair("state", proto::Space::PROGRAM), std::pair("constants", proto::Space::PROGRAM),
          std::pair("arena", proto::Space::ENTRY)}) {
      proto::Space &space = *plan.add_spaces();
      space.set_name(spaceName);
      space.set_lifetime(lifetime);
    }
    makeSlots();

    ProgramLayout layout;
    layout.plan = &plan;
    layout.slots = slots;
    layout.symbolOf = [this](nn::KernelOp kernel, const KernelInfo &info) {
      return symbolOf(kernel, info);
    };
    layout.constantAt = [this](DenseElementsAttr value) { return constantAt(value); };
    int64_t arena = 0;
    for (auto entry : program.getOps<train::EntryOp>()) {
      proto::Entry &out = *plan.add_entries();
      out.set_model(modelOf(entry));
      DIFFRUN_RETURN_IF_ERROR(lowerEntry(entry, layout, out));
      arena = std::max(arena, out.arena_bytes());
    }
    proto::Space &constantSpace = *plan.mutable_spaces(ProgramLayout::kConstants);
    constantSpace.set_bytes(static_cast<int64_t>(constants.size()));
    constantSpace.set_data(constants);
    plan.mutable_spaces(ProgramLayout::kArena)->set_bytes(arena);

    DIFFRUN_ASSIGN(*plan.mutable_code(), compileToSharedObject(*kernels, target));
    describeRecipe();
    return std::move(plan);
  }

private:
  /// The model that an entry is about, as the recipe says.
  std::string modelOf(train::EntryOp entry) const {
    auto found = recipe.entries.find(entry.getSymName().str());
    return found == recipe.entries.end() ? recipe.trained().name : found->second.model;
  }

  /// Every slot that an entry reads or commits: parameters in the model's
  /// order, then counters.
  void makeSlots() {
    llvm::MapVector<Attribute, Type> used;
    for (auto entry : program.getOps<train::EntryOp>()) {
      entry.walk([&](train::ReadOp read) { used.insert({read.getSlot(), read.getType()}); });
      auto commit = cast<train::CommitOp>(entry.getBody().front().getTerminator());
      for (auto [slot, state] : llvm::zip(commit.getSlots(), commit.getStates()))
        used.insert({slot, state.getType()});
    }
    std::map<std::pair<std::string, std::string>, size_t> order;
    for (auto model : program.getOps<train::ModelOp>())
      for (auto parameter : model.getOps<train::ParameterOp>())
        order.emplace(std::pair(model.getSymName().str(), parameter.getSymName().str()),
                      order.size());
    SmallVector<std::pair<train::SlotAttr, Type>> sorted;
    for (auto &[slot, type] : used)
      sorted.emplace_back(cast<train::SlotAttr>(slot), type);
    auto rank = [&](train::SlotAttr slot) {
      auto at = order.find({slot.getModel().str(), slot.getParameter().str()});
      return at == order.end() ? order.size() : at->second;
    };
    llvm::stable_sort(sorted, [&](auto &a, auto &b) { return rank(a.first) < rank(b.first); });
    int64_t offset = 0;
    for (auto &[slot, type] : sorted) {
      proto::Slot &made = *plan.add_slots();
      made.set_model(slot.getModel().str());
      made.set_parameter(slot.getParameter().str());
      made.set_role(slot.getRole().str());
      *made.mutable_type() = protoType(type);
      made.mutable_buffer()->set_space(ProgramLayout::kState);
      made.mutable_buffer()->set_offset(offset);
      made.mutable_buffer()->set_bytes(nn::byteSize(type));
      offset += aligned(nn::byteSize(type));
      slots[ProgramLayout::slotKey(slot)] = static_cast<uint32_t>(plan.slots_size()) - 1;
    }
    for (proto::Slot &slot : *plan.mutable_slots()) {
      std::string moment = slot.model() + "\n" + slot.parameter() + "\nm";
      slot.set_trainable(slots.count(moment) != 0);
    }
    plan.mutable_spaces(ProgramLayout::kState)->set_bytes(offset);
  }

  std::string symbolOf(nn::KernelOp kernel, const KernelInfo &info) {
    auto [known, isNew] =
        symbols.try_emplace(kernelSignature(kernel), "k" + std::to_string(symbols.size()));
    if (isNew)
      emitKernel(*kernels, kernel, info, known->second);
    return known->second;
  }

  proto::Buffer constantAt(DenseElementsAttr value) {
    auto [known, isNew] = constantPlaces.try_emplace(value, constants.size());
    int64_t bytes = nn::byteSize(value.getType());
    if (isNew) {
      auto tensor = nn::toTensor(value);
      std::string data(bytes, '\0');
      diffrun::evaluate::toBytes(*tensor, data.data());
      constants += data;
      constants.resize(aligned(static_cast<int64_t>(constants.size())), '\0');
    }
    proto::Buffer buffer;
    buffer.set_space(ProgramLayout::kConstants);
    buffer.set_offset(known->second);
    buffer.set_bytes(bytes);
    return buffer;
  }

  void describeRecipe() {
    const ObjectiveRecipe &o = recipe.objective;
    plan.set_recipe(recipe.text);
    proto::Objective &out = *plan.mutable_objective();
    out.set_kind(o.kind);
    out.set_accumulate(recipe.accumulate);
    out.set_predict(o.predict);
    out.set_schedule(o.schedule.kind);
    out.set_steps(o.schedule.steps);
    bool scaled = o.schedule.kind == "scaled_linear";
    out.set_beta_start(o.schedule.betaStart < 0 ? (scaled ? 0.00085 : 1e-4) : o.schedule.betaStart);
    out.set_beta_end(o.schedule.betaEnd < 0 ? (scaled ? 0.012 : 2e-2) : o.schedule.betaEnd);
    out.set_null_label(o.nullLabel);
  }

  ModuleOp program;
  const Recipe &recipe;
  const CpuTarget &target;
  OwningOpRef<ModuleOp> kernels;
  proto::Plan plan;
  std::map<std::string, uint32_t> slots;
  std::map<std::string, std::string> symbols; ///< by signature
  DenseMap<Attribute, size_t> constantPlaces;
  std::string constants;
};

} // namespace

Result<proto::Plan> makePlan(ModuleOp program, const Recipe &recipe, const CpuTarget &target,
                             int64_t team, const std::string &name) {
  return PlanBuilder(program, recipe, target).build(team, name);
}

Status writePlan(const proto::Plan &plan, const std::string &path) {
  // Maps (a node's attributes) in the order of their keys: the same plan is the
  // same file.
  std::string bytes;
  bool written = false;
  {
    google::protobuf::io::StringOutputStream stream(&bytes);
    google::protobuf::io::CodedOutputStream coded(&stream);
    coded.SetSerializationDeterministic(true);
    written = plan.SerializeToCodedStream(&coded);
  }
  if (!written)
    return Status::internal("the plan cannot be serialised (over 2 GiB?)");
  diffrun::sealPlan(bytes);
  return diffrun::writeFileAtomically(path, bytes);
}

} // namespace diffc
