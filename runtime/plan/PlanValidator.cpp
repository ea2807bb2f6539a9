#include "runtime/plan/PlanValidator.h"

#include "runtime/plan/LoadedPlan.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

namespace diffrun {
namespace {

using Buffers = google::protobuf::RepeatedPtrField<proto::Buffer>;

bool overlap(const proto::Buffer &a, const proto::Buffer &b) {
  return a.space() == b.space() && a.bytes() && b.bytes() && a.offset() < b.offset() + b.bytes() &&
         b.offset() < a.offset() + a.bytes();
}
bool same(const proto::Buffer &a, const proto::Buffer &b) {
  return a.space() == b.space() && a.offset() == b.offset() && a.bytes() == b.bytes();
}

/// Which value each byte range of the spaces holds.
class Contents {
public:
  explicit Contents(int spaces) : pieces(static_cast<size_t>(spaces)) {}

  /// `value` is there now; whatever it overlaps is lost.
  void put(const proto::Buffer &buffer, int64_t value) {
    if (buffer.bytes() == 0)
      return;
    auto &space = pieces[buffer.space()];
    int64_t end = buffer.offset() + buffer.bytes();
    auto at = space.lower_bound(buffer.offset());
    if (at != space.begin() && std::prev(at)->second.end > buffer.offset())
      --at;
    while (at != space.end() && at->first < end)
      at = space.erase(at);
    space[buffer.offset()] = {end, value};
  }

  /// The value that the range holds, or kNothing if it is no whole one.
  int64_t get(const proto::Buffer &buffer) const {
    auto &space = pieces[buffer.space()];
    auto at = space.find(buffer.offset());
    bool whole = at != space.end() && at->second.end == buffer.offset() + buffer.bytes();
    return whole ? at->second.value : kNothing;
  }

  static constexpr int64_t kNothing = -1;

private:
  struct Piece {
    int64_t end, value;
  };
  std::vector<std::map<int64_t, Piece>> pieces; ///< by space, then by offset
};

class EntryValidator {
public:
  EntryValidator(const proto::Plan &plan, const proto::Entry &entry)
      : plan(plan), entry(entry), contents(plan.spaces_size()) {}

  Status run() {
    DIFFRUN_RETURN_IF_ERROR(readProgram());
    DIFFRUN_RETURN_IF_ERROR(start());
    for (int i = 0; i < entry.ops_size(); ++i)
      if (Status status = replay(entry.ops(i)); !status)
        return status.withContext(describe(entry, i));
    if (Status status = finish(); !status)
      return status.withContext("entry " + entry.name());
    return {};
  }

private:
  static Status wrong(const std::string &what) {
    return Status::invalid(what, "the plan is damaged or was made by a faulty compiler");
  }
  Status wrongEntry(const std::string &what) const {
    return wrong(what).withContext("entry " + entry.name());
  }

  /// Views are the same bytes as what they show: values are known by root.
  int64_t rootOf(int64_t value) const { return roots[static_cast<size_t>(value)]; }

  Status readProgram() {
    const proto::Program &program = entry.program();
    roots.resize(static_cast<size_t>(program.values_size()));
    makers.assign(roots.size(), -1);
    for (size_t i = 0; i < roots.size(); ++i)
      roots[i] = static_cast<int64_t>(i);
    for (int n = 0; n < program.nodes_size(); ++n) {
      const proto::Node &node = program.nodes(n);
      for (int64_t result : node.results()) {
        if (makers[static_cast<size_t>(result)] >= 0)
          return wrongEntry("value " + std::to_string(result) + " of the nn program is made twice");
        makers[static_cast<size_t>(result)] = n;
      }
      if (node.op() == "nn.reshape" && node.operands_size() == 1 && node.results_size() == 1 &&
          node.operands(0) >= 0)
        roots[static_cast<size_t>(node.results(0))] = rootOf(node.operands(0));
    }
    return {};
  }

  /// A mark for a slot that this entry does not read.
  static int64_t unread(int slot) { return -2 - slot; }

