// diffrun train: trains a plan on pictures.
#include "runtime/train/Trainer.h"
#include "tools/diffrun/Commands.h"

#include <fmt/format.h>

#include <memory>

namespace diffrun {
namespace {

struct Options {
  std::string plan;
  TrainOptions train;
  std::vector<std::string> scalars;
};

Status run(const Options &options) {
  TrainOptions train = options.train;
  train.log = [](const std::string &line) {
    fmt::print("{}\n", line);
    std::fflush(stdout);
  };
  DIFFRUN_ASSIGN(LoadedPlan plan, LoadedPlan::open(options.plan));
  // Data first: what is resident then is not the plan's.
  DIFFRUN_ASSIGN(TrainStart start, startTraining(plan, train));
  std::vector<std::string> entries = {"step", "accumulate", "apply"};
  if (train.evalEvery)
    entries.push_back("eval");
  DIFFRUN_ASSIGN(auto program, makeProgram(std::move(plan), entries, options.scalars));
  DIFFRUN_RETURN_IF_ERROR(diffrun::train(*program, start, train));
  fmt::print("memory: {:.1f} MiB planned, {:.1f} MiB measured\n",
             static_cast<double>(program->plannedBytes()) / 1048576,
             static_cast<double>(program->measuredBytes()) / 1048576);
  return {};
}

} // namespace

Action addTrain(CLI::App &app) {
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand("train", "Train a plan on pictures");
  TrainOptions &train = options->train;
  command->add_option("plan", options->plan, "the plan")->required();
  command->add_option("--out", train.run, "the run's folder")->required();
  command->add_option("--data", train.data,
                      "fashion-mnist, a folder of IDX files, or a folder of pictures");
  command->add_option("--steps", train.steps, "steps in all")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  command->add_flag("--resume", train.resume, "go on from the newest checkpoint");
  command->add_flag("--flip", train.flip, "mirror half of the pictures");
  command->add_flag("--drop-last", train.dropLast,
                    "leave out an epoch's short last batch instead of masking what it lacks");
  command->add_option("--loader-threads", train.loaderThreads, "decoding threads; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 64));
  command->add_option("--save-every", train.saveEvery, "steps between checkpoints; 0: at the end")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--keep", train.keep, "checkpoints to keep")->capture_default_str();
  command
      ->add_option("--eval-every", train.evalEvery,
                   "steps between evaluations by the plan's entry eval; 0: none")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_option("--eval-data", train.evalData,
                      "pictures to evaluate on (default: the data's test pictures)");
  command->add_option("--log-every", train.logEvery, "steps between lines of metrics.jsonl")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--set", options->scalars, "a plan scalar: NAME=NUMBER (lr, seed, ...)");
  command->add_flag("--quiet", train.quiet, "no progress");
  return [=] { return command->parsed() ? run(*options) : Status(); };
}

} // namespace diffrun
