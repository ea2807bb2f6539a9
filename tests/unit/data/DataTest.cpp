// Order, resume and short batches of the loader; IDX files and folders.
#include "runtime/data/Loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <opencv2/imgcodecs.hpp>
#include <unistd.h>

using namespace diffrun;
namespace fs = std::filesystem;

namespace {

class Counting : public Dataset {
public:
  explicit Counting(int64_t count) : count(count) {}
  int64_t size() const override { return count; }
  const std::vector<std::string> &classes() const override { return names; }
  int64_t label(int64_t index) const override { return index % 3; }
  Status decode(int64_t index, bool flip, float *out) const override {
    out[0] = static_cast<float>(index);
    out[1] = flip;
    return {};
  }
  std::string describe() const override { return "counting"; }

private:
  int64_t count;
  std::vector<std::string> names;
};

std::vector<Batch> take(const Dataset &data, LoaderOptions options, int count,
                        int64_t *consumed = nullptr) {
  auto loader = Loader::create(data, 2, options);
  EXPECT_TRUE(loader.ok());
  std::vector<Batch> batches(static_cast<size_t>(count));
  for (Batch &batch : batches)
    EXPECT_TRUE((*loader)->next(batch).ok());
  if (consumed)
    *consumed = (*loader)->consumed();
  return batches;
}

void expectSame(const std::vector<Batch> &a, const std::vector<Batch> &b, size_t skip) {
  for (size_t i = 0; i < b.size(); ++i) {
    EXPECT_EQ(a[i + skip].ids, b[i].ids);
    EXPECT_EQ(a[i + skip].images, b[i].images);
    EXPECT_EQ(a[i + skip].weights, b[i].weights);
  }
}

TEST(Loader, ThreadsAndResumeChangeNothing) {
  Counting data(10);
  for (int64_t batch : {2, 3, 4, 16}) {
    LoaderOptions options;
    options.batch = batch;
    options.seed = 5;
    options.flip = true;
    options.threads = 0;
    auto whole = take(data, options, 15);
    for (int threads : {1, 4}) {
      options.threads = threads;
      expectSame(whole, take(data, options, 15), 0);
      for (int first : {5, 7}) {
        LoaderOptions resumed = options;
        take(data, options, first, &resumed.consumed);
        expectSame(whole, take(data, resumed, 15 - first), static_cast<size_t>(first));
      }
    }
  }
}

TEST(Loader, EveryEpochHasEverySampleOnce) {
  Counting data(10);
  LoaderOptions options;
  options.batch = 4;
  auto batches = take(data, options, 6);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int64_t> ids;
    for (int i = 0; i < 3; ++i)
      for (int64_t id : batches[epoch * 3 + i].ids)
        if (id >= 0)
          ids.push_back(id);
    std::sort(ids.begin(), ids.end());
    std::vector<int64_t> all(10);
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(ids, all);
  }
  EXPECT_EQ(batches[2].realRows, 2);
  EXPECT_EQ(batches[2].weights, (std::vector<float>{1, 1, 0, 0}));
  EXPECT_NE(epochOrder(10, 0, 0), epochOrder(10, 0, 1));
}

TEST(Loader, DropLast) {
  Counting data(10);
  LoaderOptions options;
  options.batch = 4;
  options.dropLast = true;
  int64_t consumed = 0;
  auto batches = take(data, options, 3, &consumed);
  for (const Batch &batch : batches)
    EXPECT_EQ(batch.realRows, 4);
  EXPECT_EQ(consumed, 14);
  options.batch = 11;
  EXPECT_FALSE(Loader::create(data, 2, options).ok());
  EXPECT_FALSE(Loader::create(Counting(0), 2, {}).ok());
}

TEST(Loader, MemoryIsUsedAgain) {
  Counting data(100);
  LoaderOptions options;
  options.batch = 4;
  options.threads = 2;
  auto loader = Loader::create(data, 2, options);
  ASSERT_TRUE(loader.ok());
  Batch batch;
  batch.images.reserve(1000); // to be known by
  batch.images.resize(1);
  // There are 2 x 2 + 1 batches ahead and this one: it waits for as many fillings and
  // then for its turn.
  std::vector<int> seen;
  for (int i = 0; i < 40; ++i) {
    ASSERT_TRUE((*loader)->next(batch).ok());
    EXPECT_EQ(batch.images.size(), 8u);
    if (batch.images.capacity() >= 1000)
      seen.push_back(i);
  }
  ASSERT_GE(seen.size(), 3u);
  EXPECT_LE(seen[0], 12);
}

