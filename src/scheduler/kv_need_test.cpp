#include "scheduler/kv_need.h"

#include <gtest/gtest.h>

#include "scheduler/fake_engine.h"

namespace scheduler {
namespace {

TEST(KvNeed, AWindowGroupNeedsItsWindowOnly) {
  FakeStore store({0, 65}, 1 << 20);  // blocks of 1000 and 700 bytes
  const KvNeed need(store);
  EXPECT_EQ(need.PeakBytes(0), 0U);
  EXPECT_EQ(need.PeakBytes(1), 1700U);
  EXPECT_EQ(need.PeakBytes(64), 1700U);
  EXPECT_EQ(need.PeakBytes(128), 3400U);
  EXPECT_EQ(need.PeakBytes(640), 10U * 1000 + 2 * 700);
  EXPECT_EQ(need.block_bytes(), 1700U);
}

TEST(KvNeed, TheLongestThatFitsIsExact) {
  FakeStore store({0, 65}, 1 << 20);
  const KvNeed need(store);
  EXPECT_EQ(need.MaxTokens(10'000 + 1'400, 100'000), 640);
  EXPECT_EQ(need.MaxTokens(10'000 + 1'399, 100'000), 576);
  EXPECT_EQ(need.MaxTokens(1 << 20, 500), 500);
  EXPECT_EQ(need.MaxTokens(100, 500), 0);
}

}  // namespace
}  // namespace scheduler
