// Status, checksums and 16-bit conversions.
#include "runtime/core/Checksum.h"
#include "runtime/core/DType.h"
#include "runtime/core/Status.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

namespace diffrun {
namespace {

TEST(Status, ExitCodes) {
  EXPECT_EQ(exitCode(Status()), 0);
  EXPECT_EQ(exitCode(Status::invalid("x")), 1);
  EXPECT_EQ(exitCode(Status::usage("x")), 2);
  EXPECT_EQ(exitCode(Status::internal("x")), 3);
  EXPECT_EQ(exitCode(Status::machine("x")), 4);
  EXPECT_EQ(Status::invalid("bad", "do").withContext("file").message(), "file: bad");
}

Result<int> half(int value) {
  if (value % 2)
    return Status::invalid("odd");
  return value / 2;
}
Result<int> quarter(int value) {
  DIFFRUN_ASSIGN(int once, half(value));
  return half(once);
}
TEST(Result, PassesErrorsOn) {
  EXPECT_EQ(*quarter(12), 3);
  EXPECT_EQ(quarter(6).status().message(), "odd");
}

TEST(DType, EveryHalfRoundTrips) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = halfToFloat(static_cast<uint16_t>(bits));
    if (!std::isnan(value)) {
      ASSERT_EQ(floatToHalf(value), bits) << value;
    }
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  EXPECT_EQ(floatToHalf(65504.0f), 0x7bff);
  EXPECT_EQ(floatToHalf(65519.9f), 0x7bff);
  EXPECT_EQ(floatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(floatToHalf(1.0f + 0x1p-11f), 0x3c00);     // tie: to even
  EXPECT_EQ(floatToHalf(1.0f + 3 * 0x1p-11f), 0x3c02); // tie: to even
  EXPECT_EQ(floatToHalf(0x1p-25f), 0);                 // tie: to zero
  EXPECT_EQ(floatToHalf(0x1.8p-25f), 1);
}

TEST(Checksum, IsCastagnoliInAnyPieces) {
  EXPECT_EQ(crc32c("123456789", 9), 0xE3069283u);
  EXPECT_EQ(crc32c("", 0), 0u);
  std::string text(1000, 'x');
  EXPECT_EQ(crc32c(text.data() + 13, 987, crc32c(text.data(), 13)), crc32c(text.data(), 1000));
}

TEST(DType, Bfloat16RoundsToNearestEven) {
  EXPECT_EQ(floatToBfloat16(1.0f), 0x3f80);
  EXPECT_EQ(floatToBfloat16(1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(floatToBfloat16(1.0f + 3 * 0x1p-8f), 0x3f82);
  EXPECT_EQ(bfloat16ToFloat(0x3f82), 1.015625f);
  EXPECT_TRUE(std::isnan(bfloat16ToFloat(floatToBfloat16(NAN))));
}

} // namespace
} // namespace diffrun
