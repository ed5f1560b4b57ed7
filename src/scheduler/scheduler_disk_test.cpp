// The scheduler with a disk tier: whatever the disk does, each sequence gets the text it gets
// alone.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "base/memory_file_system.h"
#include "scheduler/test_harness.h"

namespace scheduler {
namespace {

using Operation = MemoryFileSystem::Operation;

TEST(SchedulerWithDisk, TheFirstRequestAfterARestartRestores) {
  MemoryFileSystem files;
  const Tokens prompt = MakePrompt(1, 1000);
  const Tokens expected = Alone(prompt, 20, {0, 128});
  for (const std::int64_t found : {0, 960}) {
    Harness harness({.windows = {0, 128}, .files = &files});
    TokenStream stream = harness.Submit(Greedy(prompt, 20));
    EXPECT_EQ(ReadAll(stream, 1)[0].tokens, expected);
    EXPECT_EQ(stream.stats(0).cached_tokens, found);
    EXPECT_EQ(stream.stats(0).disk_tokens, found);
    EXPECT_EQ(harness.scheduler->stats().disk_prompt_tokens, static_cast<std::uint64_t>(found));
  }
}

TEST(SchedulerWithDisk, TheReplyIsBankedTooAndMemoryIsToldFromDisk) {
  MemoryFileSystem files;
  Tokens prompt = MakePrompt(1, 500);
  Tokens reply;
  {
    Harness harness({.files = &files});
    reply = harness.Run(Greedy(prompt, 200)).tokens;
  }
  Harness harness({.files = &files});
  const Tokens next = prompt + reply + MakePrompt(2, 30);
  TokenStream stream = harness.Submit(Greedy(next, 5));
  EXPECT_EQ(ReadAll(stream, 1)[0].tokens, Alone(next, 5, {0}));
  EXPECT_EQ(stream.stats(0).cached_tokens, 640) << "all 699 computed tokens but the last block";
  EXPECT_EQ(stream.stats(0).disk_tokens, 640);
  TokenStream again = harness.Submit(Greedy(next, 5));
  ReadAll(again, 1);
  EXPECT_EQ(again.stats(0).cached_tokens, 704);
  EXPECT_EQ(again.stats(0).disk_tokens, 0) << "now from memory";
}

TEST(SchedulerWithDisk, WhatAnEndedSequenceLeavesIsWrittenThoughNothingFollows) {
  MemoryFileSystem files;
  Harness harness({.files = &files});
  harness.Run(Greedy(MakePrompt(1, 64 * 20), 2));
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (harness.scheduler->stats().cache.disk->written_blocks < 20 &&
         std::chrono::steady_clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_EQ(harness.scheduler->stats().cache.disk->written_blocks, 20U);
}

// Reads do not come back while `hangs`, which outlives the file system's use.
void HangReads(MemoryFileSystem& files, const std::atomic<bool>& hangs) {
  files.SetFault([&hangs](Operation operation, const auto&) {
    while (hangs && operation == Operation::kRead) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return std::nullopt;
  });
}

TEST(SchedulerWithDisk, OthersAreSteppedWhileOneWaitsForTheDisk) {
  MemoryFileSystem files;
  {
    Harness({.files = &files}).Run(Greedy(MakePrompt(1, 1000), 2));
  }
  std::atomic<bool> hangs = true;
  HangReads(files, hangs);
  Harness harness({.files = &files});
  TokenStream waits = harness.Submit(Greedy(MakePrompt(1, 1000), 2));
  EXPECT_EQ(harness.Run(Greedy(MakePrompt(2, 300), 30)).tokens, Alone(MakePrompt(2, 300), 30, {0}));
  EXPECT_FALSE(waits.Next(std::chrono::milliseconds(10)));
  hangs = false;
  EXPECT_EQ(ReadAll(waits, 1)[0].tokens, Alone(MakePrompt(1, 1000), 2, {0}));
  EXPECT_EQ(waits.stats(0).disk_tokens, 960);
}

TEST(SchedulerWithDisk, ADiskThatHangsIsGivenUpAndACancelIsHeard) {
  MemoryFileSystem files;
  {
    Harness({.files = &files}).Run(Greedy(MakePrompt(1, 1000), 2));
  }
  std::atomic<bool> hangs = true;
  HangReads(files, hangs);
  Harness harness({.files = &files});
  TokenStream leaves = harness.Submit(Greedy(MakePrompt(1, 1000), 2));
  leaves.Cancel();
  EXPECT_EQ(ReadAll(leaves, 1)[0].finish, FinishReason::kCancelled);
  TokenStream stays = harness.Submit(Greedy(MakePrompt(1, 1000), 2));
  EXPECT_FALSE(stays.Next(std::chrono::milliseconds(50)));
  harness.clock.now_ms += 6000;
  EXPECT_EQ(ReadAll(stays, 1)[0].tokens, Alone(MakePrompt(1, 1000), 2, {0}));
  EXPECT_EQ(stays.stats(0).cached_tokens, 0);
  hangs = false;
}

TEST(SchedulerWithDisk, RunningSequencesTakeTheMemoryThatRestoresHold) {
  MemoryFileSystem files;
  const Tokens banked = MakePrompt(1, 1000);
  {
    Harness({.files = &files}).Run(Greedy(banked, 2));
  }
  // Room for 20 blocks: the restore takes 15 of them while the other grows to 15.
  Harness harness({.budget_bytes = 20'000,
                   .options = {.max_num_seqs = 1, .context_length = 100'000},
                   .files = &files});
  harness.control.Gate();
  TokenStream runs = harness.Submit(Greedy(MakePrompt(2, 100), 800));
  harness.control.WaitAtGate();
  TokenStream waits = harness.Submit(Greedy(banked, 2));
  harness.control.Open();
  EXPECT_EQ(ReadAll(runs, 1)[0].tokens, Alone(MakePrompt(2, 100), 800, {0}));
  EXPECT_EQ(ReadAll(waits, 1)[0].tokens, Alone(banked, 2, {0}));
  EXPECT_EQ(harness.scheduler->stats().requests_failed, 0U);
}

TEST(SchedulerWithDisk, ClearsTheTiersItIsTold) {
  MemoryFileSystem files;
  Harness harness({.files = &files});
  const Tokens prompt = MakePrompt(1, 1000);
  const auto cached = [&] {
    TokenStream stream = harness.Submit(Greedy(prompt, 2));
    ReadAll(stream, 1);
    return std::pair(stream.stats(0).cached_tokens, stream.stats(0).disk_tokens);
  };
  EXPECT_EQ(cached(), std::pair(std::int64_t{0}, std::int64_t{0}));
  const auto written = [&] { return harness.scheduler->stats().cache.disk->queued_bytes == 0; };
  harness.scheduler->ClearCache({.memory = true});
  for (int i = 0; i < 5000 && !written(); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    harness.Run(Greedy({1}, 1));  // a step publishes the numbers
  }
  EXPECT_EQ(cached(), std::pair(std::int64_t{960}, std::int64_t{960}));
  harness.scheduler->ClearCache({.disk = true});
  EXPECT_EQ(cached(), std::pair(std::int64_t{960}, std::int64_t{0}));
  harness.scheduler->ClearCache({.memory = true, .disk = true});
  EXPECT_EQ(cached(), std::pair(std::int64_t{0}, std::int64_t{0}));
}

// Requests that branch, are cancelled and come again, in little memory, over kills, power losses,
// damage and restarts.
TEST(SchedulerWithDisk, WhateverHappensEachSequenceGetsTheTextItGetsAlone) {
  for (const std::vector<int>& windows :
       {std::vector<int>{0}, std::vector<int>{0, 100}, std::vector<int>{0, kRecurrent}}) {
    std::mt19937 random(7);
    const auto pick = [&](std::size_t n) { return random() % n; };
    MemoryFileSystem files;
    std::vector<Tokens> talks;
    for (std::uint64_t i = 0; i < 4; ++i) {
      talks.push_back(MakePrompt(i % 2, 200) + MakePrompt(10 + i, 50 + pick(300)));
    }
    std::int64_t disk_tokens = 0;
    for (int life = 0; life < 12; ++life) {
      Harness harness({.windows = windows,
                       .budget_bytes = 30'000 + 10'000 * pick(4),
                       .options = {.max_num_seqs = 3, .context_length = 100'000},
                       .files = &files,
                       .disk_budget_bytes = 200'000 + pick(2'000'000)});
      for (int round = 0; round < 4; ++round) {
        std::vector<std::pair<std::size_t, TokenStream>> streams;
        for (std::size_t i = 0; i < talks.size(); ++i) {
          streams.emplace_back(i, harness.Submit(Greedy(talks[i], 40)));
        }
        streams.at(pick(4)).second.Cancel();
        for (auto& [i, stream] : streams) {
          const Text text = ReadAll(stream, 1)[0];
          disk_tokens += stream.stats(0).disk_tokens;
          if (text.finish != FinishReason::kCancelled) {
            ASSERT_EQ(text.tokens, Alone(talks[i], 40, windows));
            talks[i] = talks[i].size() > 900 ? MakePrompt(pick(2), 200)
                                             : talks[i] + text.tokens + MakePrompt(round, 20);
          }
        }
      }
      const auto all = files.Files();
      const auto& path = all[pick(all.size())];
      if (path.extension() == ".safetensors" && pick(2) == 0) {
        files.FlipBit(path, pick(files.Content(path).size() * 8));
      }
      if (pick(3) == 0) {
        files.KillAfter(static_cast<int>(pick(10)));
      }
      harness.control.Open();
      harness.scheduler.reset();
      pick(2) == 0 ? files.Restart() : files.LosePower(static_cast<std::uint32_t>(life));
    }
    EXPECT_GT(disk_tokens, 1000);
  }
}

}  // namespace
}  // namespace scheduler
