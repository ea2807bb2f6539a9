// diffrun sample: pictures from a trained plan.
#include "runtime/checkpoint/Safetensors.h"
#include "runtime/metrics/Metrics.h"
#include "runtime/train/SampleLoop.h"
#include "tools/diffrun/Commands.h"

#include <fmt/format.h>

#include <memory>
#include <unistd.h>

namespace diffrun {
namespace {

struct Options {
  std::string plan, out = "samples.png", tensors;
  SampleOptions sample;
};

Status run(const Options &options) {
  DIFFRUN_ASSIGN(auto program, openProgram(options.plan, {"denoise"}));
  SampleOptions sample = options.sample;
  if (isatty(2))
    sample.progress = [](int64_t done, int64_t all) {
      fmt::print(stderr, "\r{} of {} sampler steps", done, all);
      if (done == all)
        fmt::print(stderr, "\n");
    };
  DIFFRUN_ASSIGN(Samples samples, samplePictures(*program, sample));
  int64_t count = sample.count;
  DIFFRUN_RETURN_IF_ERROR(writeGrid(options.out, samples.pictures.data(), count, samples.channels,
                                    samples.height, samples.width, samples.columns));
  if (!options.tensors.empty())
    DIFFRUN_RETURN_IF_ERROR(SafetensorsWriter::write(
        options.tensors, {{"pictures",
                           FileDType::kF32,
                           {count, samples.channels, samples.height, samples.width},
                           samples.pictures.data()},
                          {"labels",
                           FileDType::kI64,
                           {static_cast<int64_t>(samples.labels.size())},
                           samples.labels.data()}}));
  fmt::print("{} pictures in {}\n", count, options.out);
  return {};
}

} // namespace

Action addSample(CLI::App &app) {
  auto options = std::make_shared<Options>();
  CLI::App *command = app.add_subcommand("sample", "Draw pictures with a trained plan");
  SampleOptions &sample = options->sample;
  command->add_option("plan", options->plan, "the plan")->required();
  command->add_option("--from", sample.from, "the run whose weights to take");
  command->add_option("--weights", sample.weights, "ema | ema0, ema1, ... | weight")
      ->capture_default_str();
  command->add_option("--sampler", sample.sampler, "euler | ddim | dpmpp2m")->capture_default_str();
  command->add_option("--steps", sample.steps, "sampler steps")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  command->add_option("--guidance", sample.guidance, "classifier-free guidance; 1: none")
      ->capture_default_str();
  command->add_option("--count", sample.count, "pictures")
      ->capture_default_str()
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 20));
  command->add_option("--labels", sample.labels, "classes, in turn (default: each, row by row)");
  command->add_option("--seed", sample.seed, "of the starting noise")->capture_default_str();
  command->add_option("--out", options->out, "the picture grid")->capture_default_str();
  command->add_option("--tensors", options->tensors, "also the pictures as FILE.safetensors");
  return [=] { return command->parsed() ? run(*options) : Status(); };
}

} // namespace diffrun
