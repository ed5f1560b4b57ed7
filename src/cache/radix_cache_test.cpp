#include <gtest/gtest.h>

#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "cache/fake_block_store.h"
#include "cache/prefix_cache.h"

namespace cache {
namespace {

using Tokens = std::vector<TokenId>;

Tokens Count(TokenId first, std::size_t n) {
  Tokens tokens(n);
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Runs a whole sequence of `tokens` and returns what Begin found.
std::int64_t RunSequence(PrefixCache& cache, const Tokens& tokens, const std::string& salt = "") {
  Lease lease = cache.Begin(tokens, salt);
  const std::int64_t cached_len = lease.cached_len();
  EXPECT_TRUE(cache.Reserve(lease, static_cast<std::int64_t>(tokens.size())));
  cache.Commit(lease, tokens);
  cache.Release(std::move(lease));
  cache.CheckIntegrity();
  return cached_len;
}

int BlocksHeld(const Lease& lease, std::size_t group) {
  int held = 0;
  for (const ops::BlockId block : lease.block_tables()[group]) {
    held += block != ops::kNoBlock ? 1 : 0;
  }
  return held;
}

TEST(RadixCache, ARepeatedPromptIsFoundUpToItsLastWholeBlockButNeverWhole) {
  FakeBlockStore store({0}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  EXPECT_EQ(RunSequence(*cache, Count(0, 200)), 0);
  EXPECT_EQ(RunSequence(*cache, Count(0, 200)), 192);
  EXPECT_EQ(RunSequence(*cache, Count(0, 193)), 192);
  EXPECT_EQ(RunSequence(*cache, Count(0, 192)), 128);  // one token must be left to compute
  EXPECT_EQ(RunSequence(*cache, Count(0, 64)), 0);
  EXPECT_EQ(RunSequence(*cache, Count(0, 100) + Count(1000, 100)), 64);
  EXPECT_EQ(RunSequence(*cache, Count(1, 200)), 0);
}

TEST(RadixCache, DifferentSaltsNeverShare) {
  FakeBlockStore store({0}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  EXPECT_EQ(RunSequence(*cache, Count(0, 200), "alice"), 0);
  EXPECT_EQ(RunSequence(*cache, Count(0, 200), "bob"), 0);
  EXPECT_EQ(RunSequence(*cache, Count(0, 200), ""), 0);
  EXPECT_EQ(RunSequence(*cache, Count(0, 200), "alice"), 192);
}

TEST(RadixCache, ABlockIsSharedAsSoonAsItIsFullThoughItsSequenceStillRuns) {
  FakeBlockStore store({0}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  const Tokens tokens = Count(0, 300);
  Lease first = cache->Begin(tokens, "");
  ASSERT_TRUE(cache->Reserve(first, 130));
  cache->Commit(first, std::span(tokens).first(130));
  Lease second = cache->Begin(tokens, "");
  EXPECT_EQ(second.cached_len(), 128);
  EXPECT_EQ(second.block_tables()[0][1], first.block_tables()[0][1]);
  cache->CheckIntegrity();
  cache->Release(std::move(first));
  cache->Release(std::move(second));
}

TEST(RadixCache, TwoThatComputedTheSameKeepOneBlock) {
  FakeBlockStore store({0, 32}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  const Tokens tokens = Count(0, 64);
  Lease first = cache->Begin(tokens, "");
  Lease second = cache->Begin(tokens, "");
  ASSERT_TRUE(cache->Reserve(first, 64));
  ASSERT_TRUE(cache->Reserve(second, 64));
  EXPECT_EQ(store.blocks.size(), 4U);
  cache->Commit(first, tokens);
  cache->Commit(second, tokens);
  EXPECT_EQ(store.blocks.size(), 2U);
  EXPECT_EQ(first.block_tables(), second.block_tables());
  cache->CheckIntegrity();
  cache->Release(std::move(first));
  cache->Release(std::move(second));
}

TEST(RadixCache, AWindowLetsGoOfABlockExactlyWhenNoLaterTokenSeesIt) {
  FakeBlockStore store({0, 32}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  const Tokens tokens = Count(0, 300);
  Lease lease = cache->Begin(tokens, "");
  ASSERT_TRUE(cache->Reserve(lease, 128));
  // Position 94 sees [63, 94]; position 95 sees [64, 95].
  cache->Commit(lease, std::span(tokens).first(94));
  EXPECT_NE(lease.block_tables()[1][0], ops::kNoBlock);
  cache->Commit(lease, std::span(tokens).first(95));
  EXPECT_EQ(lease.block_tables()[1][0], ops::kNoBlock);
  EXPECT_NE(lease.block_tables()[0][0], ops::kNoBlock);
  EXPECT_EQ(cache->stats().cached_blocks, 2U) << "a block that was let go stays cached";
  cache->CheckIntegrity();
  cache->Release(std::move(lease));
}

TEST(RadixCache, ARestoreTakesOnlyTheLastWindowOfAWindowGroup) {
  FakeBlockStore store({0, 100}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  (void)RunSequence(*cache, Count(0, 640));
  Lease lease = cache->Begin(Count(0, 650), "");
  EXPECT_EQ(lease.cached_len(), 640);
  EXPECT_EQ(BlocksHeld(lease, 0), 10);
  EXPECT_EQ(BlocksHeld(lease, 1), 2);  // [541, 640): blocks 8 and 9
  cache->Release(std::move(lease));
}

TEST(RadixCache, PassedWindowBlocksGoFirstAndThoseOfTheLastWindowsStay) {
  // Full 100 and window 110 bytes a block; room for 20 blocks of each.
  FakeBlockStore store({0, 65}, 20 * 210);
  const auto cache = MakeRadixCache(store);
  const Tokens tokens = Count(0, 1216);
  (void)RunSequence(*cache, tokens);  // 19 blocks
  EXPECT_EQ(cache->MatchLength(Count(0, 700), ""), 640);
  Lease other = cache->Begin(Count(5000, 640), "");
  ASSERT_TRUE(cache->Reserve(
      other, 9 * 64));  // one is free, 8 * 210 bytes must go: 16 window blocks are enough
  EXPECT_EQ(cache->MatchLength(Count(0, 700), ""), 0);
  EXPECT_EQ(cache->MatchLength(tokens + Count(0, 1), ""), 1216) << "the end of the text";
  EXPECT_EQ(cache->MatchLength(tokens, ""), 1152) << "the end of the prompt";
  cache->CheckIntegrity();
  cache->Release(std::move(other));
}

TEST(RadixCache, WhatCannotBeRestoredAnyMoreGoesBeforeWhatCan) {
  FakeBlockStore store({0, 65}, 22 * 210);
  const auto cache = MakeRadixCache(store);
  const Tokens old = Count(0, 640);
  const Tokens recent = Count(5000, 641);
  (void)RunSequence(*cache, recent);
  (void)RunSequence(*cache, old + Count(0, 1));
  // Both chains lose their inner window blocks, then the older chain its end; what led there is of
  // no use then and goes before the younger chain's end.
  Lease other = cache->Begin(Count(9000, 2000), "");
  ASSERT_TRUE(cache->Reserve(other, 16 * 64));
  EXPECT_EQ(cache->MatchLength(recent, ""), 0);
  EXPECT_EQ(cache->MatchLength(old + Count(0, 1), ""), 640);
  cache->CheckIntegrity();
  cache->Release(std::move(other));
}

TEST(RadixCache, ALeafThatCanBeRestoredAgainIsValuedAgain) {
  FakeBlockStore store({0, 100}, 6000);
  const auto cache = MakeRadixCache(store);
  const Tokens text = Count(0, 641);
  const Tokens older = Count(5000, 641);
  const auto match = [&](const Tokens& tokens) { return cache->MatchLength(tokens, ""); };
  // Takes memory block by block until `gone()`.
  const auto press = [&](auto gone) {
    Lease lease = cache->Begin(Count(9000, 6400), "");
    for (std::int64_t blocks = 1; !gone(); ++blocks) {
      if (!cache->Reserve(lease, blocks * 64)) {
        ADD_FAILURE() << "nothing is left to evict";
        break;
      }
    }
    cache->CheckIntegrity();
    cache->Release(std::move(lease));
  };
  // The block before the last leaves the running sequence's window and is evicted.
  Lease lease = cache->Begin(Count(0, 700), "");
  ASSERT_TRUE(cache->Reserve(lease, 700));
  cache->Commit(lease, Count(0, 700));
  press([&] { return match(text) < 640; });
  (void)RunSequence(*cache, older);
  cache->Release(std::move(lease));  // so its last leaf is queued as of no use
  ASSERT_LT(match(text), 640);
  // Another sequence computes that block again.
  (void)RunSequence(*cache, Count(0, 576) + Count(7000, 65));
  ASSERT_EQ(match(text), 640);
  press([&] { return match(older) < 640; });
  EXPECT_EQ(match(text), 640) << "used later than what went";
}

TEST(RadixCache, ALockedPrefixIsNeverEvictedAndReserveFailsCleanly) {
  FakeBlockStore store({0}, 10 * 100);
  const auto cache = MakeRadixCache(store);
  const Tokens tokens = Count(0, 385);
  (void)RunSequence(*cache, tokens);  // 6 full blocks stay
  Lease holder = cache->Begin(tokens, "");
  ASSERT_EQ(holder.cached_len(), 384);
  EXPECT_EQ(cache->AvailableBytes(), 400U);
  Lease greedy = cache->Begin(Count(5000, 640), "");
  const auto before = store.blocks;
  EXPECT_FALSE(cache->Reserve(greedy, 320));
  EXPECT_EQ(store.blocks, before);
  EXPECT_TRUE(cache->Reserve(greedy, 256));
  EXPECT_FALSE(cache->Reserve(holder, 385));
  cache->CheckIntegrity();
  cache->Release(std::move(greedy));
  EXPECT_TRUE(cache->Reserve(holder, 385));
  cache->Release(std::move(holder));
  EXPECT_EQ(cache->MatchLength(tokens, ""), 384);
}

TEST(RadixCache, EvictionTakesTheEndOfTheLeastRecentlyUsedBranchFirst) {
  FakeBlockStore store({0}, 12 * 100);
  const auto cache = MakeRadixCache(store);
  const Tokens head = Count(0, 128);
  const Tokens a = head + Count(1000, 256);
  const Tokens b = head + Count(2000, 256);
  (void)RunSequence(*cache, a);
  (void)RunSequence(*cache, b);  // 2 + 4 + 4 blocks
  Lease lease = cache->Begin(Count(9000, 320), "");
  ASSERT_TRUE(cache->Reserve(lease, 256));  // 4 blocks: two are free, two go
  EXPECT_EQ(cache->MatchLength(a + Count(0, 1), ""), 256);
  EXPECT_EQ(cache->MatchLength(b + Count(0, 1), ""), 384);
  cache->CheckIntegrity();
  cache->Release(std::move(lease));
}

TEST(RadixCache, ASharedHeadOutlivesOneOffPromptsThatCameLater) {
  FakeBlockStore store({0}, 20 * 100);
  const auto cache = MakeRadixCache(store);
  const Tokens head = Count(0, 256);
  for (TokenId i = 1; i <= 4; ++i) {
    (void)RunSequence(*cache, head + Count(1000 * i, 65));
  }
  for (TokenId i = 0; i < 12; ++i) {
    (void)RunSequence(*cache, Count(100000 + 1000 * i, 256));
  }
  EXPECT_EQ(cache->MatchLength(head + Count(7, 1), ""), 256);
}

TEST(RadixCache, AnOldFavouriteGoesInTheEnd) {
  FakeBlockStore store({0}, 20 * 100);
  const auto cache = MakeRadixCache(store);
  const Tokens head = Count(0, 256);
  for (int i = 0; i < 20; ++i) {
    (void)RunSequence(*cache, head + Count(7, 1));
  }
  for (TokenId i = 0; i < 200; ++i) {
    (void)RunSequence(*cache, Count(100000 + 1000 * i, 256));
  }
  EXPECT_EQ(cache->MatchLength(head + Count(7, 1), ""), 0);
}

TEST(RadixCache, ClearDropsAllButWhatIsLocked) {
  FakeBlockStore store({0, 32}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  (void)RunSequence(*cache, Count(0, 640));
  (void)RunSequence(*cache, Count(5000, 640));
  Lease lease = cache->Begin(Count(0, 300), "");
  cache->Clear();
  cache->CheckIntegrity();
  EXPECT_EQ(store.blocks.size(), 4U + 1U);
  EXPECT_EQ(cache->AvailableBytes(), store.budget_bytes() - store.used_bytes());
  cache->Release(std::move(lease));
  cache->Clear();
  EXPECT_EQ(store.used_bytes(), 0U);
}

TEST(RadixCache, KeptKeysFindWhatFreshOnesDoWhileTheBankAndTheTextGrow) {
  FakeBlockStore store({0}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  const Tokens text = Count(0, 1000);
  PrefixKeys keys;
  EXPECT_EQ(cache->MatchLength(std::span(text).first(300), "", keys), 0);
  (void)RunSequence(*cache, Count(0, 200));
  EXPECT_EQ(cache->MatchLength(std::span(text).first(300), "", keys), 192);
  (void)RunSequence(*cache, Count(0, 640));
  EXPECT_EQ(cache->MatchLength(std::span(text).first(300), "", keys), 256);
  EXPECT_EQ(cache->MatchLength(text, "", keys), 640);
  cache->Clear();
  EXPECT_EQ(cache->MatchLength(text, "", keys), 0);
}

TEST(RadixCache, StatsCountLookupsAndHits) {
  FakeBlockStore store({0}, 1 << 20);
  const auto cache = MakeRadixCache(store);
  (void)RunSequence(*cache, Count(0, 200));
  (void)RunSequence(*cache, Count(0, 200));
  (void)cache->MatchLength(Count(0, 200), "");
  cache->Release(cache->Begin(Count(0, 200), ""));  // a start that was put off
  const CacheStats stats = cache->stats();
  EXPECT_EQ(stats.misses, 1U);
  EXPECT_EQ(stats.hits, 1U);
  EXPECT_EQ(stats.hit_tokens, 192U);
  EXPECT_EQ(stats.lookup_tokens, 400U);
  EXPECT_EQ(stats.cached_blocks, 3U);
  EXPECT_EQ(stats.used_bytes, 300U);
}

TEST(NaiveCache, SharesNothingAndFreesAll) {
  FakeBlockStore store({0, 32}, 1 << 20);
  const auto cache = MakeNaiveCache(store);
  EXPECT_EQ(RunSequence(*cache, Count(0, 300)), 0);
  EXPECT_EQ(RunSequence(*cache, Count(0, 300)), 0);
  EXPECT_EQ(store.used_bytes(), 0U);
  Lease lease = cache->Begin(Count(0, 300), "");
  ASSERT_TRUE(cache->Reserve(lease, 300));
  cache->Commit(lease, Count(0, 300));
  EXPECT_EQ(BlocksHeld(lease, 0), 5);
  EXPECT_EQ(BlocksHeld(lease, 1), 1);
  cache->Release(std::move(lease));
}

}  // namespace
}  // namespace cache
