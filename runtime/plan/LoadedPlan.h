// A plan file, checked in full before anything of it is used.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/evaluate/Evaluate.h"
#include "runtime/plan/plan.pb.h"

#include <memory>
#include <string>

namespace diffrun {

/// The version of the format that this runtime reads.
constexpr uint32_t kPlanVersion = 1;
/// Every buffer starts at a multiple of this.
constexpr int64_t kPlanAlignment = 64;

/// A plan whose every index, offset and size was checked, and whose buffers
/// were proved to hold what its operations expect.
class LoadedPlan {
public:
  /// Errors: InvalidInput naming the file and entry or operation; Machine
  /// naming the CPU feature that the plan needs and this machine lacks.
  static Result<LoadedPlan> open(const std::string &path);
  /// The same for a file's bytes; `path` is for messages.
  static Result<LoadedPlan> parse(const std::string &bytes, const std::string &path);
  /// The same for a plan in memory, which needs no seal.
  static Result<LoadedPlan> check(proto::Plan plan, const std::string &path);

  const proto::Plan &plan() const { return *proto; }
  const std::string &path() const { return filePath; }

  /// The entry of this name; nullptr if there is none.
  const proto::Entry *findEntry(const std::string &name) const;
  /// The slot of a parameter in a role; -1 if there is none.
  int64_t findSlot(const std::string &parameter, const std::string &role) const;

private:
  std::string filePath;
  std::shared_ptr<proto::Plan> proto;
};

/// Bytes of a tensor, or -1 where its shape is impossible.
int64_t bytesOf(const proto::TensorType &type);

/// "step, operation 12 (matmul, /blocks.0/fc1)".
std::string describe(const proto::Entry &entry, int index);

/// The rows of the smallest table that an input's values lead to as indices;
/// `otherwise` if there is none of fewer.
int64_t rowsIndexedBy(const proto::Entry &entry, int input, int64_t otherwise);

/// The entry's nn program in the evaluator's form. Errors: InvalidInput for
/// numbers or types out of range.
Result<evaluate::Graph> programOf(const proto::Entry &entry);

} // namespace diffrun
