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

/// The entries that make a step, in order: where data are fed, of the one that also
/// takes noise and timesteps; where its insides are asked for, of the one that gives
/// them out. Errors: InvalidInput for an entry that the plan lacks.
Result<std::vector<const proto::Entry *>> chosenEntries(const LoadedPlan &plan,
                                                        const Options &options) {
  std::vector<std::string> names = {options.entry};
  if (options.entry.empty()) {
    names = {options.feed.empty() && options.dump.empty() ? "step" : "step_fed"};
    if (!plan.findEntry(names[0])) // a plan that accumulates has its step in two parts
      names = {"accumulate", "apply"};
  }
  std::vector<const proto::Entry *> entries;
  for (const std::string &name : names) {
    entries.push_back(plan.findEntry(name));
    if (entries.back())
      continue;
    std::string known;
    for (const proto::Entry &entry : plan.plan().entries())
      known += (known.empty() ? "" : ", ") + entry.name();
    return Status::invalid(options.plan + ": has no entry " + name, "it has " + known);
  }
  return entries;
}

void print(const proto::Entry &entry, const VerifyReport &report) {
  fmt::print("{}: {} operations agree with the evaluator; ", entry.name(), report.operations);
  if (report.worstWhere.empty())
    fmt::print("every result is exact\n");
  else
    fmt::print("the largest error is {:.2f} of its tolerance, at {}\n", report.worst,
               report.worstWhere);
  if (report.hasLoss)
    fmt::print("loss {:.7g}, in double precision from the inputs on {:.7g}\n", report.loss,
               report.lossEvaluated);
}

Status verify(const Options &options) {
  DIFFRUN_ASSIGN(auto program, openProgram(options.plan));
  DIFFRUN_ASSIGN(auto entries, chosenEntries(program->plan(), options));
  const proto::Entry &first = *entries[0];
  Feed feed;
  if (!options.feed.empty()) {
    DIFFRUN_ASSIGN(feed, Feed::load(options.feed, *program, first));
  }
  VerifyOptions verifying;
  if (isatty(2))
    verifying.progress = [](int done, int all) {
      fmt::print(stderr, "\r{} of {} operations", done, all);
      if (done == all)
        fmt::print(stderr, "\r\n");
    };
  std::vector<SyntheticData> synthetic;
  for (const proto::Entry *entry : entries)
    synthetic.emplace_back(*entry);
  auto dataOf = [&](size_t i) { return i ? synthetic[i].data() : feed.over(synthetic[i].data()); };
  // By itself the second step is the one to check: in the first one every moment is
  // 0, and what is wrong with 0.9 m does not show.
  bool given = !options.feed.empty() || !options.dump.empty();
  bool changes = entries.back()->commits_size() > 0;
  int64_t steps = options.steps ? options.steps : given || !changes ? 1 : 2;
  std::vector<float> losses;
  for (int64_t step = 1; step < steps; ++step) {
    for (size_t i = 0; i < entries.size(); ++i)
      DIFFRUN_RETURN_IF_ERROR(program->run(entries[i]->name(), dataOf(i)));
    losses.push_back(program->outputFloat(entries.back()->name(), "loss"));
  }
  for (size_t i = 0; i < entries.size(); ++i) {
    verifying.entry = entries[i]->name();
    DIFFRUN_ASSIGN(VerifyReport report, verifyEntry(*program, dataOf(i), verifying));
    print(*entries[i], report);
  }
  if (!options.dump.empty()) {
    losses.push_back(program->outputFloat(entries.back()->name(), "loss"));
    DIFFRUN_RETURN_IF_ERROR(dumpOutputs(*program, first, losses, options.dump));
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
