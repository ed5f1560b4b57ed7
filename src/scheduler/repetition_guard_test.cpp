#include "scheduler/repetition_guard.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "scheduler/test_harness.h"

namespace scheduler {
namespace {

// `text` and then `block` again and again.
Tokens Repeated(Tokens text, const Tokens& block, std::size_t times) {
  for (std::size_t i = 0; i < times; ++i) {
    text.insert(text.end(), block.begin(), block.end());
  }
  return text;
}

Tokens Words(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  Tokens tokens(n);
  for (TokenId& token : tokens) {
    token = static_cast<TokenId>(random() % 5000);
  }
  return tokens;
}

TEST(RepetitionGuard, ALoopOfAnyBlockIsFoundOnceItIsLong) {
  for (const std::size_t period : {1U, 2U, 7U, 60U, 200U, 256U}) {
    const Tokens block = Words(period, 1);
    const std::size_t enough = std::max(kMinRepetitions, (kMinLoopTokens + period - 1) / period);
    const std::optional<Loop> loop = FindLoop(Repeated(Words(300, 2), block, enough));
    ASSERT_TRUE(loop) << period;
    EXPECT_EQ(loop->period, period);
    EXPECT_FALSE(FindLoop(Repeated(Words(300, 2), block, enough / 2))) << period;
    EXPECT_FALSE(FindLoop(Repeated({}, block, enough / 2))) << period;
  }
}

TEST(RepetitionGuard, ALoopCutAnywhereInItsBlockIsOne) {
  Tokens reply = Repeated(Words(50, 3), Words(9, 4), 400);
  for (int cut = 0; cut < 9; ++cut) {
    EXPECT_TRUE(FindLoop(reply));
    reply.pop_back();
  }
}

TEST(RepetitionGuard, TextThatEndedItsLoopIsNone) {
  Tokens reply = Repeated({}, {1, 2, 3}, 2000);
  const Tokens more = Words(40, 5);
  reply.insert(reply.end(), more.begin(), more.end());
  EXPECT_FALSE(FindLoop(reply));
}

TEST(RepetitionGuard, TablesListsAndCodeAreNoLoops) {
  Tokens table;  // rows alike but for one cell
  for (TokenId row = 0; row < 1000; ++row) {
    for (const TokenId cell : {10, 11, 10, row, 10, 12, 10, 13, 14}) {
      table.push_back(cell);
    }
  }
  EXPECT_FALSE(FindLoop(table));
  Tokens numbered;  // "1. yes", "2. yes", ... its numbers of two digits each a token
  for (TokenId line = 0; line < 3000; ++line) {
    for (const TokenId token : {line / 100 % 10, line / 10 % 10, line % 10, 50, 51, 52}) {
      numbered.push_back(token);
    }
  }
  EXPECT_FALSE(FindLoop(numbered));
  // A matrix of zeros, 30 by 30, a rule of dashes, and blank lines.
  const Tokens row = Repeated({7}, {5, 6}, 30);
  EXPECT_FALSE(FindLoop(Repeated(Words(100, 6), row, 30)));
  EXPECT_FALSE(FindLoop(Repeated(Words(100, 7), {9}, 500)));
}

TEST(RepetitionGuard, EndsALoopingReplyWithLengthUnlessItIsOff) {
  const auto run = [](bool guard, bool ignore_eos) {
    Harness harness({.budget_bytes = 64 << 20,
                     .options = {.context_length = 100'000, .repetition_guard = guard}});
    Request request = Greedy(MakePrompt(1, 10), 3000);
    request.sampling.logit_bias = {{33, 1000.0}};
    request.ignore_eos = ignore_eos;
    return harness.Run(std::move(request));
  };
  const Text ended = run(/*guard=*/true, /*ignore_eos=*/false);
  EXPECT_EQ(ended.finish, FinishReason::kLength);
  EXPECT_EQ(ended.tokens, Tokens(2048, 33));
  EXPECT_EQ(run(/*guard=*/false, /*ignore_eos=*/false).tokens.size(), 3000U);
  EXPECT_EQ(run(/*guard=*/true, /*ignore_eos=*/true).tokens.size(), 3000U);
}

}  // namespace
}  // namespace scheduler
