// What only the whole program can check: references, spaces, order.
#include "dialects/plan/IR/PlanDialect.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/StringSet.h>
#include <llvm/ADT/TypeSwitch.h>

using namespace mlir;

namespace diffc::plan {
namespace {

class ProgramVerifier {
public:
  explicit ProgramVerifier(ProgramOp program) : program(program) {}

  LogicalResult run() {
    if (failed(verifyParts()))
      return failure();
    for (auto slot : program.getOps<SlotOp>())
      if (failed(verifySlot(slot)))
        return failure();
    llvm::StringSet<> names;
    for (auto entry : program.getOps<EntryOp>()) {
      if (!names.insert(entry.getEntryName()).second)
        return entry.emitOpError() << "@" << entry.getEntryName() << " is there twice"; // P2
      if (failed(verifyEntry(entry)))
        return failure();
    }
    return success();
  }

private:
  /// P1, and the tables by name. MLIR has refused two symbols of one name.
  LogicalResult verifyParts() {
    llvm::StringMap<Operation *> single;
    for (Operation &op : program.getBody().front()) {
      if (!isa_and_nonnull<PlanDialect>(op.getDialect())) // P4
        return op.emitOpError("does not belong into a plan.program");
      if (isa<TargetOp, CodeOp, ObjectiveOp, WeightsOp, RecipeOp, DecisionsOp>(op) &&
          !single.try_emplace(op.getName().getStringRef(), &op).second)
        return op.emitOpError("is there twice");
      if (auto space = dyn_cast<SpaceOp>(op))
        spaces[space.getSymNameAttr()] = space;
      else if (auto kernel = dyn_cast<KernelOp>(op))
        kernels[kernel.getSymNameAttr()] = kernel;
    }
    if (!single.count(TargetOp::getOperationName()))
      return program.emitOpError("has no plan.target");
    if (!kernels.empty() && !single.count(CodeOp::getOperationName()))
      return kernels.begin()->second.emitOpError("is a symbol of code that is not there"); // K1
    return success();
  }

  /// S1, for any operation; its space, or nothing after a diagnostic.
  SpaceOp spaceOf(Operation *op, BufferAttr buffer) {
    SpaceOp space = spaces.lookup(buffer.getSpace().getAttr());
    if (!space) {
      op->emitOpError() << "names space " << buffer.getSpace() << ", which is not there";
      return {};
    }
    int64_t offset = buffer.getOffset(), bytes = buffer.getBytes();
    auto size = static_cast<int64_t>(space.getBytes());
    if (offset < 0 || bytes < 0 || offset > size || bytes > size - offset) {
      op->emitOpError() << "bytes [" << offset << " : " << bytes << "] are outside space "
                        << buffer.getSpace() << " of " << size << " bytes";
      return {};
    }
    if (offset % kAlignment) {
      op->emitOpError() << "offset " << offset << " in " << buffer.getSpace()
                        << " is no multiple of " << kAlignment;
      return {};
    }
    return space;
  }

  LogicalResult verifySlot(SlotOp slot) {
    if (!slots.try_emplace(slot.getSlot(), slot).second)
      return slot.emitOpError("is there twice"); // P2
    SpaceOp space = spaceOf(slot, slot.getBuffer());
    if (!space)
      return failure();
    if (space.getLifetime() != Lifetime::Program || space.getData()) // O2
      return slot.emitOpError() << "state cannot be kept in space @" << space.getSymName();
    return success();
  }

  LogicalResult verifyBuffer(Operation *op, EntryOp entry, BufferAttr buffer, bool written) {
    SpaceOp space = spaceOf(op, buffer);
    if (!space)
      return failure();
    if (space.getLifetime() == Lifetime::Entry &&
        buffer.getBytes() > static_cast<int64_t>(entry.getArenaBytes()) - buffer.getOffset())
      return op->emitOpError() << "bytes [" << buffer.getOffset() << " : " << buffer.getBytes()
                               << "] are outside the entry's share of " << entry.getArenaBytes()
                               << " bytes";
    if (written && space.getData()) // S4
      return op->emitOpError() << "writes to constants";
    return success();
  }

  LogicalResult verifyValue(Operation *op, EntryOp entry, int64_t value) {
    if (value < 0 || value >= static_cast<int64_t>(entry.getNumValues())) // S2
      return op->emitOpError() << "value " << value << " is not one of the program's "
                               << entry.getNumValues();
    return success();
  }

