// What a run leaves for people to look at.
#pragma once

#include "runtime/core/Status.h"

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace diffrun {

using Scalars = std::vector<std::pair<std::string, double>>;

/// metrics.jsonl: one JSON object per step, flushed line by line.
class MetricsFile {
public:
  MetricsFile() = default;
  MetricsFile(const MetricsFile &) = delete;
  MetricsFile &operator=(const MetricsFile &) = delete;
  ~MetricsFile();
  /// Opens for appending; lines of steps after `resumedStep`, and a line cut
  /// by a crash, are removed first (0: a new file). Errors: machine.
  Status open(const std::string &path, int64_t resumedStep);
  Status write(int64_t step, const Scalars &scalars);

private:
  std::string path;
  std::FILE *file = nullptr;
};

/// A TensorBoard event file with scalars.
class EventFile {
public:
  EventFile() = default;
  EventFile(const EventFile &) = delete;
  EventFile &operator=(const EventFile &) = delete;
  ~EventFile();
  /// Creates events.out.tfevents.TIME.diffrun.PID in `folder`. Errors: machine.
  Status open(const std::string &folder);
  Status write(int64_t step, const Scalars &scalars);

private:
  Status record(const std::string &event);
  std::string path;
  std::FILE *file = nullptr;
};

/// The progress line: "step 120/1200  loss 0.1234  8.1 steps/s  259 images/s
/// 2m13s left".
class Progress {
public:
  Progress(int64_t firstStep, int64_t lastStep, int64_t imagesPerStep);
  std::string line(int64_t step, double loss) const;

private:
  int64_t first, last, images;
  std::chrono::steady_clock::time_point start;
};

/// Draws `loss` over `step` of metrics.jsonl to a PNG with gnuplot.
/// Errors: machine, if gnuplot is missing or fails: a warning to callers.
Status plotLoss(const std::string &metricsPath, const std::string &pngPath);

/// A PNG of `count` pictures, float [count,C,H,W] in [-1,1] (values beyond
/// are clamped; C is 1 or 3), `columns` to a row, 2 pixels apart.
/// Errors: invalid for another C or an empty set; machine if not writable.
Status writeGrid(const std::string &path, const float *images, int64_t count, int64_t channels,
                 int64_t height, int64_t width, int64_t columns);

} // namespace diffrun
