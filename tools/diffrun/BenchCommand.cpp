// diffrun bench: how fast a step is, and how much memory it takes.
#include "tools/diffrun/Commands.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>

namespace diffrun {
namespace {

struct Options {
  std::string plan, entry = "step";
  int steps = 20, warmup = 3;
  bool json = false, profile = false;
};

double seconds(const std::function<void()> &work) {
  auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double percentile(std::vector<double> sorted, double part) {
  std::sort(sorted.begin(), sorted.end());
  return sorted[static_cast<size_t>(part * static_cast<double>(sorted.size() - 1) + 0.5)];
}

/// GFLOP/s of a large matmul on this machine, best of a few: the peak that
/// shares refer to.
Result<double> probePeak() {
  proto::Matmul m;
  constexpr int64_t kSize = 1024;
  for (auto *shape : {m.mutable_a_shape(), m.mutable_b_shape(), m.mutable_c_shape()})
    shape->Add(kSize), shape->Add(kSize);
  for (auto *strides : {m.mutable_a_strides(), m.mutable_b_strides()})
    strides->Add(kSize), strides->Add(1);
  m.set_dtype(proto::F32);
  DIFFRUN_ASSIGN(auto call, makeMatmul(m));
  std::vector<float> a(kSize * kSize, 1), b(kSize * kSize, 1), c(kSize * kSize);
  std::vector<char> scratch(static_cast<size_t>(call->scratchBytes()) + 64);
  char *aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64;
  DIFFRUN_RETURN_IF_ERROR(call->bind({a.data(), b.data()}, c.data(), aligned));
  double best = 1e9;
  Status status;
  for (int i = 0; i < 8 && status.ok(); ++i)
    best = std::min(best, seconds([&] { status = call->run(); }));
  DIFFRUN_RETURN_IF_ERROR(status);
  return 2e-9 * kSize * kSize * kSize / best;
}

struct Share {
  double time = 0, flops = 0, bytes = 0;
  int count = 0;
};

Status bench(const Options &options) {
  DIFFRUN_ASSIGN(auto program, openProgram(options.plan, {options.entry}));
  const proto::Entry *entry = program->plan().findEntry(options.entry);
  if (!entry)
    return Status::invalid(options.plan + ": has no entry " + options.entry);
  SyntheticData data(*entry);
  Status status;
  auto step = [&] {
    if (Status now = program->run(options.entry, data.data()); !now)
      status = now;
  };
  for (int i = 0; i < options.warmup && status.ok(); ++i)
    step();
  std::vector<double> times;
  for (int i = 0; i < options.steps && status.ok(); ++i)
    times.push_back(1e3 * seconds(step));
  DIFFRUN_RETURN_IF_ERROR(status);
  int64_t measured = program->measuredBytes(); // before the probe, which takes its own
  DIFFRUN_ASSIGN(double peak, probePeak());
  double flops = 0;
  for (const proto::Op &op : entry->ops())
    flops += static_cast<double>(op.flops());
  double median = percentile(times, 0.5), rate = flops / median * 1e-6;

  std::map<std::string, Share> shares;
  if (options.profile) {
    DIFFRUN_RETURN_IF_ERROR(program->placeInputs(*entry, data.data()));
    for (int i = 0; i < entry->ops_size(); ++i) {
      const proto::Op &op = entry->ops(i);
      Share &share = shares[op.label()];
      share.time += 1e3 * seconds([&] { status = program->runOp(*entry, i); });
      share.flops += static_cast<double>(op.flops());
      share.bytes += static_cast<double>(op.bytes_read() + op.bytes_written());
      ++share.count;
      DIFFRUN_RETURN_IF_ERROR(status);
    }
  }
  std::vector<std::pair<std::string, Share>> sorted(shares.begin(), shares.end());
  std::sort(sorted.begin(), sorted.end(),
            [](auto &a, auto &b) { return a.second.time > b.second.time; });
  if (options.json) {
    nlohmann::json out = {{"median_ms", median},
                          {"p10_ms", percentile(times, 0.1)},
                          {"p90_ms", percentile(times, 0.9)},
                          {"gflops", rate},
                          {"peak_gflops", peak},
                          {"peak_share", rate / peak},
                          {"planned_bytes", program->plannedBytes()},
                          {"measured_bytes", measured},
                          {"times_ms", times}};
    for (auto &[label, share] : sorted)
      out["profile"].push_back({{"operator", label},
                                {"count", share.count},
                                {"ms", share.time},
                                {"gflops", share.flops / share.time * 1e-6},
                                {"gb_s", share.bytes / share.time * 1e-6}});
    fmt::print("{}\n", out.dump());
    return {};
  }
  fmt::print("{}: {} steps of {}\n", options.plan, options.steps, options.entry);
  fmt::print("  time      median {:.2f} ms, p10 {:.2f}, p90 {:.2f}\n", median,
             percentile(times, 0.1), percentile(times, 0.9));
  fmt::print("  speed     {:.1f} GFLOP/s, {:.0f} % of this machine's matmul at {:.1f}\n", rate,
             100 * rate / peak, peak);
  fmt::print("  memory    {:.1f} MiB planned, {:.1f} MiB measured\n",
             static_cast<double>(program->plannedBytes()) / 1048576,
             static_cast<double>(measured) / 1048576);
  for (auto &[label, share] : sorted)
    fmt::print("  {:<44} {:4}x {:9.2f} ms {:7.1f} GFLOP/s {:6.1f} GB/s\n", label, share.count,
               share.time, share.flops / share.time * 1e-6, share.bytes / share.time * 1e-6);
  return {};
}

} // namespace

Action addBench(CLI::App &app) {
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand("bench", "Measure a step's time and memory");
  command->add_option("plan", options->plan, "the plan")->required();
  command->add_option("--entry", options->entry, "which entry")->capture_default_str();
  command->add_option("--steps", options->steps, "steps to time")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000000));
  command->add_option("--warmup", options->warmup, "steps before")
      ->capture_default_str()
      ->check(CLI::NonNegativeNumber);
  command->add_flag("--json", options->json, "one JSON line");
  command->add_flag("--profile", options->profile, "time by kind of operation");
  return [=] { return command->parsed() ? bench(*options) : Status(); };
}

} // namespace diffrun
