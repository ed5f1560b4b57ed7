#include "ops/linear/head_linear.h"

#include <gtest/gtest.h>
#include <mlx/ops.h>

#include <vector>

#include "ops/linear/linear.h"
#include "ops/linear/test_sources.h"

namespace ops {
namespace {

using mlx::core::array;

std::vector<float> Values(array a) {
  a = mlx::core::contiguous(a);
  a.eval();
  return {a.data<float>(), a.data<float>() + a.size()};
}

TEST(HeadLinear, EachHeadIsALinearOfItsOwnToTheBitAndTheReferenceAgrees) {
  constexpr int kHeads = 3;
  constexpr int kRows = 7;
  constexpr int kIn = 64;
  constexpr int kOut = 24;
  ThreadPool pool(2);
  const Context native{.instruction_set = BestInstructionSet(), .pool = &pool};
  for (const linear::TestFormat& format : {linear::GgufFormats()[3], linear::FloatFormats()[0]}) {
    std::vector<std::unique_ptr<linear::RandomSource>> made;
    std::vector<WeightSource> sources;
    for (unsigned h = 0; h < kHeads; ++h) {
      made.push_back(linear::MakeRandomSource(format, kOut, kIn, h));
      sources.push_back(made.back()->source);
    }
    const std::vector<float> x = linear::RandomRows(kRows, kHeads * kIn);
    const array input(x.data(), {kRows, kHeads, kIn});
    const std::vector<float> ours = Values((**MakeHeadLinear(native, sources))(input));
    const std::vector<float> plain =
        Values((**MakeHeadLinear({.path = KernelPath::kReference}, sources))(input));
    for (int h = 0; h < kHeads; ++h) {
      const array own =
          mlx::core::reshape(mlx::core::slice(input, {0, h, 0}, {kRows, h + 1, kIn}), {kRows, kIn});
      const std::vector<float> alone =
          Values((**MakeLinear(native, {&sources[static_cast<std::size_t>(h)], 1}))(own));
      for (int t = 0; t < kRows; ++t) {
        for (int o = 0; o < kOut; ++o) {
          const auto at = static_cast<std::size_t>((t * kHeads + h) * kOut + o);
          ASSERT_EQ(ours[at], alone[static_cast<std::size_t>(t * kOut + o)]);
          if (linear::IsFloat(format.format)) {  // else inputs are rounded in one of the two
            ASSERT_NEAR(ours[at], plain[at], 1e-3);
          }
        }
      }
    }
  }
}

TEST(HeadLinear, TurnedMatricesMultiplyFromTheOtherSide) {
  ThreadPool pool(2);
  const auto made = linear::MakeRandomSource(linear::GgufFormats()[3], 5, 64);
  const std::vector<float> x = linear::RandomRows(2, 5);
  const array input(x.data(), {2, 1, 5});
  std::vector<float> row(64);
  std::vector<double> expected(2 * 64);
  for (int r = 0; r < 5; ++r) {
    linear::DecodeValues(made->source, r, row.data());
    for (std::size_t t = 0; t < 2; ++t) {
      for (std::size_t i = 0; i < 64; ++i) {
        expected[t * 64 + i] += double{x[t * 5 + static_cast<std::size_t>(r)]} * row[i];
      }
    }
  }
  for (const Context& context : {Context{.instruction_set = BestInstructionSet(), .pool = &pool},
                                 Context{.path = KernelPath::kReference}}) {
    const std::vector<float> y =
        Values((**MakeTurnedHeadLinear(context, {&made->source, 1}))(input));
    ASSERT_EQ(y.size(), expected.size());
    for (std::size_t i = 0; i < y.size(); ++i) {
      ASSERT_NEAR(y[i], expected[i], 1e-4) << i;
    }
  }
}

TEST(HeadLinear, HeadsOfDifferentShapesAreRefused) {
  ThreadPool pool(1);
  const auto a = linear::MakeRandomSource(linear::FloatFormats()[0], 8, 16);
  const auto b = linear::MakeRandomSource(linear::FloatFormats()[0], 8, 32);
  const WeightSource heads[] = {a->source, b->source};
  EXPECT_EQ(MakeHeadLinear({.pool = &pool}, heads).error().message,
            "The heads of tensor `f32` have matrices of different shapes.");
}

}  // namespace
}  // namespace ops
