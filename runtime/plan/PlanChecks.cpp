#include "runtime/plan/PlanChecks.h"

#include "runtime/plan/CpuFeatures.h"
#include "runtime/plan/LoadedPlan.h"
#include "runtime/plan/OpChecks.h"

#include <algorithm>
#include <optional>
#include <set>

namespace diffrun {
namespace {

constexpr int64_t kLargest = int64_t{1} << 46; // bytes of a space that can be meant
constexpr int kMostSpaces = 64;

class PlanChecker {
public:
  PlanChecker(const proto::Plan &plan, const std::string &path) : plan(plan), path(path) {}

  Status run() {
    if (plan.version() != kPlanVersion)
      return bad("is of plan version " + std::to_string(plan.version()) +
                     ", this diffrun reads version " + std::to_string(kPlanVersion),
                 "compile it again with the diffc of this version");
    DIFFRUN_RETURN_IF_ERROR(checkTarget());
    DIFFRUN_RETURN_IF_ERROR(checkSpaces());
    DIFFRUN_RETURN_IF_ERROR(checkSlots());
    // Beside the plan means there, and nowhere else on the disk.
    if (plan.weights().file().find('/') != std::string::npos || plan.weights().file() == "..")
      return bad("its weights file \"" + plan.weights().file() + "\" is not beside the plan");
    std::set<std::string> names;
    for (const proto::Entry &entry : plan.entries()) {
      if (!names.insert(entry.name()).second)
        return bad("entry " + entry.name() + " is there twice");
      DIFFRUN_RETURN_IF_ERROR(checkEntry(entry));
    }
    return {};
  }

private:
  Status bad(const std::string &what, const std::string &help = {}) const {
    return Status::invalid(path + ": " + what, help);
  }

  Status checkTarget() const {
    if (plan.target().team() < 1 || plan.target().team() > 1024)
      return bad("has a team of " + std::to_string(plan.target().team()) + " threads");
    const std::string &level = plan.target().level();
    const auto &levels = cpuLevels();
    if (std::none_of(levels.begin(), levels.end(),
                     [&](const CpuLevel &known) { return known.name == level; }))
      return bad("is compiled for an unknown CPU level \"" + level + "\"");
    for (const std::string &feature : plan.target().features())
      if (!cpuHas(feature))
        return Status::machine(path + ": is compiled for cpu:" + level + ", this CPU lacks " +
                                   feature,
                               "compile it for this machine: diffc ... --target cpu");
    return {};
  }

  Status checkSpaces() const {
    if (plan.spaces_size() > kMostSpaces)
      return bad("has " + std::to_string(plan.spaces_size()) + " spaces");
    for (const proto::Space &space : plan.spaces()) {
      bool hasData = !space.data().empty();
      if (space.bytes() < 0 || space.bytes() > kLargest ||
          !proto::Space::Lifetime_IsValid(space.lifetime()) ||
          (hasData && static_cast<int64_t>(space.data().size()) != space.bytes()))
        return bad("space " + space.name() + " has an impossible size");
      if (hasData && space.lifetime() != proto::Space::PROGRAM)
        return bad("space " + space.name() + " has data but does not last");
    }
    return {};
  }

  Status checkSlots() const {
    std::set<std::string> names;
    for (const proto::Slot &slot : plan.slots()) {
      std::string name = "slot " + slot.parameter() + "/" + slot.role();
      if (!names.insert(slot.model() + "::" + name).second)
        return bad(name + " is there twice");
      if (!holds(slot.buffer(), slot.type()) || isConstant(slot.buffer()) ||
          spaceOf(slot.buffer()).lifetime() != proto::Space::PROGRAM)
        return bad(name + ": its buffer does not hold it");
    }
    return {};
  }

  const proto::Space &spaceOf(const proto::Buffer &buffer) const {
    return plan.spaces(static_cast<int>(buffer.space()));
  }
  bool isConstant(const proto::Buffer &buffer) const { return !spaceOf(buffer).data().empty(); }

  bool inRange(const proto::Buffer &buffer) const {
    if (buffer.space() >= static_cast<uint32_t>(plan.spaces_size()) || buffer.offset() < 0 ||
        buffer.bytes() < 0 || buffer.offset() % kPlanAlignment)
      return false;
    int64_t size = spaceOf(buffer).bytes();
    return buffer.offset() <= size && buffer.bytes() <= size - buffer.offset();
  }
  bool holds(const proto::Buffer &buffer, const proto::TensorType &type) const {
    return inRange(buffer) && bytesOf(type) == buffer.bytes();
  }
  /// Also within the entry's share of the arena.
  bool inShare(const proto::Entry &entry, const proto::Buffer &buffer) const {
    return inRange(buffer) && (spaceOf(buffer).lifetime() != proto::Space::ENTRY ||
                               buffer.offset() + buffer.bytes() <= entry.arena_bytes());
  }

  static bool sameType(const proto::TensorType &a, const proto::TensorType &b) {
    return a.dtype() == b.dtype() && a.shape_size() == b.shape_size() &&
           std::equal(a.shape().begin(), a.shape().end(), b.shape().begin());
  }

