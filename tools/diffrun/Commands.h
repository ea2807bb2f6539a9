// diffrun's commands: each adds its options and returns what runs it.
#pragma once

#include "runtime/core/Status.h"
#include "runtime/execute/Program.h"

#include <CLI/CLI.hpp>

#include <functional>
#include <vector>

namespace diffrun {

/// What a command does once its options are parsed.
using Action = std::function<Status()>;

Action addTrain(CLI::App &app);
Action addEval(CLI::App &app);
Action addSample(CLI::App &app);
Action addVerify(CLI::App &app);
Action addBench(CLI::App &app);
Action addInfo(CLI::App &app);

/// Makes ready those of `entries` that the plan has (all if none of them), sets
/// scalars (NAME=NUMBER), and gives the state its first values.
Result<std::unique_ptr<Program>> makeProgram(LoadedPlan plan,
                                             const std::vector<std::string> &entries,
                                             const std::vector<std::string> &scalars);
/// The same from a file.
Result<std::unique_ptr<Program>> openProgram(const std::string &path,
                                             const std::vector<std::string> &entries = {});

/// Sets plan scalars from NAME=NUMBER. Errors: Usage for other forms.
Status setScalars(Program &program, const std::vector<std::string> &settings);

/// Random but fixed data for every role of an entry: pictures in [-1, 1],
/// labels below 4 and timesteps below 1000, less where they index a smaller
/// table, weights of 1. For verify and bench.
class SyntheticData {
public:
  explicit SyntheticData(const proto::Entry &entry);
  const InputData &data() const { return byRole; }

private:
  std::vector<std::vector<char>> storage;
  InputData byRole;
};

} // namespace diffrun
