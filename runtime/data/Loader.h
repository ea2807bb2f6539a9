// Batches in a fixed order, decoded ahead of time.
#pragma once

#include "runtime/data/Dataset.h"

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

namespace diffrun {

/// One batch of B rows. Rows past the end of an epoch have weight 0, repeat
/// the first row's picture, and id -1.
struct Batch {
  std::vector<float> images;   ///< [B,C,H,W] in [-1,1]
  std::vector<int64_t> labels; ///< [B]
  std::vector<float> weights;  ///< [B], 1 or 0
  std::vector<int64_t> ids;    ///< [B], index in the dataset or -1
  int64_t realRows = 0;
};

struct LoaderOptions {
  int64_t batch = 1;
  uint64_t seed = 0;
  int threads = 2; ///< 0 decodes in next()
  bool shuffle = true;
  bool flip = false;     ///< mirror half of the pictures
  bool dropLast = false; ///< drop a short last batch instead of filling it
  int64_t consumed = 0;  ///< samples consumed before: where to resume
};

/// Order, flips and batches depend on (dataset, seed, batch, consumed) alone,
/// not on threads. State to save: consumed().
class Loader {
public:
  /// `dataset` must outlive the loader. `elements` = C*H*W of one picture.
  /// Errors: invalid for an empty dataset, batch < 1, or dropLast with fewer
  /// pictures than a batch.
  static Result<std::unique_ptr<Loader>> create(const Dataset &dataset, int64_t elements,
                                                LoaderOptions options);
  ~Loader();

  /// The next batch; the memory of what `batch` held is used for a later one, so
  /// that a loop that keeps one takes no new memory once the queue was full.
  /// Errors: a picture's decoding error.
  Status next(Batch &batch);

  /// Samples of all epochs that next() has given so far (those of a dropped
  /// short batch count when the epoch ends).
  int64_t consumed() const { return taken; }
  int64_t batchesPerEpoch() const;

private:
  struct Plan {
    int64_t epoch = 0, start = 0, rows = 0, after = 0;
  };
  struct Done {
    Status status;
    Batch batch;
  };
  Loader(const Dataset &dataset, int64_t elements, LoaderOptions options);
  Plan planAfter(int64_t consumed) const;
  std::shared_ptr<const std::vector<int64_t>> order(int64_t epoch);
  Status fill(const Plan &plan, Batch &batch);
  void work();

  const Dataset &dataset;
  int64_t elements;
  LoaderOptions options;
  int64_t taken = 0;

  std::mutex mutex;
  std::condition_variable wake;
  bool stop = false;
  int64_t planned = 0;                // consumed() after the last handed-out plan
  int64_t nextTicket = 0, wanted = 0; // batches started, batches taken
  std::map<int64_t, Done> ready;      // by ticket
  std::deque<Batch> spare;            // memory for batches to come
  std::mutex orderMutex;
  std::map<int64_t, std::shared_ptr<const std::vector<int64_t>>> orders;
  std::vector<std::thread> workers;
};

/// The permutation of 0..size-1 that `epoch` is read in: Fisher-Yates from
/// Philox with key `seed`.
std::vector<int64_t> epochOrder(int64_t size, uint64_t seed, int64_t epoch);
/// Whether the picture at `position` of `epoch` is mirrored.
bool epochFlip(uint64_t seed, int64_t epoch, int64_t position);

} // namespace diffrun
