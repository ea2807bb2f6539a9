#include "compiler/planwriter/EntryLowering.h"

#include "compiler/planwriter/Calls.h"
#include "compiler/planwriter/ProgramProto.h"
#include "dialects/nn/IR/Builders.h"
#include "dialects/nn/IR/Evaluation.h"
#include "passes/memory/OffsetPlanner.h"

using namespace mlir;
using diffrun::Result;
using diffrun::Status;
namespace proto = diffrun::proto;

namespace diffc {
namespace {

std::string locationText(Location loc) {
  std::string text;
  auto note = [&](Location part) {
    if (auto name = dyn_cast<NameLoc>(part)) {
      std::string word = name.getName().str();
      if (text.find(word) == std::string::npos && text.size() < 200)
        text += (text.empty() ? "" : ", ") + word;
    }
  };
  loc->walk([&](Location part) {
    note(part);
    return WalkResult::advance();
  });
  return text;
}

class EntryLowering {
public:
  EntryLowering(train::EntryOp entry, ProgramLayout &layout, plan::EntryOp out,
                proto::Program &program)
      : entry(entry), block(entry.getBody().front()), layout(layout), out(out), program(program),
        builder(OpBuilder::atBlockEnd(&out.getBody().emplaceBlock())) {}

  Status run() {
    for (Operation &op : block)
      if (isa<nn::KernelOp, nn::CallOp>(op))
        position[&op] = static_cast<int64_t>(position.size());
    last = static_cast<int64_t>(position.size());
    DIFFRUN_RETURN_IF_ERROR(analyze());
    DIFFRUN_RETURN_IF_ERROR(makeStorages());
    placeArena();
    DIFFRUN_RETURN_IF_ERROR(makeInputs());
    DIFFRUN_RETURN_IF_ERROR(makeSteps());
    DIFFRUN_RETURN_IF_ERROR(makeCommit());
    out.setNumValues(graph.graph().values.size());
    out.setNumNodes(graph.graph().nodes.size());
    writeProgram(graph.graph(), program);
    return {};
  }

private:
  /// Where a value's bytes are: a fixed place, or one in the arena to be found.
  struct Storage {
    bool fixed = false;
    plan::BufferAttr buffer; ///< of fixed ones at once, of the others once they are placed
    Lifetime life;           ///< of the others
  };

  Status analyze() {
    for (Operation &each : block)
      if (auto kernel = dyn_cast<nn::KernelOp>(each)) {
        Operation *op = &each;
        std::string reason;
        auto info = analyzeKernel(kernel, reason);
        if (failed(info)) {
          std::string text;
          llvm::raw_string_ostream(text) << *op;
          return Status::internal("kernel " + kernel.getLabel().str() + " (" +
                                  locationText(op->getLoc()) + "): " + reason + "\n" + text);
        }
        infos[op] = *info;
      }
    return {};
  }

  /// The step of the last operation that reads a value or a view of it; `last`
  /// if the commit does.
  int64_t lastUse(Value value) {
    int64_t use = -1;
    for (Operation *user : value.getUsers()) {
      if (auto view = dyn_cast<nn::ReshapeOp>(user))
        use = std::max(use, lastUse(view.getResult()));
      else if (position.count(user))
        use = std::max(use, position[user]);
      else
        use = last;
    }
    return use;
  }

  train::CommitOp commit() { return cast<train::CommitOp>(block.getTerminator()); }

  int64_t newStorage(Value value, int64_t begin, int64_t end) {
    Storage storage;
    storage.life = {begin, end, nn::byteSize(value.getType())};
    storages.push_back(storage);
    return static_cast<int64_t>(storages.size()) - 1;
  }
  int64_t fixedStorage(plan::BufferAttr buffer) {
    Storage storage;
    storage.fixed = true;
    storage.buffer = buffer;
    storages.push_back(storage);
    return static_cast<int64_t>(storages.size()) - 1;
  }
  plan::BufferAttr slotBuffer(train::SlotAttr slot) { return layout.slots.lookup(slot); }

