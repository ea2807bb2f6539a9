#include "runtime/train/SampleLoop.h"

#include "runtime/random/Draws.h"
#include "runtime/sampling/Sampler.h"
#include "runtime/train/StateFiles.h"

#include <cmath>

namespace diffrun {
namespace {

/// The stream of starting noise: no entry's draws use it.
constexpr uint32_t kNoiseStream = 0xd1ff0001;

class SampleLoop {
public:
  SampleLoop(Program &program, const SampleOptions &options) : program(program), options(options) {}

  Result<Samples> run() {
    entry = program.plan().findEntry("denoise");
    if (!entry)
      return Status::invalid(program.plan().path() + ": has no entry denoise to sample with",
                             "add entries: {denoise: {batch: 80}} to the recipe");
    for (const proto::Input &input : entry->inputs()) {
      if (input.role() == "noisy")
        noisy = &input;
      else if (input.role() == "timestep")
        timestep = &input;
      else if (input.role() == "label")
        label = &input;
      else
        return Status::invalid("the denoise entry needs role " + input.role() +
                               ", which sampling cannot give");
    }
    if (!noisy || noisy->type().shape_size() != 4 || noisy->type().dtype() != proto::F32)
      return Status::invalid(program.plan().path() + ": its denoise entry takes no pictures");
    DIFFRUN_RETURN_IF_ERROR(checkOutput());
    nullLabel = program.plan().plan().objective().null_label();
    if (options.guidance != 1 && (!label || nullLabel < 0))
      return Status::invalid("guidance needs a label input and the recipe's null_label",
                             "leave --guidance out");
    DIFFRUN_RETURN_IF_ERROR(loadWeights());
    DIFFRUN_RETURN_IF_ERROR(makeSchedule());
    return sampleAll();
  }

private:
  Status checkOutput() const {
    const proto::TensorType &in = noisy->type();
    for (const proto::Output &output : entry->outputs())
      if (const proto::TensorType &out = output.type();
          output.name() == "out" && out.dtype() == in.dtype() &&
          std::equal(out.shape().begin(), out.shape().end(), in.shape().begin(), in.shape().end()))
        return {};
    return Status::invalid(program.plan().path() +
                               ": its denoise entry does not give what it takes: pictures of the "
                               "same type and shape",
                           "only models that predict noise, pictures or velocities are sampled");
  }

  Status loadWeights() {
    if (options.from.empty())
      return {};
    CheckpointStore store(options.from);
    DIFFRUN_ASSIGN(CheckpointInfo checkpoint, store.newest());
    return restoreFor(program, "denoise", checkpoint, options.weights);
  }

  Status makeSchedule() {
    const proto::Objective &o = program.plan().plan().objective();
    DIFFRUN_ASSIGN(ScheduleKind kind, NoiseSchedule::kindFromName(o.schedule()));
    DIFFRUN_ASSIGN(schedule, NoiseSchedule::create(kind, o.steps(), o.beta_start(), o.beta_end()));
    DIFFRUN_ASSIGN(times, timesteps(schedule, options.steps, Spacing::kTrailing));
    DIFFRUN_ASSIGN(sampler.kind, samplerFromName(options.sampler));
    sampler.predict = o.predict() == "v"      ? Predict::kV
                      : o.predict() == "x0"   ? Predict::kX0
                      : o.predict() == "flow" ? Predict::kFlow
                                              : Predict::kEps;
    isFlow = o.schedule() == "flow";
    return {};
  }

  /// What the model was told in training: steps, or, for flow, sigma * steps.
  double told(int64_t t) const {
    return isFlow ? static_cast<double>(t + 1) : static_cast<double>(t);
  }

