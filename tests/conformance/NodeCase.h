// One node test of the ONNX project: a model of one operator, data, right values.
#pragma once

#include "compiler/import/Importer.h"
#include "runtime/evaluate/Tensor.h"

#include <string>
#include <vector>

namespace diffc::conformance {

enum class Verdict { kPassed, kSkipped, kFailed };

struct Outcome {
  Verdict verdict = Verdict::kPassed;
  std::string reason; ///< of a skip or failure
};

/// Runs the test in `folder` (ONNX's layout, see export_cases.py): imports the
/// model, evaluates it in double precision, compiles it for this CPU and runs
/// the plan; both results are compared with the stored ones.
///
/// Inputs that decide shapes are bound as constants: the fewest that make the
/// import succeed, integers first. Skipped where the test has values of a kind
/// that diffc does not have (sequences, strings, 8-bit numbers).
Outcome runCase(const std::string &folder, bool compile);

} // namespace diffc::conformance
