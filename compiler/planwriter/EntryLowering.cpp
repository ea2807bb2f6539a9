#include "compiler/planwriter/EntryLowering.h"

#include "compiler/planwriter/Calls.h"
#include "compiler/planwriter/ProgramProto.h"
#include "dialects/nn/IR/Builders.h"
#include "passes/memory/OffsetPlanner.h"

using namespace mlir;
using diffrun::Result;
using diffrun::Status;
namespace proto = diffrun::proto;

namespace diffc {
namespace {

constexpr int64_t kAlignment = 64;

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
  EntryLowering(train::EntryOp entry, ProgramLayout &layout, proto::Entry &out)
      : entry(entry), block(entry.getBody().front()), layout(layout), out(out) {}

  Status run() {
    out.set_name(entry.getSymName().str());
    for (Operation &op : block)
      if (isa<nn::KernelOp, nn::CallOp>(op))
        position[&op] = static_cast<int64_t>(position.size());
    last = static_cast<int64_t>(position.size());
    DIFFRUN_RETURN_IF_ERROR(analyze());
    DIFFRUN_RETURN_IF_ERROR(makeStorages());
    placeArena();
    DIFFRUN_RETURN_IF_ERROR(writeInputs());
    DIFFRUN_RETURN_IF_ERROR(writeOps());
    DIFFRUN_RETURN_IF_ERROR(writeCommit());
    writeProgram(graph.graph(), *out.mutable_program());
    return {};
  }

private:
  /// Where a value's bytes are: a fixed place, or one in the arena to be found.
  struct Storage {
    bool fixed = false;
    proto::Buffer buffer; ///< of fixed ones
    Lifetime life;        ///< of the others
  };

  static Value rootOf(Value value) {
    while (auto view = value.getDefiningOp<nn::ReshapeOp>())
      value = view.getInput();
    return value;
  }

