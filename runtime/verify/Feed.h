// Data for one run of an entry from a file, and what came out into one.
#pragma once

#include "runtime/checkpoint/Safetensors.h"
#include "runtime/execute/Program.h"

#include <map>
#include <string>
#include <vector>

namespace diffrun {

/// A .safetensors file whose tensors are named
///
///   role:NAME    what the entry takes in that role
///   input:NAME   the same by the graph input's own name
///   param:NAME   a parameter's weight (of the model that the entry trains)
///
/// Types and shapes are the plan's; sizes of [] and [1] count as equal.
class Feed {
public:
  /// Reads `path`, puts weights into the program's state and keeps the rest for
  /// `data`. Errors: InvalidInput naming file, tensor, and what the entry takes.
  static Result<Feed> load(const std::string &path, Program &program, const proto::Entry &entry);

  /// `others` with what the file gives in its place.
  InputData over(const InputData &others) const;

private:
  std::map<std::string, std::vector<char>> byRole;
};

/// Writes what the entry made: its outputs (out, loss, norm, grad.NAME as they
/// are before clipping), new.NAME, every weight that it changed, and losses [STEPS].
/// Errors: Machine where the file cannot be written.
Status dumpOutputs(const Program &program, const proto::Entry &entry,
                   const std::vector<float> &losses, const std::string &path);

} // namespace diffrun
