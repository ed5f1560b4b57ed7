#include "base/bytes.h"

#include <gtest/gtest.h>

namespace {

TEST(Bytes, AreFormattedForPeople) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1023), "1023 B");
  EXPECT_EQ(FormatBytes(1024), "1.0 KiB");
  EXPECT_EQ(FormatBytes(1536), "1.5 KiB");
  EXPECT_EQ(FormatBytes(98362432), "94 MiB");
  EXPECT_EQ(FormatBytes(24ULL << 30), "24 GiB");
}

TEST(Bytes, TotalMemoryIsPlausible) {
  EXPECT_GT(TotalMemoryBytes(), 64ULL << 20);
  EXPECT_LT(TotalMemoryBytes(), 1ULL << 50);
}

}  // namespace
