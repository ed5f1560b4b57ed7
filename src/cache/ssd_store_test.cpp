#include "cache/ssd_store.h"

#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "base/memory_file_system.h"
#include "cache/test_segments.h"

namespace cache {
namespace {

using namespace test_segments;  // NOLINT(google-build-using-namespace)

// Reads blocks [begin, end) and returns how many came before the read ended. Each must be what was
// written.
std::size_t Read(SsdStore& store, const Branch& branch, std::size_t begin, std::size_t end) {
  std::vector<WantedBlock> wanted;
  for (std::size_t i = begin; i < end; ++i) {
    wanted.push_back({.key = branch.blocks[i].key, .tokens = branch.blocks[i].tokens, .groups = 3});
  }
  const ReadId id = store.StartRead(wanted);
  std::size_t came = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (true) {
    ReadProgress progress = store.TakeRead(id);
    for (BlockRead& block : progress.blocks) {
      EXPECT_EQ(block.wanted, came);
      EXPECT_EQ(block.groups, branch.blocks[begin + came].groups) << "WRONG CONTENT";
      ++came;
      store.Recycle(std::move(block));
    }
    if (progress.ended) {
      store.EndRead(id);
      return came;
    }
    if (std::chrono::steady_clock::now() > deadline) {
      ADD_FAILURE() << "a read never ends";
      return came;
    }
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::size_t CountTemporaries(const MemoryFileSystem& files) {
  return static_cast<std::size_t>(std::ranges::count_if(
      files.Files(), [](const auto& path) { return path.extension() == ".tmp"; }));
}

// One segment whole, then two of which the process is killed after `step` operations. Returns
// whether it lived to write them all.
bool WriteThreeSegments(MemoryFileSystem& files, const Branch& branch, int step) {
  Open(files)->Write(branch.Part(0, 4));
  const auto store = Open(files);
  files.KillAfter(step);
  store->Write(branch.Part(4, 8));
  store->Write(branch.Part(8, 12));
  store->WaitUntilIdle();
  return store->stats().write_errors == 0;
}

TEST(SsdStore, ReadsAfterARestartWhatWasWritten) {
  MemoryFileSystem files;
  const Branch branch("", 1, 40);
  {
    const auto store = Open(files);
    EXPECT_TRUE(store->Write(branch.Part(0, 16)));
    EXPECT_TRUE(store->Write(branch.Part(16, 32)));
    EXPECT_TRUE(store->Write(branch.Part(32, 40)));
  }
  const auto store = Open(files);
  EXPECT_EQ(store->GroupsOf(branch.blocks[33].key), 3U);
  EXPECT_EQ(Read(*store, branch, 0, 40), 40U);
  EXPECT_EQ(Read(*store, branch, 10, 35), 25U);
  EXPECT_EQ(store->stats().own_blocks, 40U);
  EXPECT_EQ(store->stats().files, 3U);
  EXPECT_EQ(store->stats().staged_bytes, 0U);
  EXPECT_GT(store->stats().wear_bytes, 40 * kFull);
  EXPECT_EQ(Read(*store, Branch("salt", 1, 2), 0, 2), 0U) << "another tenant's";
}

TEST(SsdStore, OpensNoFileToBuildItsIndex) {
  MemoryFileSystem files;
  const Branch branch("", 1, 8);
  {
    Open(files)->Write(branch.Part(0, 8));
  }
  std::atomic<int> opened = 0;
  files.SetFault([&](MemoryFileSystem::Operation operation, const auto& path) {
    opened += operation == MemoryFileSystem::Operation::kOpen && path.extension() == ".safetensors";
    return std::nullopt;
  });
  const auto store = Open(files);
  EXPECT_EQ(store->GroupsOf(branch.blocks[7].key), 3U);
  EXPECT_EQ(opened, 0);
}

TEST(SsdStore, AKillAtAnyStepLosesTheLastSegmentsAtMost) {
  const Branch branch("", 1, 12);
  bool survived = false;
  for (int step = 0; !survived; ++step) {
    ASSERT_LT(step, 200);
    MemoryFileSystem files;
    survived = WriteThreeSegments(files, branch, step);
    files.Restart();
    const auto store = Open(files);
    EXPECT_EQ(CountTemporaries(files), 0U) << "step " << step;
    const std::size_t found = Read(*store, branch, 0, 12);
    EXPECT_GE(found, 4U);
    EXPECT_EQ(found % 4, 0U);
    EXPECT_EQ(store->stats().damaged_files, 0U) << "a kill leaves no torn file";
    EXPECT_TRUE(!survived || found == 12);
    // and it goes on
    store->Write(branch.Part(4, 8));
    store->Write(branch.Part(8, 12));
    store->WaitUntilIdle();
    EXPECT_EQ(Read(*store, branch, 0, 12), 12U);
  }
}

TEST(SsdStore, ALossOfPowerAtAnyStepKeepsWhatWasComplete) {
  const Branch branch("", 1, 12);
  for (std::uint32_t seed = 0; seed < 5; ++seed) {
    bool survived = false;
    for (int step = 0; !survived; ++step) {
      ASSERT_LT(step, 200);
      MemoryFileSystem files;
      survived = WriteThreeSegments(files, branch, step);
      files.LosePower(seed * 1000 + static_cast<std::uint32_t>(step));
      const auto store = Open(files);
      EXPECT_EQ(CountTemporaries(files), 0U);
      const std::size_t found = Read(*store, branch, 0, 12);
      EXPECT_GE(found, 4U);
      EXPECT_TRUE(!survived || found == 12);
      EXPECT_EQ(store->stats().damaged_files, 0U) << "names appear after their content";
    }
  }
}

TEST(SsdStore, DamagedFilesAreSetAsideAndCounted) {
  for (const bool truncates : {false, true}) {
    MemoryFileSystem files;
    const Branch branch("", 1, 8);
    const Branch other("", 2, 4);
    {
      const auto store = Open(files);
      store->Write(branch.Part(0, 8));
    }
    const auto path = OnlySegment(files);
    if (truncates) {
      files.Truncate(path, files.Content(path).size() / 2);
    } else {
      files.FlipBit(path, files.Content(path).size() * 4);
    }
    const auto store = Open(files);
    store->Write(other.Part(0, 4));
    EXPECT_EQ(store->GroupsOf(branch.blocks[0].key), 3U) << "found, but not yet looked into";
    EXPECT_LT(Read(*store, branch, 0, 8), 8U);
    EXPECT_EQ(store->stats().damaged_files, 1U);
    EXPECT_EQ(store->GroupsOf(branch.blocks[0].key), 0U);
    const auto all = files.Files();
    EXPECT_TRUE(std::ranges::find(all, kRoot / "damaged" / path.filename()) != all.end());
    store->WaitUntilIdle();
    EXPECT_EQ(Read(*store, other, 0, 4), 4U);
    store->Write(branch.Part(0, 8));
    store->WaitUntilIdle();
    EXPECT_EQ(Read(*store, branch, 0, 8), 8U) << "written again";
  }
}

TEST(SsdStore, AReadErrorEndsTheReadAndIsCounted) {
  MemoryFileSystem files;
  const Branch branch("", 1, 4);
  const auto store = Open(files);
  store->Write(branch.Part(0, 4));
  store->WaitUntilIdle();
  files.SetFault(
      [](MemoryFileSystem::Operation operation, const auto& path) -> std::optional<IoError> {
        if (operation == MemoryFileSystem::Operation::kRead) {
          return IoError{.kind = IoError::Kind::kOther, .message = path.string() + ": I/O error"};
        }
        return std::nullopt;
      });
  EXPECT_EQ(Read(*store, branch, 0, 4), 0U);
  EXPECT_EQ(store->stats().read_errors, 1U);
  EXPECT_EQ(store->stats().damaged_files, 0U);
}

TEST(SsdStore, AFullDiskDropsWhatDoesNotFitAndKeepsTheRest) {
  MemoryFileSystem files;
  const Branch branch("", 1, 16);
  const auto store = Open(files);
  store->Write(branch.Part(0, 4));
  store->WaitUntilIdle();
  files.SetCapacity(files.UsedBytes() + kFull);
  // Larger than what could be given back, so that nothing is.
  store->Write(branch.Part(4, 16));
  store->WaitUntilIdle();
  EXPECT_EQ(store->stats().write_errors, 1U);
  EXPECT_EQ(store->stats().dropped_blocks, 12U);
  EXPECT_EQ(CountTemporaries(files), 0U);
  EXPECT_EQ(Read(*store, branch, 0, 16), 4U);
}

TEST(SsdStore, ADiskFullerThanTheBudgetKnowsGivesWayToNewSegments) {
  MemoryFileSystem files;
  const Branch old("", 1, 4);
  const Branch fresh("", 2, 4);
  const auto store = Open(files);
  store->Write(old.Part(0, 4));
  store->WaitUntilIdle();
  files.SetCapacity(files.UsedBytes() + kFull);
  store->Write(fresh.Part(0, 4));
  store->WaitUntilIdle();
  EXPECT_EQ(store->stats().write_errors, 0U);
  EXPECT_EQ(Read(*store, fresh, 0, 4), 4U);
  EXPECT_EQ(Read(*store, old, 0, 4), 0U);
}

TEST(SsdStore, ASlowDiskHoldsNobodyUp) {
  MemoryFileSystem files;
  const Branch branch("", 1, 4);
  const auto store = Open(files);
  files.SetFault([](MemoryFileSystem::Operation, const auto&) {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    return std::nullopt;
  });
  const auto begin = std::chrono::steady_clock::now();
  store->Write(branch.Part(0, 4));
  const auto id = store->StartRead({{.key = branch.blocks[0].key, .groups = 3}});
  (void)store->TakeRead(id);
  (void)store->GroupsOf(branch.blocks[0].key);
  (void)store->stats();
  store->EndRead(id);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::milliseconds(80));
}

TEST(SsdStore, TheQueueIsBoundedInBytes) {
  MemoryFileSystem files;
  const Branch branch("", 1, 12);
  SsdOptions options = Options();
  options.write_queue_bytes = 5 * (kFull + kWindow);
  std::atomic<bool> holds = true;
  const auto store = Open(files, options);
  files.SetFault([&](MemoryFileSystem::Operation operation, const auto&) {
    while (holds && operation == MemoryFileSystem::Operation::kCreate) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
  });
  EXPECT_TRUE(store->Write(branch.Part(0, 4)));
  EXPECT_FALSE(store->HasRoom(4 * (kFull + kWindow)));
  EXPECT_FALSE(store->Write(branch.Part(4, 8)));
  EXPECT_EQ(store->stats().dropped_blocks, 4U);
  EXPECT_LE(store->stats().queued_bytes, options.write_queue_bytes);
  holds = false;
  store->WaitUntilIdle();
  EXPECT_TRUE(store->Write(branch.Part(4, 8)));
}

TEST(SsdStore, TheBudgetHoldsAndSharedHeadsOutliveTails) {
  MemoryFileSystem files;
  SsdOptions options = Options();
  options.budget_bytes = 20 * (kFull + 4096);
  const auto store = Open(files, options);
  const Branch head("", 1, 4);
  store->Write(head.Part(0, 4));
  for (TokenId variant = 2; variant < 12; ++variant) {
    Branch tail = head;  // continues the head with its own blocks
    BlockHasher hasher;
    for (std::size_t i = 0; i < 4; ++i) {
      BlockContent block;
      block.tokens.fill(variant * 1000 + static_cast<TokenId>(i));
      block.key = hasher.Next(tail.blocks.back().key, block.tokens);
      block.groups = {Branch::Bytes(kFull, block.key), Branch::Bytes(kWindow, block.key)};
      tail.blocks.push_back(std::move(block));
    }
    store->Write(tail.Part(4, 8));
    store->WaitUntilIdle();
    ASSERT_LE(store->stats().used_bytes, options.budget_bytes);
    EXPECT_EQ(Read(*store, tail, 0, 8), 8U) << "the newest is there";
  }
  EXPECT_GT(store->stats().evicted_files, 0U);
  EXPECT_LE(files.UsedBytes(), options.budget_bytes + 1000) << "besides about.json and wear";
}

TEST(SsdStore, TheBudgetIsAppliedToOldFilesAtStart) {
  MemoryFileSystem files;
  const Branch branch("", 1, 16);
  {
    const auto store = Open(files);
    for (std::size_t i = 0; i < 16; i += 4) {
      store->Write(branch.Part(i, i + 4));
    }
  }
  SsdOptions options = Options();
  options.budget_bytes = 9 * (kFull + 4096);
  const auto store = Open(files, options);
  EXPECT_LE(store->stats().used_bytes, options.budget_bytes);
  EXPECT_EQ(Read(*store, branch, 0, 16), 8U) << "what is left is the head";
}

TEST(SsdStore, OtherNamespacesCountAndMakeWayToo) {
  MemoryFileSystem files;
  const Branch branch("", 1, 8);
  SsdOptions other = Options();
  other.fingerprint = std::string(64, 'b');
  {
    const auto store = Open(files, other);
    store->Write(branch.Part(0, 8));
  }
  SsdOptions options = Options();
  options.budget_bytes = 10 * (kFull + 4096);
  const auto store = Open(files, options);
  EXPECT_EQ(Read(*store, branch, 0, 8), 0U) << "the same keys, but another model's";
  EXPECT_GT(store->stats().used_bytes, 8 * kFull);
  store->Write(Branch("", 2, 8).Part(0, 8));
  store->WaitUntilIdle();
  EXPECT_LE(store->stats().used_bytes, options.budget_bytes);
  EXPECT_EQ(store->stats().own_blocks, 8U);
}

TEST(SsdStore, TwoServersOnOneFolderGiveRightBlocks) {
  MemoryFileSystem files;
  const Branch branch("", 1, 8);
  const auto one = Open(files);
  const auto two = Open(files);
  one->Write(branch.Part(0, 8));
  two->Write(branch.Part(0, 8));
  one->WaitUntilIdle();
  two->WaitUntilIdle();
  EXPECT_EQ(Read(*one, branch, 0, 8), 8U);
  EXPECT_EQ(Read(*two, branch, 0, 8), 8U);
  one->Clear();
  EXPECT_EQ(Read(*two, branch, 0, 8), 0U) << "what the other removed is a miss";
  EXPECT_EQ(two->stats().damaged_files, 0U);
  EXPECT_EQ(two->stats().read_errors, 0U);
}

TEST(SsdStore, AClearLeavesNothing) {
  MemoryFileSystem files;
  const Branch branch("", 1, 8);
  const auto store = Open(files);
  store->Write(branch.Part(0, 4));
  store->WaitUntilIdle();
  store->Write(branch.Part(4, 8));
  store->Clear();
  EXPECT_EQ(store->stats().own_blocks, 0U);
  EXPECT_EQ(store->stats().queued_bytes, 0U);
  EXPECT_EQ(Read(*store, branch, 0, 8), 0U);
}

TEST(SsdStore, AFolderThatCannotBeUsedMakesEverythingAMiss) {
  MemoryFileSystem files;
  files.SetFault([](MemoryFileSystem::Operation operation,
                    const auto& path) -> std::optional<IoError> {
    if (operation == MemoryFileSystem::Operation::kList) {
      return IoError{.kind = IoError::Kind::kOther, .message = path.string() + ": no permission"};
    }
    return std::nullopt;
  });
  const Branch branch("", 1, 4);
  const auto store = Open(files);
  EXPECT_TRUE(store->ready());
  EXPECT_FALSE(store->stats().usable);
  store->Write(branch.Part(0, 4));
  store->WaitUntilIdle();
  EXPECT_EQ(store->stats().dropped_blocks, 4U);
  EXPECT_EQ(Read(*store, branch, 0, 4), 0U);
}

// Random segments, damage, kills, power losses and restarts: whatever is read is what was written,
// and what was written and is whole is read.
TEST(SsdStore, WhateverHappensItReadsWhatWasWrittenOrNothing) {
  const bool ok = rc::check("random life", [](std::uint32_t seed) {
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t n) { return random() % n; };
    MemoryFileSystem files;
    SsdOptions options = Options();
    options.budget_bytes = (5 + pick(40)) * kFull;
    std::vector<Branch> branches;
    for (TokenId variant = 0; variant < 3; ++variant) {
      branches.emplace_back("", variant, 10);
    }
    auto store = Open(files, options);
    for (int i = 0; i < 25 && !testing::Test::HasFailure(); ++i) {
      const Branch& branch = branches[pick(3)];
      switch (pick(7)) {
        case 0:
        case 1:
        case 2: {
          const std::size_t begin = pick(10);
          store->Write(branch.Part(begin, begin + 1 + pick(10 - begin)));
          break;
        }
        case 3:
          (void)Read(*store, branch, pick(5), 10);
          break;
        case 4: {
          store->WaitUntilIdle();
          const auto all = files.Files();
          const auto& path = all[pick(all.size())];
          if (files.Content(path).size() > 1) {
            files.FlipBit(path, pick(files.Content(path).size() * 8));
          }
          break;
        }
        case 5:
          files.KillAfter(static_cast<int>(pick(12)));
          store->Write(branch.Part(0, 10));
          store.reset();
          pick(2) == 0 ? files.Restart() : files.LosePower(seed);
          store = Open(files, options);
          break;
        default:
          store = nullptr;
          store = Open(files, options);
      }
    }
    store->WaitUntilIdle();
    RC_ASSERT(store->stats().used_bytes <= options.budget_bytes);
    RC_ASSERT(!testing::Test::HasFailure());
  });
  EXPECT_TRUE(ok);
}

}  // namespace
}  // namespace cache
