// Which states of recurrent layers stay, in memory and on disk, and what a lookup makes of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "base/memory_file_system.h"
#include "cache/fake_block_store.h"
#include "cache/prefix_cache.h"

namespace cache {
namespace {

using Tokens = std::vector<TokenId>;

// Tokens of a prompt: `n` of them that depend on `seed` and the position.
Tokens Text(int n, int seed = 0) {
  Tokens tokens;
  for (int i = 0; i < n; ++i) {
    tokens.push_back(seed * 100'000 + i);
  }
  return tokens;
}

Tokens operator+(Tokens a, const Tokens& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

class Bank {
 public:
  explicit Bank(std::uint64_t budget_bytes = 1 << 20, MemoryFileSystem* files = nullptr)
      : store_({0, kRecurrent}, budget_bytes) {
    cache_ = files == nullptr ? MakeRadixCache(store_)
                              : MakeRadixCache(store_,
                                               {.directory = "/cache",
                                                .budget_bytes = 1 << 20,
                                                .fingerprint = std::string(64, 'a'),
                                                .group_bytes = {},
                                                .model_name = ""},
                                               *files, clock_, [] {});
  }

  // Computes the rest of the prompt in steps of `chunk`; returns how much was found.
  std::int64_t Run(const Tokens& tokens, const std::vector<std::int64_t>& boundaries = {},
                   std::int64_t chunk = 512, std::size_t reply = 0) {
    Lease lease = cache_->Begin(tokens, "", boundaries);
    const std::int64_t found = lease.cached_len();
    Compute(lease, tokens, found, chunk);
    Tokens all = tokens;
    for (std::size_t i = 0; i < reply; ++i) {
      all.push_back(-1);
      Compute(lease, all, static_cast<std::int64_t>(all.size()) - 1, 1);
    }
    cache_->Release(std::move(lease));
    cache_->CheckIntegrity();
    return found;
  }

  void Compute(Lease& lease, const Tokens& tokens, std::int64_t from, std::int64_t chunk) {
    const auto length = static_cast<std::int64_t>(tokens.size());
    while (from < length) {
      from = std::min(length, from + chunk);
      ASSERT_TRUE(cache_->Reserve(lease, from));
      for (std::size_t block = 0; (block + 1) * 64 <= static_cast<std::size_t>(from); ++block) {
        for (const int group : {0, 1}) {
          const ops::BlockId id = lease.block_tables()[static_cast<std::size_t>(group)][block];
          if (id != ops::kNoBlock) {
            store_.blocks.at({group, id}) = {
                "", Tokens(tokens.begin(),
                           tokens.begin() + static_cast<std::ptrdiff_t>(block + 1) * 64)};
          }
        }
      }
      most_states_ = std::max(most_states_, States());
      cache_->Commit(lease, std::span(tokens).first(static_cast<std::size_t>(from)));
      cache_->CheckIntegrity();
    }
  }

  std::ptrdiff_t States() const {
    return std::ranges::count_if(store_.blocks,
                                 [](const auto& entry) { return entry.first.first == 1; });
  }
  std::int64_t Match(const Tokens& tokens) const { return cache_->MatchLength(tokens, ""); }
  PrefixCache& cache() { return *cache_; }
  std::ptrdiff_t most_states() const { return most_states_; }

 private:
  FakeBlockStore store_;
  SystemClock clock_;
  std::unique_ptr<PrefixCache> cache_;
  std::ptrdiff_t most_states_ = 0;
};

TEST(Snapshots, APromptLeavesOneAtItsEndAndOneBeforeItsLastUserMessage) {
  Bank bank;
  EXPECT_EQ(bank.Run(Text(1000), {700}), 0);
  EXPECT_EQ(bank.States(), 2);
  EXPECT_EQ(bank.Match(Text(1000)), 960);
  EXPECT_EQ(bank.Match(Text(700) + Text(300, 1)), 640);  // 700 is in the block that begins there
  EXPECT_EQ(bank.Match(Text(960)), 640);  // the last token is computed, so 896 would be needed
}

TEST(Snapshots, AStepThroughManyBlocksHoldsNoStateBetween) {
  Bank bank;
  bank.Run(Text(5000), {}, 5000);
  EXPECT_LE(bank.most_states(), 2);
  EXPECT_EQ(bank.States(), 1);
}

TEST(Snapshots, AReplyLeavesTheStateOfItsLastFullBlock) {
  Bank bank;
  EXPECT_EQ(bank.Run(Text(100), {}, 512, 100), 0);
  const Tokens answered = Text(100) + Tokens(100, -1);
  EXPECT_EQ(bank.Match(answered + Text(10, 2)), 192);
  EXPECT_EQ(bank.States(), 2);  // at 64, the prompt's end, and at 192; that at 128 has gone
}

TEST(Snapshots, LongPromptsHaveOneEvery8192Tokens) {
  Bank bank;
  bank.Run(Text(20'000), {}, 1000);
  EXPECT_EQ(bank.States(), 3);
  EXPECT_EQ(bank.Match(Text(9000) + Text(11'000, 1)), 8192);
  EXPECT_EQ(bank.Match(Text(17'000) + Text(3000, 1)), 16'384);
}

TEST(Snapshots, WhereBranchesPartedTheNextOneGoesOn) {
  Bank bank;
  bank.Run(Text(1000));
  EXPECT_EQ(bank.Run(Text(500) + Text(500, 1)), 0);    // nothing was kept there
  EXPECT_EQ(bank.Run(Text(500) + Text(500, 2)), 448);  // now it is
}

TEST(Snapshots, WhoWaitsForARunningPromptFindsAStateWhereItParts) {
  Bank bank;
  const Tokens prompt = Text(1000);
  Lease lease = bank.cache().Begin(prompt, "");
  bank.cache().AddBoundary(lease, 650);
  bank.cache().AddBoundary(lease, 650);
  bank.cache().AddBoundary(lease, 10);
  bank.Compute(lease, prompt, 0, 512);
  EXPECT_EQ(bank.Match(Text(650) + Text(20, 1)), 640);
  bank.cache().Release(std::move(lease));
}

TEST(Snapshots, BoundariesOutsideThePromptAreNothing) {
  Bank bank;
  bank.Run(Text(200), {-5, 0, 63, 201, 100'000});
  EXPECT_EQ(bank.States(), 1);
}

TEST(Snapshots, AreEvictedWithinTheBudgetOldestFirst) {
  // 100 bytes a block of K and V, 110 a state: room for 40 blocks and some states.
  Bank bank(5000);
  for (int talk = 0; talk < 6; ++talk) {
    bank.Run(Text(1000, talk), {500}, 256);
    EXPECT_EQ(bank.Match(Text(1000, talk)), 960);
  }
  EXPECT_EQ(bank.Match(Text(1000, 0)), 0);
  EXPECT_LE(bank.cache().stats().used_bytes, 5000U);
}

TEST(Snapshots, ComeBackFromDiskAfterARestart) {
  MemoryFileSystem files;
  {
    Bank bank(1 << 20, &files);
    bank.Run(Text(1000), {700});
    bank.cache().FlushToDisk();
  }
  files.Restart();
  Bank bank(1 << 20, &files);
  for (const auto& [tokens, restored] :
       {std::pair(Text(700) + Text(300, 1), 640), std::pair(Text(1000), 960)}) {
    const auto id = bank.cache().StartRestore(tokens, "");
    ASSERT_TRUE(id);
    while (bank.cache().StateOf(*id) == PrefixCache::RestoreState::kRunning) {
      bank.cache().Poll();
    }
    EXPECT_EQ(bank.Match(tokens), restored);
    EXPECT_GT(bank.cache().EndRestore(*id).disk, 0);
    EXPECT_EQ(bank.Run(tokens), restored);
  }
}

// Every file, one after the other, with a bit flipped or cut: what is left is used, and no more.
TEST(Snapshots, ADamagedFileCostsThePrefixThatNeedsIt) {
  for (const bool cut : {false, true}) {
    MemoryFileSystem files;
    {
      Bank bank(1 << 20, &files);
      bank.Run(Text(1000), {700});
      bank.cache().FlushToDisk();
    }
    files.Restart();
    for (const auto& path : files.Files()) {
      if (path.extension() == ".safetensors") {
        const std::size_t size = files.Content(path).size();
        cut ? files.Truncate(path, size - 1) : files.FlipBit(path, (size - 1) * 8);
      }
    }
    Bank bank(1 << 20, &files);
    const auto id = bank.cache().StartRestore(Text(1000), "");
    while (id && bank.cache().StateOf(*id) == PrefixCache::RestoreState::kRunning) {
      bank.cache().Poll();
    }
    if (id) {
      bank.cache().EndRestore(*id);
    }
    EXPECT_LT(bank.Run(Text(1000)), 960);
    EXPECT_EQ(bank.Match(Text(1000)), 960);  // computed again
    EXPECT_GT(bank.cache().stats().disk->damaged_files, 0U);
  }
}

}  // namespace
}  // namespace cache
