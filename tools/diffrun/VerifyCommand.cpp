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
  // The second step is the one to check: in the first one every moment is 0, and
  // what is wrong with 0.9 m does not show.
  if (options.feed.empty() && options.dump.empty() && entry->commits_size())
    DIFFRUN_RETURN_IF_ERROR(program->run(verifying.entry, synthetic.data()));
  DIFFRUN_ASSIGN(VerifyReport report,
                 verifyEntry(*program, feed.over(synthetic.data()), verifying));
  fmt::print("{} operations agree with the evaluator; the largest error is {:.2f} of its "
             "tolerance, at {}\n",
             report.operations, report.worst, report.worstWhere);
  if (report.hasLoss)
    fmt::print("loss {:.7g}, in double precision from the inputs on {:.7g}\n", report.loss,
               report.lossEvaluated);
  if (!options.dump.empty()) {
    DIFFRUN_RETURN_IF_ERROR(dumpOutputs(*program, *entry, options.dump));
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
  return [=] { return command->parsed() ? verify(*options) : Status(); };
}

} // namespace diffrun
