#include "compiler/planwriter/Lowering.h"

#include "compiler/codegen/KernelEmitter.h"
#include "compiler/codegen/PlantFault.h"
#include "compiler/planwriter/EntryLowering.h"
#include "compiler/planwriter/Translation.h"
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/Evaluation.h"
#include "dialects/train/IR/TrainDialect.h"
#include "runtime/core/Checksum.h"

#include <mlir/Dialect/Func/IR/FuncOps.h>
#include <mlir/Dialect/LLVMIR/LLVMDialect.h>
#include <mlir/Dialect/Math/IR/Math.h>
#include <mlir/Dialect/SCF/IR/SCF.h>
#include <mlir/Dialect/Vector/IR/VectorOps.h>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + plan::kAlignment - 1) / plan::kAlignment * plan::kAlignment;
}

/// Makes the program's operations in the order of the file: target, spaces,
/// slots, code, entries, and what explains them. Sizes of spaces are known last.
class ProgramLowering {
public:
  ProgramLowering(ModuleOp program, const Recipe &recipe, const CpuTarget &target,
                  int64_t plantFault)
      : program(program), recipe(recipe), target(target), plantFault(plantFault),
        kernels(ModuleOp::create(program.getLoc())), builder(program.getContext()) {
    program.getContext()
        ->loadDialect<func::FuncDialect, arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                      vector::VectorDialect, LLVM::LLVMDialect, plan::PlanDialect>();
  }

  Result<PlanParts> run(int64_t team, const std::string &name) {
    Location loc = program.getLoc();
    PlanParts parts;
    parts.module = ModuleOp::create(loc);
    builder.setInsertionPointToEnd(parts.module->getBody());
    auto made = builder.create<plan::ProgramOp>(loc, name, kPlanVersion, "diffc 0.1.0");
    Block &body = made.getBody().emplaceBlock();
    builder.setInsertionPointToEnd(&body);
    SmallVector<StringRef> features(target.features.begin(), target.features.end());
    builder.create<plan::TargetOp>(loc, target.level, builder.getStrArrayAttr(features), team);
    plan::SpaceOp stateSpace = makeSpace("state", plan::Lifetime::Program);
    plan::SpaceOp constantSpace = makeSpace("constants", plan::Lifetime::Program);
    plan::SpaceOp arenaSpace = makeSpace("arena", plan::Lifetime::Entry);
    stateSpace.setBytes(makeSlots());
    auto code = builder.create<plan::CodeOp>(loc, 0, 0);

    ProgramLayout layout;
    layout.state = FlatSymbolRefAttr::get(stateSpace.getSymNameAttr());
    layout.arena = FlatSymbolRefAttr::get(arenaSpace.getSymNameAttr());
    layout.slots = slots;
    layout.symbolOf = [&](nn::KernelOp kernel, const KernelInfo &info) {
      return symbolOf(kernel, info, code);
    };
    layout.constantAt = [&](DenseElementsAttr value) {
      return constantAt(value, FlatSymbolRefAttr::get(constantSpace.getSymNameAttr()));
    };
    int64_t arena = 0;
    for (auto entry : program.getOps<train::EntryOp>()) {
      auto out = builder.create<plan::EntryOp>(entry.getLoc(), entry.getSymName(), modelOf(entry),
                                               0, 0, 0, 0);
      DIFFRUN_RETURN_IF_ERROR(
          lowerEntry(entry, layout, out, parts.blobs.programs[entry.getSymName().str()]));
      arena = std::max<int64_t>(arena, out.getArenaBytes());
    }
    arenaSpace.setBytes(arena);
    constantSpace.setBytes(constants.size());
    if (!constants.empty())
      constantSpace.setData(diffrun::crc32c(constants.data(), constants.size()));
    parts.blobs.data["constants"] = std::move(constants);

    if (plantFault >= 0)
      DIFFRUN_RETURN_IF_ERROR(changeConstant(*kernels, plantFault));
    DIFFRUN_ASSIGN(parts.blobs.code, compileToSharedObject(*kernels, target));
    code.setBytes(parts.blobs.code.size());
    code.setChecksum(diffrun::crc32c(parts.blobs.code.data(), parts.blobs.code.size()));
    describe(layout);
    DIFFRUN_RETURN_IF_ERROR(verifyPlan(*parts.module, diffrun::ErrorCode::kInternal));
    return std::move(parts);
  }

private:
  /// The model that an entry is about, as the recipe says.
  std::string modelOf(train::EntryOp entry) const {
    auto found = recipe.entries.find(entry.getSymName().str());
    return found == recipe.entries.end() ? recipe.trained().name : found->second.model;
  }

