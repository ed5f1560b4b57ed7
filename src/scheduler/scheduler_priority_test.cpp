// A side request never delays an interactive one by more than a step.
#include <gtest/gtest.h>

#include "scheduler/test_harness.h"

namespace scheduler {
namespace {

Request Background(Tokens prompt, int max_tokens) {
  Request request = Greedy(std::move(prompt), max_tokens);
  request.priority = Priority::kBackground;
  return request;
}

TEST(SchedulerPriority, ABackgroundPromptGetsWhatAnInteractiveOneLeavesOfAStep) {
  Harness harness({.budget_bytes = 1 << 24});
  harness.control.Gate();
  TokenStream side = harness.Submit(Background(MakePrompt(1, 5120), 1));
  harness.control.Permit(1);
  harness.control.WaitAtGate();  // its second chunk is being computed
  const std::uint64_t side_id = harness.control.TakeSteps().at(0).at(0).sequence_id;
  TokenStream user = harness.Submit(Greedy(MakePrompt(2, 1024 + 256), 1));
  harness.control.Open();
  EXPECT_EQ(ReadAll(user, 1)[0].tokens, Alone(MakePrompt(2, 1024 + 256), 1, {0}));
  EXPECT_EQ(ReadAll(side, 1)[0].tokens, Alone(MakePrompt(1, 5120), 1, {0}));

  const std::vector<FakeControl::Step> steps = harness.control.TakeSteps();
  std::size_t user_steps = 0;
  for (const FakeControl::Step& step : steps) {
    for (const FakeControl::Part& part : step) {
      if (part.sequence_id != side_id) {
        ++user_steps;
        EXPECT_EQ(part.n_tokens, user_steps < 3 ? 512U : 256U);
      } else if (step.size() == 2) {
        EXPECT_EQ(part.n_tokens, 256U) << "what the last chunk leaves";
      }
    }
  }
  EXPECT_EQ(user_steps, 3U);
  EXPECT_EQ(steps.at(1).size(), 1U);
  EXPECT_NE(steps.at(1).at(0).sequence_id, side_id);
}

}  // namespace
}  // namespace scheduler
