#include "scheduler/chunk_plan.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <numeric>

namespace scheduler {
namespace {

using Chunks = std::vector<std::int64_t>;

Chunks Share(std::vector<PrefillDemand> demands, std::int64_t budget) {
  return ShareBudget(demands, budget);
}

TEST(ChunkPlan, OnePromptGetsTheWholeBudgetUpToABlocksEnd) {
  EXPECT_EQ(Share({{0, 5000}}, 512), (Chunks{512}));
  EXPECT_EQ(Share({{0, 5000}}, 505), (Chunks{448}));
  EXPECT_EQ(Share({{10, 5000}}, 505), (Chunks{502}));
  EXPECT_EQ(Share({{0, 300}}, 512), (Chunks{300}));
  EXPECT_EQ(Share({{0, 5000}}, 20), (Chunks{20}));
}

TEST(ChunkPlan, EqualPromptsGetEqualParts) {
  EXPECT_EQ(Share({{0, 5000}, {0, 5000}}, 512), (Chunks{256, 256}));
  EXPECT_EQ(Share({{0, 5000}, {0, 5000}, {0, 5000}, {0, 5000}}, 512), (Chunks{128, 128, 128, 128}));
}

TEST(ChunkPlan, WhatAShortPromptLeavesGoesToTheOthers) {
  EXPECT_EQ(Share({{0, 5000}, {0, 100}}, 512), (Chunks{384, 100}));
}

TEST(ChunkPlan, TheShortestIsServedThoughFourAreBeforeIt) {
  const Chunks chunks = Share({{0, 5000}, {0, 5000}, {0, 5000}, {0, 5000}, {0, 900}, {0, 50}}, 512);
  EXPECT_EQ(chunks[5], 50);
  EXPECT_EQ(chunks[4], 0);
}

TEST(ChunkPlan, NeverExceedsBudgetOrDemandAndAlwaysGoesOn) {
  EXPECT_TRUE(rc::check(
      [](std::vector<std::pair<std::uint16_t, std::uint16_t>> random, std::uint16_t random_budget) {
        std::vector<PrefillDemand> demands;
        for (const auto& [computed, remaining] : random) {
          demands.push_back({computed % 3000, 1 + remaining % 3000});
        }
        const std::int64_t budget = random_budget % 700;
        const Chunks chunks = ShareBudget(demands, budget);
        RC_ASSERT(chunks.size() == demands.size());
        const std::int64_t sum = std::accumulate(chunks.begin(), chunks.end(), std::int64_t{0});
        RC_ASSERT(sum <= budget);
        RC_ASSERT(sum > 0 || budget == 0 || demands.empty());
        for (std::size_t i = 0; i < chunks.size(); ++i) {
          RC_ASSERT(chunks[i] >= 0 && chunks[i] <= demands[i].remaining);
        }
      }));
}

}  // namespace
}  // namespace scheduler
