// A plan made ready to run: its memory, its code, its calls.
#pragma once

#include "runtime/device/cpu/Calls.h"
#include "runtime/execute/Memory.h"
#include "runtime/plan/LoadedPlan.h"

#include <map>
#include <memory>
#include <vector>

namespace diffrun {

/// The data of one run by role; each has the bytes of its input.
using InputData = std::map<std::string, const void *>;

/// One loaded program. Memory is taken in create(); running an entry takes
/// none (oneDNN's own argument lists aside).
///
/// Threads: one caller at a time; entries run with the plan's own team.
class Program {
public:
  /// Makes ready the given entries of the plan and its init entry, or all if
  /// none are given. The arena is as large as the largest of them needs.
  /// Errors: Machine where memory or a library call is not to be had;
  /// InvalidInput for an entry that is not there or code that lacks a kernel.
  static Result<std::unique_ptr<Program>> create(LoadedPlan plan,
                                                 const std::vector<std::string> &entries = {});
  ~Program();

  const LoadedPlan &plan() const { return loaded; }

  /// The first state: zeros, weights from the plan's file, then the init entry.
  /// Errors: InvalidInput naming file and tensor.
  Status initialize();

  /// Overrides a plan scalar of every entry that has it. Errors: InvalidInput
  /// naming the scalars that exist.
  Status setScalar(const std::string &name, double value);
  /// Its present value; 0 if the plan has none of the name.
  double scalar(const std::string &name) const;
  /// Every plan scalar with its present value.
  std::map<std::string, double> allScalars() const;

  /// Runs an entry on data for each of its roles. Errors: InvalidInput for an
  /// entry that is not ready, a role without data, or a draw out of its
  /// counter's range.
  Status run(const std::string &entry, const InputData &data);

  /// The pieces of run(): inputs into place, then single operations.
  Status placeInputs(const proto::Entry &entry, const InputData &data);
  Status runOp(const proto::Entry &entry, int index);

  /// An output of the entry that ran last; nullptr if it has none of the name.
  const void *output(const std::string &entry, const std::string &name) const;
  /// A scalar f32 output; NaN if there is none of the name.
  float outputFloat(const std::string &entry, const std::string &name) const;

  void *at(const proto::Buffer &buffer) const;
  void *slotData(int64_t slot) const {
    return at(loaded.plan().slots(static_cast<int>(slot)).buffer());
  }

  /// Bytes that create() took: spaces and scratch that the plan does not hold.
  int64_t plannedBytes() const;
  /// The process's peak so far beyond what it had resident when create() had made
  /// everything else ready and touched none of these bytes.
  int64_t measuredBytes() const { return peakResidentBytes() - before; }

private:
  struct Step;
  explicit Program(LoadedPlan plan);
  Status choose(const std::vector<std::string> &entries);
  Status allocate();
  Status loadCode();
  Status prepare();
  Status loadWeights();
  Status prepareCall(const proto::Entry &entry, int index, Step &step);
  Status runDraw(const proto::Entry &entry, int index, Step &step);

  LoadedPlan loaded;
  std::vector<const proto::Entry *> chosen;
  std::vector<Memory> spaces;
  Memory scratch; ///< of calls whose plan gives them none
  int64_t before = 0;
  int codeFile = -1;
  void *library = nullptr;
  std::map<std::string, double> scalars; ///< overridden ones
  std::map<const proto::Entry *, std::vector<Step>> steps;
};

} // namespace diffrun
