#include "runtime/verify/Feed.h"

#include "runtime/execute/FileTypes.h"

#include <cstring>

namespace diffrun {
namespace {

std::string shapeText(const std::vector<int64_t> &shape) {
  std::string text = "[";
  for (int64_t extent : shape)
    text += (text.size() > 1 ? ", " : "") + std::to_string(extent);
  return text + "]";
}

/// Whether a tensor of the file is what a value of the plan needs.
Status fits(const std::string &where, const SafetensorsView &view, const proto::TensorType &type) {
  bool scalars = type.shape_size() == 0 && view.shape == std::vector<int64_t>{1};
  if (holds(view, type) || (scalars && view.dtype == fileType(type.dtype())))
    return {};
  return Status::invalid(where + " is " + std::string(name(view.dtype)) + " " +
                             shapeText(view.shape) + ", the plan needs " +
                             std::string(name(fileType(type.dtype()))) + " " +
                             shapeText(shapeOf(type)),
                         "convert it; diffc inspect --json shows every type");
}

class FeedReader {
public:
  FeedReader(const SafetensorsReader &reader, Program &program, const proto::Entry &entry)
      : reader(reader), program(program), entry(entry) {}

  Status read(std::map<std::string, std::vector<char>> &byRole) {
    for (const std::string &key : reader.names()) {
      const SafetensorsView &view = *reader.find(key);
      std::string where = reader.path() + ": tensor \"" + key + "\"";
      auto colon = key.find(':');
      std::string kind = key.substr(0, colon);
      std::string rest = colon == std::string::npos ? "" : key.substr(colon + 1);
      if (kind == "param") {
        DIFFRUN_RETURN_IF_ERROR(weight(where, rest, view));
        continue;
      }
      const proto::Input *input = kind == "role" || kind == "input" ? find(kind, rest) : nullptr;
      if (!input)
        return Status::invalid(where + " names nothing that entry " + entry.name() + " takes",
                               "it takes " + known() + ", and param:NAME");
      DIFFRUN_RETURN_IF_ERROR(fits(where, view, input->type()));
      std::vector<char> &bytes = byRole[input->role()];
      if (!bytes.empty())
        return Status::invalid(where + " gives role " + input->role() + " a second time");
      const char *from = reinterpret_cast<const char *>(view.data);
      bytes.assign(from, from + view.bytes);
    }
    return {};
  }

private:
  const proto::Input *find(const std::string &kind, const std::string &wanted) const {
    for (const proto::Input &input : entry.inputs())
      if (!input.scalar() && (kind == "role" ? input.role() : input.name()) == wanted)
        return &input;
    return nullptr;
  }

  std::string known() const {
    std::string text;
    for (const proto::Input &input : entry.inputs()) {
      if (input.scalar())
        continue;
      text += (text.empty() ? "role:" : ", role:") + input.role();
      if (input.name() != input.role())
        text += " (or input:" + input.name() + ")";
    }
    return text;
  }

  Status weight(const std::string &where, const std::string &parameter,
                const SafetensorsView &view) {
    const proto::Plan &plan = program.plan().plan();
    for (int i = 0; i < plan.slots_size(); ++i) {
      const proto::Slot &slot = plan.slots(i);
      if (slot.model() != entry.model() || slot.parameter() != parameter || slot.role() != "weight")
        continue;
      DIFFRUN_RETURN_IF_ERROR(fits(where, view, slot.type()));
      std::memcpy(program.slotData(i), view.data, view.bytes);
      return {};
    }
    return Status::invalid(where + ": model " + entry.model() + " has no parameter \"" + parameter +
                               "\"",
                           "the names are those of diffc import");
  }

  const SafetensorsReader &reader;
  Program &program;
  const proto::Entry &entry;
};

} // namespace

Result<Feed> Feed::load(const std::string &path, Program &program, const proto::Entry &entry) {
  DIFFRUN_ASSIGN(SafetensorsReader reader, SafetensorsReader::open(path));
  Feed feed;
  DIFFRUN_RETURN_IF_ERROR(FeedReader(reader, program, entry).read(feed.byRole));
  return feed;
}

InputData Feed::over(const InputData &others) const {
  InputData data = others;
  for (const auto &[role, bytes] : byRole)
    data[role] = bytes.data();
  return data;
}

Status dumpOutputs(const Program &program, const proto::Entry &entry,
                   const std::vector<float> &losses, const std::string &path) {
  std::vector<SafetensorsEntry> entries;
  for (const proto::Output &output : entry.outputs())
    entries.push_back({output.name(), fileType(output.type().dtype()), shapeOf(output.type()),
                       program.at(output.buffer())});
  for (const proto::SlotUse &use : entry.commits()) {
    const proto::Slot &slot = program.plan().plan().slots(static_cast<int>(use.slot()));
    if (!slot.model().empty() && slot.role() == "weight")
      entries.push_back({"new." + slot.parameter(), fileType(slot.type().dtype()),
                         shapeOf(slot.type()), program.at(slot.buffer())});
  }
  entries.push_back(
      {"losses", FileDType::kF32, {static_cast<int64_t>(losses.size())}, losses.data()});
  return SafetensorsWriter::write(path, entries, {});
}

} // namespace diffrun