  LogicalResult verifyStep(StepOpInterface step, EntryOp entry) {
    auto places = [&](ArrayAttr buffers, bool written) {
      return llvm::all_of(buffers, [&](Attribute buffer) {
        return succeeded(verifyBuffer(step, entry, cast<BufferAttr>(buffer), written));
      });
    };
    auto known = [&](ArrayRef<int64_t> values) {
      return llvm::all_of(
          values, [&](int64_t value) { return succeeded(verifyValue(step, entry, value)); });
    };
    if (!places(step.getInputs(), false) || !places(step.getOutputs(), true) ||
        !places(step.getScratch(), true) || !known(step.getInputValues()) ||
        !known(step.getOutputValues()))
      return failure();
    auto first = static_cast<int64_t>(step.getFirstNode());
    auto count = static_cast<int64_t>(step.getNodeCount());
    auto nodes = static_cast<int64_t>(entry.getNumNodes());
    if (first < 0 || count < 0 || first > nodes || count > nodes - first) // S3
      return step->emitOpError() << "nodes [" << first << " : " << count
                                 << "] are not among the program's " << nodes;
    auto launch = dyn_cast<LaunchOp>(*step);
    if (!launch)
      return success();
    KernelOp kernel = kernels.lookup(launch.getKernelAttr().getAttr());
    if (!kernel) // L1
      return launch.emitOpError() << "names kernel " << launch.getKernelAttr()
                                  << ", which is not there";
    if (step.getInputs().size() != kernel.getNumInputs() ||
        step.getOutputs().size() != kernel.getNumOutputs()) // L2
      return launch.emitOpError() << "has " << step.getInputs().size() << " inputs and "
                                  << step.getOutputs().size() << " outputs, kernel "
                                  << launch.getKernelAttr() << " " << kernel.getNumInputs()
                                  << " and " << kernel.getNumOutputs();
    return success();
  }

  /// A read or commit: the slot is there, and named once.
  template <typename Use>
  LogicalResult verifyUse(Use use, EntryOp entry, llvm::DenseSet<Attribute> &used) {
    if (!slots.count(use.getSlot()))
      return use.emitOpError("names a slot that is not there");
    if (!used.insert(use.getSlot()).second) // E2
      return use.emitOpError("names a slot a second time");
    return verifyValue(use, entry, use.getValue());
  }

  /// What an entry's caller finds it by: a scalar by its name, data by its role.
  static std::string keyOf(OutputOp output) { return output.getName().str(); }
  static std::string keyOf(InputOp input) {
    return input.getScalar() ? "scalar " + input.getName().str()
                             : "role " + input.getRole().value_or("").str();
  }

  LogicalResult verifyEntry(EntryOp entry) {
    llvm::DenseSet<Attribute> read, committed;
    llvm::StringSet<> inputs, outputs;
    int phase = 0; // E1
    for (Operation &op : entry.getBody().front()) {
      int its = llvm::TypeSwitch<Operation *, int>(&op)
                    .Case<InputOp>([](auto) { return 0; })
                    .Case<ReadOp>([](auto) { return 1; })
                    .Case<StepOpInterface>([](auto) { return 2; })
                    .Case<OutputOp>([](auto) { return 3; })
                    .Case<CommitOp>([](auto) { return 4; })
                    .Default([](auto) { return -1; });
      if (its < 0)
        return op.emitOpError("does not belong into a plan.entry");
      if (its < phase)
        return op.emitOpError(
            "comes too late: inputs, reads, steps, outputs, commits in this order");
      phase = its;
      auto result =
          llvm::TypeSwitch<Operation *, LogicalResult>(&op)
              .Case<InputOp, OutputOp>([&](auto port) -> LogicalResult {
                auto &names = isa<InputOp>(port) ? inputs : outputs;
                if (!names.insert(keyOf(port)).second) // E3
                  return port.emitOpError() << "\"" << port.getName() << "\" is there twice";
                return success(
                    succeeded(verifyBuffer(port, entry, port.getBuffer(), isa<InputOp>(port))) &&
                    succeeded(verifyValue(port, entry, port.getValue())));
              })
              .Case<ReadOp>([&](auto use) { return verifyUse(use, entry, read); })
              .Case<CommitOp>([&](auto use) { return verifyUse(use, entry, committed); })
              .Default(
                  [&](Operation *step) { return verifyStep(cast<StepOpInterface>(step), entry); });
      if (failed(result))
        return failure();
    }
    return success();
  }

  ProgramOp program;
  llvm::DenseMap<StringAttr, SpaceOp> spaces;
  llvm::MapVector<StringAttr, KernelOp> kernels;
  llvm::DenseMap<Attribute, SlotOp> slots;
};

} // namespace

LogicalResult ProgramOp::verifyRegions() { return ProgramVerifier(*this).run(); }

} // namespace diffc::plan
