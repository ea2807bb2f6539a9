// Placement: no overlap of live buffers, alignment, and no more than needed
// where that is easy to see.
#include "passes/memory/OffsetPlanner.h"

#include <gtest/gtest.h>

#include <random>

namespace diffc {
namespace {

TEST(LargestFirst, ReusesFreedSpace) {
  // Three buffers in a chain: each dies where the next one but one is born.
  Placement p = LargestFirstPlanner().place({{0, 1, 64}, {1, 2, 64}, {2, 3, 64}}, 64);
  EXPECT_EQ(p.bytes, 128);
  EXPECT_EQ(p.offsets[0], p.offsets[2]);
}

TEST(LargestFirst, RandomLifetimesNeverOverlap) {
  std::mt19937 random(1);
  for (int round = 0; round < 200; ++round) {
    std::vector<Lifetime> buffers;
    std::vector<int64_t> load(64, 0);
    for (int i = 0; i < 60; ++i) {
      int64_t begin = random() % 60;
      Lifetime life{begin, begin + static_cast<int64_t>(random() % 4),
                    1 + static_cast<int64_t>(random() % 5000)};
      buffers.push_back(life);
      for (int64_t t = life.begin; t <= life.end; ++t)
        load[t] += (life.bytes + 63) / 64 * 64;
    }
    Placement p = LargestFirstPlanner().place(buffers, 64);
    int64_t lower = *std::max_element(load.begin(), load.end());
    EXPECT_GE(p.bytes, lower);
    EXPECT_LE(p.bytes, lower * 3 / 2);
    for (size_t a = 0; a < buffers.size(); ++a) {
      EXPECT_EQ(p.offsets[a] % 64, 0);
      EXPECT_LE(p.offsets[a] + buffers[a].bytes, p.bytes);
      for (size_t b = 0; b < a; ++b)
        if (buffers[a].begin <= buffers[b].end && buffers[b].begin <= buffers[a].end) {
          EXPECT_TRUE(p.offsets[a] + buffers[a].bytes <= p.offsets[b] ||
                      p.offsets[b] + buffers[b].bytes <= p.offsets[a]);
        }
    }
  }
}

} // namespace
} // namespace diffc
