// RadixCache with a shared tier, case by case. Random lives: radix_cache_model_test.cpp.
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/memory_file_system.h"
#include "cache/fake_block_store.h"
#include "cache/fake_redis.h"
#include "cache/radix_cache.h"

namespace cache {
namespace {

using Tokens = std::vector<TokenId>;
using Fault = FakeRedis::Fault;
using SteadyClock = std::chrono::steady_clock;

Tokens Prompt(std::size_t n, TokenId variant = 0) {
  Tokens tokens(n);
  for (std::size_t i = 0; i < n; ++i) {
    tokens[i] = variant * 1000 + static_cast<TokenId>(i % 997);
  }
  return tokens;
}

// One machine's bank. `files`: its disk, or null.
class Machine {
 public:
  explicit Machine(const FakeRedis& server, const std::vector<int>& windows = {0},
                   MemoryFileSystem* files = nullptr)
      : store_(windows, 100'000) {
    std::vector<std::uint64_t> group_bytes;
    for (std::size_t g = 0; g < windows.size(); ++g) {
      group_bytes.push_back(store_.BlockBytes(static_cast<int>(g)));
    }
    RemoteOptions options;
    options.address = {.host = "127.0.0.1", .port = server.port};
    options.timeout = std::chrono::milliseconds(300);
    options.fingerprint = std::string(64, 'c');
    options.group_bytes = group_bytes;
    auto remote = std::make_unique<RemoteStore>(options, [] {});
    remote_ = remote.get();
    std::unique_ptr<SsdStore> disk;
    if (files != nullptr) {
      SsdOptions disk_options{.directory = "/cache",
                              .budget_bytes = 10 << 20,
                              .fingerprint = std::string(64, 'c'),
                              .group_bytes = group_bytes,
                              .model_name = ""};
      disk = std::make_unique<SsdStore>(disk_options, *files, [] {});
      disk_ = disk.get();
      disk->WaitUntilIdle();
    }
    cache_ = std::make_unique<RadixCache>(store_, std::move(disk), clock_, std::move(remote));
  }

  // Computes what Begin does not find; returns the tokens found. Fails the test when a block that
  // was found is not of this prompt and salt.
  std::int64_t Run(const Tokens& tokens, const std::string& salt = "") {
    Lease lease = cache_->Begin(tokens, salt);
    const std::int64_t found = lease.cached_len();
    const auto content = [&](std::size_t end) {
      return FakeBlockStore::Content{
          salt, Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(end))};
    };
    for (std::size_t g = 0; g < store_.groups().size(); ++g) {
      for (std::size_t i = 0; i < lease.block_tables()[g].size(); ++i) {
        const ops::BlockId block = lease.block_tables()[g][i];
        if (block != ops::kNoBlock) {
          EXPECT_EQ(store_.blocks.at({static_cast<int>(g), block}), content((i + 1) * 64));
        }
      }
    }
    for (auto done = static_cast<std::size_t>(found); done < tokens.size();) {
      const std::size_t end = std::min(tokens.size(), (done / 64 + 1) * 64);
      EXPECT_TRUE(cache_->Reserve(lease, static_cast<std::int64_t>(end)));
      for (std::size_t g = 0; end % 64 == 0 && g < store_.groups().size(); ++g) {
        store_.blocks.at({static_cast<int>(g), lease.block_tables()[g][end / 64 - 1]}) =
            content(end);
      }
      cache_->Commit(lease, std::span(tokens).first(end));
      done = end;
    }
    cache_->Release(std::move(lease));
    Settle();
    return found;
  }

  // Until all that is to be written is.
  void Settle() {
    cache_->FlushToDisk();
    remote_->WaitUntilIdle();
    if (disk_ != nullptr) {
      disk_->WaitUntilIdle();
    }
  }

