#include "runtime/plan/LoadedPlan.h"

#include "runtime/plan/CpuFeatures.h"
#include "runtime/plan/OpChecks.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/zero_copy_stream_impl.h>

#include <fcntl.h>
#include <fstream>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace diffrun {

int64_t bytesOf(const proto::TensorType &type) {
  if (!proto::DType_IsValid(type.dtype()))
    return -1;
  int64_t bytes = byteSize(static_cast<DType>(type.dtype()));
  for (int64_t extent : type.shape())
    if (extent < 0 || __builtin_mul_overflow(bytes, extent, &bytes))
      return -1;
  return bytes;
}

std::string describe(const proto::Entry &entry, int index) {
  const proto::Op &op = entry.ops(index);
  return entry.name() + ", operation " + std::to_string(index) + " (" + op.label() +
         (op.location().empty() ? "" : ", " + op.location()) + ")";
}

namespace {

constexpr int64_t kLargest = int64_t{1} << 46; // bytes of a space that can be meant

class Checker {
public:
  Checker(const proto::Plan &plan, const std::string &path) : plan(plan), path(path) {}

  Status run() {
    if (plan.version() != kPlanVersion)
      return bad("is of plan version " + std::to_string(plan.version()) +
                     ", this diffrun reads version " + std::to_string(kPlanVersion),
                 "compile it again with the diffc of this version");
    if (plan.target().team() < 1 || plan.target().team() > 1024)
      return bad("has a team of " + std::to_string(plan.target().team()) + " threads");
    for (const proto::Space &space : plan.spaces())
      if (space.bytes() < 0 || space.bytes() > kLargest ||
          (!space.data().empty() &&
           static_cast<int64_t>(space.data().size()) != space.bytes()))
        return bad("space " + space.name() + " has an impossible size");
    std::set<std::string> names;
    for (const proto::Slot &slot : plan.slots()) {
      std::string name = "slot " + slot.parameter() + "/" + slot.role();
      if (!names.insert(slot.model() + "::" + name).second)
        return bad(name + " is there twice");
      if (!holds(slot.buffer(), slot.type(), proto::Space::PROGRAM))
        return bad(name + ": its buffer does not hold it");
    }
    for (const proto::Entry &entry : plan.entries())
      if (Status status = checkEntry(entry); !status)
        return status;
    return {};
  }

private:
  Status bad(const std::string &what, const std::string &help = {}) const {
    return Status::invalid(path + ": " + what, help);
  }

  bool inRange(const proto::Buffer &buffer) const {
    if (buffer.space() >= static_cast<uint32_t>(plan.spaces_size()) || buffer.offset() < 0 ||
        buffer.bytes() < 0 || buffer.offset() % kPlanAlignment)
      return false;
    int64_t size = plan.spaces(static_cast<int>(buffer.space())).bytes();
    return buffer.offset() <= size && buffer.bytes() <= size - buffer.offset();
  }
  bool holds(const proto::Buffer &buffer, const proto::TensorType &type,
             std::optional<proto::Space::Lifetime> lifetime = {}) const {
    return inRange(buffer) && bytesOf(type) == buffer.bytes() &&
           (!lifetime ||
            plan.spaces(static_cast<int>(buffer.space())).lifetime() == *lifetime);
  }

