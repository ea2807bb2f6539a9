#include "runtime/checkpoint/AtomicFile.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

namespace diffrun {
namespace {

Status systemError(const std::string &what, const std::string &path) {
  int reason = errno;
  std::string help;
  if (reason == ENOSPC || reason == EDQUOT || reason == EFBIG)
    help = "free some space or choose another folder";
  else if (reason == EROFS || reason == EACCES)
    help = "choose a folder that can be written";
  return Status::machine(path + ": " + what + ": " + std::strerror(reason), help);
}

std::string folderOf(const std::string &path) {
  size_t slash = path.rfind('/');
  if (slash == std::string::npos)
    return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

} // namespace

AtomicFile::~AtomicFile() {
  if (descriptor >= 0)
    ::close(descriptor);
  if (!temporary.empty())
    ::unlink(temporary.c_str());
}

Status AtomicFile::open(const std::string &path) {
  target = path;
  std::string name = path + ".tmp" + std::to_string(::getpid());
  descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor < 0)
    return systemError("cannot create", path);
  temporary = name;
  return {};
}

Status AtomicFile::write(const void *data, size_t bytes) {
  const char *from = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t done = ::write(descriptor, from, std::min<size_t>(bytes, size_t(1) << 30));
    if (done < 0) {
      if (errno == EINTR)
        continue;
      return systemError("cannot write", target);
    }
    from += done;
    bytes -= static_cast<size_t>(done);
  }
  return {};
}

Status AtomicFile::commit() {
  if (::fsync(descriptor) != 0)
    return systemError("cannot write", target);
  int closing = descriptor;
  descriptor = -1;
  if (::close(closing) != 0)
    return systemError("cannot write", target);
  if (::rename(temporary.c_str(), target.c_str()) != 0)
    return systemError("cannot create", target);
  temporary.clear();
  return syncFolder(folderOf(target));
}

Status syncFolder(const std::string &folder) {
  int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0)
    return systemError("cannot open", folder);
  int failed = ::fsync(descriptor);
  Status status = failed ? systemError("cannot write", folder) : Status();
  ::close(descriptor);
  return status;
}

Status writeFileAtomically(const std::string &path, const std::string &text) {
  AtomicFile file;
  DIFFRUN_RETURN_IF_ERROR(file.open(path));
  DIFFRUN_RETURN_IF_ERROR(file.write(text.data(), text.size()));
  return file.commit();
}

} // namespace diffrun
