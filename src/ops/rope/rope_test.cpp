#include "ops/rope/rope.h"

#include <gtest/gtest.h>

#include <cmath>

#include "ops/attention/test_support.h"

namespace ops {
namespace {

namespace mx = mlx::core;

std::vector<float> Values(mx::array x) {
  x = mx::contiguous(x);
  x.eval();
  return {x.data<float>(), x.data<float>() + x.size()};
}

TEST(RopeAngles, AreCosAndSinOfTheFloatProduct) {
  const RopeSpec spec{.inv_freq = {1.0F, 0.1F, 0.001F}, .attention_factor = 1.25F};
  const std::vector<std::int32_t> positions{0, 1, 77, 131071};
  const std::vector<float> angles = Values(RopeAngles(spec, positions));
  ASSERT_EQ(angles.size(), 4U * 6U);
  for (std::size_t t = 0; t < 4; ++t) {
    for (std::size_t i = 0; i < 3; ++i) {
      const auto angle = static_cast<double>(static_cast<float>(positions[t]) * spec.inv_freq[i]);
      EXPECT_NEAR(angles[t * 6 + i], 1.25 * std::cos(angle), 1e-7);
      EXPECT_NEAR(angles[t * 6 + 3 + i], 1.25 * std::sin(angle), 1e-7);
    }
  }
}

TEST(Rope, TurnsTheFirstDimsOfEachHeadAndCopiesTheRest) {
  constexpr int kRows = 5;
  for (const int head_dim : {2, 16, 30, 32, 64, 80, 128}) {
    for (const int rotary_dim : {2, head_dim / 4 * 2, head_dim}) {
      if (rotary_dim == 0) {
        continue;
      }
      const int n_heads = 3;
      RopeSpec spec;
      for (int i = 0; i < rotary_dim / 2; ++i) {
        spec.inv_freq.push_back(std::pow(0.7F, static_cast<float>(i)));
      }
      const std::vector<std::int32_t> positions{0, 3, 100, 5, 9999};
      const std::vector<float> x =
          testing::RandomFloats(static_cast<std::size_t>(kRows * n_heads * head_dim), 5);
      const mx::array in(x.data(), {kRows, n_heads, head_dim}, mx::float32);
      const mx::array angles = RopeAngles(spec, positions);
      const std::vector<float> a = Values(angles);
      const std::vector<float> reference =
          Values(Rope({.path = KernelPath::kReference}, in, angles));
      std::vector<float> expected = x;
      for (int r = 0; r < kRows * n_heads; ++r) {
        for (int i = 0; i < rotary_dim / 2; ++i) {
          const float cos = a[static_cast<std::size_t>(r / n_heads * rotary_dim + i)];
          const float sin =
              a[static_cast<std::size_t>(r / n_heads * rotary_dim + rotary_dim / 2 + i)];
          const auto first = static_cast<std::size_t>(r * head_dim + i);
          const auto second = first + static_cast<std::size_t>(rotary_dim / 2);
          expected[first] = x[first] * cos - x[second] * sin;
          expected[second] = x[second] * cos + x[first] * sin;
        }
      }
      EXPECT_LT(testing::LargestDifference(reference, expected), 1e-6)
          << head_dim << " " << rotary_dim;
      ThreadPool pool(2);
      std::vector<float> plain;
      for (const InstructionSet set : testing::PresentSets()) {
        const std::vector<float> y =
            Values(Rope({.instruction_set = set, .pool = &pool}, in, angles));
        plain = plain.empty() ? y : plain;
        EXPECT_LT(testing::LargestDifference(y, expected), 1e-6)
            << Name(set) << head_dim << " " << rotary_dim;
        EXPECT_TRUE(testing::SameBits(plain, y)) << Name(set);
      }
    }
  }
}

}  // namespace
}  // namespace ops
