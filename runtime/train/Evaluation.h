// The loss on pictures that are not trained on.
#pragma once

#include "runtime/train/PictureInputs.h"

#include <memory>

namespace diffrun {

/// The pictures that a plan's entry eval can run on. `where` as openDataset() takes
/// it: its test pictures, or a folder's own. Errors: InvalidInput if the plan has no
/// entry eval, or as of openDataset().
Result<std::unique_ptr<Dataset>> openEvaluationData(const LoadedPlan &plan,
                                                    const std::string &where);

/// Runs a plan's entry eval over a whole data set. The draws of batch k are those
/// of pass k, so every evaluation sees the same noise and times: its values can be
/// compared over a run.
class Evaluation {
public:
  /// `dataset` (see openEvaluationData) must outlive the evaluation.
  /// Errors: InvalidInput if the plan has no entry eval.
  static Result<std::unique_ptr<Evaluation>> create(Program &program, const Dataset &dataset,
                                                    int threads);

  /// The mean loss of all samples. Errors: a picture that cannot be decoded.
  Result<double> run();

private:
  Evaluation(Program &program, const Dataset &dataset) : program(program), dataset(dataset) {}

  Program &program;
  const Dataset &dataset;
  const proto::Entry *entry = nullptr;
  int64_t batch = 0, elements = 0;
  int threads = 0;
};

} // namespace diffrun
