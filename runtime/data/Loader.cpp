#include "runtime/data/Loader.h"

#include "runtime/random/Philox.h"

#include <algorithm>
#include <numeric>

namespace diffrun {
namespace {

// Counter word 3 tells the uses apart: training draws use other values.
constexpr uint32_t kShuffleUse = 0x5348554F, kFlipUse = 0x464C4950;

std::array<uint32_t, 4> draw(uint32_t use, uint64_t seed, int64_t epoch, int64_t position) {
  return philox4x32({static_cast<uint32_t>(position),
                     static_cast<uint32_t>(static_cast<uint64_t>(position) >> 32),
                     static_cast<uint32_t>(epoch), use},
                    {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)});
}

} // namespace

std::vector<int64_t> epochOrder(int64_t size, uint64_t seed, int64_t epoch) {
  std::vector<int64_t> order(static_cast<size_t>(size));
  std::iota(order.begin(), order.end(), int64_t(0));
  for (int64_t i = size - 1; i > 0; --i) {
    auto words = draw(kShuffleUse, seed, epoch, i);
    uint64_t word = uint64_t(words[1]) << 32 | words[0];
    // The high half of a 64 x 64 bit product: uniform up to 2^-64 * size.
    auto j = static_cast<int64_t>((static_cast<unsigned __int128>(word) * uint64_t(i + 1)) >> 64);
    std::swap(order[static_cast<size_t>(i)], order[static_cast<size_t>(j)]);
  }
  return order;
}

bool epochFlip(uint64_t seed, int64_t epoch, int64_t position) {
  return draw(kFlipUse, seed, epoch, position)[0] >> 31;
}

Result<std::unique_ptr<Loader>> Loader::create(const Dataset &dataset, int64_t elements,
                                               LoaderOptions options) {
  if (dataset.size() < 1)
    return Status::invalid("no samples: " + dataset.describe());
  if (options.batch < 1 || options.consumed < 0 || options.threads < 0)
    return Status::invalid("batch must be at least 1, samples consumed and threads at least 0");
  if (options.dropLast && dataset.size() < options.batch)
    return Status::invalid("the data has " + std::to_string(dataset.size()) +
                               " samples, fewer than one batch of " +
                               std::to_string(options.batch) + ", and short batches are dropped",
                           "use a smaller batch, or keep short batches");
  std::unique_ptr<Loader> loader(new Loader(dataset, elements, options));
  for (int i = 0; i < options.threads; ++i)
    loader->workers.emplace_back([raw = loader.get()] { raw->work(); });
  return loader;
}

Loader::Loader(const Dataset &dataset, int64_t elements, LoaderOptions options)
    : dataset(dataset), elements(elements), options(options), taken(options.consumed),
      planned(options.consumed) {}

Loader::~Loader() {
  {
    std::lock_guard<std::mutex> lock(mutex);
    stop = true;
  }
  wake.notify_all();
  for (std::thread &worker : workers)
    worker.join();
}

int64_t Loader::batchesPerEpoch() const {
  int64_t size = dataset.size();
  return options.dropLast ? size / options.batch : (size + options.batch - 1) / options.batch;
}

Loader::Plan Loader::planAfter(int64_t consumed) const {
  int64_t size = dataset.size();
  Plan plan{consumed / size, consumed % size, 0, 0};
  if (options.dropLast && size - plan.start < options.batch)
    plan = {plan.epoch + 1, 0, 0, 0};
  plan.rows = std::min(options.batch, size - plan.start);
  plan.after = plan.epoch * size + plan.start + plan.rows;
  if (options.dropLast && size - plan.start - plan.rows < options.batch)
    plan.after = (plan.epoch + 1) * size;
  return plan;
}

std::shared_ptr<const std::vector<int64_t>> Loader::order(int64_t epoch) {
  std::lock_guard<std::mutex> lock(orderMutex);
  auto &slot = orders[epoch];
  if (!slot) {
    slot = std::make_shared<const std::vector<int64_t>>(
        epochOrder(dataset.size(), options.seed, epoch));
    // Threads are at most a few batches apart; tiny epochs need a few more.
    while (orders.size() > 8 && orders.begin()->first < epoch)
      orders.erase(orders.begin());
    return orders[epoch];
  }
  return slot;
}

Status Loader::fill(const Plan &plan, Batch &batch) {
  auto rows = static_cast<size_t>(options.batch);
  batch.images.resize(rows * static_cast<size_t>(elements));
  batch.labels.assign(rows, 0);
  batch.weights.assign(rows, 0.0f);
  batch.ids.assign(rows, -1);
  batch.realRows = plan.rows;
  std::shared_ptr<const std::vector<int64_t>> permutation;
  if (options.shuffle)
    permutation = order(plan.epoch);
  for (int64_t row = 0; row < options.batch; ++row) {
    float *out = batch.images.data() + row * elements;
    if (row >= plan.rows) {
      std::copy_n(batch.images.data(), elements, out);
      batch.labels[row] = batch.labels[0];
      continue;
    }
    int64_t position = plan.start + row;
    int64_t index = permutation ? (*permutation)[position] : position;
    bool flip = options.flip && epochFlip(options.seed, plan.epoch, position);
    DIFFRUN_RETURN_IF_ERROR(dataset.decode(index, flip, out));
    batch.labels[row] = dataset.label(index);
    batch.weights[row] = 1.0f;
    batch.ids[row] = index;
  }
  return {};
}

void Loader::work() {
  const int64_t ahead = 2 * options.threads + 1;
  std::unique_lock<std::mutex> lock(mutex);
  while (true) {
    wake.wait(lock, [&] { return stop || nextTicket < wanted + ahead; });
    if (stop)
      return;
    int64_t ticket = nextTicket++;
    Plan plan = planAfter(planned);
    planned = plan.after;
    Done done;
    if (!spare.empty()) {
      done.batch = std::move(spare.front());
      spare.pop_front();
    }
    lock.unlock();
    done.status = fill(plan, done.batch);
    lock.lock();
    ready.emplace(ticket, std::move(done));
    wake.notify_all();
  }
}

Status Loader::next(Batch &batch) {
  Plan plan = planAfter(taken);
  if (options.threads == 0) {
    DIFFRUN_RETURN_IF_ERROR(fill(plan, batch));
  } else {
    std::unique_lock<std::mutex> lock(mutex);
    wake.wait(lock, [&] { return ready.count(wanted) != 0; });
    Done &done = ready.at(wanted);
    if (!done.status)
      return done.status;
    std::swap(batch, done.batch);
    if (!done.batch.images.empty())
      spare.push_back(std::move(done.batch));
    ready.erase(wanted++);
    wake.notify_all();
  }
  taken = plan.after;
  return {};
}

} // namespace diffrun
