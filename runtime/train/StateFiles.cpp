#include "runtime/train/StateFiles.h"

#include "runtime/execute/FileTypes.h"

#include <cstring>
#include <map>
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

/// The file of a frozen model's drawn weights: names under it stay its own.
std::string frozenFileOf(const std::string &model) { return "weights." + model; }

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

/// What the init entry draws of models that are not kept: the plan's weights
/// file does not have it, and another seed would draw something else.
std::vector<int> drawnElsewhere(const proto::Plan &plan, const proto::Entry *init) {
  const std::set<std::string> kept = keptModels(plan);
  std::vector<int> slots;
  for (int k = 0; init && k < init->commits_size(); ++k) {
    const proto::Slot &slot = plan.slots(static_cast<int>(init->commits(k).slot()));
    if (!isCounter(slot) && slot.role() == "weight" && !kept.count(slot.model()))
      slots.push_back(static_cast<int>(init->commits(k).slot()));
  }
  return slots;
}

SafetensorsEntry tensorOf(const Program &program, int index, const std::string &prefix) {
  const proto::Slot &slot = program.plan().plan().slots(index);
  return {prefix + slot.parameter(), fileType(slot.type().dtype()), shapeOf(slot.type()),
          program.slotData(index)};
}

Status restoreSlot(Program &program, int index, const SafetensorsReader &reader,
                   const std::string &prefix) {
  const proto::Slot &slot = program.plan().plan().slots(index);
  const SafetensorsView *view = reader.find(prefix + slot.parameter());
  if (!view)
    return Status::invalid(reader.path() + ": has no tensor \"" + prefix + slot.parameter() + "\"",
                           "the checkpoint must come from this model");
  if (!holds(*view, slot.type()))
    return Status::invalid(reader.path() + ": tensor \"" + prefix + slot.parameter() +
                               "\" has another shape or type than the plan's",
                           "the checkpoint must come from this model");
  std::memcpy(program.slotData(index), view->data, view->bytes);
  return {};
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
    tensors.push_back({file, tensorOf(program, i, prefix)});
  }
  for (int i : drawnElsewhere(plan, program.plan().findEntry("init")))
    tensors.push_back({frozenFileOf(plan.slots(i).model()), tensorOf(program, i, "")});
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
    DIFFRUN_RETURN_IF_ERROR(restoreSlot(program, i, reader, prefix));
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
  std::map<std::string, SafetensorsReader> frozen; // one for all tensors of a file
  for (int i : drawnElsewhere(plan, program.plan().findEntry("init"))) {
    std::string file = frozenFileOf(plan.slots(i).model());
    if (!frozen.count(file)) {
      DIFFRUN_ASSIGN(frozen[file],
                     SafetensorsReader::open(checkpoint.folder + "/" + file + ".safetensors"));
    }
    DIFFRUN_RETURN_IF_ERROR(restoreSlot(program, i, frozen[file], ""));
  }
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

Status restoreFor(Program &program, const std::string &name, const CheckpointInfo &checkpoint,
                  const std::string &weights) {
  const proto::Plan &plan = program.plan().plan();
  const proto::Entry *entry = program.plan().findEntry(name);
  std::string role = "weight";
  for (int k = 0; entry && k < entry->reads_size(); ++k) {
    const proto::Slot &slot = plan.slots(static_cast<int>(entry->reads(k).slot()));
    if (!isCounter(slot) && slot.role() != "weight")
      role = slot.role();
  }
  std::string wanted = weights.empty() ? role : weights == "ema" ? "ema0" : weights;
  std::string file = placeOf(wanted).first;
  if (file == "optimizer" ||
      std::find(checkpoint.files.begin(), checkpoint.files.end(), file) == checkpoint.files.end())
    return Status::invalid(checkpoint.folder + ": has no weights \"" + wanted + "\"",
                           "the recipe's ema gives averages; --weights weight takes none");
  if (role == "weight" && wanted != "weight")
    return Status::invalid(
        program.plan().path() + ": its " + name + " entry is compiled for the weights themselves",
        "--weights weight, or entries: {" + name + ": {weights: ema0}} in the recipe");
  // A parameter that is not trained has no average: its weight serves.
  DIFFRUN_RETURN_IF_ERROR(
      restoreRole(program, checkpoint.folder + "/weights.safetensors", "", "weight"));
  if (role != "weight")
    DIFFRUN_RETURN_IF_ERROR(
        restoreRole(program, checkpoint.folder + "/" + file + ".safetensors", "", role));
  const auto scalars = checkpoint.state.value("scalars", nlohmann::json::object());
  for (const proto::Input &input : entry->inputs())
    if (auto found = scalars.find(input.name());
        input.scalar() && found != scalars.end() && found->is_number())
      DIFFRUN_RETURN_IF_ERROR(program.setScalar(input.name(), found->get<double>()));
  return {};
}

} // namespace diffrun
