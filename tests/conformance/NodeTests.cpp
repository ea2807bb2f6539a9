// Runs the ONNX project's node tests: node_tests DIR [options].
//
// Each test runs in a child process, so that one that crashes fails alone.
#include "tests/conformance/NodeCase.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <llvm/Support/Signals.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fnmatch.h>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace diffc::conformance;

namespace {

struct Options {
  std::string folder, filter, skips;
  bool noCompile = false, list = false;
  int shard = 0, shards = 1, every = 1, least = 1;
};

/// Name patterns of tests that are not meant to pass, each with its reason.
struct Skip {
  std::string pattern, reason;
  int used = 0;
};

std::vector<Skip> readSkips(const std::string &path) {
  std::vector<Skip> skips;
  std::ifstream stream(path);
  for (std::string line; std::getline(stream, line);) {
    if (line.empty() || line[0] == '#')
      continue;
    std::istringstream words(line);
    Skip skip;
    words >> skip.pattern >> std::ws;
    std::getline(words, skip.reason);
    skips.push_back(skip);
  }
  return skips;
}

std::vector<std::string> caseNames(const Options &options) {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::directory_iterator(options.folder))
    if (std::filesystem::exists(entry.path() / "model.onnx") &&
        entry.path().filename().string().find(options.filter) != std::string::npos)
      names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  std::vector<std::string> mine;
  for (size_t i = 0; i < names.size(); ++i)
    if (i % static_cast<size_t>(options.every) == 0 &&
        (i / static_cast<size_t>(options.every)) % static_cast<size_t>(options.shards) ==
            static_cast<size_t>(options.shard))
      mine.push_back(names[i]);
  return mine;
}

/// Runs tests from `first` in a child until all are done or it dies; the
/// outcomes, in order.
std::vector<Outcome> runInChild(const Options &options, const std::vector<std::string> &names,
                                size_t first) {
  constexpr size_t kPerChild = 100;
  size_t end = std::min(names.size(), first + kPerChild);
  int ends[2];
  if (pipe(ends) != 0)
    return {};
  pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    FILE *out = fdopen(ends[1], "w");
    for (size_t i = first; i < end; ++i) {
      Outcome outcome = runCase(options.folder + "/" + names[i], !options.noCompile);
      std::replace(outcome.reason.begin(), outcome.reason.end(), '\n', ' ');
      fmt::print(out, "{} {}\n", static_cast<int>(outcome.verdict), outcome.reason);
      std::fflush(out);
    }
    _exit(0);
  }
  close(ends[1]);
  std::vector<Outcome> outcomes;
  FILE *in = fdopen(ends[0], "r");
  char *line = nullptr;
  size_t capacity = 0;
  while (getline(&line, &capacity, in) > 0) {
    std::string text(line);
    outcomes.push_back({static_cast<Verdict>(text[0] - '0'), text.substr(2, text.size() - 3)});
  }
  std::free(line);
  std::fclose(in);
  int status = 0;
  waitpid(child, &status, 0);
  if (outcomes.size() < end - first)
    outcomes.push_back({Verdict::kFailed, fmt::format("crashed (status {:#x})", status)});
  return outcomes;
}

int run(const Options &options) {
  std::vector<std::string> names = caseNames(options);
  std::vector<Skip> skips = readSkips(options.skips);
  std::vector<Outcome> outcomes;
  while (outcomes.size() < names.size()) {
    auto more = runInChild(options, names, outcomes.size());
    if (more.empty()) {
      fmt::print(stderr, "error: cannot start a child process\n");
      return 4;
    }
    outcomes.insert(outcomes.end(), more.begin(), more.end());
  }
  int passed = 0, skipped = 0, failed = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    Outcome outcome = outcomes[i];
    for (Skip &skip : skips) {
      if (fnmatch(skip.pattern.c_str(), names[i].c_str(), 0) != 0)
        continue;
      ++skip.used;
      if (outcome.verdict == Verdict::kFailed)
        outcome = {Verdict::kSkipped, skip.reason};
      else if (outcome.verdict == Verdict::kPassed)
        outcome = {Verdict::kFailed, "passes, but is listed as skipped (" + skip.pattern + ")"};
      break;
    }
    passed += outcome.verdict == Verdict::kPassed;
    skipped += outcome.verdict == Verdict::kSkipped;
    failed += outcome.verdict == Verdict::kFailed;
    if (outcome.verdict == Verdict::kFailed)
      fmt::print("FAILED  {}: {}\n", names[i], outcome.reason);
    else if (options.list)
      fmt::print("{} {}{}{}\n", outcome.verdict == Verdict::kPassed ? "passed " : "skipped",
                 names[i], outcome.reason.empty() ? "" : ": ", outcome.reason);
  }
  fmt::print("{} passed, {} skipped, {} failed\n", passed, skipped, failed);
  if (passed < options.least)
    fmt::print("fewer than {} passed\n", options.least);
  return failed || passed < options.least ? 1 : 0;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  options.skips = DIFFC_SOURCE_DIR "/tests/conformance/skips.txt";
  CLI::App app("Runs the ONNX project's node tests (written by export_cases.py) through import, "
               "evaluator and compiled plan.");
  app.add_option("DIR", options.folder, "folder of tests")
      ->required()
      ->check(CLI::ExistingDirectory);
  app.add_option("--filter", options.filter, "only tests whose name contains this");
  app.add_option("--skips", options.skips, "file of skipped tests and their reasons")
      ->check(CLI::ExistingFile);
  app.add_option("--every", options.every, "one test in N")->check(CLI::PositiveNumber);
  app.add_option("--shard", options.shard, "which part of --shards")->check(CLI::NonNegativeNumber);
  app.add_option("--shards", options.shards, "parts")->check(CLI::PositiveNumber);
  app.add_option("--least", options.least, "fail if fewer tests pass")->check(CLI::PositiveNumber);
  app.add_flag("--no-compile", options.noCompile, "import and evaluate only");
  app.add_flag("--list", options.list, "print every test");
  CLI11_PARSE(app, argc, argv);
  llvm::sys::PrintStackTraceOnErrorSignal(argv[0]);
  return run(options);
}
