// A plan made ready to run: its memory, its code, its calls.
#pragma once

#include "runtime/device/cpu/Calls.h"
#include "runtime/execute/Memory.h"
#include "runtime/plan/LoadedPlan.h"

#include <map>
#include <memory>
#include <vector>

namespace diffrun {

/// The data of one run by role; sizes are the inputs' own.
using InputData = std::map<std::string, const void *>;

/// One loaded program. Everything is allocated in create(); running an entry
/// allocates nothing.
///
/// Threads: one caller at a time; entries run with the plan's own team.
class Program {
public:
  /// Errors: Machine where memory or a library call is not to be had;
  /// InvalidInput for code that lacks a kernel.
  static Result<std::unique_ptr<Program>> create(LoadedPlan plan);
  ~Program();

  const LoadedPlan &plan() const { return loaded; }

  /// Weights from the plan's file, then the init entry. Errors: InvalidInput
  /// naming file and tensor.
  Status initialize();

  /// Overrides a plan scalar of every entry that has it. Errors: InvalidInput
  /// naming the scalars that exist.
  Status setScalar(const std::string &name, double value);
  double scalar(const std::string &name) const;

  /// Runs an entry on data for each of its roles. Errors: InvalidInput for a
  /// role without data or a draw out of its counter's range.
  Status run(const std::string &entry, const InputData &data);

  /// The pieces of run(): inputs into place, then single operations.
  Status placeInputs(const proto::Entry &entry, const InputData &data);
  Status runOp(const proto::Entry &entry, int index);

  /// An output of the entry that ran last; nullptr if it has none of the name.
  const void *output(const std::string &entry, const std::string &name) const;
  float outputFloat(const std::string &entry, const std::string &name) const;

  void *at(const proto::Buffer &buffer) const;
  void *slotData(int64_t slot) const { return at(loaded.plan().slots(static_cast<int>(slot)).buffer()); }

  /// Bytes that create() allocated: spaces and the calls' scratch.
  int64_t plannedBytes() const;
  /// What the process had resident just before create() allocated.
  int64_t residentBefore() const { return before; }

private:
  struct Step;
  explicit Program(LoadedPlan plan);
  Status allocate();
  Status loadCode();
  Status prepare();

  LoadedPlan loaded;
  std::vector<Memory> spaces;
  Memory scratch;
  int64_t before = 0;
  void *library = nullptr;
  std::map<std::string, double> scalars;
  std::map<const proto::Entry *, std::vector<Step>> steps;
};

} // namespace diffrun
