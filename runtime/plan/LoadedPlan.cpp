#include "runtime/plan/LoadedPlan.h"

#include "runtime/plan/PlanChecks.h"
#include "runtime/plan/PlanValidator.h"
#include "runtime/plan/Seal.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/stubs/logging.h>

#include <cerrno>
#include <cstring>
#include <fcntl.h>
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

constexpr size_t kLargestFile = size_t{1} << 30;

/// The whole file, or why not.
Result<std::string> readFile(const std::string &path) {
  int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0)
    return Status::invalid(path + ": cannot be opened: " + std::strerror(errno),
                           "compile it: diffc MODEL.onnx --recipe RECIPE.yaml -o " + path);
  struct stat info;
  std::string bytes;
  Status status;
  if (::fstat(file, &info) != 0 || !S_ISREG(info.st_mode))
    status = Status::invalid(path + ": is not a file");
  else if (static_cast<size_t>(info.st_size) > kLargestFile)
    status = Status::invalid(path + ": is no plan: it has " + std::to_string(info.st_size) +
                             " bytes, a plan at most " + std::to_string(kLargestFile));
  else
    bytes.resize(static_cast<size_t>(info.st_size));
  for (size_t done = 0; status.ok() && done < bytes.size();) {
    ssize_t now = ::read(file, bytes.data() + done, bytes.size() - done);
    if (now <= 0)
      status = Status::invalid(
          path + ": cannot be read: " + (now < 0 ? std::strerror(errno) : "it is cut short"));
    done += static_cast<size_t>(std::max<ssize_t>(now, 0));
  }
  ::close(file);
  if (!status)
    return status;
  return bytes;
}

} // namespace

Result<LoadedPlan> LoadedPlan::check(proto::Plan plan, const std::string &path) {
  DIFFRUN_RETURN_IF_ERROR(checkPlan(plan, path));
  DIFFRUN_RETURN_IF_ERROR(validatePlan(plan, path));
  LoadedPlan loaded;
  loaded.filePath = path;
  loaded.proto = std::make_shared<proto::Plan>(std::move(plan));
  return loaded;
}

Result<LoadedPlan> LoadedPlan::parse(const std::string &bytes, const std::string &path) {
  if (!isSealed(bytes))
    return Status::invalid(path + ": is not a complete plan",
                           "it is cut short, damaged, or no plan at all; compile it again");
  proto::Plan plan;
  google::protobuf::LogSilencer silence; // one error, ours
  google::protobuf::io::CodedInputStream coded(reinterpret_cast<const uint8_t *>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  coded.SetRecursionLimit(16);
  if (!plan.ParseFromCodedStream(&coded) || !coded.ConsumedEntireMessage())
    return Status::invalid(path + ": is no plan", "compile it again");
  return check(std::move(plan), path);
}

Result<LoadedPlan> LoadedPlan::open(const std::string &path) {
  DIFFRUN_ASSIGN(std::string bytes, readFile(path));
  return parse(bytes, path);
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
