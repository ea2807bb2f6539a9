// A run's checkpoints: RUN/checkpoints/step-N/.
#pragma once

#include "runtime/checkpoint/Safetensors.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace diffrun {

/// One tensor of a checkpoint and the file it belongs to ("weights",
/// "ema0", "optimizer"; written as FILE.safetensors).
struct CheckpointTensor {
  std::string file;
  SafetensorsEntry tensor;
};

/// One complete checkpoint on disk.
struct CheckpointInfo {
  int64_t step = 0;
  std::string folder;
  nlohmann::json state;             ///< the counters given to save()
  std::vector<std::string> files;   ///< "weights", "ema0", ...
  std::vector<std::string> skipped; ///< newer ones that were broken, with the reason
};

/// Saves and finds checkpoints. A checkpoint folder appears by one rename,
/// after all its files are durable; a crash leaves only a `.tmp-` folder,
/// which the next save() removes.
class CheckpointStore {
public:
  /// `keepLast` <= 0 keeps all. Creates nothing yet.
  explicit CheckpointStore(std::string runFolder, int keepLast = 0);

  /// Errors: machine, naming the path; older checkpoints stay intact.
  Status save(int64_t step, const std::vector<CheckpointTensor> &tensors,
              const nlohmann::json &state);

  /// The newest checkpoint whose state.json and files are all readable.
  /// Errors: invalid if there is none, naming the broken ones.
  Result<CheckpointInfo> newest() const;

private:
  std::string root;
  int keepLast;
};

} // namespace diffrun
