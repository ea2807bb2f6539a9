#include "runtime/train/Trainer.h"

#include "runtime/metrics/Metrics.h"
#include "runtime/train/Evaluation.h"
#include "runtime/train/StateFiles.h"

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace diffrun {
namespace {

/// Since the process was started, its loading included.
double secondsSinceStart() {
  // Field 22 of /proc/self/stat, in clock ticks since the machine started; the
  // name in field 2 may hold spaces.
  std::ifstream stat("/proc/self/stat"), uptime("/proc/uptime");
  std::string text((std::istreambuf_iterator<char>(stat)), {});
  std::istringstream fields(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  std::string field;
  for (int i = 3; i <= 22; ++i)
    fields >> field;
  double now = 0;
  uptime >> now;
  return now - std::strtod(field.c_str(), nullptr) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

/// A plan that accumulates has its step in two parts.
Result<const proto::Entry *> stepOf(const LoadedPlan &plan) {
  if (const proto::Entry *step = plan.findEntry("step"))
    return step;
  const proto::Entry *accumulate = plan.findEntry("accumulate");
  if (!accumulate || !plan.findEntry("apply"))
    return Status::invalid(plan.path() + ": has no entry step to train with");
  return accumulate;
}

class Trainer {
public:
  Trainer(Program &program, const TrainStart &start, const TrainOptions &options)
      : program(program), start(start), options(options), store(options.run, options.keep) {}

  Status run() {
    DIFFRUN_ASSIGN(entry, stepOf(program.plan()));
    parts = {entry};
    if (entry->name() == "accumulate") {
      update = program.plan().findEntry("apply");
      parts.push_back(update);
    }
    DIFFRUN_RETURN_IF_ERROR(startOrResume());
    DIFFRUN_RETURN_IF_ERROR(openLoader());
    if (iteration() >= options.steps)
      say("nothing to do: " + std::to_string(iteration()) + " steps are done");
    DIFFRUN_RETURN_IF_ERROR(loop());
    // The plot is for people; a machine without gnuplot trains all the same.
    if (Status plotted = plotLoss(options.run + "/metrics.jsonl", options.run + "/loss.png");
        !plotted)
      say("warning: no loss.png: " + plotted.message());
    return {};
  }

private:
  void say(const std::string &line) const {
    if (options.log)
      options.log(line);
  }

  int64_t counter(const std::string &name) const {
    int64_t slot = program.plan().findSlot(name, "value"), value = 0;
    if (slot >= 0)
      std::memcpy(&value, program.slotData(slot), 8);
    return value;
  }
  int64_t iteration() const { return counter("iteration"); }

  Status startOrResume() {
    if (!start.checkpoint) {
      std::error_code error;
      std::filesystem::create_directories(options.run, error);
      if (error)
        return Status::machine(options.run + ": cannot be made: " + error.message());
      return openLogs(0);
    }
    const CheckpointInfo &checkpoint = *start.checkpoint;
    for (const std::string &skipped : checkpoint.skipped)
      say("warning: skipped a broken checkpoint: " + skipped);
    DIFFRUN_RETURN_IF_ERROR(restore(program, checkpoint));
    consumed = checkpoint.state.value("consumed", int64_t{0});
    const auto scalars = checkpoint.state.value("scalars", nlohmann::json::object());
    for (auto &[name, value] : scalars.items())
      if (value.is_number() && !overridden(name))
        DIFFRUN_RETURN_IF_ERROR(program.setScalar(name, value.get<double>()));
    say("resumed at step " + std::to_string(iteration()) + " from " + checkpoint.folder);
    return openLogs(iteration());
  }

  /// Whether the command line gave a scalar a value other than the plan's.
  bool overridden(const std::string &name) const {
    for (const proto::Entry *part : parts)
      for (const proto::Input &input : part->inputs())
        if (input.scalar() && input.name() == name)
          return program.scalar(name) != input.initial();
    return true;
  }

  Status openLogs(int64_t step) {
    DIFFRUN_RETURN_IF_ERROR(metrics.open(options.run + "/metrics.jsonl", step));
    return events.open(options.run);
  }

  Status openLoader() {
    DIFFRUN_ASSIGN(ImageShape shape, pictureShapeOf(program.plan(), *entry));
    say(start.dataset->describe());
    if (start.evaluation) {
      say("evaluated on " + start.evaluation->describe());
      DIFFRUN_ASSIGN(evaluation,
                     Evaluation::create(program, *start.evaluation, options.loaderThreads));
    }
    LoaderOptions loading;
    loading.batch = entry->batch();
    loading.seed = static_cast<uint64_t>(program.scalar("seed"));
    loading.threads = options.loaderThreads;
    loading.flip = start.flip;
    loading.dropLast = start.dropLast;
    loading.consumed = consumed;
    DIFFRUN_ASSIGN(loader, Loader::create(*start.dataset, shape.elements(), loading));
    return {};
  }

  Status loop() {
    Progress progress(iteration(), options.steps, entry->batch() * windowSize());
    bool terminal = isatty(2) && !options.quiet;
    while (iteration() < options.steps) {
      DIFFRUN_RETURN_IF_ERROR(iterate());
      int64_t done = iteration();
      if (!started) {
        started = true;
        say(fmt::format("first step done {:.2f} s after the start", secondsSinceStart()));
      }
      float loss = program.outputFloat(lastEntry(), "loss");
      bool last = done == options.steps;
      bool evaluate = evaluation && (last || done % options.evalEvery == 0);
      if (done % options.logEvery == 0 || last || evaluate) {
        Scalars scalars{{"loss", loss},
                        {"norm", program.outputFloat(lastEntry(), "norm")},
                        {"lr", program.outputFloat(lastEntry(), "lr")},
                        {"optimizer_steps", static_cast<double>(counter("step"))}};
        if (evaluate) {
          DIFFRUN_ASSIGN(double evaluated, evaluation->run());
          scalars.emplace_back("eval_loss", evaluated);
          say(fmt::format("step {}  eval loss {:.4f}", done, evaluated));
        }
        DIFFRUN_RETURN_IF_ERROR(metrics.write(done, scalars));
        DIFFRUN_RETURN_IF_ERROR(events.write(done, scalars));
      }
      if (!std::isfinite(loss))
        say("warning: step " + std::to_string(done) + ": the loss is not finite, skipped");
      if (terminal)
        std::fprintf(stderr, "\r%s  ", progress.line(done, loss).c_str());
      else if (!options.quiet && (done % 50 == 0 || done == options.steps))
        say(progress.line(done, loss));
      if (last || (options.saveEvery && done % options.saveEvery == 0))
        DIFFRUN_RETURN_IF_ERROR(save());
    }
    if (terminal)
      std::fprintf(stderr, "\n");
    return {};
  }

  /// One iteration: a step, or the micro-steps of a window and its update. A
  /// window ends with the epoch, so that no update mixes two.
  Status iterate() {
    if (!update)
      return step();
    for (int64_t micro = 0; micro < windowSize(); ++micro) {
      DIFFRUN_RETURN_IF_ERROR(step());
      if (loader->consumed() % start.dataset->size() == 0)
        break;
    }
    return program.run("apply", {});
  }

  int64_t windowSize() const {
    return std::max<int64_t>(1, program.plan().plan().objective().accumulate());
  }

  const std::string &lastEntry() const { return parts.back()->name(); }

  Status step() {
    DIFFRUN_RETURN_IF_ERROR(loader->next(batch));
    return program.run(entry->name(), inputs.of(batch, *entry));
  }

  Status save() {
    nlohmann::json scalars = nlohmann::json::object();
    for (const proto::Entry *part : parts)
      for (const proto::Input &input : part->inputs())
        if (input.scalar())
          scalars[input.name()] = program.scalar(input.name());
    nlohmann::json state = {{"counters", countersOf(program)},
                            {"consumed", loader->consumed()},
                            {"data", start.data},
                            {"flip", start.flip},
                            {"drop_last", start.dropLast},
                            {"scalars", scalars},
                            {"plan", program.plan().plan().name()}};
    return store.save(iteration(), tensorsOf(program), state);
  }

  Program &program;
  const TrainStart &start;
  const TrainOptions &options;
  CheckpointStore store;
  const proto::Entry *entry = nullptr, *update = nullptr;
  std::vector<const proto::Entry *> parts; ///< of one iteration: a step, or both of its parts
  int64_t consumed = 0;
  bool started = false;
  std::unique_ptr<Loader> loader;
  Batch batch;
  PictureInputs inputs;
  std::unique_ptr<Evaluation> evaluation;
  MetricsFile metrics;
  EventFile events;
};

} // namespace

Result<TrainStart> startTraining(const LoadedPlan &plan, const TrainOptions &options) {
  DIFFRUN_ASSIGN(const proto::Entry *entry, stepOf(plan));
  DIFFRUN_ASSIGN(ImageShape shape, pictureShapeOf(plan, *entry));
  TrainStart start;
  start.data = options.data;
  start.flip = options.flip;
  start.dropLast = options.dropLast;
  if (options.resume) {
    DIFFRUN_ASSIGN(start.checkpoint, CheckpointStore(options.run, options.keep).newest());
    if (start.data.empty()) {
      start.data = start.checkpoint->state.value("data", std::string());
      start.flip = start.checkpoint->state.value("flip", false);
      start.dropLast = start.checkpoint->state.value("drop_last", false);
    }
  } else if (std::filesystem::exists(options.run + "/checkpoints")) {
    return Status::invalid(options.run + ": holds a run already",
                           "go on with --resume, or name another folder with --out");
  }
  if (start.data.empty())
    return Status::usage("no data are given", "--data fashion-mnist, or a folder of pictures");
  DIFFRUN_ASSIGN(start.dataset, openDataset(start.data, "train", shape));
  DIFFRUN_RETURN_IF_ERROR(checkSuits(*start.dataset, *entry, start.dropLast, start.data));
  if (options.evalEvery) {
    DIFFRUN_ASSIGN(
        start.evaluation,
        openEvaluationData(plan, options.evalData.empty() ? start.data : options.evalData));
  }
  return start;
}

Status train(Program &program, const TrainStart &start, const TrainOptions &options) {
  return Trainer(program, start, options).run();
}

Status train(Program &program, const TrainOptions &options) {
  DIFFRUN_ASSIGN(TrainStart start, startTraining(program.plan(), options));
  return train(program, start, options);
}

} // namespace diffrun
