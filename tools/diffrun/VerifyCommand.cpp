// diffrun verify: one real step against the double-precision evaluator.
#include "runtime/verify/Feed.h"
#include "runtime/verify/Verify.h"
#include "tools/diffrun/Commands.h"

#include <fmt/format.h>

#include <memory>
#include <unistd.h>

namespace diffrun {
namespace {

struct Options {
  std::string plan, entry, feed, dump;
  int64_t steps = 0; ///< 0: 2, or 1 with data from a file
};

/// The step; where data are fed, the one that also takes noise and timesteps;
/// where it is asked for its insides, the one that gives them out.
std::string chosenEntry(const Options &options) {
  if (!options.entry.empty())
    return options.entry;
  return options.feed.empty() && options.dump.empty() ? "step" : "step_fed";
}

Status verify(const Options &options) {
  DIFFRUN_ASSIGN(auto program, openProgram(options.plan));
  VerifyOptions verifying;
  verifying.entry = chosenEntry(options);
  const proto::Entry *entry = program->plan().findEntry(verifying.entry);
  if (!entry && options.entry.empty()) // a plan that accumulates
    entry = program->plan().findEntry(verifying.entry = "accumulate");
  if (!entry)
    return Status::invalid(options.plan + ": has no entry " + verifying.entry);
  SyntheticData synthetic(*entry);
  Feed feed;
  if (!options.feed.empty()) {
    DIFFRUN_ASSIGN(feed, Feed::load(options.feed, *program, *entry));
  }
  if (isatty(2))
    verifying.progress = [](int done, int all) {
      fmt::print(stderr, "\r{} of {} operations", done, all);
      if (done == all)
        fmt::print(stderr, "\r\n");
    };
  InputData data = feed.over(synthetic.data());
  // By itself the second step is the one to check: in the first one every moment is
  // 0, and what is wrong with 0.9 m does not show.
  bool given = !options.feed.empty() || !options.dump.empty();
  int64_t steps = options.steps ? options.steps : given || !entry->commits_size() ? 1 : 2;
  std::vector<float> losses;
  for (int64_t step = 1; step < steps; ++step) {
    DIFFRUN_RETURN_IF_ERROR(program->run(verifying.entry, data));
    losses.push_back(program->outputFloat(verifying.entry, "loss"));
  }
  DIFFRUN_ASSIGN(VerifyReport report, verifyEntry(*program, data, verifying));
  fmt::print("{} operations agree with the evaluator; the largest error is {:.2f} of its "
             "tolerance, at {}\n",
             report.operations, report.worst, report.worstWhere);
  if (report.hasLoss)
    fmt::print("loss {:.7g}, in double precision from the inputs on {:.7g}\n", report.loss,
               report.lossEvaluated);
  if (!options.dump.empty()) {
    losses.push_back(static_cast<float>(report.loss));
    DIFFRUN_RETURN_IF_ERROR(dumpOutputs(*program, *entry, losses, options.dump));
    fmt::print("what it made is in {}\n", options.dump);
  }
  return {};
}

} // namespace

Action addVerify(CLI::App &app) {
  auto options = std::make_shared<Options>();
  CLI::App *command =
      app.add_subcommand("verify", "Check one real step against the double-precision evaluator");
  command->add_option("plan", options->plan, "the plan")->required();
  command->add_option("--entry", options->entry, "which entry (default: the step)");
  command->add_option("--feed", options->feed,
                      "FILE.safetensors with role:NAME, input:NAME, param:NAME");
  command->add_option("--dump", options->dump,
                      "write FILE.safetensors with out, loss, norm, grad.NAME, new.NAME");
  command
      ->add_option("--steps", options->steps,
                   "steps on the same data; the last one is checked (default: 2; with --feed 1)")
      ->check(CLI::Range(int64_t{1}, int64_t{1000000}));
  return [=] { return command->parsed() ? verify(*options) : Status(); };
}

} // namespace diffrun