  RestoredTokens Restore(const Tokens& tokens, const std::string& salt = "") {
    const auto id = cache_->StartRestore(tokens, salt);
    if (!id) {
      return {};
    }
    const auto deadline = SteadyClock::now() + std::chrono::seconds(20);
    while (cache_->StateOf(*id) == PrefixCache::RestoreState::kRunning) {
      if (SteadyClock::now() > deadline) {
        ADD_FAILURE() << "the restore hangs";
        break;
      }
      cache_->Poll();
      cache_->CheckIntegrity();
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    return cache_->EndRestore(*id);
  }

  RadixCache& cache() { return *cache_; }
  [[nodiscard]] RemoteStats stats() const { return remote_->stats(); }

 private:
  SystemClock clock_;
  FakeBlockStore store_;
  RemoteStore* remote_ = nullptr;
  SsdStore* disk_ = nullptr;
  std::unique_ptr<RadixCache> cache_;
};

TEST(RadixCacheShared, ASecondMachineStartsWarm) {
  FakeRedis server;
  EXPECT_EQ(Machine(server).Run(Prompt(1000)), 0);
  Machine second(server);
  EXPECT_EQ(second.Restore(Prompt(1000)).remote, 960);
  EXPECT_EQ(second.Run(Prompt(1000)), 960);
  EXPECT_EQ(second.stats().written_blocks, 0U) << "what came from there is not sent back";
  EXPECT_EQ(second.Restore(Prompt(1000)).remote, 0) << "memory has it all";
}

TEST(RadixCacheShared, SaltsHoldThereToo) {
  FakeRedis server;
  Machine(server).Run(Prompt(1000), "tenant one");
  Machine second(server);
  EXPECT_EQ(second.Restore(Prompt(1000), "tenant two").remote, 0);
  EXPECT_EQ(second.Restore(Prompt(1000)).remote, 0);
  EXPECT_EQ(second.Run(Prompt(1000), "tenant two"), 0);
  EXPECT_EQ(second.Restore(Prompt(1000), "tenant one").remote, 960);
  EXPECT_EQ(second.Run(Prompt(1000), "tenant one"), 960);
}

TEST(RadixCacheShared, WindowsAndStatesComeToo) {
  for (const std::vector<int>& windows :
       {std::vector<int>{0, 128}, std::vector<int>{0, kRecurrent}, std::vector<int>{kRecurrent},
        std::vector<int>{0, 100, kRecurrent}}) {
    FakeRedis server;
    Machine(server, windows).Run(Prompt(2000));
    Machine second(server, windows);
    EXPECT_GT(second.Restore(Prompt(2000)).remote, 0);
    EXPECT_EQ(second.Run(Prompt(2000)), 1984);
  }
}

TEST(RadixCacheShared, WhatComesFromTheServerGoesToTheDiskAndBack) {
  FakeRedis server;
  MemoryFileSystem files;
  Machine(server).Run(Prompt(1000));
  {
    Machine second(server, {0}, &files);
    EXPECT_EQ(second.Restore(Prompt(1000)).remote, 960);
    EXPECT_EQ(second.Run(Prompt(1000)), 960);
  }
  FakeRedis empty;
  {
    Machine second(empty, {0}, &files);
    EXPECT_EQ(second.Restore(Prompt(1000)).disk, 960);
    EXPECT_EQ(second.Run(Prompt(1000)), 960);
  }
  Machine third(empty);
  EXPECT_EQ(third.Restore(Prompt(1000)).remote, 960) << "a new server is filled from the disk";
}

TEST(RadixCacheShared, MemoryDiskAndServerMatchTogether) {
  FakeRedis server;
  MemoryFileSystem files;
  Machine(server).Run(Prompt(3000));
  {
    FakeRedis none;
    Machine(none, {0}, &files).Run(Prompt(2000));
  }
  Machine bank(server, {0}, &files);
  bank.Run(Prompt(1000));
  const RestoredTokens read = bank.Restore(Prompt(3000));
  EXPECT_EQ(read.disk, 1984 - 960);
  EXPECT_EQ(read.remote, 2944 - 1984);
  EXPECT_EQ(bank.Run(Prompt(3000)), 2944);
}

TEST(RadixCacheShared, TwoRequestsBringOnePromptOnce) {
  FakeRedis server;
  Machine(server).Run(Prompt(1000));
  Machine bank(server);
  const auto one = bank.cache().StartRestore(Prompt(1000), "");
  const auto two = bank.cache().StartRestore(Prompt(1000), "");
  ASSERT_TRUE(one && two);
  const auto deadline = SteadyClock::now() + std::chrono::seconds(20);
  while ((bank.cache().StateOf(*one) == PrefixCache::RestoreState::kRunning ||
          bank.cache().StateOf(*two) == PrefixCache::RestoreState::kRunning) &&
         SteadyClock::now() < deadline) {
    bank.cache().Poll();
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_EQ(bank.cache().EndRestore(*one).remote + bank.cache().EndRestore(*two).remote, 960);
  EXPECT_EQ(server.gets, 15);
}

TEST(RadixCacheShared, AServerThatDiesInTheMiddleLeavesWhatCame) {
  FakeRedis server;
  Machine(server).Run(Prompt(60'000));
  Machine bank(server);
  const auto id = bank.cache().StartRestore(Prompt(60'000), "");
  ASSERT_TRUE(id);
  const auto deadline = SteadyClock::now() + std::chrono::seconds(20);
  while (bank.cache().StateOf(*id) == PrefixCache::RestoreState::kRunning &&
         SteadyClock::now() < deadline) {
    bank.cache().Poll();
    if (server.gets > 10) {
      server.fault = Fault::kHangUp;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  EXPECT_EQ(bank.cache().StateOf(*id), PrefixCache::RestoreState::kOver);
  const std::int64_t came = bank.cache().EndRestore(*id).remote;
  EXPECT_LT(came, 59'968);
  EXPECT_EQ(bank.Run(Prompt(60'000)), came);
}

TEST(RadixCacheShared, EveryFaultIsAMissInTime) {
  for (const Fault fault : {Fault::kSilent, Fault::kDrip, Fault::kHangUp, Fault::kFlipped,
                            Fault::kCut, Fault::kOtherValue, Fault::kForgets, Fault::kGarbage,
                            Fault::kEndless, Fault::kLists}) {
    FakeRedis server;
    Machine(server).Run(Prompt(500));
    Machine bank(server);
    server.fault = fault;
    const auto begin = SteadyClock::now();
    const std::int64_t came = bank.Restore(Prompt(500)).remote;
    EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(3)) << static_cast<int>(fault);
    EXPECT_LT(came, 448);
    EXPECT_EQ(bank.Run(Prompt(500)), came);
    server.fault = Fault::kNone;
  }
}

TEST(RadixCacheShared, AServerThatIsSlowerThanComputingIsGivenUp) {
  FakeRedis server;
  Machine(server).Run(Prompt(6400));
  Machine bank(server);
  bank.cache().NoteComputed(640, 640);  // 64 ms a block
  server.slow_ms = 100;                 // with two readers 50 ms a block
  server.fault = Fault::kSlow;
  EXPECT_GT(bank.Restore(Prompt(640)).remote, 500) << "it is faster";
  server.slow_ms = 250;
  const auto begin = SteadyClock::now();
  const std::int64_t came = bank.Restore(Prompt(6400)).remote;
  EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(5));
  EXPECT_LT(came, 3200);
  server.fault = Fault::kNone;
}

TEST(RadixCacheShared, AMachineWithoutItsServerComputesAtOnce) {
  auto server = std::make_unique<FakeRedis>();
  Machine bank(*server);
  server.reset();
  EXPECT_EQ(bank.Restore(Prompt(1000)).remote, 0);
  const auto begin = SteadyClock::now();
  for (TokenId i = 1; i < 20; ++i) {
    EXPECT_FALSE(bank.cache().StartRestore(Prompt(1000, i), "")) << "left alone";
    bank.Run(Prompt(1000, i));
  }
  bank.cache().Clear();
  EXPECT_LT(SteadyClock::now() - begin, std::chrono::seconds(2)) << "nothing waits for it";
}

}  // namespace
}  // namespace cache
