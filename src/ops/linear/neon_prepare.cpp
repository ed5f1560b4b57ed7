// What comes before the products: rounding activations, expanding scales and codes. Also the
// products of float weights.
#include <arm_neon.h>

#include <array>
#include <cstring>
#include <utility>

#include "ops/linear/neon_parts.h"
#include "ops/linear/rounding.h"

namespace ops::linear {
namespace {

std::int32_t MaxBits(const float* group) {
  int32x4_t max = vdupq_n_s32(0);
  for (int i = 0; i < kGroup; i += 4) {
    const int32x4_t bits = vreinterpretq_s32_f32(vld1q_f32(group + i));
    max = vmaxq_s32(max, vandq_s32(bits, vdupq_n_s32(0x7FFFFFFF)));
  }
  return vmaxvq_s32(max);
}

int16x4_t Round4(const float* x, float32x4_t inverse) {
  const float32x4_t most = vdupq_n_f32(127.0F);
  const float32x4_t least = vdupq_n_f32(-127.0F);
  float32x4_t scaled = vmulq_f32(vld1q_f32(x), inverse);
  scaled = vbslq_f32(vcltq_f32(scaled, most), scaled, most);  // NaN becomes 127
  scaled = vbslq_f32(vcgtq_f32(scaled, least), scaled, least);
  return vmovn_s32(vcvtnq_s32_f32(scaled));
}

int8x16_t RoundToCodes(const float* x, float32x4_t inverse) {
  const int16x8_t low = vcombine_s16(Round4(x, inverse), Round4(x + 4, inverse));
  const int16x8_t high = vcombine_s16(Round4(x + 8, inverse), Round4(x + 12, inverse));
  return vcombine_s8(vmovn_s16(low), vmovn_s16(high));
}

float32x4_t FromBFloats(uint16x4_t bits) { return vreinterpretq_f32_u32(vshll_n_u16(bits, 16)); }

float32x4_t FromHalves(uint16x4_t bits) { return vcvt_f32_f16(vreinterpret_f16_u16(bits)); }

// Four stored scales, index `four` of a section.
float32x4_t LoadScales(const std::byte* values, ScaleKind kind, int four) {
  if (kind == ScaleKind::kF32) {
    return vld1q_f32(reinterpret_cast<const float*>(values) + four * 4);
  }
  const uint16x4_t bits = vld1_u16(reinterpret_cast<const std::uint16_t*>(values) + four * 4);
  return kind == ScaleKind::kBF16 ? FromBFloats(bits) : FromHalves(bits);
}

// One section to [.][16] float32.
void ExpandSection(const std::byte* values, const std::int8_t* subs, const ScaleRange& range,
                   float* out) {
  constexpr int kFours = kTile / 4;
  const int step = range.scale_group < kGroup ? range.scale_group : kGroup;
  for (int input = range.first_input; input < range.first_input + range.n_inputs; input += step) {
    const int row = input / (subs != nullptr ? kSuperGroup : range.scale_group);
    for (int i = 0; i < kFours; ++i, out += 4) {
      float32x4_t value = LoadScales(values, range.kind, kFours * row + i);
      if (subs != nullptr) {
        const std::int8_t* four = subs + input / range.scale_group * kTile + 4 * i;
        const std::int32_t sub[4] = {four[0], four[1], four[2], four[3]};
        value = vmulq_f32(value, vcvtq_f32_s32(vld1q_s32(sub)));
      }
      vst1q_f32(out, value);
    }
  }
}

// Weights of 4 channels; `four` counts vectors of 4 from the tile's start.
template <WeightFormat kFormat>
[[gnu::always_inline]] inline float32x4_t LoadWeights(const std::byte* weights,
                                                      std::ptrdiff_t four) {
  if constexpr (kFormat == WeightFormat::kF32) {
    return vld1q_f32(reinterpret_cast<const float*>(weights) + four * 4);
  } else if constexpr (kFormat == WeightFormat::kF8E4M3) {
    // The byte in the upper half of 16 bits, one to the right: all in a half's places but for the
    // copy of the sign in the exponent's highest bit.
    std::uint32_t bytes = 0;
    std::memcpy(&bytes, weights + four * 4, sizeof(bytes));
    const uint16x4_t words = vshl_n_u16(vget_low_u16(vmovl_u8(vcreate_u8(bytes))), 8);
    const int16x4_t shifted = vshr_n_s16(vreinterpret_s16_u16(words), 1);
    return FromHalves(vand_u16(vreinterpret_u16_s16(shifted), vdup_n_u16(0xBFFF)));
  } else {
    const uint16x4_t bits = vld1_u16(reinterpret_cast<const std::uint16_t*>(weights) + four * 4);
    if constexpr (kFormat == WeightFormat::kF16) {
      return FromHalves(bits);
    } else {
      return FromBFloats(bits);
    }
  }
}

template <int R, WeightFormat kFormat>
void Run(const FloatProduct& p) {
  constexpr int kFours = kTile / 4;
  float32x4_t acc[R][kFours];
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kFours; ++i) {
      acc[r][i] = p.fresh ? vdupq_n_f32(0.0F) : vld1q_f32(p.acc + r * p.acc_stride + 4 * i);
    }
  }
  const float* x = p.x;
  for (int input = 0; input < p.n_in; ++input, x += R) {
#pragma GCC unroll 4
    for (int i = 0; i < kFours; ++i) {
      const float32x4_t weights = LoadWeights<kFormat>(p.weights, kFours * input + i);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        acc[r][i] = vfmaq_n_f32(acc[r][i], weights, x[r]);
      }
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 4
    for (int i = 0; i < kFours; ++i) {
      vst1q_f32(p.acc + r * p.acc_stride + 4 * i, acc[r][i]);
    }
  }
}

