// A program's state in checkpoints: the model's own names, whole tensors.
#pragma once

#include "runtime/checkpoint/CheckpointStore.h"
#include "runtime/execute/Program.h"

namespace diffrun {

/// Every slot as a tensor of its file: weights under the model's own names in
/// "weights", averages in "ema0", ..., moments as m.NAME and v.NAME in
/// "optimizer". Counters are not tensors: countersOf(). Of several models that one
/// is kept of which something is trained; of the others what the plan draws, a
/// file each ("weights.MODEL"): the rest of them is in the plan's weights file.
std::vector<CheckpointTensor> tensorsOf(const Program &program);

/// The counters by name.
nlohmann::json countersOf(const Program &program);

/// Puts a checkpoint back. Errors: InvalidInput naming file and tensor where
/// one is missing or has another shape or type than the plan's.
Status restore(Program &program, const CheckpointInfo &checkpoint);

/// Fills the slots of `role` in memory from one file of a checkpoint ("weights",
/// "ema0"). Errors: as restore().
Status restoreRole(Program &program, const std::string &path, const std::string &prefix,
                   const std::string &role);

/// Fills what an entry reads of the trained model from a checkpoint, and sets the
/// run's scalars that it has. `weights`: ema (the first average) | ema0, ema1, ... |
/// weight; empty: those that the entry is compiled for. Errors: InvalidInput for
/// weights that the checkpoint or the entry does not have.
Status restoreFor(Program &program, const std::string &entry, const CheckpointInfo &checkpoint,
                  const std::string &weights);

} // namespace diffrun
