#include "runtime/train/PictureInputs.h"

#include <fmt/format.h>

namespace diffrun {

const proto::Input *inputOf(const proto::Entry &entry, const std::string &role) {
  for (const proto::Input &input : entry.inputs())
    if (!input.scalar() && input.role() == role)
      return &input;
  return nullptr;
}

Result<ImageShape> pictureShapeOf(const LoadedPlan &plan, const proto::Entry &entry) {
  const proto::Input *pictures = inputOf(entry, "clean");
  if (!pictures)
    pictures = inputOf(entry, "noisy");
  if (!pictures || pictures->type().shape_size() != 4 || pictures->type().dtype() != proto::F32)
    return Status::invalid(plan.path() + ": its " + entry.name() +
                               " takes no pictures [batch, channels, height, width]",
                           "diffrun train reads pictures; other data are not supported yet");
  return ImageShape{pictures->type().shape(1), pictures->type().shape(2),
                    pictures->type().shape(3)};
}

Status checkSuits(const Dataset &dataset, const proto::Entry &entry, bool dropLast,
                  const std::string &name) {
  if (entry.batch() < 1)
    return Status::invalid("the plan's entry " + entry.name() + " has no batch");
  if (inputOf(entry, "label") && dataset.classes().empty())
    return Status::invalid(name + ": has no labels, and the model needs them",
                           "sort the pictures into a folder per class");
  // A kernel keeps an index within its table: it would train another class's row.
  auto classes = static_cast<int64_t>(dataset.classes().size());
  for (int i = 0; i < entry.inputs_size(); ++i)
    if (const proto::Input &input = entry.inputs(i); !input.scalar() && input.role() == "label")
      if (int64_t rows = rowsIndexedBy(entry, i, classes); rows < classes)
        return Status::invalid(fmt::format("{}: has {} classes, the model's table for input {} has "
                                           "{} rows",
                                           name, classes, input.name(), rows),
                               "compile a model for as many classes, or leave some out");
  if (!inputOf(entry, "sample_weight") && !dropLast && dataset.size() % entry.batch() != 0)
    return Status::invalid(
        fmt::format("{}: {} samples are no whole batches of {}, and entry {} cannot mask the "
                    "filling of a short one: its loss is the graph's own (loss_output)",
                    name, dataset.size(), entry.batch(), entry.name()),
        "choose a batch that divides; training may leave the short one out with --drop-last");
  if (dropLast && dataset.size() < entry.batch())
    return Status::invalid(fmt::format("{}: 0 batches: {} samples are fewer than a batch of {}, "
                                       "and short batches are dropped",
                                       name, dataset.size(), entry.batch()),
                           "use a smaller batch, or keep short batches (without --drop-last)");
  return {};
}

InputData PictureInputs::of(const Batch &batch, const proto::Entry &entry) {
  InputData inputs;
  inputs["clean"] = inputs["noisy"] = inputs["target"] = batch.images.data();
  inputs["sample_weight"] = batch.weights.data();
  inputs["label"] = batch.labels.data();
  if (const proto::Input *label = inputOf(entry, "label");
      label && label->type().dtype() == proto::I32) {
    narrow.assign(batch.labels.begin(), batch.labels.end());
    inputs["label"] = narrow.data();
  }
  return inputs;
}

} // namespace diffrun