  Status makeStorages() {
    for (auto [slot, state] : llvm::zip(commit().getSlots(), commit().getStates()))
      committedTo[nn::viewedValue(state)].push_back(cast<train::SlotAttr>(slot));
    for (auto read : block.getOps<train::ReadOp>())
      readsOf[read.getSlot()].push_back(read);
    for (BlockArgument argument : block.getArguments())
      storageOf[argument] = newStorage(argument, -1, std::max<int64_t>(lastUse(argument), 0));
    for (Operation &op : block) {
      if (auto read = dyn_cast<train::ReadOp>(op))
        storageOf[read.getResult()] = fixedStorage(slotBuffer(read.getSlot()));
      else if (auto constant = dyn_cast<nn::ConstantOp>(op)) {
        auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
        if (!dense)
          return Status::internal("a constant without dense elements");
        storageOf[constant.getResult()] = fixedStorage(layout.constantAt(dense));
      } else if (position.count(&op)) {
        placeResults(&op);
      } else if (!isa<nn::ReshapeOp, train::CommitOp>(op)) {
        return Status::internal("operator " + op.getName().getStringRef().str() +
                                " is left outside kernels");
      }
    }
    return {};
  }

  void placeResults(Operation *op) {
    for (auto [i, result] : llvm::enumerate(op->getResults())) {
      if (std::optional<int64_t> slot = slotInPlace(op, i)) {
        storageOf[result] = *slot;
        continue;
      }
      if (std::optional<int64_t> shared = arenaInPlace(op, i)) {
        storageOf[result] = *shared;
        Lifetime &life = storages[*shared].life;
        life.end = std::max(life.end, std::max(lastUse(result), position[op]));
        continue;
      }
      // A result that nothing reads still takes room while it is written.
      storageOf[result] = newStorage(result, position[op], std::max(lastUse(result), position[op]));
    }
  }

  bool mayShare(Operation *op, int64_t result, int64_t operand) {
    auto info = infos.find(op);
    return info != infos.end() &&
           llvm::is_contained(info->second.inPlace, std::pair<int64_t, int64_t>(result, operand));
  }

  /// The slot that a result is committed to, where it can be written at once:
  /// every reader of the old value is done, or is this kernel at the very
  /// elements that it writes.
  std::optional<int64_t> slotInPlace(Operation *op, int64_t index) {
    for (train::SlotAttr slot : committedTo.lookup(op->getResult(index))) {
      if (written.count(slot))
        continue;
      bool free = true;
      for (train::ReadOp read : readsOf.lookup(slot)) {
        int64_t use = lastUse(read.getResult());
        if (use > position[op])
          free = false;
        if (use == position[op])
          for (auto [k, operand] : llvm::enumerate(op->getOperands()))
            if (nn::viewedValue(operand) == read.getResult())
              free &= mayShare(op, index, k);
      }
      if (!free)
        continue;
      written.insert(slot);
      return fixedStorage(slotBuffer(slot));
    }
    return std::nullopt;
  }

  /// An operand's place in the arena that the result can take over.
  std::optional<int64_t> arenaInPlace(Operation *op, int64_t index) {
    for (auto [k, operand] : llvm::enumerate(op->getOperands())) {
      if (!mayShare(op, index, k))
        continue;
      Value root = nn::viewedValue(operand);
      int64_t storage = storageOf.lookup(root);
      if (isa<BlockArgument>(root) || storages[storage].fixed || lastUse(root) != position[op] ||
          storages[storage].life.end != position[op] || takenBy.count({op, storage}))
        continue;
      // Every operand that is the same memory, by whatever view, must be read
      // at the very elements that are written.
      bool free = true;
      for (auto [other, also] : llvm::enumerate(op->getOperands()))
        if (storageOf.lookup(nn::viewedValue(also)) == storage)
          free &= nn::viewedValue(also) == root && mayShare(op, index, other);
      if (!free)
        continue;
      takenBy.insert({op, storage});
      return storage;
    }
    return std::nullopt;
  }

  void placeArena() {
    std::vector<Lifetime> lives;
    std::vector<size_t> which;
    for (size_t i = 0; i < storages.size(); ++i)
      if (!storages[i].fixed) {
        lives.push_back(storages[i].life);
        which.push_back(i);
      }
    Placement placement = LargestFirstPlanner().place(lives, plan::kAlignment);
    for (size_t k = 0; k < which.size(); ++k)
      storages[which[k]].buffer = plan::BufferAttr::get(builder.getContext(), layout.arena,
                                                        placement.offsets[k], lives[k].bytes);
    out.setArenaBytes(placement.bytes);
  }

