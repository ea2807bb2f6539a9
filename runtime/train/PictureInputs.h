// Pictures of a data set as an entry's inputs.
#pragma once

#include "runtime/data/Loader.h"
#include "runtime/execute/Program.h"

namespace diffrun {

/// The data input of a role; null if the entry takes none.
const proto::Input *inputOf(const proto::Entry &entry, const std::string &role);

/// The shape of the pictures that an entry takes. Errors: InvalidInput if it takes
/// none.
Result<ImageShape> pictureShapeOf(const LoadedPlan &plan, const proto::Entry &entry);

/// Whether a data set can serve an entry: labels where it takes them, and no more
/// than the model has rows for; whole batches where it cannot leave out the filling of a short one,
/// a batch at all where short ones are dropped. Errors: InvalidInput with the set's `name`.
Status checkSuits(const Dataset &dataset, const proto::Entry &entry, bool dropLast,
                  const std::string &name);

/// Gives a batch to every role that pictures and their labels can fill.
class PictureInputs {
public:
  /// The data live as long as `batch` and this object's next call.
  InputData of(const Batch &batch, const proto::Entry &entry);

private:
  std::vector<int32_t> narrow; ///< labels of a model that takes i32
};

} // namespace diffrun