  Status denoise(const float *x, int64_t t, const std::vector<int64_t> &labels, float *out,
                 size_t count) {
    if (timestep) { // a model may do without
      evaluate::Tensor time({static_cast<DType>(timestep->type().dtype()),
                             {timestep->type().shape().begin(), timestep->type().shape().end()}});
      std::fill(time.real.begin(), time.real.end(), told(t));
      std::fill(time.integer.begin(), time.integer.end(), static_cast<int64_t>(told(t)));
      timeBytes.resize(static_cast<size_t>(timestep->buffer().bytes()));
      evaluate::toBytes(time, timeBytes.data());
    }
    InputData data{{"noisy", x}, {"timestep", timeBytes.data()}, {"label", labels.data()}};
    std::vector<int32_t> narrow(labels.begin(), labels.end());
    if (label && label->type().dtype() == proto::I32)
      data["label"] = narrow.data();
    DIFFRUN_RETURN_IF_ERROR(program.run("denoise", data));
    std::copy_n(static_cast<const float *>(program.output("denoise", "out")), count, out);
    return {};
  }

  Result<Samples> sampleAll() {
    int64_t batch = noisy->type().shape(0);
    Samples samples;
    samples.channels = noisy->type().shape(1);
    samples.height = noisy->type().shape(2);
    samples.width = noisy->type().shape(3);
    int64_t each = samples.channels * samples.height * samples.width;
    int64_t classes = nullLabel > 0 ? nullLabel : 0;
    samples.columns = static_cast<int64_t>(std::ceil(std::sqrt(double(options.count))));
    if (label && classes && options.labels.empty() && options.count >= classes)
      samples.columns = (options.count + classes - 1) / classes;
    for (int64_t i = 0; label && i < options.count; ++i) {
      if (!options.labels.empty())
        samples.labels.push_back(options.labels[static_cast<size_t>(i) % options.labels.size()]);
      else
        samples.labels.push_back(classes ? std::min(i / samples.columns, classes - 1) : 0);
    }
    std::vector<float> x(static_cast<size_t>(batch * each));
    std::vector<float> unguided(x.size());
    int64_t rounds = (options.count + batch - 1) / batch, calls = 0;
    for (int64_t round = 0; round < rounds; ++round) {
      int64_t first = round * batch, real = std::min(batch, options.count - first);
      DIFFRUN_RETURN_IF_ERROR(drawNormal(
          {options.seed, kNoiseStream, 0, static_cast<uint64_t>(first)}, batch, each, x.data()));
      if (!isFlow) { // a flow starts at pure noise
        auto scale = static_cast<float>(startScale(schedule, times.front(), Spacing::kTrailing));
        for (float &value : x)
          value *= scale;
      }
      std::vector<int64_t> wanted(static_cast<size_t>(batch), 0), none(wanted.size(), nullLabel);
      for (int64_t i = 0; label && i < real; ++i)
        wanted[static_cast<size_t>(i)] = samples.labels[static_cast<size_t>(first + i)];
      auto model = [&](const float *at, int64_t t, float *out, size_t count) -> Status {
        DIFFRUN_RETURN_IF_ERROR(denoise(at, t, wanted, out, count));
        if (options.guidance != 1) {
          DIFFRUN_RETURN_IF_ERROR(denoise(at, t, none, unguided.data(), count));
          guide(out, unguided.data(), static_cast<float>(options.guidance), out, count);
        }
        if (options.progress)
          options.progress(++calls, rounds * options.steps);
        return {};
      };
      DIFFRUN_RETURN_IF_ERROR(sample(schedule, times, sampler, model, x.data(), x.size()));
      samples.pictures.insert(samples.pictures.end(), x.begin(), x.begin() + real * each);
    }
    return samples;
  }

  Program &program;
  const SampleOptions &options;
  const proto::Entry *entry = nullptr;
  const proto::Input *noisy = nullptr, *timestep = nullptr, *label = nullptr;
  int64_t nullLabel = -1;
  NoiseSchedule schedule;
  std::vector<int64_t> times;
  SamplerOptions sampler;
  bool isFlow = false;
  std::vector<char> timeBytes;
};

} // namespace

Result<Samples> samplePictures(Program &program, const SampleOptions &options) {
  return SampleLoop(program, options).run();
}

} // namespace diffrun