  plan::BufferAttr bufferOf(Value value) {
    plan::BufferAttr buffer = storages[storageOf.lookup(nn::viewedValue(value))].buffer;
    return plan::BufferAttr::get(builder.getContext(), buffer.getSpace(), buffer.getOffset(),
                                 nn::byteSize(value.getType()));
  }

  Result<int64_t> number(Value value) { return graph.number(value); }

  Status makeInputs() {
    for (unsigned i = 0; i < block.getNumArguments(); ++i) {
      Value argument = block.getArgument(i);
      DIFFRUN_ASSIGN(int64_t id, number(argument));
      StringAttr name, role;
      FloatAttr initial;
      if (auto scalar = entry.getArgAttrOfType<StringAttr>(i, train::kScalarAttr)) {
        name = scalar;
        auto given = entry.getArgAttrOfType<FloatAttr>(i, train::kInitialAttr);
        initial = builder.getF64FloatAttr(given.getValueAsDouble());
      } else {
        name = role = entry.getArgAttrOfType<StringAttr>(i, train::kRoleAttr);
        if (auto graphInput = entry.getArgAttrOfType<StringAttr>(i, train::kInputAttr))
          name = graphInput;
        if (StringRef word = role.getValue();
            word == "sample_weight" || word == "clean" || word == "noisy")
          out.setBatch(nn::tensorType(argument).getDimSize(0));
      }
      builder.create<plan::InputOp>(argument.getLoc(), name, role, initial,
                                    builder.getI64IntegerAttr(id), bufferOf(argument),
                                    TypeAttr::get(argument.getType()));
    }
    for (Operation &op : block)
      if (auto read = dyn_cast<train::ReadOp>(op)) {
        DIFFRUN_ASSIGN(int64_t id, number(read.getResult()));
        builder.create<plan::ReadOp>(op.getLoc(), planSlot(read.getSlot()), id);
      }
    return {};
  }

  Status makeSteps() {
    for (Operation &op : block) {
      if (isa<train::ReadOp, train::CommitOp>(op))
        continue;
      int64_t first = static_cast<int64_t>(graph.graph().nodes.size());
      DIFFRUN_RETURN_IF_ERROR(graph.append(&op));
      if (!position.count(&op))
        continue;
      plan::StepParts step;
      step.firstNode = first;
      step.nodeCount = static_cast<int64_t>(graph.graph().nodes.size()) - first;
      step.location = locationText(op.getLoc());
      for (Value operand : op.getOperands()) {
        step.inputs.push_back(bufferOf(operand));
        DIFFRUN_ASSIGN(int64_t id, number(operand));
        step.inputValues.push_back(id);
      }
      for (Value result : op.getResults()) {
        step.outputs.push_back(bufferOf(result));
        DIFFRUN_ASSIGN(int64_t id, number(result));
        step.outputValues.push_back(id);
      }
      if (auto kernel = dyn_cast<nn::KernelOp>(op)) {
        const KernelInfo &info = infos[&op];
        step.label = kernel.getLabel().str();
        step.bytesRead = info.bytesRead;
        step.bytesWritten = info.bytesWritten;
        step.flops = info.flops;
        auto symbol = FlatSymbolRefAttr::get(builder.getContext(), layout.symbolOf(kernel, info));
        plan::createStep<plan::LaunchOp>(
            builder, step,
            {builder.getNamedAttr("kernel", symbol),
             builder.getNamedAttr("chunks", builder.getI64IntegerAttr(info.chunks))});
      } else {
        auto call = cast<nn::CallOp>(op);
        step.label = call.getLabel().str();
        step.bytesRead = nn::totalBytes(op.getOperandTypes());
        step.bytesWritten = nn::totalBytes(op.getResultTypes());
        DIFFRUN_RETURN_IF_ERROR(lowerCall(call, step, builder));
      }
      if (auto why = op.getAttrOfType<StringAttr>("nn.unfused"))
        layout.remarks.push_back(
            {"not fused", entry.getSymName().str() + ": " + step.label + " (" + step.location + ")",
             why.str()});
    }
    return {};
  }

