#include "runtime/train/Evaluation.h"

namespace diffrun {

namespace {

Result<const proto::Entry *> evalOf(const LoadedPlan &plan) {
  if (const proto::Entry *entry = plan.findEntry("eval"))
    return entry;
  return Status::invalid(plan.path() + ": has no entry eval",
                         "add entries: {eval: {batch: N}} to the recipe and compile again");
}

} // namespace

Result<std::unique_ptr<Dataset>> openEvaluationData(const LoadedPlan &plan,
                                                    const std::string &where) {
  DIFFRUN_ASSIGN(const proto::Entry *entry, evalOf(plan));
  DIFFRUN_ASSIGN(ImageShape shape, pictureShapeOf(plan, *entry));
  DIFFRUN_ASSIGN(auto dataset, openDataset(where, "test", shape));
  DIFFRUN_RETURN_IF_ERROR(checkSuits(*dataset, *entry, /*dropLast=*/false, where));
  return dataset;
}

Result<std::unique_ptr<Evaluation>> Evaluation::create(Program &program, const Dataset &dataset,
                                                       int threads) {
  std::unique_ptr<Evaluation> made(new Evaluation(program, dataset));
  DIFFRUN_ASSIGN(made->entry, evalOf(program.plan()));
  DIFFRUN_ASSIGN(ImageShape shape, pictureShapeOf(program.plan(), *made->entry));
  made->elements = shape.elements();
  made->batch = made->entry->batch();
  made->threads = threads;
  return made;
}

Result<double> Evaluation::run() {
  LoaderOptions options;
  options.batch = batch;
  options.threads = threads;
  options.shuffle = false;
  DIFFRUN_ASSIGN(auto loader, Loader::create(dataset, elements, options));
  Batch next;
  PictureInputs inputs;
  // A plan without draws in its eval has no such scalar.
  bool draws = program.allScalars().count("eval_pass") != 0;
  double sum = 0;
  for (int64_t pass = 0; pass < loader->batchesPerEpoch(); ++pass) {
    DIFFRUN_RETURN_IF_ERROR(loader->next(next));
    if (draws)
      DIFFRUN_RETURN_IF_ERROR(program.setScalar("eval_pass", static_cast<double>(pass)));
    DIFFRUN_RETURN_IF_ERROR(program.run("eval", inputs.of(next, *entry)));
    sum += program.outputFloat("eval", "loss") * static_cast<double>(next.realRows);
  }
  return sum / static_cast<double>(dataset.size());
}

} // namespace diffrun