  plan::SpaceOp makeSpace(StringRef name, plan::Lifetime lifetime) {
    return builder.create<plan::SpaceOp>(program.getLoc(), name, lifetime, 0, IntegerAttr());
  }

  /// Every slot that an entry reads or commits: parameters in the model's
  /// order, then counters. Returns the bytes of all.
  int64_t makeSlots() {
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
      auto buffer = plan::BufferAttr::get(builder.getContext(),
                                          FlatSymbolRefAttr::get(builder.getContext(), "state"),
                                          offset, nn::byteSize(type));
      auto moment =
          train::SlotAttr::get(builder.getContext(), slot.getModel(), slot.getParameter(), "m");
      builder.create<plan::SlotOp>(program.getLoc(), planSlot(slot), buffer,
                                   cast<RankedTensorType>(type), used.count(moment) != 0);
      slots[slot] = buffer;
      offset += aligned(buffer.getBytes());
    }
    return offset;
  }

  std::string symbolOf(nn::KernelOp kernel, const KernelInfo &info, plan::CodeOp code) {
    auto [known, isNew] =
        symbols.try_emplace(kernelSignature(kernel), "k" + std::to_string(symbols.size()));
    if (isNew) {
      emitKernel(*kernels, kernel, info, known->second);
      OpBuilder::InsertionGuard guard(builder);
      builder.setInsertionPointAfter(lastKernel ? lastKernel : code.getOperation());
      lastKernel = builder.create<plan::KernelOp>(
          program.getLoc(), known->second, kernel->getNumOperands(), kernel->getNumResults());
    }
    return known->second;
  }

  /// A place in the constants' space; equal constants share it.
  plan::BufferAttr constantAt(DenseElementsAttr value, FlatSymbolRefAttr space) {
    auto [known, isNew] = constantPlaces.try_emplace(value, constants.size());
    int64_t bytes = nn::byteSize(value.getType());
    if (isNew) {
      auto tensor = nn::toTensor(value);
      std::string data(bytes, '\0');
      diffrun::evaluate::toBytes(*tensor, data.data());
      constants += data;
      constants.resize(aligned(static_cast<int64_t>(constants.size())), '\0');
    }
    return plan::BufferAttr::get(builder.getContext(), space, known->second, bytes);
  }

  void describe(const ProgramLayout &layout) {
    Location loc = program.getLoc();
    const ObjectiveRecipe &o = recipe.objective;
    bool scaled = o.schedule.kind == "scaled_linear";
    double start = o.schedule.betaStart < 0 ? (scaled ? 0.00085 : 1e-4) : o.schedule.betaStart;
    double end = o.schedule.betaEnd < 0 ? (scaled ? 0.012 : 2e-2) : o.schedule.betaEnd;
    builder.create<plan::ObjectiveOp>(loc, o.kind, o.predict, o.schedule.kind, o.schedule.steps,
                                      llvm::APFloat(start), llvm::APFloat(end), o.nullLabel,
                                      /*classes=*/0, recipe.accumulate);
    for (const Remark &remark : layout.remarks)
      builder.create<plan::RemarkOp>(loc, remark.kind, remark.location, remark.text);
    builder.create<plan::RecipeOp>(loc, recipe.text);
  }

  ModuleOp program;
  const Recipe &recipe;
  const CpuTarget &target;
  int64_t plantFault;
  OwningOpRef<ModuleOp> kernels; ///< their code
  OpBuilder builder;             ///< at the end of the plan's program
  DenseMap<Attribute, plan::BufferAttr> slots;
  std::map<std::string, std::string> symbols; ///< by signature
  Operation *lastKernel = nullptr;
  DenseMap<Attribute, size_t> constantPlaces;
  std::string constants;
};

} // namespace

Result<PlanParts> lowerToPlan(ModuleOp program, const Recipe &recipe, const CpuTarget &target,
                              int64_t team, const std::string &name, int64_t plantFault) {
  return ProgramLowering(program, recipe, target, plantFault).run(team, name);
}

} // namespace diffc
