// Checkpoints that are complete, and what a crash leaves.
#include "runtime/checkpoint/CheckpointStore.h"

#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <sys/resource.h>
#include <unistd.h>

using namespace diffrun;
namespace fs = std::filesystem;

namespace {

TEST(CheckpointStore, NewestCompleteIsFound) {
  fs::path run = fs::temp_directory_path() / ("store-" + std::to_string(::getpid()));
  CheckpointStore store(run, /*keepLast=*/2);
  EXPECT_FALSE(store.newest().ok());
  for (int64_t step : {5, 10, 15}) {
    float value = static_cast<float>(step);
    Status saved = store.save(step,
                              {{"weights", {"w", FileDType::kF32, {1}, &value}},
                               {"optimizer", {"m.w", FileDType::kF32, {1}, &value}}},
                              {{"samples", step * 2}});
    ASSERT_TRUE(saved.ok()) << saved.message();
  }
  EXPECT_FALSE(fs::exists(run / "checkpoints/step-5"));
  auto newest = store.newest();
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(newest->step, 15);
  EXPECT_EQ(newest->state["samples"], 30);
  EXPECT_EQ(newest->files, (std::vector<std::string>{"weights", "optimizer"}));

  // Cut the newest by a byte: it is named and the one before it is taken.
  fs::path cut = run / "checkpoints/step-15/weights.safetensors";
  fs::resize_file(cut, fs::file_size(cut) - 1);
  fs::create_directories(run / "checkpoints/.tmp-step-20");
  newest = store.newest();
  ASSERT_TRUE(newest.ok());
  EXPECT_EQ(newest->step, 10);
  ASSERT_EQ(newest->skipped.size(), 1u);
  EXPECT_NE(newest->skipped[0].find("step-15"), std::string::npos);

  // Saving the broken step again replaces it and clears the leftover.
  float value = 1;
  ASSERT_TRUE(store.save(15, {{"weights", {"w", FileDType::kF32, {1}, &value}}}, {}).ok());
  EXPECT_EQ(store.newest()->step, 15);
  EXPECT_FALSE(fs::exists(run / "checkpoints/.tmp-step-20"));
  fs::remove_all(run);
}

TEST(CheckpointStore, FullDiskKeepsTheOlder) {
  fs::path run = fs::temp_directory_path() / ("full-" + std::to_string(::getpid()));
  CheckpointStore store(run);
  std::vector<float> values(100000, 1.0f);
  auto save = [&](int64_t step) {
    return store.save(step, {{"weights", {"w", FileDType::kF32, {100000}, values.data()}}}, {});
  };
  ASSERT_TRUE(save(1).ok());
  std::signal(SIGXFSZ, SIG_IGN); // write() then fails with EFBIG
  rlimit old, small;
  ::getrlimit(RLIMIT_FSIZE, &old);
  small = old;
  small.rlim_cur = 4096;
  ::setrlimit(RLIMIT_FSIZE, &small);
  Status saved = save(2);
  ::setrlimit(RLIMIT_FSIZE, &old);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.code(), ErrorCode::kMachine);
  EXPECT_NE(saved.message().find("weights.safetensors"), std::string::npos);
  EXPECT_EQ(store.newest()->step, 1);
  EXPECT_EQ(std::distance(fs::directory_iterator(run / "checkpoints"), {}), 1);
  fs::remove_all(run);
}

} // namespace
