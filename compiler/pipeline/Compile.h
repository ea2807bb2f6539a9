// The whole way: model and recipe in, plan out.
#pragma once

#include "runtime/core/Status.h"

#include <functional>
#include <string>
#include <vector>

namespace diffc {

struct CompileOptions {
  std::string model;          ///< ONNX file; empty: the recipe's
  std::string recipe;         ///< recipe.yaml; empty: all defaults
  std::string output;         ///< NAME.plan; empty: the model's name with .plan
  std::string target = "cpu"; ///< cpu[:LEVEL]
  std::string weights;        ///< overrides the recipe's; empty: the recipe's
  std::string parameters;     ///< the same
  std::string stopAfter;      ///< "compose", "fuse", "plan": print that phase's IR and stop
  bool fuse = true;
  int64_t plantFault = -1; ///< for tests: lowerToPlan()
};

struct CompileReport {
  std::string output;                 ///< the file that was written; empty if stopped
  std::string ir;                     ///< of --stop-after
  std::vector<std::string> decisions; ///< what was guessed or chosen
  double seconds = 0;
};

/// Compiles. Nothing is left half-written. Errors: as of the phases.
diffrun::Result<CompileReport> compile(const CompileOptions &options);

} // namespace diffc
