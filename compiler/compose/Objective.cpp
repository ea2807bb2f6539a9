#include "compiler/compose/Objective.h"

#include "runtime/sampling/Schedule.h"

#include <cmath>

using namespace mlir;
using diffrun::Result;
using diffrun::Status;

namespace diffc {
namespace {

/// Times of a batch: what the model is told, and alpha and sigma, all [B] f32.
struct Times {
  Value told, alpha, sigma;
};

class ObjectiveBuilder {
public:
  ObjectiveBuilder(EntryBuilder &entry, const Recipe &recipe, ArrayRef<GraphInput> inputs,
                   NoiseSource source, Value iteration, Value firstSample, const RunModel &run)
      : e(entry), recipe(recipe), objective(recipe.objective), inputs(inputs), source(source),
        iteration(iteration), firstSample(firstSample), run(run) {}

  Result<LossResult> build() {
    if (objective.kind == "diffusion")
      return diffusion();
    SmallVector<Value> operands;
    for (const GraphInput &input : inputs)
      operands.push_back(e.input(input.role, input.type, input.name));
    SmallVector<Value> outputs = run(operands);
    if (objective.kind == "loss_output") {
      RankedTensorType type = nn::tensorType(outputs.back());
      if (type.getNumElements() != 1 || !isa<FloatType>(type.getElementType()))
        return wrong("objective.kind loss_output needs a last output of one float");
      // The graph's own mean: each of the batch's samples has the same part.
      Value loss = e.cast(nn::reshape(e.builder(), outputs.back(), {}), e.f32());
      LossResult result{loss, outputs.front(), {}, {}};
      int64_t batch = 1;
      for (const GraphInput &input : inputs)
        if (input.type.getRank())
          batch = input.type.getDimSize(0);
      result.samples = e.c(static_cast<double>(batch));
      result.sum = e.mul(result.loss, result.samples);
      return result;
    }
    // The loss is f32, whatever the model computes in; so is its target.
    Value target = e.input(
        "target", RankedTensorType::get(nn::tensorType(outputs.front()).getShape(), e.f32()));
    return weighted(perSampleLoss(outputs.front(), target), {}, outputs.front());
  }

private:
  Status wrong(const std::string &what, const std::string &help = {}) const {
    return Status::invalid(recipe.path + ": " + what, help);
  }

  const GraphInput *find(const std::string &role) const {
    for (const GraphInput &input : inputs)
      if (input.role == role)
        return &input;
    return nullptr;
  }

  Result<LossResult> diffusion() {
    const GraphInput *noisy = find("noisy");
    if (!noisy || noisy->type.getRank() < 2)
      return wrong("objective.kind diffusion needs a graph input of role noisy, [batch, ...]");
    if (objective.labelDropout > 0 && !find("label"))
      return wrong("objective.label_dropout needs a graph input of role label",
                   "leave it out for a model without labels");
    batch = noisy->type.getDimSize(0);
    RankedTensorType shape = RankedTensorType::get(noisy->type.getShape(), e.f32());
    Value clean = e.input("clean", shape);
    Value noise = source == NoiseSource::kFed
                      ? e.input("noise", shape)
                      : e.draw("normal", shape.getShape(), iteration, firstSample);
    DIFFRUN_ASSIGN(Times times, makeTimes());
    int64_t rank = shape.getRank();
    Value alpha = e.perSample(times.alpha, rank), sigma = e.perSample(times.sigma, rank);
    Value mixed = e.add(e.mul(alpha, clean), e.mul(sigma, noise));

    SmallVector<Value> operands;
    for (const GraphInput &input : inputs) {
      Type element = input.type.getElementType();
      if (input.role == "noisy")
        operands.push_back(e.cast(mixed, element));
      else if (input.role == "timestep")
        operands.push_back(
            nn::broadcastTo(e.builder(), timestepFor(input, times.told), input.type.getShape()));
      else if (input.role == "label")
        operands.push_back(label(input));
      else
        operands.push_back(e.input(input.role, input.type, input.name));
    }
    SmallVector<Value> outputs = run(operands);
    if (nn::tensorType(outputs.front()).getShape() != shape.getShape())
      return wrong("the model's first output does not have the shape of its noisy input",
                   "a model that also predicts a variance is not supported");
    Value target;
    if (objective.predict == "eps")
      target = noise;
    else if (objective.predict == "x0")
      target = clean;
    else if (objective.predict == "v")
      target = e.sub(e.mul(alpha, noise), e.mul(sigma, clean));
    else
      target = e.sub(noise, clean);
    return weighted(perSampleLoss(outputs.front(), target), snrWeight(times), outputs.front());
  }

  Value timestepFor(const GraphInput &input, Value told) {
    Type element = input.type.getElementType();
    Value value = isa<FloatType>(element)
                      ? e.cast(told, element)
                      : e.cast(e.builder().create<nn::RoundOp>(e.loc(), told), element);
    if (input.type.getRank() == 1)
      return value;
    // A scalar timestep serves the whole batch: only a batch of 1 has one.
    return nn::reshape(e.builder(), value, input.type.getShape());
  }

  /// Labels, some replaced by the null label (classifier-free guidance).
  Value label(const GraphInput &input) {
    Value given = e.input("label", input.type, input.name);
    if (source == NoiseSource::kFed || objective.labelDropout <= 0)
      return given;
    Value u = e.draw("uniform", {batch}, iteration, firstSample);
    Value drop = e.builder().create<nn::LessOp>(e.loc(), u, e.c(objective.labelDropout));
    Value null = nn::scalar(e.builder(), e.loc(), static_cast<double>(objective.nullLabel),
                            input.type.getElementType());
    return e.builder().create<nn::SelectOp>(e.loc(), drop, null, given);
  }

