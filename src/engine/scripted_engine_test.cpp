#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "engine/engine.h"

namespace engine {
namespace {

StepSequence Part(std::uint64_t id, std::int64_t first_position, std::size_t n,
                  bool wants_logits = true) {
  return {.sequence_id = id,
          .tokens = std::vector<TokenId>(n, 1),
          .first_position = first_position,
          .block_tables = {{}},
          .wants_logits = wants_logits};
}

TokenId Likeliest(StepLogits& logits, int row) {
  const auto values = logits.Row(row);
  return static_cast<TokenId>(std::max_element(values.begin(), values.end()) - values.begin());
}

TEST(ScriptedEngine, EachSequencePlaysTheScriptAndThenEos) {
  const auto engine = MakeScriptedEngine({.tokens = {5, 6}, .eos = 2, .vocab_size = 10});
  EXPECT_EQ(engine->vocab_size(), 10);
  auto step = engine->Forward({Part(1, 0, 7), Part(2, 0, 3, false)});
  ASSERT_TRUE(step);
  EXPECT_EQ(Likeliest(*step, 0), 5);
  step = engine->Forward({Part(1, 7, 1), Part(2, 3, 3)});
  ASSERT_TRUE(step);
  EXPECT_EQ(Likeliest(*step, 0), 6);
  EXPECT_EQ(Likeliest(*step, 1), 5);
  step = engine->Forward({Part(2, 6, 1), Part(1, 8, 1)});
  ASSERT_TRUE(step);
  EXPECT_EQ(Likeliest(*step, 0), 6);
  EXPECT_EQ(Likeliest(*step, 1), 2);
}

TEST(ScriptedEngine, AResumedSequenceGoesOnWhereItWas) {
  const auto engine = MakeScriptedEngine({.tokens = {5, 6, 7}, .eos = 2, .vocab_size = 10});
  ASSERT_TRUE(engine->Forward({Part(1, 0, 100)}));
  ASSERT_TRUE(engine->Forward({Part(1, 100, 1)}));
  // Pre-empted; prompt and two tokens of the reply are computed again in one chunk.
  auto step = engine->Forward({Part(1, 64, 38)});
  ASSERT_TRUE(step);
  EXPECT_EQ(Likeliest(*step, 0), 7);
}

TEST(ScriptedEngine, FailsAtTheEndWhenToldTo) {
  const auto engine =
      MakeScriptedEngine({.tokens = {5}, .eos = 2, .vocab_size = 10, .fails_at_end = true});
  ASSERT_TRUE(engine->Forward({Part(1, 0, 4)}));
  const auto step = engine->Forward({Part(1, 4, 1)});
  ASSERT_FALSE(step);
  EXPECT_EQ(step.error().code, ErrorCode::kInternal);
  EXPECT_TRUE(engine->Forward({Part(2, 0, 4)})) << "other sequences are not concerned";
}

TEST(ScriptedEngine, WaitsBeforeTheFirstLogitsOfEachSequenceOnly) {
  const auto engine =
      MakeScriptedEngine({.tokens = {5, 6}, .eos = 2, .vocab_size = 10, .prefill_delay_s = 0.05});
  const auto timed = [&](const StepSequence& part) {
    const auto start = std::chrono::steady_clock::now();
    EXPECT_TRUE(engine->Forward({part}));
    return std::chrono::steady_clock::now() - start;
  };
  EXPECT_GE(timed(Part(1, 0, 4)), std::chrono::milliseconds(50));
  EXPECT_LT(timed(Part(1, 4, 1)), std::chrono::milliseconds(50));
  EXPECT_GE(timed(Part(2, 0, 4)), std::chrono::milliseconds(50));
}

TEST(ScriptedEngine, BlocksStayWithinTheirBudget) {
  const auto engine = MakeScriptedEngine({.tokens = {}, .eos = 2, .vocab_size = 10});
  ops::BlockStore& blocks = engine->blocks();
  ASSERT_EQ(blocks.groups().size(), 1U);
  const auto a = blocks.Allocate(0);
  const auto b = blocks.Allocate(0);
  ASSERT_TRUE(a && b);
  EXPECT_NE(*a, *b);
  EXPECT_EQ(blocks.used_bytes(), 2 * blocks.BlockBytes(0));
  blocks.Free(0, *a);
  EXPECT_EQ(blocks.Allocate(0), a);
}

}  // namespace
}  // namespace engine
