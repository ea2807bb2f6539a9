#include "runtime/train/Evaluation.h"

namespace diffrun {

Result<std::unique_ptr<Evaluation>> Evaluation::create(Program &program, const std::string &where,
                                                       int threads) {
  std::unique_ptr<Evaluation> made(new Evaluation(program));
  made->entry = program.plan().findEntry("eval");
  if (!made->entry)
    return Status::invalid(program.plan().path() + ": has no entry eval",
                           "add entries: {eval: {batch: N}} to the recipe and compile again");
  DIFFRUN_ASSIGN(ImageShape shape, pictureShapeOf(program.plan(), *made->entry));
  DIFFRUN_ASSIGN(made->dataset, openDataset(where, "test", shape));
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
  DIFFRUN_ASSIGN(auto loader, Loader::create(*dataset, elements, options));
  Batch next;
  PictureInputs inputs;
  double sum = 0;
  for (int64_t pass = 0; pass < loader->batchesPerEpoch(); ++pass) {
    DIFFRUN_RETURN_IF_ERROR(loader->next(next));
    // A plan without draws in its eval has no such scalar.
    if (program.allScalars().count("eval_pass"))
      DIFFRUN_RETURN_IF_ERROR(program.setScalar("eval_pass", static_cast<double>(pass)));
    DIFFRUN_RETURN_IF_ERROR(program.run("eval", inputs.of(next, *entry)));
    sum += program.outputFloat("eval", "loss") * static_cast<double>(next.realRows);
  }
  return sum / static_cast<double>(dataset->size());
}

} // namespace diffrun
