// The training loop around a compiled step.
#pragma once

#include "runtime/checkpoint/CheckpointStore.h"
#include "runtime/data/Loader.h"
#include "runtime/execute/Program.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace diffrun {

struct TrainOptions {
  std::string run;      ///< the run's folder
  std::string data;     ///< a data set; with resume the run's own if empty
  int64_t steps = 1000; ///< iterations in all, those before a resume included
  bool resume = false;
  bool flip = false;     ///< mirror half of the pictures
  bool dropLast = false; ///< leave out an epoch's short last batch instead of masking it
  int loaderThreads = 2;
  int64_t saveEvery = 0; ///< iterations between checkpoints; 0: only at the end
  int keep = 3;          ///< checkpoints to keep
  int64_t evalEvery = 0; ///< iterations between evaluations (and one at the end); 0: none
  std::string evalData;  ///< pictures to evaluate on; empty: the data set's test pictures
  int64_t logEvery = 1;
  std::function<void(const std::string &)> log; ///< lines for people
  bool quiet = false;                           ///< no progress line
};

/// What a run reads before its program takes memory.
struct TrainStart {
  std::unique_ptr<Dataset> dataset;
  std::unique_ptr<Dataset> evaluation;      ///< with evalEvery: what to evaluate on
  std::optional<CheckpointInfo> checkpoint; ///< to go on from
  std::string data;                         ///< the data set's name
  bool flip = false, dropLast = false;
};

/// Opens the data and, with resume, the checkpoint. Writes nothing.
/// Errors: Usage without data; InvalidInput for data that do not suit the plan, or
/// a run folder that holds a run already (with resume: none).
Result<TrainStart> startTraining(const LoadedPlan &plan, const TrainOptions &options);

/// Trains `program` (already initialised). Writes RUN/metrics.jsonl, TensorBoard
/// events, RUN/checkpoints and RUN/loss.png. A resumed run continues bit for
/// bit. Errors: InvalidInput for a checkpoint that does not suit the plan; Machine
/// for a full disk.
Status train(Program &program, const TrainStart &start, const TrainOptions &options);
/// The same with what startTraining() finds.
Status train(Program &program, const TrainOptions &options);

} // namespace diffrun
