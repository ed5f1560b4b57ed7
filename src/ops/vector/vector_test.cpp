#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <random>

#include "ops/attention/kernels.h"
#include "ops/attention/test_support.h"
#include "ops/vector/row_kernels.h"
#include "ops/vector/saturated_half.h"
#include "ops/vector/vec16_plain.h"
#include "ops/vector/vector_math.h"

namespace ops {
namespace {

using testing::PresentSets;
using testing::RandomFloats;
using testing::SameBits;

float Lane(Vec16Plain v) { return v.lane[0]; }

TEST(VectorMath, ExpIsWithinTwoUlp) {
  for (float x = -86.0F; x <= 88.0F; x += 0.00137F) {
    const double expected = std::exp(static_cast<double>(x));
    EXPECT_NEAR(Lane(Exp(Vec16Plain::Set(x))) / expected, 1.0, 2.4e-7) << x;
  }
}

TEST(VectorMath, Exp2OfNonPositiveIsWithinTwoUlp) {
  for (float x = -125.0F; x <= 0.0F; x += 0.00137F) {
    EXPECT_NEAR(Lane(Exp2OfNonPositive(Vec16Plain::Set(x))) / std::exp2(static_cast<double>(x)),
                1.0, 2.4e-7)
        << x;
  }
}

TEST(VectorMath, Exp2OfMinusInfinityIsZeroAndOfZeroIsOne) {
  EXPECT_EQ(Lane(Exp2OfNonPositive(Vec16Plain::Set(-std::numeric_limits<float>::infinity()))),
            0.0F);
  EXPECT_EQ(Lane(Exp2OfNonPositive(Vec16Plain::Set(-126.0F))), 0.0F);
  EXPECT_EQ(Lane(Exp2OfNonPositive(Vec16Plain::Set(0.0F))), 1.0F);
}

TEST(VectorMath, ActivationsKeepANanAndSurviveHugeValues) {
  const auto nan = Vec16Plain::Set(std::numeric_limits<float>::quiet_NaN());
  EXPECT_TRUE(std::isnan(Lane(Silu(nan))));
  EXPECT_TRUE(std::isnan(Lane(GeluTanh(nan))));
  for (const float x : {-1e4F, -200.0F, 200.0F, 1e4F}) {
    EXPECT_NEAR(Lane(Silu(Vec16Plain::Set(x))), x > 0 ? x : 0.0F, 1e-30) << x;
    EXPECT_NEAR(Lane(GeluTanh(Vec16Plain::Set(x))), x > 0 ? x : 0.0F, 1e-30) << x;
  }
}

TEST(Half, EveryHalfSurvivesTheWayToFloatAndBack) {
  for (unsigned bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = HalfToFloat(half);
    if (std::isnan(value)) {
      EXPECT_TRUE((bits & 0x7C00U) == 0x7C00U && (bits & 0x3FFU) != 0);
    } else if (std::isinf(value)) {
      EXPECT_EQ(FloatToSaturatedHalf(value),
                static_cast<std::uint16_t>((bits & 0x8000U) | 0x7BFFU));
    } else {
      EXPECT_EQ(FloatToSaturatedHalf(value), half);
      EXPECT_EQ(std::ldexp(value, 24), std::trunc(std::ldexp(value, 24)));  // a multiple of 2^-24
    }
  }
}

TEST(Half, RoundsToTheNearestAndTiesToEven) {
  for (unsigned bits = 0; bits < 0x7BFFU; ++bits) {
    const double low = HalfToFloat(static_cast<std::uint16_t>(bits));
    const double high = HalfToFloat(static_cast<std::uint16_t>(bits + 1));
    const auto middle = static_cast<float>((low + high) / 2);  // exact
    EXPECT_EQ(FloatToSaturatedHalf(middle), bits + (bits & 1U));
    EXPECT_EQ(FloatToSaturatedHalf(std::nextafter(middle, 0.0F)), bits);
    EXPECT_EQ(FloatToSaturatedHalf(std::nextafter(-middle, -1e9F)), 0x8000U + bits + 1);
  }
}

TEST(Half, AllInstructionSetsStoreTheSameHalves) {
  constexpr int kDim = 16;
  std::mt19937 engine(3);
  std::vector<float> values;
  for (const float x :
       {0.0F, -0.0F, 65504.0F, 65519.0F, 65520.0F, 1e30F, -1e30F, 1e-8F, 2.9e-8F, 3e-8F, 6.1e-5F,
        -5.9e-5F, std::numeric_limits<float>::infinity(), 1.00048828125F, 1.0004F, -2.5F}) {
    values.push_back(x);
  }
  while (values.size() < 64 * kDim) {
    const float x = std::bit_cast<float>(static_cast<std::uint32_t>(engine()));
    values.push_back(std::isnan(x) ? 1.0F : x);
  }
  const auto stored = [&](InstructionSet set, KvDtype dtype = KvDtype::kF16) {
    std::vector<std::uint16_t> block(KvHeadBytes(dtype, kDim) / sizeof(std::uint16_t));
    AttentionKernelsFor(set).store({.k = values.data(),
                                    .v = values.data(),
                                    .v_stride = kDim,
                                    .block_head = reinterpret_cast<std::byte*>(block.data()),
                                    .first_slot = 0,
                                    .n_tokens = 64,
                                    .head_dim = kDim,
                                    .dtype = dtype});
    return block;
  };
  const std::vector<std::uint16_t> plain = stored(InstructionSet::kPlain);
  for (std::size_t t = 0; t < 64; ++t) {
    for (std::size_t d = 0; d < kDim; ++d) {
      ASSERT_EQ(plain[d * 64 + t], FloatToSaturatedHalf(values[t * kDim + d]));  // K: token fastest
      ASSERT_EQ(plain[64 * kDim + t * kDim + d],
                FloatToSaturatedHalf(values[t * kDim + d]));  // V: dim fastest
    }
  }
  for (const InstructionSet set : PresentSets()) {
    EXPECT_EQ(stored(set), plain) << Name(set);
    for (const KvDtype dtype : {KvDtype::kF32, KvDtype::kI8, KvDtype::kI4}) {
      EXPECT_EQ(stored(set, dtype), stored(InstructionSet::kPlain, dtype))
          << Name(set) << " " << Name(dtype);
    }
  }
}

const std::vector<int> kSizes{1,  2,  15, 16,  17,  31,  32,  33,  63,
                              64, 65, 80, 127, 128, 129, 576, 1000};

TEST(RowKernels, RmsNormIsTheDefinitionAndTheSameInAllSets) {
  constexpr int kRows = 3;
  for (const int d : kSizes) {
    const std::vector<float> x = RandomFloats(static_cast<std::size_t>(kRows * d), 1);
    const std::vector<float> residual = RandomFloats(x.size(), 2, 3.0F);
    const std::vector<float> weight = RandomFloats(static_cast<std::size_t>(d), 3);
    std::vector<std::vector<float>> normed;
    std::vector<std::vector<float>> added;
    std::vector<std::vector<float>> sums;
    for (const InstructionSet set : PresentSets()) {
      for (auto* results : {&normed, &added, &sums}) {
        results->emplace_back(x.size(), -99.0F);
      }
      NormRows rows{.x = x.data(),
                    .weight = weight.data(),
                    .y = normed.back().data(),
                    .n_rows = kRows,
                    .d = d};
      rows.eps = 1e-5F;
      RowKernelsFor(set).rms_norm(rows);
      rows.residual = residual.data();
      rows.sum = sums.back().data();
      rows.y = added.back().data();
      RowKernelsFor(set).add_rms_norm(rows);
      EXPECT_TRUE(SameBits(normed[0], normed.back()) && SameBits(added[0], added.back()))
          << Name(set) << d;
      EXPECT_TRUE(SameBits(sums[0], sums.back())) << Name(set) << d;
    }
    for (int i = 0; i < kRows * d; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_EQ(sums[0][at], x[at] + residual[at]);
      double squares[2] = {};
      for (int j = i / d * d; j < i / d * d + d; ++j) {
        squares[0] += std::pow(static_cast<double>(x[static_cast<std::size_t>(j)]), 2);
        squares[1] += std::pow(static_cast<double>(sums[0][static_cast<std::size_t>(j)]), 2);
      }
      const double w = weight[static_cast<std::size_t>(i % d)];
      ASSERT_NEAR(normed[0][at], x[at] / std::sqrt(squares[0] / d + 1e-5) * w,
                  3e-6 * (1 + std::abs(w * x[at])));
      ASSERT_NEAR(added[0][at], sums[0][at] / std::sqrt(squares[1] / d + 1e-5) * w,
                  3e-6 * (1 + std::abs(w * x[at])));
    }
  }
}

TEST(RowKernels, GatedUnitsAreTheDefinitionAndTheSameInAllSets) {
  constexpr int kRows = 2;
  for (const int d : kSizes) {
    const std::vector<float> x = RandomFloats(static_cast<std::size_t>(kRows * 2 * d), 1, 3.0F);
    std::vector<std::vector<float>> silu;
    std::vector<std::vector<float>> gelu;
    for (const InstructionSet set : PresentSets()) {
      silu.emplace_back(static_cast<std::size_t>(kRows * d));
      gelu.emplace_back(static_cast<std::size_t>(kRows * d));
      RowKernelsFor(set).silu_glu(
          {.gate_up = x.data(), .y = silu.back().data(), .n_rows = kRows, .d = d});
      RowKernelsFor(set).gelu_tanh_glu(
          {.gate_up = x.data(), .y = gelu.back().data(), .n_rows = kRows, .d = d});
      EXPECT_TRUE(SameBits(silu[0], silu.back()) && SameBits(gelu[0], gelu.back()))
          << Name(set) << d;
    }
    for (int i = 0; i < kRows * d; ++i) {
      const double gate = x[static_cast<std::size_t>(i / d * 2 * d + i % d)];
      const double up = x[static_cast<std::size_t>(i / d * 2 * d + d + i % d)];
      const double u = std::sqrt(2.0 / M_PI) * (gate + 0.044715 * gate * gate * gate);
      ASSERT_NEAR(silu[0][static_cast<std::size_t>(i)], gate / (1 + std::exp(-gate)) * up,
                  1e-6 * (1 + std::abs(gate * up)));
      ASSERT_NEAR(gelu[0][static_cast<std::size_t>(i)], 0.5 * gate * (1 + std::tanh(u)) * up,
                  2e-6 * (1 + std::abs(gate * up)));
    }
  }
}

TEST(RowKernels, TheClampedUnitIsTheDefinitionAndTheSameInAllSets) {
  constexpr int kRows = 2;
  for (const int d : kSizes) {
    const std::vector<float> x = RandomFloats(static_cast<std::size_t>(kRows * 2 * d), 1, 6.0F);
    std::vector<std::vector<float>> y;
    for (const InstructionSet set : PresentSets()) {
      y.emplace_back(static_cast<std::size_t>(kRows * d));
      RowKernelsFor(set).clamped_swiglu(
          {.gate_up = x.data(), .y = y.back().data(), .n_rows = kRows, .d = d});
      EXPECT_TRUE(SameBits(y[0], y.back())) << Name(set) << d;
    }
    for (int i = 0; i < kRows * d; ++i) {
      const double gate = std::min(7.0, double{x[static_cast<std::size_t>(i / d * 2 * d + i % d)]});
      const double up =
          std::clamp(double{x[static_cast<std::size_t>(i / d * 2 * d + d + i % d)]}, -7.0, 7.0);
      ASSERT_NEAR(y[0][static_cast<std::size_t>(i)],
                  gate / (1 + std::exp(-1.702 * gate)) * (up + 1),
                  2e-6 * (1 + std::abs(gate * (up + 1))));
    }
  }
}

}  // namespace
}  // namespace ops