  std::string timestepName() const {
    const GraphInput *input = find("timestep");
    return input ? input->name : "";
  }

  Result<Times> makeTimes() {
    double steps = static_cast<double>(objective.schedule.steps);
    auto perBatch = RankedTensorType::get({batch}, e.f32());
    Times times;
    if (objective.schedule.kind == "flow") {
      // Continuous: sigma in (0, 1); the model is told sigma * steps.
      if (source == NoiseSource::kFed) {
        times.told = e.input("timestep", perBatch, timestepName());
        times.sigma = e.mul(times.told, e.c(1 / steps));
      } else {
        if (objective.timesteps == "logit_normal")
          times.sigma = e.builder().create<nn::SigmoidOp>(
              e.loc(), e.draw("normal", {batch}, iteration, firstSample));
        else
          times.sigma = e.draw("uniform", {batch}, iteration, firstSample);
        times.told = e.mul(times.sigma, e.c(steps));
      }
      times.alpha = e.sub(e.c(1), times.sigma);
      return times;
    }
    if (source == NoiseSource::kFed) {
      times.told = e.input("timestep", perBatch, timestepName());
    } else {
      Value u = e.mul(e.draw("uniform", {batch}, iteration, firstSample), e.c(steps));
      // u below 1 times steps can round up to steps itself.
      times.told = e.minimum(e.builder().create<nn::FloorOp>(e.loc(), u), e.c(steps - 1));
    }
    DIFFRUN_ASSIGN(auto kind, diffrun::NoiseSchedule::kindFromName(objective.schedule.kind));
    bool scaled = objective.schedule.kind == "scaled_linear";
    double first = objective.schedule.betaStart, last = objective.schedule.betaEnd;
    auto made = diffrun::NoiseSchedule::create(kind, objective.schedule.steps,
                                               first < 0 ? (scaled ? 0.00085 : 1e-4) : first,
                                               last < 0 ? (scaled ? 0.012 : 2e-2) : last);
    if (!made)
      return made.status().withContext(recipe.path + ": objective.schedule");
    SmallVector<float> alphas, sigmas;
    for (int64_t t = 0; t < made->steps(); ++t) {
      alphas.push_back(static_cast<float>(made->alpha(t)));
      sigmas.push_back(static_cast<float>(made->sigma(t)));
    }
    Value index = e.cast(times.told, e.builder().getI64Type());
    times.alpha = e.builder().create<nn::GatherOp>(e.loc(), e.table(alphas), index, 0);
    times.sigma = e.builder().create<nn::GatherOp>(e.loc(), e.table(sigmas), index, 0);
    return times;
  }

  /// min(S, gamma) over S, S + 1 or 1, S = (alpha / sigma)^2.
  /// Source: Hang et al. 2023, arXiv:2303.09556, sec. 3.4.
  Value snrWeight(const Times &times) {
    if (objective.weighting == "none")
      return {};
    Value ratio = e.div(times.alpha, times.sigma), snr = e.mul(ratio, ratio);
    Value capped = e.minimum(snr, e.c(objective.gamma));
    if (objective.predict == "eps")
      // min(1, gamma / S): safe where S is 0.
      return e.minimum(e.c(1), e.div(e.c(objective.gamma), snr));
    if (objective.predict == "v")
      return e.div(capped, e.add(snr, e.c(1)));
    return capped;
  }

  Value perSampleLoss(Value output, Value target) {
    Value d = e.sub(e.cast(output, e.f32()), target);
    Value square = e.mul(d, d);
    if (objective.loss == "mse")
      return e.meanOfSample(square);
    // Huber with delta 1: d^2 / 2 inside, |d| - 1/2 outside.
    Value size = e.builder().create<nn::AbsOp>(e.loc(), d);
    Value inside = e.builder().create<nn::LessOp>(e.loc(), size, e.c(1));
    return e.meanOfSample(e.builder().create<nn::SelectOp>(e.loc(), inside, e.mul(e.c(0.5), square),
                                                           e.sub(size, e.c(0.5))));
  }

  /// The mean over the samples that count: role sample_weight is 0 for the
  /// filling of a short batch.
  LossResult weighted(Value perSample, Value weight, Value first) {
    auto type = RankedTensorType::get({nn::tensorType(perSample).getDimSize(0)}, e.f32());
    Value samples = e.input("sample_weight", type);
    if (weight)
      perSample = e.mul(perSample, weight);
    LossResult result;
    result.first = first;
    result.sum = e.sumAll(e.mul(perSample, samples));
    result.samples = e.sumAll(samples);
    result.loss = e.div(result.sum, result.samples);
    return result;
  }

  EntryBuilder &e;
  const Recipe &recipe;
  const ObjectiveRecipe &objective;
  ArrayRef<GraphInput> inputs;
  NoiseSource source;
  Value iteration, firstSample;
  const RunModel &run;
  int64_t batch = 0;
};

} // namespace

Result<LossResult> buildLoss(EntryBuilder &entry, const Recipe &recipe, ArrayRef<GraphInput> inputs,
                             NoiseSource source, Value iteration, Value firstSample,
                             const RunModel &run) {
  return ObjectiveBuilder(entry, recipe, inputs, source, iteration, firstSample, run).build();
}

} // namespace diffc
