// Draws: published vectors, moments, independence of the layout, refusals.
#include "runtime/random/Draws.h"
#include "runtime/random/Philox.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

namespace diffrun {
namespace {

using Words = std::array<uint32_t, 4>;

// Known answers of Philox 4x32-10 as published with the Random123 library.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Draws, NormalMoments) {
  constexpr int64_t kCount = 1 << 20;
  std::vector<float> x(kCount);
  ASSERT_TRUE(drawNormal({7, 1, 2, 0}, 1, kCount, x.data()).ok());
  double mean = 0, square = 0, fourth = 0;
  for (float value : x) {
    mean += value / double{kCount};
    square += double{value} * value / kCount;
    fourth += std::pow(double{value}, 4) / kCount;
  }
  // Five standard errors: 1/sqrt(n), sqrt(2/n), sqrt(96/n).
  EXPECT_NEAR(mean, 0, 5 / 1024.0);
  EXPECT_NEAR(square, 1, 5 * std::sqrt(2.0) / 1024);
  EXPECT_NEAR(fourth, 3, 5 * std::sqrt(96.0) / 1024);
}

TEST(Draws, NormalMatchesBoxMullerInDoublePrecision) {
  DrawKey key{42, 3, 9, 5};
  float four[4];
  ASSERT_TRUE(drawNormal(key, 1, 4, four).ok());
  Words words = philox4x32({0, 5, 9, 3}, {42, 0});
  for (int pair = 0; pair < 2; ++pair) {
    double u = ((words[2 * pair] >> 8) + 1) * 0x1p-24;
    double t = (words[2 * pair + 1] >> 8) * 0x1p-24;
    double radius = std::sqrt(-2 * std::log(u));
    // f32: a handful of roundings of values of size `radius`.
    EXPECT_NEAR(four[2 * pair], radius * std::cos(2 * M_PI * t), 1e-6 * (1 + radius));
    EXPECT_NEAR(four[2 * pair + 1], radius * std::sin(2 * M_PI * t), 1e-6 * (1 + radius));
  }
}

struct Golden {
  uint64_t seed;
  uint32_t stream;
  uint64_t iteration, sample, element;
  uint32_t normal, uniform;
};
const Golden kGolden[] = {
#include "tests/unit/random/GoldenDraws.inc"
};

uint32_t bitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

// Every bit, from exact rational arithmetic.
TEST(Draws, AreTheSpecifiedBits) {
  for (const Golden &g : kGolden) {
    DrawKey key{g.seed, g.stream, g.iteration, g.sample};
    auto count = static_cast<int64_t>(g.element) + 1;
    std::vector<float> x(static_cast<size_t>(count));
    ASSERT_TRUE(drawNormal(key, 1, count, x.data()).ok());
    EXPECT_EQ(bitsOf(x.back()), g.normal) << "element " << g.element << " of seed " << g.seed;
    ASSERT_TRUE(drawUniform(key, 1, count, x.data()).ok());
    EXPECT_EQ(bitsOf(x.back()), g.uniform) << "element " << g.element << " of seed " << g.seed;
  }
}

TEST(Draws, UniformRange) {
  std::vector<float> x(1 << 16);
  ASSERT_TRUE(drawUniform({1, 0, 0, 0}, 4, 1 << 14, x.data()).ok());
  double mean = 0;
  for (float value : x) {
    EXPECT_GE(value, 0);
    EXPECT_LT(value, 1);
    mean += value / x.size();
  }
  EXPECT_NEAR(mean, 0.5, 5 / std::sqrt(12.0 * (1 << 16)));
}

// A sample's numbers depend on its place in the global batch alone.
TEST(Draws, SplitBatchesDrawTheSame) {
  std::vector<float> whole(6 * 10), part(2 * 10);
  ASSERT_TRUE(drawNormal({5, 2, 1, 100}, 6, 10, whole.data()).ok());
  for (int64_t first = 0; first < 6; first += 2) {
    ASSERT_TRUE(drawNormal({5, 2, 1, 100 + static_cast<uint64_t>(first)}, 2, 10, part.data()).ok());
    for (int i = 0; i < 20; ++i)
      EXPECT_EQ(part[i], whole[first * 10 + i]);
  }
}

TEST(Draws, RefusesCountersThatOverflow) {
  float x[4];
  EXPECT_FALSE(drawNormal({0, 0, uint64_t{1} << 32, 0}, 1, 4, x).ok());
  EXPECT_FALSE(drawNormal({0, 0, 0, (uint64_t{1} << 32) - 1}, 2, 2, x).ok());
  EXPECT_TRUE(drawNormal({0, 0, 0, (uint64_t{1} << 32) - 1}, 1, 4, x).ok());
  // first + samples wraps to 0 in 64 bits.
  EXPECT_FALSE(drawNormal({0, 0, 0, ~uint64_t{0}}, 1, 4, x).ok());
}

} // namespace
} // namespace diffrun
