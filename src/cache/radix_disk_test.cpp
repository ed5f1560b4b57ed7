// RadixCache with a disk tier, case by case. Random lives: radix_cache_model_test.cpp.
#include <gtest/gtest.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "base/memory_file_system.h"
#include "cache/fake_block_store.h"
#include "cache/radix_cache.h"
#include "cache/ssd_store.h"

namespace cache {
namespace {

using Tokens = std::vector<TokenId>;

Tokens Prompt(std::size_t n, TokenId variant = 0) {
  Tokens tokens(n);
  for (std::size_t i = 0; i < n; ++i) {
    tokens[i] = variant * 1000 + static_cast<TokenId>(i % 997);
  }
  return tokens;
}

class SettableClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(std::chrono::milliseconds(now_ms)); }
  std::int64_t now_ms = 0;
};

// A cache on a store on files that outlive both.
class Bank {
 public:
  Bank(MemoryFileSystem& files, const std::vector<int>& windows, std::uint64_t budget = 100'000,
       std::uint64_t queue_bytes = 1 << 20)
      : store_(windows, budget) {
    SsdOptions options{.directory = "/cache",
                       .budget_bytes = 10 << 20,
                       .fingerprint = std::string(64, 'c'),
                       .group_bytes = {},
                       .model_name = ""};
    options.write_queue_bytes = queue_bytes;
    for (std::size_t g = 0; g < windows.size(); ++g) {
      options.group_bytes.push_back(store_.BlockBytes(static_cast<int>(g)));
    }
    auto disk = std::make_unique<SsdStore>(options, files, [] {});
    disk_ = disk.get();
    disk->WaitUntilIdle();
    cache_ = std::make_unique<RadixCache>(store_, std::move(disk), clock);
  }

  // Computes the prompt in chunks as a sequence would; returns the tokens found.
  std::int64_t Run(const Tokens& tokens, const std::string& salt = "") {
    Lease lease = cache_->Begin(tokens, salt);
    const std::int64_t found = lease.cached_len();
    for (auto done = static_cast<std::size_t>(found); done < tokens.size();) {
      const std::size_t end = std::min(tokens.size(), (done / 64 + 1) * 64);
      if (!cache_->Reserve(lease, static_cast<std::int64_t>(end))) {
        ADD_FAILURE() << "no memory";
        break;
      }
      for (std::size_t g = 0; end % 64 == 0 && g < store_.groups().size(); ++g) {
        const ops::BlockId block = lease.block_tables()[g][end / 64 - 1];
        store_.blocks.at({static_cast<int>(g), block}) = {
            salt, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end))};
      }
      cache_->Commit(lease, std::span(tokens).first(end));
      cache_->Poll();
      done = end;
    }
    cache_->Release(std::move(lease));
    cache_->Poll();
    return found;
  }

  // What a restore brings; the blocks are there for the next Run.
  std::int64_t Restore(const Tokens& tokens, const std::string& salt = "") {
    const auto id = cache_->StartRestore(tokens, salt);
    if (!id) {
      return 0;
    }
    Wait(*id);
    return cache_->EndRestore(*id).disk;
  }

  void Wait(PrefixCache::RestoreId id) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (cache_->StateOf(id) == PrefixCache::RestoreState::kRunning) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline);
      cache_->Poll();
      cache_->CheckIntegrity();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
  }

  PrefixCache& cache() { return *cache_; }
  SsdStore& disk() { return *disk_; }
  FakeBlockStore& store() { return store_; }

  SettableClock clock;

 private:
  FakeBlockStore store_;
  SsdStore* disk_ = nullptr;
  std::unique_ptr<PrefixCache> cache_;
};

TEST(RadixCacheOnDisk, RestoresAPromptAfterARestart) {
  MemoryFileSystem files;
  {
    EXPECT_EQ(Bank(files, {0}).Run(Prompt(1000)), 0);
  }
  Bank bank(files, {0});
  EXPECT_EQ(bank.Restore(Prompt(1000)), 960);
  EXPECT_EQ(bank.Run(Prompt(1000)), 960);
  EXPECT_EQ(bank.disk().stats().files, 1U) << "15 blocks in one segment, nothing written twice";
  EXPECT_EQ(bank.Restore(Prompt(1000)), 0) << "memory has it all";
  EXPECT_EQ(bank.Restore(Prompt(1000), "another tenant"), 0);
}

TEST(RadixCacheOnDisk, MatchesOverMemoryAndDiskTogether) {
  MemoryFileSystem files;
  {
    Bank(files, {0}).Run(Prompt(1000));
  }
  Bank bank(files, {0});
  bank.Run(Prompt(400));  // 6 blocks computed
  EXPECT_EQ(bank.Restore(Prompt(1000)), 960 - 384);
  EXPECT_EQ(bank.Run(Prompt(1000)), 960);
}

TEST(RadixCacheOnDisk, AWindowGroupRestoresItsLastWindowOnly) {
  MemoryFileSystem files;
  const std::vector<int> windows = {0, 128};
  {
    Bank(files, windows).Run(Prompt(2000));
  }
  Bank bank(files, windows);
  EXPECT_EQ(bank.Restore(Prompt(2000)), 1984);
  std::size_t window_blocks = 0;
  for (const auto& [place, content] : bank.store().blocks) {
    window_blocks += place.first == 1 ? 1 : 0;
  }
  EXPECT_EQ(window_blocks, 2U);
  EXPECT_EQ(bank.Run(Prompt(2000)), 1984);
}