using RunFunction = void (*)(const FloatProduct&);

template <WeightFormat kFormat, int... kIndex>
constexpr std::array<RunFunction, sizeof...(kIndex)> MakeTable(
    std::integer_sequence<int, kIndex...>) {
  return {&Run<kIndex + 1, kFormat>...};
}

template <WeightFormat kFormat>
constexpr auto kTable = MakeTable<kFormat>(std::make_integer_sequence<int, kNeonFloatRows>());

}  // namespace

void NeonQuantize(const float* x, std::ptrdiff_t stride, int rows, int n_in,
                  const QuantizedBlock& out) {
  for (int g = 0; g < n_in / kGroup; ++g) {
    for (int r = 0; r < rows; ++r) {
      const float* group = x + r * stride + g * kGroup;
      const GroupRounding rounding = RoundingOf(MaxBits(group));
      const float32x4_t inverse = vdupq_n_f32(rounding.inverse);
      const int8x16_t low = RoundToCodes(group, inverse);
      const int8x16_t high = RoundToCodes(group + 16, inverse);
      const int at = g * rows + r;
      vst1q_s8(out.codes + at * kGroup, low);
      vst1q_s8(out.codes + at * kGroup + 16, high);
      const std::int32_t low_sum = vaddlvq_s8(low);
      const std::int32_t high_sum = vaddlvq_s8(high);
      out.scales[at] = rounding.scale;
      out.scaled_sums[at] = rounding.scale * static_cast<float>(low_sum + high_sum);
      out.sums[2 * g * rows + r] = low_sum;
      out.sums[(2 * g + 1) * rows + r] = high_sum;
    }
  }
}

void NeonExpandScales(const PackedScales& packed, const ScaleRange& range, float* scales,
                      float* biases) {
  ExpandSection(packed.scales, packed.sub_scales, range, scales);
  if (packed.biases != nullptr) {
    ExpandSection(packed.biases, packed.sub_biases, range, biases);
  }
}

void NeonExpandCodes(const std::uint8_t* packed, int n_groups, bool fp4, std::uint8_t* codes) {
  constexpr std::uint8_t kSame[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
  const uint8x16_t table = vld1q_u8(fp4 ? kFp4Codes : kSame);
  for (int g = 0; g < n_groups; ++g, packed += 256, codes += 512) {
    for (int i = 0; i < 256; i += 16) {
      const uint8x16_t both = vld1q_u8(packed + i);
      vst1q_u8(codes + i, vqtbl1q_u8(table, vandq_u8(both, vdupq_n_u8(15))));
      vst1q_u8(codes + 256 + i, vqtbl1q_u8(table, vshrq_n_u8(both, 4)));
    }
  }
}

void NeonMultiplyFloat(int rows, const FloatProduct& product) {
  const auto index = static_cast<std::size_t>(rows - 1);
  switch (product.format) {
    case WeightFormat::kF16:
      return kTable<WeightFormat::kF16>[index](product);
    case WeightFormat::kBF16:
      return kTable<WeightFormat::kBF16>[index](product);
    case WeightFormat::kF8E4M3:
      return kTable<WeightFormat::kF8E4M3>[index](product);
    default:
      return kTable<WeightFormat::kF32>[index](product);
  }
}

}  // namespace ops::linear
