// diffrun verify: one real step against the double-precision evaluator.
#include "runtime/verify/Verify.h"
#include "tools/diffrun/Commands.h"

#include <fmt/format.h>

#include <memory>
#include <unistd.h>

namespace diffrun {
namespace {

struct Options {
  std::string plan, entry = "step";
};

Status verify(const Options &options) {
  DIFFRUN_ASSIGN(auto program, openProgram(options.plan));
  const proto::Entry *entry = program->plan().findEntry(options.entry);
  if (!entry)
    return Status::invalid(options.plan + ": has no entry " + options.entry);
  SyntheticData data(*entry);
  VerifyOptions verifying;
  verifying.entry = options.entry;
  if (isatty(2))
    verifying.progress = [](int done, int all) {
      fmt::print(stderr, "\r{} of {} operations", done, all);
      if (done == all)
        fmt::print(stderr, "\r\n");
    };
  DIFFRUN_ASSIGN(VerifyReport report, verifyEntry(*program, data.data(), verifying));
  fmt::print("{} operations agree with the evaluator; the largest error is {:.2f} of its "
             "tolerance, at {}\n",
             report.operations, report.worst, report.worstWhere);
  fmt::print("loss {:.6g}\n", report.loss);
  return {};
}

} // namespace

Action addVerify(CLI::App &app) {
  auto options = std::make_shared<Options>();
  CLI::App *command =
      app.add_subcommand("verify", "Check one real step against the double-precision evaluator");
  command->add_option("plan", options->plan, "the plan")->required();
  command->add_option("--entry", options->entry, "which entry")->capture_default_str();
  return [=] { return command->parsed() ? verify(*options) : Status(); };
}

} // namespace diffrun