TEST(RadixCacheOnDisk, WindowBlocksNeededLaterAreWrittenLater) {
  MemoryFileSystem files;
  const std::vector<int> windows = {0, 128};
  Tokens branch = Prompt(1000);
  branch.resize(500);
  branch.resize(1000, 7);
  {
    Bank bank(files, windows);
    bank.Run(Prompt(1000));
    bank.Run(branch);  // parts from the first at block 7, whose window is needed from now on
  }
  Bank bank(files, windows);
  Tokens third = Prompt(1000);
  third.resize(500);
  third.resize(600, 9);
  EXPECT_EQ(bank.Restore(third), 448);
  EXPECT_EQ(bank.Run(third), 448);
}

TEST(RadixCacheOnDisk, ARequestJoinsTheRestoreOfAnother) {
  MemoryFileSystem files;
  {
    Bank(files, {0}).Run(Prompt(1000));
  }
  Bank bank(files, {0});
  const auto one = bank.cache().StartRestore(Prompt(1000), "");
  const auto two = bank.cache().StartRestore(Prompt(900), "");
  ASSERT_TRUE(one && two);
  EXPECT_EQ(*one, *two);
  bank.Wait(*one);
  EXPECT_EQ(bank.cache().EndRestore(*one).disk, 960);
  EXPECT_EQ(bank.cache().EndRestore(*two).disk, 960);
  EXPECT_EQ(bank.disk().stats().read_blocks, 15U);
}

TEST(RadixCacheOnDisk, EvictedBlocksComeBackFromTheDisk) {
  MemoryFileSystem files;
  Bank bank(files, {0}, /*budget=*/100 * 20);
  bank.Run(Prompt(1000));
  bank.disk().WaitUntilIdle();
  bank.Run(Prompt(1000, 1));  // takes the memory of the first
  bank.disk().WaitUntilIdle();
  EXPECT_GT(bank.cache().stats().evicted_blocks, 0U);
  bank.Restore(Prompt(1000));
  EXPECT_EQ(bank.Run(Prompt(1000)), 960);
}

TEST(RadixCacheOnDisk, BlocksWaitForASecondForTheirFollowers) {
  MemoryFileSystem files;
  Bank bank(files, {0});
  const Tokens tokens = Prompt(128);
  Lease lease = bank.cache().Begin(tokens, "");
  ASSERT_TRUE(bank.cache().Reserve(lease, 128));
  bank.cache().Commit(lease, tokens);
  bank.cache().Poll();
  bank.disk().WaitUntilIdle();
  EXPECT_EQ(bank.disk().stats().written_blocks, 0U);
  bank.clock.now_ms += 1001;
  bank.cache().Poll();
  bank.disk().WaitUntilIdle();
  EXPECT_EQ(bank.disk().stats().written_blocks, 2U);
  bank.cache().Release(std::move(lease));
}

TEST(RadixCacheOnDisk, WhatTheQueueCannotTakeIsWrittenLater) {
  MemoryFileSystem files;
  Bank bank(files, {0}, 100'000, /*queue_bytes=*/1);
  bank.Run(Prompt(64 * 100 + 1));
  bank.cache().FlushToDisk();
  bank.disk().WaitUntilIdle();
  EXPECT_EQ(bank.disk().stats().written_blocks, 100U);
  EXPECT_EQ(bank.disk().stats().dropped_blocks, 0U);
}

TEST(RadixCacheOnDisk, ADiskThatBringsNothingIsGivenUp) {
  MemoryFileSystem files;
  {
    Bank(files, {0}).Run(Prompt(1000));
  }
  Bank bank(files, {0});
  std::atomic<bool> hangs = true;
  files.SetFault([&](MemoryFileSystem::Operation operation, const auto&) {
    while (hangs && operation == MemoryFileSystem::Operation::kRead) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
  });
  const auto id = bank.cache().StartRestore(Prompt(1000), "");
  ASSERT_TRUE(id);
  bank.cache().Poll();
  EXPECT_EQ(bank.cache().StateOf(*id), PrefixCache::RestoreState::kRunning);
  bank.clock.now_ms += 6000;
  bank.cache().Poll();
  EXPECT_EQ(bank.cache().StateOf(*id), PrefixCache::RestoreState::kOver);
  EXPECT_EQ(bank.cache().EndRestore(*id).disk, 0);
  EXPECT_EQ(bank.Run(Prompt(1000)), 0);
  hangs = false;
}

TEST(RadixCacheOnDisk, ARestoreWithoutMemoryBringsWhatFits) {
  MemoryFileSystem files;
  {
    Bank(files, {0}).Run(Prompt(1000));
  }
  Bank bank(files, {0}, /*budget=*/100 * 5);
  const auto id = bank.cache().StartRestore(Prompt(1000), "");
  ASSERT_TRUE(id);
  bank.Wait(*id);
  EXPECT_EQ(bank.cache().AvailableBytes(), 0U);
  EXPECT_EQ(bank.cache().MatchLength(Prompt(1000), ""), 320);
  bank.cache().AbandonRestores();
  EXPECT_EQ(bank.cache().AvailableBytes(), 500U);
  EXPECT_EQ(bank.cache().EndRestore(*id).disk, 320);
}

TEST(RadixCacheOnDisk, ClearsMemoryOrDisk) {
  MemoryFileSystem files;
  Bank bank(files, {0});
  bank.Run(Prompt(1000));
  bank.cache().Clear();
  bank.disk().WaitUntilIdle();
  EXPECT_EQ(bank.cache().MatchLength(Prompt(1000), ""), 0);
  EXPECT_EQ(bank.Restore(Prompt(1000)), 960) << "a clear of memory keeps the disk";
  bank.cache().ClearDisk();
  EXPECT_EQ(bank.cache().MatchLength(Prompt(1000), ""), 960);
  bank.cache().Clear();
  EXPECT_EQ(bank.Restore(Prompt(1000)), 0);
}

}  // namespace
}  // namespace cache
