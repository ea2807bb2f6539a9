#include "runtime/checkpoint/CheckpointStore.h"

#include "runtime/checkpoint/AtomicFile.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <unistd.h>

namespace diffrun {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTemporary = ".tmp-";

std::optional<int64_t> stepOf(const std::string &folder) {
  if (folder.rfind("step-", 0) != 0)
    return std::nullopt;
  int64_t step = 0;
  const char *begin = folder.data() + 5, *end = folder.data() + folder.size();
  auto [stop, error] = std::from_chars(begin, end, step);
  if (error != std::errc() || stop != end || step < 0)
    return std::nullopt;
  return step;
}

// Steps on disk, newest first.
std::vector<int64_t> stepsIn(const std::string &root) {
  std::vector<int64_t> steps;
  std::error_code error;
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error))
    if (auto step = stepOf(it->path().filename().string()))
      steps.push_back(*step);
  std::sort(steps.rbegin(), steps.rend());
  return steps;
}

Result<CheckpointInfo> load(const std::string &folder, int64_t step) {
  std::ifstream stream(folder + "/state.json");
  if (!stream)
    return Status::invalid(folder + ": has no state.json");
  nlohmann::json document = nlohmann::json::parse(stream, nullptr, false);
  if (!document.is_object() || !document.contains("state") || !document.contains("files") ||
      !document["files"].is_array())
    return Status::invalid(folder + "/state.json: cannot be read");
  CheckpointInfo info;
  info.step = step;
  info.folder = folder;
  info.state = document["state"];
  for (const nlohmann::json &file : document["files"]) {
    if (!file.is_string())
      return Status::invalid(folder + "/state.json: files holds something else than names");
    info.files.push_back(file.get<std::string>());
    auto reader = SafetensorsReader::open(folder + "/" + info.files.back() + ".safetensors");
    if (!reader)
      return reader.status();
  }
  return info;
}

} // namespace

CheckpointStore::CheckpointStore(std::string runFolder, int keepLast)
    : root(std::move(runFolder) + "/checkpoints"), keepLast(keepLast) {}

Status CheckpointStore::save(int64_t step, const std::vector<CheckpointTensor> &tensors,
                             const nlohmann::json &state) {
  std::error_code error;
  fs::create_directories(root, error);
  if (error)
    return Status::machine(root + ": cannot create: " + error.message());
  for (fs::directory_iterator it(root, error), end; !error && it != end; it.increment(error))
    if (it->path().filename().string().rfind(kTemporary, 0) == 0) {
      std::error_code ignored;
      fs::remove_all(it->path(), ignored);
    }
  std::string name = "step-" + std::to_string(step);
  std::string temporary = root + "/" + std::string(kTemporary) + name;
  std::string final = root + "/" + name;
  fs::create_directory(temporary, error);
  if (error)
    return Status::machine(temporary + ": cannot create: " + error.message());
  auto write = [&]() -> Status {
    std::vector<std::string> files;
    for (const CheckpointTensor &tensor : tensors)
      if (std::find(files.begin(), files.end(), tensor.file) == files.end())
        files.push_back(tensor.file);
    for (const std::string &file : files) {
      std::vector<SafetensorsEntry> entries;
      for (const CheckpointTensor &tensor : tensors)
        if (tensor.file == file)
          entries.push_back(tensor.tensor);
      DIFFRUN_RETURN_IF_ERROR(
          SafetensorsWriter::write(temporary + "/" + file + ".safetensors", entries));
    }
    nlohmann::json document = {{"version", 1}, {"step", step}, {"files", files}, {"state", state}};
    return writeFileAtomically(temporary + "/state.json", document.dump(2) + "\n");
  };
  Status status = write();
  // A checkpoint of the same step (a run repeated after resume) moves to a
  // leftover's name first: rename cannot replace a folder that has files.
  std::string old = root + "/" + std::string(kTemporary) + "old-" + name;
  if (status.ok()) {
    if (fs::exists(final, error))
      fs::rename(final, old, error);
    if (!error)
      fs::rename(temporary, final, error);
    if (error)
      status = Status::machine(final + ": cannot create: " + error.message());
  }
  if (!status) {
    std::error_code ignored;
    fs::remove_all(temporary, ignored);
    if (!fs::exists(final, ignored) && fs::exists(old, ignored))
      fs::rename(old, final, ignored);
    return status;
  }
  DIFFRUN_RETURN_IF_ERROR(syncFolder(root));
  fs::remove_all(old, error);
  if (keepLast > 0) {
    std::vector<int64_t> steps = stepsIn(root);
    for (size_t i = static_cast<size_t>(keepLast); i < steps.size(); ++i)
      if (steps[i] != step)
        fs::remove_all(root + "/step-" + std::to_string(steps[i]), error);
  }
  return {};
}

Result<CheckpointInfo> CheckpointStore::newest() const {
  std::vector<std::string> skipped;
  for (int64_t step : stepsIn(root)) {
    auto info = load(root + "/step-" + std::to_string(step), step);
    if (info) {
      info->skipped = std::move(skipped);
      return info;
    }
    skipped.push_back(info.status().message());
  }
  std::string message = root + ": no complete checkpoint";
  for (const std::string &reason : skipped)
    message += "; " + reason;
  return Status::invalid(
      message, "name the folder of a run (--out of diffrun train), or start one without --resume");
}

} // namespace diffrun
