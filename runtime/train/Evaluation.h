// The loss on pictures that are not trained on.
#pragma once

#include "runtime/train/PictureInputs.h"

#include <memory>

namespace diffrun {

/// Runs a plan's entry eval over a whole data set. The draws of batch k are those
/// of pass k, so every evaluation sees the same noise and times: its values can be
/// compared over a run.
class Evaluation {
public:
  /// `where` as openDataset() takes it: its test pictures, or a folder's own.
  /// Errors: InvalidInput if the plan has no entry eval, or as of openDataset().
  static Result<std::unique_ptr<Evaluation>> create(Program &program, const std::string &where,
                                                    int threads);

  /// The mean loss of all samples. Errors: a picture that cannot be decoded.
  Result<double> run();

  std::string describe() const { return dataset->describe(); }

private:
  explicit Evaluation(Program &program) : program(program) {}

  Program &program;
  const proto::Entry *entry = nullptr;
  std::unique_ptr<Dataset> dataset;
  int64_t batch = 0, elements = 0;
  int threads = 0;
};

} // namespace diffrun