  Status analyze() {
    for (auto &[op, at] : position)
      if (auto kernel = dyn_cast<nn::KernelOp>(op)) {
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
  int64_t fixedStorage(const proto::Buffer &buffer) {
    Storage storage;
    storage.fixed = true;
    storage.buffer = buffer;
    storages.push_back(storage);
    return static_cast<int64_t>(storages.size()) - 1;
  }
  const proto::Buffer &slotBuffer(train::SlotAttr slot) {
    return layout.plan->slots(static_cast<int>(layout.slots.at(ProgramLayout::slotKey(slot))))
        .buffer();
  }

  Status makeStorages() {
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
    Value result = op->getResult(index);
    for (auto [slotAttr, state] : llvm::zip(commit().getSlots(), commit().getStates())) {
      auto slot = cast<train::SlotAttr>(slotAttr);
      if (rootOf(state) != result || written.count(slot))
        continue;
      bool free = true;
      for (Operation &other : block) {
        auto read = dyn_cast<train::ReadOp>(other);
        if (!read || read.getSlot() != slot)
          continue;
        int64_t use = lastUse(read.getResult());
        if (use > position[op])
          free = false;
        if (use == position[op])
          for (auto [k, operand] : llvm::enumerate(op->getOperands()))
            if (rootOf(operand) == read.getResult())
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
      Value root = rootOf(operand);
      int64_t storage = storageOf.lookup(root);
      if (isa<BlockArgument>(root) || storages[storage].fixed || lastUse(root) != position[op] ||
          storages[storage].life.end != position[op] || takenBy.count({op, storage}))
        continue;
      // Only once per operation, and only if no other operand is the same memory.
      int64_t same = llvm::count_if(op->getOperands(), [&](Value other) {
        return storageOf.lookup(rootOf(other)) == storage && rootOf(other) != root;
      });
      if (same)
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
    Placement placement = LargestFirstPlanner().place(lives, kAlignment);
    for (size_t k = 0; k < which.size(); ++k) {
      proto::Buffer &buffer = storages[which[k]].buffer;
      buffer.set_space(ProgramLayout::kArena);
      buffer.set_offset(placement.offsets[k]);
      buffer.set_bytes(lives[k].bytes);
    }
    out.set_arena_bytes(placement.bytes);
  }

  proto::Buffer bufferOf(Value value) {
    proto::Buffer buffer = storages[storageOf.lookup(rootOf(value))].buffer;
    buffer.set_bytes(nn::byteSize(value.getType()));
    return buffer;
  }

  Result<int64_t> number(Value value) { return graph.number(value); }

  Status writeInputs() {
    for (unsigned i = 0; i < block.getNumArguments(); ++i) {
      Value argument = block.getArgument(i);
      proto::Input &input = *out.add_inputs();
      if (auto scalar = entry.getArgAttrOfType<StringAttr>(i, train::kScalarAttr)) {
        input.set_name(scalar.str());
        input.set_scalar(true);
        input.set_initial(
            entry.getArgAttrOfType<FloatAttr>(i, train::kInitialAttr).getValueAsDouble());
      } else {
        std::string role = entry.getArgAttrOfType<StringAttr>(i, train::kRoleAttr).str();
        input.set_name(role);
        input.set_role(role);
        if (role == "sample_weight" || role == "clean" || role == "noisy")
          out.set_batch(nn::tensorType(argument).getDimSize(0));
      }
      *input.mutable_type() = protoType(argument.getType());
      *input.mutable_buffer() = bufferOf(argument);
      DIFFRUN_ASSIGN(int64_t id, number(argument));
      out.add_input_values(id);
    }
    for (Operation &op : block)
      if (auto read = dyn_cast<train::ReadOp>(op)) {
        proto::SlotUse &use = *out.add_reads();
        use.set_slot(layout.slots.at(ProgramLayout::slotKey(read.getSlot())));
        DIFFRUN_ASSIGN(int64_t id, number(read.getResult()));
        use.set_value(id);
      }
    return {};
  }

  Status writeOps() {
    for (Operation &op : block) {
      if (isa<train::ReadOp, train::CommitOp>(op))
        continue;
      int64_t first = static_cast<int64_t>(graph.graph().nodes.size());
      DIFFRUN_RETURN_IF_ERROR(graph.append(&op));
      if (!position.count(&op))
        continue;
      proto::Op &step = *out.add_ops();
      step.set_first_node(first);
      step.set_node_count(static_cast<int64_t>(graph.graph().nodes.size()) - first);
      step.set_location(locationText(op.getLoc()));
      for (Value operand : op.getOperands()) {
        *step.add_operands() = bufferOf(operand);
        DIFFRUN_ASSIGN(int64_t id, number(operand));
        step.add_operand_values(id);
      }
      for (Value result : op.getResults()) {
        *step.add_results() = bufferOf(result);
        DIFFRUN_ASSIGN(int64_t id, number(result));
        step.add_result_values(id);
      }
      if (auto kernel = dyn_cast<nn::KernelOp>(op)) {
        const KernelInfo &info = infos[&op];
        step.set_label(kernel.getLabel().str());
        step.mutable_launch()->set_symbol(layout.symbolOf(kernel, info));
        step.mutable_launch()->set_chunks(info.chunks);
        step.set_bytes_read(info.bytesRead);
        step.set_bytes_written(info.bytesWritten);
        step.set_flops(info.flops);
      } else {
        auto call = cast<nn::CallOp>(op);
        step.set_label(call.getLabel().str());
        step.set_bytes_read(nn::totalBytes(op.getOperandTypes()));
        step.set_bytes_written(nn::totalBytes(op.getResultTypes()));
        DIFFRUN_RETURN_IF_ERROR(describeCall(call, step));
      }
      if (auto why = op.getAttrOfType<StringAttr>("nn.unfused")) {
        proto::Remark &remark = *layout.plan->add_remarks();
        remark.set_kind("not fused");
        remark.set_location(out.name() + ": " + step.label() + " (" + step.location() + ")");
        remark.set_text(why.str());
      }
    }
    return {};
  }

  static bool sameRange(const proto::Buffer &a, const proto::Buffer &b) {
    return a.space() == b.space() && a.offset() == b.offset();
  }

  /// Outputs where their values are; states that were not written in place are
  /// copied, after everything else.
  Status writeCommit() {
    for (auto [name, value] : llvm::zip(commit().getNames(), commit().getOutputs())) {
      proto::Output &output = *out.add_outputs();
      output.set_name(cast<StringAttr>(name).str());
      *output.mutable_type() = protoType(value.getType());
      *output.mutable_buffer() = bufferOf(value);
      DIFFRUN_ASSIGN(int64_t id, number(value));
      out.add_output_values(id);
    }
    for (auto [slotAttr, state] : llvm::zip(commit().getSlots(), commit().getStates())) {
      auto slot = cast<train::SlotAttr>(slotAttr);
      proto::SlotUse &use = *out.add_commits();
      use.set_slot(layout.slots.at(ProgramLayout::slotKey(slot)));
      DIFFRUN_ASSIGN(int64_t id, number(state));
      use.set_value(id);
      proto::Buffer from = bufferOf(state), to = slotBuffer(slot);
      if (sameRange(from, to))
        continue;
      if (from.space() == ProgramLayout::kState)
        for (Attribute other : commit().getSlots())
          if (sameRange(slotBuffer(cast<train::SlotAttr>(other)), from) && !written.count(slot) &&
              !holdsNewValue(cast<train::SlotAttr>(other)))
            return Status::internal("state " + slot.getParameter().str() +
                                    " is copied from state that changes in the same entry");
      proto::Op &copy = *out.add_ops();
      copy.mutable_copy();
      copy.set_label("copy");
      copy.set_location(slot.getParameter().str() + "/" + slot.getRole().str());
      *copy.add_operands() = from;
      *copy.add_results() = to;
      copy.add_operand_values(id);
      copy.add_result_values(id);
      copy.set_bytes_read(from.bytes());
      copy.set_bytes_written(to.bytes());
    }
    return {};
  }

  /// Whether an earlier operation, not a copy at the end, gives a slot its new
  /// value: then what is read from it is that new value already.
  bool holdsNewValue(train::SlotAttr slot) { return written.count(slot) != 0; }

  train::EntryOp entry;
  Block &block;
  ProgramLayout &layout;
  proto::Entry &out;
  DenseMap<Operation *, int64_t> position; ///< step of each kernel and call
  int64_t last = 0;                        ///< the commit's step
  DenseMap<Operation *, KernelInfo> infos;
  std::vector<Storage> storages;
  DenseMap<Value, int64_t> storageOf; ///< by root value
  DenseSet<Attribute> written;        ///< slots that an operation writes
  std::set<std::pair<Operation *, int64_t>> takenBy;
  nn::EvaluationGraph graph;
};

} // namespace

Status lowerEntry(train::EntryOp entry, ProgramLayout &layout, proto::Entry &out) {
  return EntryLowering(entry, layout, out).run().withContext("entry " + entry.getSymName().str());
}

proto::TensorType protoType(Type type) {
  proto::TensorType result;
  auto known = nn::evaluationType(type);
  result.set_dtype(static_cast<proto::DType>(known->dtype));
  for (int64_t extent : known->shape)
    result.add_shape(extent);
  return result;
}

} // namespace diffc