  Status checkProgram(const proto::Entry &entry) const {
    int64_t values = entry.program().values_size();
    for (const proto::TensorType &type : entry.program().values())
      if (bytesOf(type) < 0)
        return bad("entry " + entry.name() + ": a type of its nn program is impossible");
    for (const proto::Node &node : entry.program().nodes()) {
      std::string where =
          "entry " + entry.name() + ", node " + node.op() + " (" + node.location() + "): ";
      for (int64_t id : node.operands())
        if (id < -1 || id >= values)
          return bad(where + "a value number is out of range");
      for (int64_t id : node.results())
        if (id < 0 || id >= values)
          return bad(where + "a value number is out of range");
      for (const auto &[key, attribute] : node.attributes())
        if (attribute.has_tensor() && bytesOf(attribute.tensor().type()) !=
                                          static_cast<int64_t>(attribute.tensor().data().size()))
          return bad(where + "constant " + key + " does not have the size of its type");
    }
    return {};
  }

  Status checkInputs(const proto::Entry &entry) const {
    std::string where = "entry " + entry.name() + ": input ";
    const auto &values = entry.program().values();
    std::set<std::string> names;
    for (int i = 0; i < entry.inputs_size(); ++i) {
      const proto::Input &input = entry.inputs(i);
      std::string name = input.scalar() ? input.name() : input.role();
      if (name.empty() || !names.insert((input.scalar() ? "$" : "") + name).second)
        return bad(where + input.name() + " has no name or role of its own");
      if (!holds(input.buffer(), input.type()) || !inShare(entry, input.buffer()) ||
          (input.scalar() && input.type().shape_size()) ||
          !sameType(input.type(), values[static_cast<int>(entry.input_values(i))]))
        return bad(where + input.name() + " does not fit its buffer or value");
    }
    return {};
  }

  Status checkEntry(const proto::Entry &entry) const {
    std::string where = "entry " + entry.name() + ": ";
    DIFFRUN_RETURN_IF_ERROR(checkProgram(entry));
    const auto &values = entry.program().values();
    auto isValue = [&](int64_t id) { return id >= 0 && id < values.size(); };
    if (entry.arena_bytes() < 0)
      return bad(where + "its share of the arena is negative");
    if (entry.input_values_size() != entry.inputs_size() ||
        entry.output_values_size() != entry.outputs_size())
      return bad(where + "value numbers of inputs or outputs are missing");
    for (const auto *list : {&entry.input_values(), &entry.output_values()})
      for (int64_t id : *list)
        if (!isValue(id))
          return bad(where + "a value number is out of range");
    DIFFRUN_RETURN_IF_ERROR(checkInputs(entry));
    for (int i = 0; i < entry.outputs_size(); ++i) {
      const proto::Output &output = entry.outputs(i);
      if (!holds(output.buffer(), output.type()) || !inShare(entry, output.buffer()) ||
          !sameType(output.type(), values[static_cast<int>(entry.output_values(i))]))
        return bad(where + "output " + output.name() + " does not fit its buffer or value");
    }
    for (const auto *uses : {&entry.reads(), &entry.commits()}) {
      std::set<uint32_t> used;
      for (const proto::SlotUse &use : *uses)
        if (use.slot() >= static_cast<uint32_t>(plan.slots_size()) || !isValue(use.value()) ||
            !used.insert(use.slot()).second ||
            !sameType(plan.slots(static_cast<int>(use.slot())).type(),
                      values[static_cast<int>(use.value())]))
          return bad(where + "a slot or its value number is out of range");
    }
    for (int i = 0; i < entry.ops_size(); ++i)
      if (Status status = checkOperation(entry, entry.ops(i)); !status)
        return status.withContext(path + ": " + describe(entry, i));
    return {};
  }

  Status checkOperation(const proto::Entry &entry, const proto::Op &op) const {
    int64_t nodes = entry.program().nodes_size();
    const auto &values = entry.program().values();
    for (const auto *list : {&op.operands(), &op.results(), &op.scratch()})
      for (const proto::Buffer &buffer : *list)
        if (!inShare(entry, buffer))
          return Status::invalid("a buffer at offset " + std::to_string(buffer.offset()) +
                                 " with " + std::to_string(buffer.bytes()) +
                                 " bytes is out of range");
    for (const auto *list : {&op.results(), &op.scratch()})
      for (const proto::Buffer &buffer : *list)
        if (isConstant(buffer))
          return Status::invalid("writes to constants");
    if (op.first_node() < 0 || op.node_count() < 0 || op.first_node() > nodes ||
        op.node_count() > nodes - op.first_node())
      return Status::invalid("its nodes are out of range");
    if (op.operand_values_size() != op.operands_size() ||
        op.result_values_size() != op.results_size())
      return Status::invalid("value numbers of operands or results are missing");
    auto fits = [&](const proto::Buffer &buffer, int64_t id) {
      return id >= 0 && id < values.size() &&
             bytesOf(values[static_cast<int>(id)]) == buffer.bytes();
    };
    for (int k = 0; k < op.operands_size(); ++k)
      if (!fits(op.operands(k), op.operand_values(k)))
        return Status::invalid("operand " + std::to_string(k) + " does not have its value's size");
    for (int k = 0; k < op.results_size(); ++k)
      if (!fits(op.results(k), op.result_values(k)))
        return Status::invalid("result " + std::to_string(k) + " does not have its value's size");
    if (op.has_launch() && plan.code().compare(0, 4,
                                               "\x7f"
                                               "ELF"))
      return Status::invalid("launches a kernel, but the plan has no code");
    return checkOp(op);
  }

  const proto::Plan &plan;
  const std::string &path;
};

} // namespace

Status checkPlan(const proto::Plan &plan, const std::string &path) {
  return PlanChecker(plan, path).run();
}

} // namespace diffrun
