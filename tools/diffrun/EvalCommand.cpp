// diffrun eval: the loss of a trained plan on pictures.
#include "runtime/train/Evaluation.h"
#include "runtime/train/StateFiles.h"
#include "tools/diffrun/Commands.h"

#include <fmt/format.h>

#include <memory>

namespace diffrun {
namespace {

struct Options {
  std::string plan, from, data, weights;
  int loaderThreads = 2;
};

Status run(const Options &options) {
  DIFFRUN_ASSIGN(LoadedPlan plan, LoadedPlan::open(options.plan));
  std::string data = options.data;
  CheckpointInfo checkpoint;
  if (!options.from.empty()) {
    DIFFRUN_ASSIGN(checkpoint, CheckpointStore(options.from).newest());
    if (data.empty())
      data = checkpoint.state.value("data", std::string());
  }
  if (data.empty())
    return Status::usage("no data are given", "--data fashion-mnist, or a folder of pictures");
  DIFFRUN_ASSIGN(auto dataset, openEvaluationData(plan, data));
  DIFFRUN_ASSIGN(auto program, makeProgram(std::move(plan), {"eval"}, {}));
  if (!options.from.empty())
    DIFFRUN_RETURN_IF_ERROR(restoreFor(*program, "eval", checkpoint, options.weights));
  DIFFRUN_ASSIGN(auto evaluation, Evaluation::create(*program, *dataset, options.loaderThreads));
  DIFFRUN_ASSIGN(double loss, evaluation->run());
  fmt::print("eval loss {:.6g} of {} pictures, {}\n", loss, dataset->size(),
             options.from.empty() ? "the plan's first weights"
                                  : "step " + std::to_string(checkpoint.step));
  return {};
}

} // namespace

Action addEval(CLI::App &app) {
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand("eval", "The loss on pictures that are not trained on");
  command->add_option("plan", options->plan, "the plan")->required();
  command->add_option("--from", options->from, "the run whose weights to take");
  command->add_option("--data", options->data,
                      "a data set's test pictures, or a folder of pictures (default: the run's)");
  command->add_option("--weights", options->weights,
                      "ema0, ema1, ... | weight (default: as entry eval is compiled)");
  command->add_option("--loader-threads", options->loaderThreads, "decoding threads; 0: none")
      ->capture_default_str()
      ->check(CLI::Range(0, 64));
  return [=] { return command->parsed() ? run(*options) : Status(); };
}

} // namespace diffrun
