// The scheduler over a model with recurrent layers, whose states are banked as sparse snapshots.
#include <gtest/gtest.h>

#include "scheduler/test_harness.h"

namespace scheduler {
namespace {

const std::vector<int> kHybrid = {0, kRecurrent};

std::int64_t RunAndCount(Harness& harness, Request request) {
  const Tokens expected = Alone(request.prompt, request.max_tokens, kHybrid);
  TokenStream stream = harness.Submit(std::move(request));
  EXPECT_EQ(ReadAll(stream, 1).at(0).tokens, expected);
  return stream.stats(0).cached_tokens;
}

TEST(HybridScheduler, TheNextTurnComputesWhatIsNewOnly) {
  Harness harness({.windows = kHybrid});
  Tokens prompt = MakePrompt(1, 1000);
  EXPECT_EQ(RunAndCount(harness, Greedy(prompt, 100)), 0);
  prompt = prompt + Alone(prompt, 100, kHybrid) + MakePrompt(2, 150);
  // 1100 tokens, of which the last has not been computed: the state at 1088.
  EXPECT_EQ(RunAndCount(harness, Greedy(prompt, 10)), 1088);
  EXPECT_EQ(RunAndCount(harness, Greedy(prompt, 10)), 1216);  // the prompt's end
}

TEST(HybridScheduler, AnEditedLastMessageGoesOnBeforeIt) {
  Harness harness({.windows = kHybrid});
  Request first = Greedy(MakePrompt(1, 1000), 5);
  first.boundaries = {900};
  EXPECT_EQ(RunAndCount(harness, std::move(first)), 0);
  EXPECT_EQ(RunAndCount(harness, Greedy(MakePrompt(1, 900) + MakePrompt(3, 70), 5)), 896);
}

TEST(HybridScheduler, SiblingsThatWaitForAHeadFindItsState) {
  Harness harness({.windows = kHybrid});
  const Tokens head = MakePrompt(1, 2000);
  harness.control.Gate();
  TokenStream first = harness.Submit(Greedy(head + MakePrompt(2, 300), 3));
  harness.control.WaitAtGate();
  TokenStream second = harness.Submit(Greedy(head + MakePrompt(3, 300), 3));
  TokenStream third = harness.Submit(Greedy(head + MakePrompt(4, 300), 3));
  harness.control.Open();
  for (TokenStream* stream : {&first, &second, &third}) {
    (void)ReadAll(*stream, 1);
  }
  EXPECT_EQ(first.stats(0).cached_tokens, 0);
  EXPECT_EQ(second.stats(0).cached_tokens, 1984);
  EXPECT_EQ(third.stats(0).cached_tokens, 1984);
}

TEST(HybridScheduler, ChoicesOfOnePromptShareIt) {
  Harness harness({.windows = kHybrid});
  const Tokens prompt = MakePrompt(1, 700);
  std::vector<Request> requests;
  for (int i = 0; i < 3; ++i) {
    requests.push_back(Greedy(prompt, 80));
  }
  TokenStream stream = harness.Submit(std::move(requests));
  for (const Text& text : ReadAll(stream, 3)) {
    EXPECT_EQ(text.tokens, Alone(prompt, 80, kHybrid));
  }
  EXPECT_EQ(stream.stats(2).cached_tokens, 640);
}

}  // namespace
}  // namespace scheduler
