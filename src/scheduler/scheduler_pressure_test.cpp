// Many sequences, little memory: whatever happens to it, each sequence gets the text it gets alone.
#include <gtest/gtest.h>

#include <random>
#include <sstream>
#include <thread>

#include "scheduler/test_harness.h"

namespace scheduler {
namespace {

TEST(SchedulerUnderPressure, APreemptedSequenceGoesOnWithoutLosingOrRepeatingATokens) {
  // 16 blocks; three sequences that each grow to 8.
  Harness harness({.budget_bytes = 16'000});
  harness.control.Gate();
  std::vector<TokenStream> streams;
  for (std::uint64_t i = 0; i < 3; ++i) {
    streams.push_back(harness.Submit(Greedy(MakePrompt(i, 100), 400)));
  }
  harness.control.Open();
  for (std::uint64_t i = 0; i < 3; ++i) {
    const Text text = ReadAll(streams[i], 1)[0];
    EXPECT_EQ(text.finish, FinishReason::kLength);
    EXPECT_EQ(text.tokens, Alone(MakePrompt(i, 100), 400, {0}));
  }
  EXPECT_GT(harness.scheduler->stats().preemptions, 0U);
}

TEST(SchedulerUnderPressure, TheOldestIsNeverPreempted) {
  Harness harness({.budget_bytes = 9'000});
  harness.control.Gate();
  TokenStream oldest = harness.Submit(Greedy(MakePrompt(1, 100), 400));
  harness.control.WaitAtGate();
  const std::uint64_t id = [&] {
    harness.control.Permit(1);
    harness.control.WaitAtGate();
    return harness.control.TakeSteps().at(0).at(0).sequence_id;
  }();
  TokenStream younger = harness.Submit(Greedy(MakePrompt(2, 100), 400));
  harness.control.Open();
  EXPECT_EQ(ReadAll(oldest, 1)[0].tokens.size(), 400U);
  EXPECT_EQ(ReadAll(younger, 1)[0].tokens, Alone(MakePrompt(2, 100), 400, {0}));
  std::int64_t next = 100;
  for (const FakeControl::Step& step : harness.control.TakeSteps()) {
    for (const FakeControl::Part& part : step) {
      if (part.sequence_id == id) {
        EXPECT_EQ(part.first_position, next++);
      }
    }
  }
  EXPECT_EQ(next, 100 + 399);
}

struct Case {
  std::vector<int> windows;
  bool naive = false;
};

class AnyArrival : public testing::TestWithParam<Case> {};

// Random prompts that branch off each other, random lengths, priorities, sampling, step sizes,
// budgets and moments.
TEST_P(AnyArrival, GivesEachSequenceTheTextItGetsAlone) {
  std::uint64_t preemptions = 0;
  std::uint64_t cached = 0;
  for (std::uint32_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    std::mt19937 random(seed);
    const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
    constexpr std::array<int, 4> kStepSizes = {16, 64, 200, 512};
    // The longest sequence takes 890 tokens: 14 blocks of every group.
    // The first game is sure to run out of memory: eight at once whose replies outgrow it.
    const bool tight = seed == 0;
    const std::uint64_t block_bytes = GetParam().windows.size() == 1 ? 1000 : 1700;
    Harness harness({.windows = GetParam().windows,
                     .budget_bytes = block_bytes * (14 + (tight ? 0 : 2 * pick(8))),
                     .options = {.max_num_seqs = tight ? 8 : static_cast<int>(2 + pick(7)),
                                 .prefill_step_size = kStepSizes[pick(4)],
                                 .context_length = 1000},
                     .naive = GetParam().naive});
    // All at once, or one after the other into the running steps.
    const bool at_once = tight || pick(2) == 0;
    if (at_once) {
      harness.control.Gate();
    }
    // Long prompts, or short ones whose replies outgrow the memory.
    const std::size_t longest = tight || pick(2) == 0 ? 60 : 500;
    const Tokens head = MakePrompt(seed, 500);
    std::vector<Tokens> expected;
    std::vector<TokenStream> streams;
    for (std::size_t i = 0; i < 8; ++i) {
      Request request;
      request.prompt =
          Tokens(head.begin(), head.begin() + static_cast<std::ptrdiff_t>(1 + pick(longest))) +
          MakePrompt(1000 * seed + pick(3), pick(longest * 2 / 5));
      const std::size_t most = longest == 60 ? 800 : pick(2) == 0 ? 10 : 190;
      request.max_tokens = tight ? 400 : static_cast<int>(1 + pick(most));
      request.sampling = {.temperature = pick(2) == 0 ? 0.0 : 2.0, .seed = seed};
      request.priority = pick(3) == 0 ? Priority::kBackground : Priority::kInteractive;
      expected.push_back(
          Alone(request.prompt, request.max_tokens, GetParam().windows, request.sampling));
      streams.push_back(harness.Submit(std::move(request)));
      std::this_thread::sleep_for(std::chrono::microseconds(at_once ? 0 : pick(1000)));
    }
    harness.control.Open();
    for (std::size_t i = 0; i < streams.size(); ++i) {
      const Text text = ReadAll(streams[i], 1)[0];
      EXPECT_EQ(text.tokens, expected[i]);
      EXPECT_EQ(text.finish, FinishReason::kLength);
      EXPECT_FALSE(text.error);
    }
    preemptions += harness.scheduler->stats().preemptions;
    cached += harness.scheduler->stats().cached_prompt_tokens;
  }
  EXPECT_GT(preemptions, 0U) << "memory was never short";
  EXPECT_EQ(cached > 0, !GetParam().naive);
}

INSTANTIATE_TEST_SUITE_P(Groups, AnyArrival,
                         testing::Values(Case{{0}}, Case{{0, 512}}, Case{{0, 32}}, Case{{100}},
                                         Case{{0}, true}, Case{{0, 32}, true},
                                         Case{{0, kRecurrent}}, Case{{0, 32, kRecurrent}},
                                         Case{{0, kRecurrent}, true}),
                         [](const auto& info) {
                           std::ostringstream name;
                           name << (info.param.naive ? "Naive" : "Radix");
                           for (const int window : info.param.windows) {
                             name << '_'
                                  << (window == kRecurrent ? "recurrent" : std::to_string(window));
                           }
                           return name.str();
                         });

TEST(SchedulerUnderPressure, ClientsThatComeAndGoAtAnyMomentDisturbNobody) {
  Harness harness(
      {.windows = {0, 64},
       .budget_bytes = 60'000,
       .options = {.max_num_seqs = 8, .prefill_step_size = 100, .context_length = 1000}});
  const auto client = [&](std::uint32_t seed) {
    std::mt19937 random(seed);
    for (int i = 0; i < 12; ++i) {
      const Tokens prompt = MakePrompt(random() % 4, 20 + random() % 300);
      const int max_tokens = static_cast<int>(1 + random() % 100);
      TokenStream stream = harness.Submit(Greedy(prompt, max_tokens));
      if (random() % 3 == 0) {
        const auto wait = std::chrono::microseconds(random() % 3000);
        std::this_thread::sleep_for(wait);
        stream.Cancel();
      }
      const Text text = ReadAll(stream, 1)[0];
      const Tokens alone = Alone(prompt, max_tokens, {0, 64});
      ASSERT_LE(text.tokens.size(), alone.size());
      EXPECT_TRUE(std::equal(text.tokens.begin(), text.tokens.end(), alone.begin()));
      EXPECT_TRUE(text.finish);
      (void)harness.scheduler->stats();
    }
  };
  std::vector<std::thread> clients;
  for (std::uint32_t seed = 0; seed < 8; ++seed) {
    clients.emplace_back(client, seed);
  }
  for (std::thread& thread : clients) {
    thread.join();
  }
  const SchedulerStats stats = harness.scheduler->stats();
  EXPECT_EQ(stats.running + stats.waiting, 0);
  EXPECT_EQ(stats.requests_finished + stats.requests_cancelled, 96U);
}

}  // namespace
}  // namespace scheduler