  Status start() {
    initial.resize(static_cast<size_t>(plan.slots_size()));
    for (int i = 0; i < plan.slots_size(); ++i)
      initial[static_cast<size_t>(i)] = unread(i);
    for (const proto::SlotUse &use : entry.reads()) {
      int64_t &value = initial[use.slot()];
      if (value >= 0)
        return wrongEntry("slot " + std::to_string(use.slot()) + " is read twice");
      value = rootOf(use.value());
    }
    for (int i = 0; i < plan.slots_size(); ++i)
      contents.put(plan.slots(i).buffer(), initial[static_cast<size_t>(i)]);
    for (int i = 0; i < entry.inputs_size(); ++i) {
      const proto::Buffer &buffer = entry.inputs(i).buffer();
      if (plan.spaces(static_cast<int>(buffer.space())).lifetime() != proto::Space::ENTRY)
        return wrongEntry("input " + entry.inputs(i).name() + " lies in memory that lasts");
      for (int j = 0; j < i; ++j)
        if (overlap(buffer, entry.inputs(j).buffer()))
          return wrongEntry("inputs " + entry.inputs(j).name() + " and " + entry.inputs(i).name() +
                            " overlap");
      contents.put(buffer, rootOf(entry.input_values(i)));
    }
    return {};
  }

  Status disjoint(const Buffers &some, const Buffers &others, const char *what) const {
    for (const proto::Buffer &a : some)
      for (const proto::Buffer &b : others)
        if (&a != &b && overlap(a, b))
          return wrong(what);
    return {};
  }

  Status replay(const proto::Op &op) {
    for (const proto::Buffer &result : op.results())
      for (const proto::Buffer &operand : op.operands())
        if (overlap(result, operand) && !(op.has_launch() && same(result, operand)))
          return wrong("a result overlaps an operand");
    DIFFRUN_RETURN_IF_ERROR(disjoint(op.results(), op.results(), "two results overlap"));
    DIFFRUN_RETURN_IF_ERROR(disjoint(op.scratch(), op.results(), "scratch overlaps a result"));
    DIFFRUN_RETURN_IF_ERROR(disjoint(op.scratch(), op.operands(), "scratch overlaps an operand"));
    DIFFRUN_RETURN_IF_ERROR(disjoint(op.scratch(), op.scratch(), "two scratch buffers overlap"));
    for (int k = 0; k < op.operands_size(); ++k)
      DIFFRUN_RETURN_IF_ERROR(
          checkRead(op.operands(k), op.operand_values(k), "operand " + std::to_string(k)));
    DIFFRUN_RETURN_IF_ERROR(checkNodes(op));
    for (const proto::Buffer &scratch : op.scratch())
      contents.put(scratch, kRubbish);
    for (int k = 0; k < op.results_size(); ++k)
      contents.put(op.results(k), rootOf(op.result_values(k)));
    return {};
  }

  Status checkRead(const proto::Buffer &buffer, int64_t value, const std::string &what) const {
    if (buffer.bytes() == 0)
      return {};
    const proto::Space &space = plan.spaces(static_cast<int>(buffer.space()));
    if (!space.data().empty()) {
      int64_t maker = makers[static_cast<size_t>(rootOf(value))];
      const proto::Constant *constant = maker >= 0 ? constantOf(maker) : nullptr;
      if (!constant || static_cast<int64_t>(constant->data().size()) != buffer.bytes() ||
          space.data().compare(static_cast<size_t>(buffer.offset()),
                               static_cast<size_t>(buffer.bytes()), constant->data()))
        return wrong(what + " is not the constant of the nn program");
      return {};
    }
    int64_t there = contents.get(buffer);
    if (there == rootOf(value))
      return {};
    return wrong(what + " reads " +
                 (there == Contents::kNothing ? "memory that holds no whole value"
                  : there >= 0                ? "value " + std::to_string(there) + " where value " +
                                     std::to_string(rootOf(value)) + " is meant"
                               : "memory that this entry did not write"));
  }

