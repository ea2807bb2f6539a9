#include "runtime/train/StateFiles.h"

#include "runtime/execute/FileTypes.h"

#include <cstring>
#include <set>

namespace diffrun {
namespace {

/// The file of a role, and what stands before the parameter's name in it.
std::pair<std::string, std::string> placeOf(const std::string &role) {
  if (role == "weight")
    return {"weights", ""};
  if (role.rfind("ema", 0) == 0)
    return {role, ""};
  return {"optimizer", role + "."};
}

bool isCounter(const proto::Slot &slot) { return slot.model().empty(); }

/// The models whose state a checkpoint holds: those of which something is
/// trained, or all where nothing is.
std::set<std::string> keptModels(const proto::Plan &plan) {
  std::set<std::string> trained, all;
  for (const proto::Slot &slot : plan.slots())
    if (!isCounter(slot)) {
      all.insert(slot.model());
      if (slot.trainable())
        trained.insert(slot.model());
    }
  return trained.empty() ? all : trained;
}

} // namespace

std::vector<CheckpointTensor> tensorsOf(const Program &program) {
  std::vector<CheckpointTensor> tensors;
  const proto::Plan &plan = program.plan().plan();
  const std::set<std::string> kept = keptModels(plan);
  for (int i = 0; i < plan.slots_size(); ++i) {
    const proto::Slot &slot = plan.slots(i);
    if (!kept.count(slot.model()))
      continue;
    auto [file, prefix] = placeOf(slot.role());
    tensors.push_back({file,
                       {prefix + slot.parameter(),
                        fileType(slot.type().dtype()),
                        {slot.type().shape().begin(), slot.type().shape().end()},
                        program.slotData(i)}});
  }
  return tensors;
}

nlohmann::json countersOf(const Program &program) {
  nlohmann::json counters = nlohmann::json::object();
  const proto::Plan &plan = program.plan().plan();
  for (int i = 0; i < plan.slots_size(); ++i)
    if (isCounter(plan.slots(i)) && plan.slots(i).buffer().bytes() == 8) {
      int64_t value;
      std::memcpy(&value, program.slotData(i), 8);
      counters[plan.slots(i).parameter()] = value;
    }
  return counters;
}

Status restoreRole(Program &program, const std::string &path, const std::string &prefix,
                   const std::string &role) {
  DIFFRUN_ASSIGN(auto reader, SafetensorsReader::open(path));
  const proto::Plan &plan = program.plan().plan();
  const std::set<std::string> kept = keptModels(plan);
  for (int i = 0; i < plan.slots_size(); ++i) {
    const proto::Slot &slot = plan.slots(i);
    if (!kept.count(slot.model()) || slot.role() != role)
      continue;
    const SafetensorsView *view = reader.find(prefix + slot.parameter());
    if (!view)
      return Status::invalid(path + ": has no tensor \"" + prefix + slot.parameter() + "\"",
                             "the checkpoint must come from this model");
    std::vector<int64_t> shape(slot.type().shape().begin(), slot.type().shape().end());
    if (view->shape != shape || view->dtype != fileType(slot.type().dtype()))
      return Status::invalid(path + ": tensor \"" + prefix + slot.parameter() +
                                 "\" has another shape or type than the plan's",
                             "the checkpoint must come from this model");
    std::memcpy(program.slotData(i), view->data, view->bytes);
  }
  return {};
}

Status restore(Program &program, const CheckpointInfo &checkpoint) {
  std::vector<std::string> roles;
  for (const proto::Slot &slot : program.plan().plan().slots())
    if (!isCounter(slot) && std::find(roles.begin(), roles.end(), slot.role()) == roles.end())
      roles.push_back(slot.role());
  for (const std::string &role : roles) {
    auto [file, prefix] = placeOf(role);
    DIFFRUN_RETURN_IF_ERROR(
        restoreRole(program, checkpoint.folder + "/" + file + ".safetensors", prefix, role));
  }
  const proto::Plan &plan = program.plan().plan();
  const auto counters = checkpoint.state.value("counters", nlohmann::json::object());
  for (int i = 0; i < plan.slots_size(); ++i)
    if (isCounter(plan.slots(i)) && plan.slots(i).buffer().bytes() == 8) {
      auto found = counters.find(plan.slots(i).parameter());
      if (found == counters.end() || !found->is_number_integer())
        return Status::invalid(checkpoint.folder + "/state.json: has no counter " +
                               plan.slots(i).parameter());
      auto value = found->get<int64_t>();
      std::memcpy(program.slotData(i), &value, 8);
    }
  return {};
}

} // namespace diffrun