  static bool sameRange(plan::BufferAttr a, plan::BufferAttr b) {
    return a.getSpace() == b.getSpace() && a.getOffset() == b.getOffset();
  }

  /// Outputs where their values are; states that were not written in place are
  /// copied, after everything else.
  Status makeCommit() {
    SmallVector<int64_t> outputs;
    for (Value value : commit().getOutputs()) {
      DIFFRUN_ASSIGN(int64_t id, number(value));
      outputs.push_back(id);
    }
    SmallVector<int64_t> states;
    for (auto [slot, state] : llvm::zip(commit().getSlots(), commit().getStates())) {
      DIFFRUN_ASSIGN(int64_t id, number(state));
      states.push_back(id);
      DIFFRUN_RETURN_IF_ERROR(copyToSlot(cast<train::SlotAttr>(slot), state, id));
    }
    for (auto [name, value, id] : llvm::zip(commit().getNames(), commit().getOutputs(), outputs))
      builder.create<plan::OutputOp>(value.getLoc(), cast<StringAttr>(name).getValue(), id,
                                     bufferOf(value), nn::tensorType(value));
    for (auto [slot, id] : llvm::zip(commit().getSlots(), states))
      builder.create<plan::CommitOp>(commit().getLoc(), planSlot(cast<train::SlotAttr>(slot)), id);
    return {};
  }

  /// The copy of a new state into its slot, unless it is there already.
  Status copyToSlot(train::SlotAttr slot, Value state, int64_t id) {
    plan::BufferAttr from = bufferOf(state), to = slotBuffer(slot);
    if (sameRange(from, to))
      return {};
    if (from.getSpace() == layout.state)
      for (Attribute other : commit().getSlots())
        if (sameRange(slotBuffer(cast<train::SlotAttr>(other)), from) && !written.count(slot) &&
            !holdsNewValue(cast<train::SlotAttr>(other)))
          return Status::internal("state " + slot.getParameter().str() +
                                  " is copied from state that changes in the same entry");
    plan::StepParts copy;
    copy.label = "copy";
    copy.location = slot.getParameter().str() + "/" + slot.getRole().str();
    copy.inputs = {from};
    copy.outputs = {to};
    copy.inputValues = copy.outputValues = {id};
    copy.bytesRead = from.getBytes();
    copy.bytesWritten = to.getBytes();
    plan::createStep<plan::CopyOp>(builder, copy);
    return {};
  }

  /// Whether an earlier operation, not a copy at the end, gives a slot its new
  /// value: then what is read from it is that new value already.
  bool holdsNewValue(train::SlotAttr slot) { return written.count(slot) != 0; }

  train::EntryOp entry;
  Block &block;
  ProgramLayout &layout;
  plan::EntryOp out;
  proto::Program &program;
  OpBuilder builder;                       ///< at the end of `out`
  DenseMap<Operation *, int64_t> position; ///< step of each kernel and call
  int64_t last = 0;                        ///< the commit's step
  DenseMap<Operation *, KernelInfo> infos;
  std::vector<Storage> storages;
  DenseMap<Value, int64_t> storageOf;                        ///< by root value
  DenseMap<Value, SmallVector<train::SlotAttr>> committedTo; ///< by the value, not a view of it
  DenseMap<Attribute, SmallVector<train::ReadOp>> readsOf;   ///< by slot
  DenseSet<Attribute> written;                               ///< slots that an operation writes
  std::set<std::pair<Operation *, int64_t>> takenBy;
  nn::EvaluationGraph graph;
};

} // namespace

Status lowerEntry(train::EntryOp entry, ProgramLayout &layout, plan::EntryOp out,
                  proto::Program &program) {
  return EntryLowering(entry, layout, out, program)
      .run()
      .withContext("entry " + entry.getSymName().str());
}

plan::SlotNameAttr planSlot(train::SlotAttr slot) {
  return plan::SlotNameAttr::get(slot.getContext(), slot.getModel(), slot.getParameter(),
                                 slot.getRole());
}

} // namespace diffc