  Status checkEntry(const proto::Entry &entry) const {
    std::string where = "entry " + entry.name();
    int64_t values = entry.program().values_size(), nodes = entry.program().nodes_size();
    auto isValue = [&](int64_t id) { return id >= 0 && id < values; };
    for (const proto::Input &input : entry.inputs())
      if (!holds(input.buffer(), input.type()))
        return bad(where + ": input " + input.name() + " does not fit its buffer");
    for (const proto::Output &output : entry.outputs())
      if (!holds(output.buffer(), output.type()))
        return bad(where + ": output " + output.name() + " does not fit its buffer");
    for (const auto *uses : {&entry.reads(), &entry.commits()})
      for (const proto::SlotUse &use : *uses)
        if (use.slot() >= static_cast<uint32_t>(plan.slots_size()) || !isValue(use.value()))
          return bad(where + ": a slot or value number is out of range");
    if (entry.input_values_size() != entry.inputs_size() ||
        entry.output_values_size() != entry.outputs_size())
      return bad(where + ": value numbers of inputs or outputs are missing");
    for (const auto *list : {&entry.input_values(), &entry.output_values()})
      for (int64_t id : *list)
        if (!isValue(id))
          return bad(where + ": a value number is out of range");
    for (int i = 0; i < entry.ops_size(); ++i) {
      const proto::Op &op = entry.ops(i);
      auto wrong = [&](const std::string &what) {
        return bad(describe(entry, i) + ": " + what);
      };
      for (const auto *list : {&op.operands(), &op.results(), &op.scratch()})
        for (const proto::Buffer &buffer : *list)
          if (!inRange(buffer))
            return wrong("a buffer at offset " + std::to_string(buffer.offset()) + " with " +
                         std::to_string(buffer.bytes()) + " bytes is out of range");
      for (const proto::Buffer &result : op.results())
        if (plan.spaces(static_cast<int>(result.space())).data().size())
          return wrong("writes to constants");
      if (op.first_node() < 0 || op.node_count() < 0 || op.first_node() > nodes ||
          op.node_count() > nodes - op.first_node())
        return wrong("its nodes are out of range");
      if (op.operand_values_size() != op.operands_size() ||
          op.result_values_size() != op.results_size())
        return wrong("value numbers of operands or results are missing");
      for (const auto *list : {&op.operand_values(), &op.result_values()})
        for (int64_t id : *list)
          if (!isValue(id))
            return wrong("a value number is out of range");
      if (Status status = checkOp(op); !status)
        return wrong(status.message());
    }
    return {};
  }

  const proto::Plan &plan;
  const std::string &path;
};

} // namespace

Result<LoadedPlan> LoadedPlan::check(proto::Plan plan, const std::string &path) {
  DIFFRUN_RETURN_IF_ERROR(Checker(plan, path).run());
  LoadedPlan loaded;
  loaded.filePath = path;
  loaded.proto = std::make_shared<proto::Plan>(std::move(plan));
  return loaded;
}

Result<LoadedPlan> LoadedPlan::open(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return Status::invalid(path + ": cannot be opened", "compile it: diffc MODEL.onnx -o " + path);
  proto::Plan plan;
  bool parsed = false;
  {
    google::protobuf::io::FileInputStream stream(file);
    google::protobuf::io::CodedInputStream coded(&stream);
    coded.SetRecursionLimit(64);
    parsed = plan.ParseFromCodedStream(&coded) && coded.ConsumedEntireMessage();
  }
  ::close(file);
  if (!parsed || plan.version() == 0)
    return Status::invalid(path + ": is not a complete plan",
                           "it may be cut short or no plan at all; compile it again");
  DIFFRUN_ASSIGN(LoadedPlan loaded, check(std::move(plan), path));
  for (const std::string &feature : loaded.plan().target().features())
    if (!cpuHas(feature))
      return Status::machine(path + ": is compiled for cpu:" + loaded.plan().target().level() +
                                 ", this CPU lacks " + feature,
                             "compile it for this machine: diffc ... --target cpu");
  return loaded;
}

const proto::Entry *LoadedPlan::findEntry(const std::string &name) const {
  for (const proto::Entry &entry : proto->entries())
    if (entry.name() == name)
      return &entry;
  return nullptr;
}

int64_t LoadedPlan::findSlot(const std::string &parameter, const std::string &role) const {
  for (int i = 0; i < proto->slots_size(); ++i)
    if (proto->slots(i).parameter() == parameter && proto->slots(i).role() == role)
      return i;
  return -1;
}

} // namespace diffrun