  const proto::Constant *constantOf(int64_t node) const {
    const auto &attributes = entry.program().nodes(static_cast<int>(node)).attributes();
    auto found = attributes.find("value");
    bool is = found != attributes.end() && found->second.has_tensor() &&
              entry.program().nodes(static_cast<int>(node)).operands_size() == 0;
    return is ? &found->second.tensor() : nullptr;
  }

  /// Every node of the operation finds its operands: the operation's own, what
  /// an earlier node of it made, or a constant; and every result is made.
  Status checkNodes(const proto::Op &op) const {
    if (op.has_copy()) {
      if (rootOf(op.operand_values(0)) != rootOf(op.result_values(0)))
        return wrong("a copy changes the value");
      return {};
    }
    int64_t first = op.first_node(), end = first + op.node_count();
    auto given = [&](int64_t value) {
      for (int64_t operand : op.operand_values())
        if (operand == value)
          return true;
      return false;
    };
    for (int64_t n = first; n < end; ++n)
      for (int64_t operand : entry.program().nodes(static_cast<int>(n)).operands()) {
        if (operand < 0 || given(operand))
          continue;
        int64_t maker = makers[static_cast<size_t>(operand)];
        bool before = maker >= first && maker < n;
        if (!before && !(maker >= 0 && constantOf(maker)))
          return wrong("node " + std::to_string(n) + " of the nn program needs value " +
                       std::to_string(operand) + ", which is no operand");
      }
    for (int64_t result : op.result_values()) {
      int64_t maker = makers[static_cast<size_t>(result)];
      if (maker < first || maker >= end)
        return wrong("its nodes do not make value " + std::to_string(result));
    }
    return {};
  }

  Status finish() const {
    for (int i = 0; i < entry.outputs_size(); ++i)
      DIFFRUN_RETURN_IF_ERROR(checkRead(entry.outputs(i).buffer(), entry.output_values(i),
                                        "output " + entry.outputs(i).name()));
    std::vector<int64_t> wanted = initial;
    for (const proto::SlotUse &use : entry.commits())
      wanted[use.slot()] = rootOf(use.value());
    for (int i = 0; i < plan.slots_size(); ++i) {
      const proto::Slot &slot = plan.slots(i);
      if (slot.buffer().bytes() && contents.get(slot.buffer()) != wanted[static_cast<size_t>(i)])
        return wrong("slot " + slot.parameter() + "/" + slot.role() +
                     " does not hold what is committed to it");
    }
    return {};
  }

  static constexpr int64_t kRubbish = std::numeric_limits<int64_t>::min();

  const proto::Plan &plan;
  const proto::Entry &entry;
  Contents contents;
  std::vector<int64_t> roots;   ///< by value
  std::vector<int64_t> makers;  ///< the node that makes a value; -1: none
  std::vector<int64_t> initial; ///< what each slot holds at the start
};

} // namespace

Status validatePlan(const proto::Plan &plan, const std::string &path) {
  std::vector<const proto::Slot *> slots;
  for (const proto::Slot &slot : plan.slots())
    if (slot.buffer().bytes())
      slots.push_back(&slot);
  std::sort(slots.begin(), slots.end(), [](const proto::Slot *a, const proto::Slot *b) {
    return std::pair(a->buffer().space(), a->buffer().offset()) <
           std::pair(b->buffer().space(), b->buffer().offset());
  });
  for (size_t i = 1; i < slots.size(); ++i)
    if (overlap(slots[i - 1]->buffer(), slots[i]->buffer()))
      return Status::invalid(path + ": slots " + slots[i - 1]->parameter() + "/" +
                             slots[i - 1]->role() + " and " + slots[i]->parameter() + "/" +
                             slots[i]->role() + " overlap");
  for (const proto::Entry &entry : plan.entries())
    DIFFRUN_RETURN_IF_ERROR(EntryValidator(plan, entry).run().withContext(path));
  return {};
}

} // namespace diffrun
