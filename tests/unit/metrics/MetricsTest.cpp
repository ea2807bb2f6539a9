// Metrics that survive a resume, and files others can read.
#include "runtime/metrics/Metrics.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <unistd.h>

using namespace diffrun;
namespace fs = std::filesystem;

namespace {

TEST(Metrics, ResumeTruncates) {
  std::string path = fs::temp_directory_path() / ("metrics-" + std::to_string(::getpid()));
  {
    MetricsFile file;
    ASSERT_TRUE(file.open(path, 0).ok());
    for (int64_t step : {1, 2, 3})
      ASSERT_TRUE(file.write(step, {{"loss", 0.5 * double(step)}}).ok());
  }
  std::ofstream(path, std::ios::app) << "{\"step\":4,\"lo";
  {
    MetricsFile file;
    ASSERT_TRUE(file.open(path, 2).ok());
    ASSERT_TRUE(file.write(3, {{"loss", 9}}).ok());
  }
  std::ifstream stream(path);
  std::string text((std::istreambuf_iterator<char>(stream)), {});
  EXPECT_EQ(text,
            "{\"step\":1,\"loss\":0.5}\n{\"step\":2,\"loss\":1.0}\n{\"step\":3,\"loss\":9.0}\n");
  fs::remove(path);
}

TEST(Metrics, LossIsPlotted) {
  fs::path folder = fs::temp_directory_path() / ("plot-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  {
    MetricsFile file;
    ASSERT_TRUE(file.open(folder / "metrics.jsonl", 0).ok());
    for (int64_t step = 1; step < 20; ++step)
      ASSERT_TRUE(file.write(step, {{"loss", 1.0 / double(step)}}).ok());
  }
  Status plotted = plotLoss(folder / "metrics.jsonl", folder / "loss.png");
  if (plotted.ok())
    EXPECT_GT(fs::file_size(folder / "loss.png"), 100u);
  else
    EXPECT_NE(plotted.message().find("not installed"), std::string::npos) << plotted.message();
  fs::remove_all(folder);
}

TEST(Metrics, GridIsWritten) {
  std::string path = fs::temp_directory_path() / ("grid-" + std::to_string(::getpid()) + ".png");
  std::vector<float> images(3 * 4 * 4, 0.0f);
  EXPECT_TRUE(writeGrid(path, images.data(), 3, 1, 4, 4, 2).ok());
  EXPECT_TRUE(fs::exists(path));
  EXPECT_FALSE(writeGrid(path, images.data(), 3, 2, 4, 2, 2).ok());
  fs::remove(path);
}

} // namespace