TEST(Idx, PaddedAndChecked) {
  fs::path folder = fs::temp_directory_path() / ("idx-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  auto write = [&](const char *name, std::string bytes) {
    std::ofstream(folder / name, std::ios::binary) << bytes;
    return (folder / name).string();
  };
  std::string images =
      write("i", std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02\xff\0\0\xff", 20));
  std::string labels = write("l", std::string("\0\0\x08\x01\0\0\0\x01\x03", 9));
  auto data = openIdx(images, labels, {1, 4, 4});
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ((*data)->label(0), 3);
  EXPECT_EQ((*data)->classes().size(), 4u);
  std::vector<float> out(16);
  ASSERT_TRUE((*data)->decode(0, false, out.data()).ok());
  EXPECT_EQ(out,
            (std::vector<float>{-1, -1, -1, -1, -1, 1, -1, -1, -1, -1, 1, -1, -1, -1, -1, -1}));
  ASSERT_TRUE((*data)->decode(0, true, out.data()).ok());
  EXPECT_EQ(out[6], 1);
  EXPECT_FALSE(openIdx(images, labels, {1, 1, 4}).ok());
  std::string cut =
      write("c", std::string("\0\0\x08\x03\0\0\0\x01\0\0\0\x02\0\0\0\x02\xff\0\0", 19));
  EXPECT_FALSE(openIdx(cut, labels, {1, 4, 4}).ok());
  fs::remove_all(folder);
}

TEST(Idx, FashionMnist) {
  auto data = openDataset("fashion-mnist", "test", {1, 32, 32});
  if (!data.ok())
    GTEST_SKIP() << data.status().message();
  EXPECT_EQ((*data)->size(), 10000);
  EXPECT_EQ((*data)->classes().size(), 10u);
  EXPECT_EQ((*data)->label(0), 9);
}

TEST(ImageFolder, CutJpegIsRefused) {
  fs::path folder = fs::temp_directory_path() / ("cut-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::string path = folder / "a.JPG";
  cv::imwrite((folder / "a.jpg").string(), cv::Mat(32, 32, CV_8UC3, cv::Scalar(10, 200, 30)));
  fs::rename(folder / "a.jpg", path);
  auto data = openImageFolder(folder, {3, 16, 16});
  ASSERT_TRUE(data.ok());
  std::vector<float> out(3 * 16 * 16);
  ASSERT_TRUE((*data)->decode(0, false, out.data()).ok());
  EXPECT_GT(out[16 * 16], out[0]); // green above red
  fs::resize_file(path, fs::file_size(path) - 40);
  EXPECT_FALSE((*data)->decode(0, false, out.data()).ok());
  fs::remove_all(folder);
}

TEST(ImageFolder, SixteenBitsAndNames) {
  fs::path folder = fs::temp_directory_path() / ("folder " + std::to_string(::getpid()));
  fs::create_directories(folder / "x.png");
  fs::create_directories(folder / "empty");
  cv::Mat gray(1, 256, CV_16U);
  for (int i = 0; i < 256; ++i)
    gray.at<uint16_t>(0, i) = static_cast<uint16_t>(257 * i);
  cv::imwrite((folder / "x.png/b.png").string(), gray);
  fs::rename(folder / "x.png/b.png", folder / "x.png/b.PnG");
  for (const char *name : {".DS_Store", "._b.png", "notes.txt", "b.png.txt"})
    std::ofstream(folder / name) << "x";
  fs::create_directory_symlink("..", folder / "x.png/loop");
  fs::create_symlink("nowhere.png", folder / "dangling.png");
  auto data = openImageFolder(folder, {3, 1, 256});
  ASSERT_TRUE(data.ok()) << data.status().message();
  EXPECT_EQ((*data)->size(), 1);
  EXPECT_EQ((*data)->classes(), (std::vector<std::string>{"x.png"}));
  std::vector<float> out(3 * 256);
  ASSERT_TRUE((*data)->decode(0, false, out.data()).ok());
  for (int c = 0; c < 3; ++c)
    for (int i = 0; i < 256; ++i)
      EXPECT_NEAR((out[c * 256 + i] + 1) / 2, i / 255.0, 1.0 / 65535);
  fs::remove_all(folder);
}

} // namespace
