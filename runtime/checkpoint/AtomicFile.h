// Files that appear whole or not at all.
#pragma once

#include "runtime/core/Status.h"

#include <string>

namespace diffrun {

/// A file under a temporary name that commit() makes durable and renames.
/// Destroyed without commit(), it leaves nothing behind.
/// Errors everywhere: machine, naming the path and the system's reason.
class AtomicFile {
public:
  AtomicFile() = default;
  AtomicFile(const AtomicFile &) = delete;
  AtomicFile &operator=(const AtomicFile &) = delete;
  ~AtomicFile();

  Status open(const std::string &path);
  Status write(const void *data, size_t bytes);
  Status commit();

private:
  std::string target;
  std::string temporary;
  int descriptor = -1;
};

/// Makes renames and new names in `folder` durable.
Status syncFolder(const std::string &folder);

/// Writes `text` to `path` as an AtomicFile.
Status writeFileAtomically(const std::string &path, const std::string &text);

} // namespace diffrun
