#include "runtime/metrics/Metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <opencv2/imgcodecs.hpp>
#include <unistd.h>

namespace diffrun {

Status writeGrid(const std::string &path, const float *images, int64_t count, int64_t channels,
                 int64_t height, int64_t width, int64_t columns) {
  if (count < 1 || columns < 1 || height < 1 || width < 1 || (channels != 1 && channels != 3))
    return Status::invalid(path + ": a grid needs pictures of 1 or 3 channels");
  constexpr int64_t kGap = 2;
  columns = std::min(columns, count);
  int64_t rows = (count + columns - 1) / columns;
  cv::Mat grid(static_cast<int>(rows * (height + kGap) + kGap),
               static_cast<int>(columns * (width + kGap) + kGap), channels == 1 ? CV_8UC1 : CV_8UC3,
               cv::Scalar::all(255));
  for (int64_t n = 0; n < count; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t y = 0; y < height; ++y) {
        const float *from = images + ((n * channels + c) * height + y) * width;
        uint8_t *row =
            grid.ptr<uint8_t>(static_cast<int>(kGap + n / columns * (height + kGap) + y));
        for (int64_t x = 0; x < width; ++x) {
          float value = std::isnan(from[x]) ? -1.0f : std::clamp(from[x], -1.0f, 1.0f);
          int64_t column = kGap + n % columns * (width + kGap) + x;
          row[column * channels + (channels - 1 - c)] =
              static_cast<uint8_t>(std::lround((value + 1.0f) * 127.5f));
        }
      }
  std::vector<uint8_t> bytes;
  try {
    cv::imencode(".png", grid, bytes);
  } catch (const cv::Exception &failure) {
    return Status::internal(path + ": cannot encode: " + failure.err);
  }
  std::string temporary = path + ".tmp" + std::to_string(::getpid());
  std::FILE *file = std::fopen(temporary.c_str(), "wb");
  bool good = file && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
  if (file)
    good = std::fclose(file) == 0 && good;
  if (good && std::rename(temporary.c_str(), path.c_str()) == 0)
    return {};
  std::remove(temporary.c_str());
  return Status::machine(path + ": cannot write");
}

} // namespace diffrun
