#include "ops/attention/attention.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>
#include <rapidcheck/gtest.h>

#include <cmath>

#include "ops/attention/test_support.h"

namespace ops {
namespace {

using testing::Case;
using testing::Chunked;
using testing::LargestDifference;
using testing::Plan;
using testing::PresentSets;
using testing::RunCase;
using testing::RunReference;
using testing::SameBits;
using testing::SlowAttention;

// float32 against double: sums over head_dim and context of values near 1.
constexpr double kFloatBound = 2e-5;
// A k or v whose float and double values lie on two sides of a rounding border of binary16.
constexpr double kHalfBound = 1e-3;

// The same of a whole number: one of a few dozen dims is off by one step.
constexpr double kI8Bound = 5e-3;
constexpr double kI4Bound = 5e-2;

double Bound(const Case& c) {
  switch (c.dtype) {
    case KvDtype::kF32:
      return kFloatBound;
    case KvDtype::kF16:
      return kHalfBound;
    case KvDtype::kI8:
      return kI8Bound;
    case KvDtype::kI4:
      return kI4Bound;
  }
  return 0;
}

std::vector<Case> Shapes() {
  return {
      {.n_heads = 2, .n_kv_heads = 2, .head_dim = 16, .rotary_dim = 16, .lengths = {70}},
      {.n_heads = 3,
       .n_kv_heads = 1,
       .head_dim = 64,
       .rotary_dim = 64,
       .norms = false,
       .lengths = {130}},
      {.n_heads = 5, .n_kv_heads = 1, .head_dim = 80, .rotary_dim = 80, .lengths = {65}},
      {.n_heads = 4, .n_kv_heads = 2, .head_dim = 96, .rotary_dim = 48, .lengths = {64}},
      {.n_heads = 4, .n_kv_heads = 2, .head_dim = 128, .rotary_dim = 128, .lengths = {129}},
      {.n_heads = 4, .n_kv_heads = 1, .head_dim = 256, .rotary_dim = 256, .lengths = {90}},
      {.n_heads = 16, .n_kv_heads = 1, .head_dim = 32, .rotary_dim = 32, .lengths = {63}},
      {.n_heads = 7, .n_kv_heads = 1, .head_dim = 32, .rotary_dim = 20, .lengths = {1}},
      {.lengths = {600}},
      {.window = 31, .lengths = {200}},
      {.window = 100, .dtype = KvDtype::kF32, .lengths = {333}},
      {.dtype = KvDtype::kF32, .lengths = {128}},
      {.n_heads = 5,
       .n_kv_heads = 1,
       .head_dim = 80,
       .rotary_dim = 80,
       .dtype = KvDtype::kI8,
       .lengths = {65}},
      {.n_heads = 4,
       .n_kv_heads = 2,
       .head_dim = 128,
       .rotary_dim = 128,
       .dtype = KvDtype::kI8,
       .lengths = {330}},
      {.window = 31, .dtype = KvDtype::kI8, .lengths = {200}},
      {.n_heads = 16, .n_kv_heads = 1, .dtype = KvDtype::kI8, .lengths = {63}},
      {.n_heads = 4,
       .n_kv_heads = 2,
       .head_dim = 128,
       .rotary_dim = 128,
       .dtype = KvDtype::kI4,
       .lengths = {330}},
      {.n_heads = 4,
       .n_kv_heads = 1,
       .head_dim = 256,
       .rotary_dim = 256,
       .dtype = KvDtype::kI4,
       .lengths = {90}},
      {.window = 100, .dtype = KvDtype::kI4, .lengths = {333}},
      {.n_heads = 6, .n_kv_heads = 2, .sinks = true, .lengths = {600}},
      {.window = 31, .norms = false, .sinks = true, .lengths = {200}},
  };
}

TEST(Attention, EveryInstructionSetComputesTheDefinition) {
  for (const Case& c : Shapes()) {
    const std::vector<double> expected = SlowAttention(c);
    for (const InstructionSet set : PresentSets()) {
      const auto actual = RunCase(c, Chunked(c.lengths[0], 512), set, 2);
      EXPECT_LT(LargestDifference(actual[0], expected), Bound(c))
          << Name(set) << " head_dim " << c.head_dim << " window " << c.window;
    }
  }
}

TEST(Attention, TheReferenceGraphComputesTheDefinition) {
  for (const Case& c : Shapes()) {
    const auto actual = RunReference(c, Chunked(c.lengths[0], 50));
    EXPECT_LT(LargestDifference(actual[0], SlowAttention(c)), Bound(c))
        << "head_dim " << c.head_dim << " window " << c.window;
  }
}

TEST(Attention, AllInstructionSetsGiveTheSameBits) {
  for (const Case& c : Shapes()) {
    const auto plain = RunCase(c, Chunked(c.lengths[0], 512), InstructionSet::kPlain);
    for (const InstructionSet set : PresentSets()) {
      EXPECT_TRUE(SameBits(plain[0], RunCase(c, Chunked(c.lengths[0], 512), set)[0]))
          << Name(set) << " head_dim " << c.head_dim << " window " << c.window;
    }
  }
}

TEST(Attention, AnyChunkingOfAPrefillGivesTheSameBits) {
  const Case c{.n_heads = 6, .n_kv_heads = 2, .lengths = {1100}};
  const auto one_by_one = RunCase(c, Chunked(1100, 1), BestInstructionSet());
  for (const int n : {2, 7, 31, 63, 64, 65, 200, 511, 512, 513, 1100}) {
    EXPECT_TRUE(SameBits(one_by_one[0], RunCase(c, Chunked(1100, n), BestInstructionSet(), 2)[0]))
        << n;
  }
}

RC_GTEST_PROP(Attention, RandomChunkingsGiveTheSameBits, ()) {
  Case c;
  c.n_kv_heads = *rc::gen::element(1, 2);
  c.n_heads = c.n_kv_heads * *rc::gen::inRange(1, 9);
  c.window = *rc::gen::element(0, 1, 31, 32, 63, 64, 65, 150, 512);
  c.dtype = *rc::gen::element(KvDtype::kF32, KvDtype::kF16, KvDtype::kI8, KvDtype::kI4);
  c.norms = *rc::gen::arbitrary<bool>();
  c.sinks = *rc::gen::arbitrary<bool>();
  c.lengths = {*rc::gen::inRange(1, 700)};
  Plan plan;
  for (int t = 0; t < c.lengths[0];) {
    const int n = *rc::gen::inRange(1, *rc::gen::element(3, 70, 600));
    plan.push_back({{.sequence = 0, .n_tokens = std::min(n, c.lengths[0] - t)}});
    t += n;
  }
  const InstructionSet set = BestInstructionSet();
  const auto whole = RunCase(c, Chunked(c.lengths[0], c.lengths[0]), set);
  RC_ASSERT(SameBits(whole[0], RunCase(c, plan, set, *rc::gen::inRange(1, 4))[0]));
}

TEST(Attention, ASequenceGivesTheSameBitsAloneAndAmongStrangers) {
  const Case c{.n_heads = 6, .n_kv_heads = 2, .lengths = {600, 40, 700, 1, 130}};
  Plan together;
  std::vector<int> done(c.lengths.size());
  for (int step = 0; done != c.lengths; ++step) {
    together.emplace_back();
    for (std::size_t s = 0; s < c.lengths.size(); ++s) {
      const int wanted = 1 + (step * 37 + static_cast<int>(s) * 61) % 90;
      const int n = std::min(wanted, c.lengths[s] - done[s]);
      if (n > 0) {
        together.back().push_back({.sequence = s, .n_tokens = n});
        done[s] += n;
      }
    }
  }
  const auto batched = RunCase(c, together, BestInstructionSet(), 2);
  for (std::size_t s = 0; s < c.lengths.size(); ++s) {
    EXPECT_TRUE(
        SameBits(batched[s], RunCase(c, Chunked(c.lengths[s], 300, s), BestInstructionSet())[s]))
        << s;
  }
}

TEST(Attention, TheNumberOfThreadsChangesNoBit) {
  for (const int n : {1, 90, 1300}) {
    const Case c{.lengths = {1300}};
    const auto one = RunCase(c, Chunked(1300, n), BestInstructionSet(), 1);
    EXPECT_TRUE(SameBits(one[0], RunCase(c, Chunked(1300, n), BestInstructionSet(), 2)[0])) << n;
    EXPECT_TRUE(SameBits(one[0], RunCase(c, Chunked(1300, n), BestInstructionSet(), 3)[0])) << n;
  }
}

TEST(Attention, WindowsAroundBlockBordersAreExact) {
  for (const int window : {1, 2, 31, 32, 63, 64, 65, 127, 128, 129, 511, 512, 513}) {
    Case c{.n_heads = 2,
           .n_kv_heads = 1,
           .head_dim = 16,
           .rotary_dim = 16,
           .window = window,
           .lengths = {650}};
    c.dtype = KvDtype::kF32;
    const auto whole = RunCase(c, Chunked(650, 650), BestInstructionSet(), 2);
    EXPECT_LT(LargestDifference(whole[0], SlowAttention(c)), kFloatBound) << window;
    for (const int n : {1, 64, 100}) {
      EXPECT_TRUE(SameBits(whole[0], RunCase(c, Chunked(650, n), BestInstructionSet(), 3)[0]))
          << window << " " << n;
    }
  }
}

TEST(Attention, LengthsAroundBlockAndChunkBordersAreExact) {
  for (const int length : {63, 64, 65, 127, 128, 129, 511, 512, 513, 1023, 1024, 1025}) {
    Case c{.n_heads = 3, .n_kv_heads = 1, .head_dim = 16, .rotary_dim = 16, .lengths = {length}};
    c.dtype = KvDtype::kF32;
    const auto whole = RunCase(c, Chunked(length, length), BestInstructionSet(), 2);
    EXPECT_LT(LargestDifference(whole[0], SlowAttention(c)), kFloatBound) << length;
    EXPECT_TRUE(
        SameBits(whole[0], RunCase(c, Chunked(length, length - 1), BestInstructionSet(), 2)[0]))
        << length;
  }
}

// What whole numbers cost beside exact K and V, of values and rotated, normalised keys near 1: an
// 8-bit step is 1 / 127 of a head's largest (some 3), a 4-bit step 1 / 15 of a group's range.
TEST(Attention, WholeNumbersStayCloseToExactAttention) {
  for (const auto& [dtype, bound] : {std::pair(KvDtype::kI8, 0.06), std::pair(KvDtype::kI4, 0.7)}) {
    Case c{.n_heads = 4, .n_kv_heads = 2, .head_dim = 64, .rotary_dim = 64, .lengths = {700}};
    c.dtype = KvDtype::kF32;
    const auto exact = RunCase(c, Chunked(700, 512), BestInstructionSet());
    c.dtype = dtype;
    const double off =
        LargestDifference(RunCase(c, Chunked(700, 512), BestInstructionSet())[0], exact[0]);
    EXPECT_LT(off, bound) << Name(dtype);
    EXPECT_GT(off, bound / 100) << Name(dtype) << ": is it stored in whole numbers at all?";
  }
}

TEST(Attention, ScoresInTheThousandsGiveAFiniteMeanOfV) {
  const Case c{.norms = false, .value_scale = 50.0F, .lengths = {600}};
  float largest = 0.0F;
  for (const float x : c.Qkv(0)) {
    largest = std::max(largest, std::abs(x));
  }
  for (const InstructionSet set : PresentSets()) {
    const auto actual = RunCase(c, Chunked(600, 600), set);
    for (const float x : actual[0]) {
      ASSERT_LE(std::abs(x), largest * 1.001F);  // false for a NaN
    }
  }
}

TEST(Attention, ValuesBeyondBinary16BecomeItsLargestInBothPaths) {
  const Case c{.norms = false, .value_scale = 60000.0F, .lengths = {70}};
  const auto native = RunCase(c, Chunked(70, 70), BestInstructionSet());
  const auto reference = RunReference(c, Chunked(70, 70));
  for (const float x : native[0]) {
    ASSERT_LE(std::abs(x), 65504.0F * 1.001F);
  }
  for (const float x : reference[0]) {
    ASSERT_LE(std::abs(x), 65504.0F * 1.001F);
  }
}

}  // namespace
}  // namespace ops
