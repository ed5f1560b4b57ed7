// Int8 products with NEON's dot product: sdot adds four products of four channels to int32. It
// takes signed codes, so those of 8 bits go in as code - 128. Only for processors with it.
#include <arm_neon.h>

#include <array>
#include <utility>

#include "ops/linear/kernels.h"
#include "ops/linear/neon_parts.h"

namespace ops::linear {
namespace {

// Rows and channels that a step computes: their sums, accumulators and activations fit into the
// 32 registers.
constexpr int kRows = 4;
constexpr int kLanes = 8;
constexpr int kFours = kLanes / 4;
constexpr int kVectors = 8;  // of 4 inputs, a group

// Channels 4 * four .. of vector kV of a group. `codes`: of the group, moved to the 8 channels.
template <int kStored, bool kWide, int kV>
[[gnu::always_inline]] inline int8x16_t Weights(const std::uint8_t* codes, int four) {
  if constexpr (kStored == 8) {
    const uint8x16_t bytes = vld1q_u8(codes + 64 * kV + 16 * four);
    return vreinterpretq_s8_u8(kWide ? veorq_u8(bytes, vdupq_n_u8(0x80)) : bytes);
  } else {
    const uint8x16_t both = vld1q_u8(codes + 64 * (kV % 4) + 16 * four);
    const uint8x16_t nibbles = kV < 4 ? vandq_u8(both, vdupq_n_u8(15)) : vshrq_n_u8(both, 4);
    return vreinterpretq_s8_u8(kStored == kFp4 ? vqtbl1q_u8(vld1q_u8(kFp4Codes), nibbles)
                                               : nibbles);
  }
}

template <int R>
using Sums = int32x4_t[R][kFours];

// dot += vector kV of a group times x of each row; x: [R][32].
template <int R, int kStored, bool kWide, int kV>
[[gnu::always_inline]] inline void AddVector(const std::uint8_t* codes, const std::int8_t* x,
                                             Sums<R>& dot) {
#pragma GCC unroll 2
  for (int i = 0; i < kFours; ++i) {
    const int8x16_t weights = Weights<kStored, kWide, kV>(codes, i);
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
      const int8x16_t values = vld1q_s8(x + r * kGroup + 16 * (kV / 4));
      dot[r][i] = vdotq_laneq_s32(dot[r][i], weights, values, kV % 4);
    }
  }
}

template <int R, int kStored, bool kWide, int kFirst, int... kV>
[[gnu::always_inline]] inline void AddVectors(const std::uint8_t* codes, const std::int8_t* x,
                                              Sums<R>& dot, std::integer_sequence<int, kV...>) {
  (AddVector<R, kStored, kWide, kFirst + kV>(codes, x, dot), ...);
}

// dot = offsets + n vectors from kFirst on.
template <int R, int kStored, bool kWide, int kFirst, int kCount>
[[gnu::always_inline]] inline void Dot(const std::uint8_t* codes, const std::int8_t* x,
                                       const std::int32_t* offsets, Sums<R>& dot) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
    for (int i = 0; i < kFours; ++i) {
      dot[r][i] = vdupq_n_s32(offsets[r]);
    }
  }
  AddVectors<R, kStored, kWide, kFirst>(codes, x, dot, std::make_integer_sequence<int, kCount>());
}

float32x4_t Load4(const float* values) { return vld1q_f32(values); }
float32x4_t Load4(const std::uint16_t* halves) {
  return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(halves)));
}
float32x4_t Load4(const std::int8_t* bytes) {
  const std::int32_t four[4] = {bytes[0], bytes[1], bytes[2], bytes[3]};
  return vcvtq_f32_s32(vld1q_s32(four));
}

// The scales of group `g` and 4 channels from `lane` on, or the biases when given those pointers.
template <ScaleForm kForm>
[[gnu::always_inline]] inline float32x4_t ScaleOf(const float* values, const std::uint16_t* halves,
                                                  const std::int8_t* subs, int g, int lane) {
  if constexpr (kForm == ScaleForm::kFloat) {
    return Load4(values + g * kTile + lane);
  } else if constexpr (kForm == ScaleForm::kHalf) {
    return Load4(halves + g * kTile + lane);
  } else {
    return vmulq_f32(Load4(halves + g / kSuperGroups * kTile + lane),
                     Load4(subs + g * kTile + lane));
  }
}

template <int R>
using Accumulators = float32x4_t[R][kFours];

template <int R>
[[gnu::always_inline]] inline void AddScaled(const Sums<R>& dot, int i, float32x4_t scale,
                                             const float* x_scales, Accumulators<R>& acc) {
#pragma GCC unroll 4
  for (int r = 0; r < R; ++r) {
    acc[r][i] = vfmaq_f32(acc[r][i], vcvtq_f32_s32(dot[r][i]), vmulq_n_f32(scale, x_scales[r]));
  }
}

// One group of the 8 channels from `lane` on.
template <int R, Product kProduct, int kStored, bool kWide, ScaleForm kForm>
[[gnu::always_inline]] inline void AddGroup(const TileProduct& p, int g, int lane,
                                            Accumulators<R>& acc) {
  const std::uint8_t* codes = p.codes + 64 * StoredBits(kStored) * g + 4 * lane;
  const std::int8_t* x = p.x + g * R * kGroup;
  const float* x_scales = p.x_scales + g * R;
  Sums<R> dot;
  if constexpr (kProduct == Product::kSymmetric16) {
    constexpr int kHalf = kVectors / 2;
    Dot<R, kStored, kWide, 0, kHalf>(codes, x, p.offsets + 2 * g * R, dot);
    for (int i = 0; i < kFours; ++i) {
      AddScaled<R>(dot, i, Load4(p.scales + 2 * g * kTile + lane + 4 * i), x_scales, acc);
    }
    Dot<R, kStored, kWide, kHalf, kHalf>(codes, x, p.offsets + (2 * g + 1) * R, dot);
    for (int i = 0; i < kFours; ++i) {
      AddScaled<R>(dot, i, Load4(p.scales + (2 * g + 1) * kTile + lane + 4 * i), x_scales, acc);
    }
    return;
  }
  Dot<R, kStored, kWide, 0, kVectors>(codes, x, p.offsets + g * R, dot);
#pragma GCC unroll 2
  for (int i = 0; i < kFours; ++i) {
    const int channel = lane + 4 * i;
    AddScaled<R>(dot, i, ScaleOf<kForm>(p.scales, p.half_scales, p.sub_scales, g, channel),
                 x_scales, acc);
    if constexpr (kProduct == Product::kAffine) {
      const float32x4_t bias = ScaleOf<kForm>(p.biases, p.half_biases, p.sub_biases, g, channel);
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        acc[r][i] = vfmaq_n_f32(acc[r][i], bias, p.x_sums[g * R + r]);
      }
    }
  }
}

template <int R, Product kProduct, int kStored, bool kWide, ScaleForm kForm>
void Run(const TileProduct& p) {
  for (int lane = 0; lane < kTile; lane += kLanes) {
    Accumulators<R> acc;
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kFours; ++i) {
        acc[r][i] =
            p.fresh ? vdupq_n_f32(0.0F) : vld1q_f32(p.acc + r * p.acc_stride + lane + 4 * i);
      }
    }
    for (int g = 0; g < p.n_groups; ++g) {
      if (lane == 0) {
        FetchNext(p, g);
      }
      AddGroup<R, kProduct, kStored, kWide, kForm>(p, g, lane, acc);
    }
#pragma GCC unroll 4
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 2
      for (int i = 0; i < kFours; ++i) {
        vst1q_f32(p.acc + r * p.acc_stride + lane + 4 * i, acc[r][i]);
      }
    }
  }
}

using RunFunction = void (*)(const TileProduct&);

template <Product kProduct, int kStored, bool kWide, ScaleForm kForm, int... kIndex>
constexpr std::array<RunFunction, sizeof...(kIndex)> MakeTable(
    std::integer_sequence<int, kIndex...>) {
  return {&Run<kIndex + 1, kProduct, kStored, kWide, kForm>...};
}

template <Product kProduct, int kStored, bool kWide, ScaleForm kForm>
constexpr auto kTable =
    MakeTable<kProduct, kStored, kWide, kForm>(std::make_integer_sequence<int, kRows>());

constexpr int kWideBits = 8;

template <Product kProduct, ScaleForm kForm>
RunFunction Choose(std::size_t index, const TileProduct& p) {
  if (p.stored_bits == 4) {
    return kTable<kProduct, 4, false, kForm>[index];
  }
  return p.code_bits == kWideBits ? kTable<kProduct, 8, true, kForm>[index]
                                  : kTable<kProduct, 8, false, kForm>[index];
}

template <Product kProduct>
RunFunction Choose(std::size_t index, const TileProduct& p) {
  switch (ScaleFormOf(p)) {
    case ScaleForm::kSuper:
      return Choose<kProduct, ScaleForm::kSuper>(index, p);
    case ScaleForm::kHalf:
      return Choose<kProduct, ScaleForm::kHalf>(index, p);
    default:
      return Choose<kProduct, ScaleForm::kFloat>(index, p);
  }
}

void Multiply(int rows, const TileProduct& p) {
  const auto index = static_cast<std::size_t>(rows - 1);
  if (p.fp4 && p.stored_bits == 4) {
    return kTable<Product::kSymmetric, kFp4, false, ScaleForm::kFloat>[index](p);
  }
  switch (p.product) {
    case Product::kSymmetric16:
      return Choose<Product::kSymmetric16, ScaleForm::kFloat>(index, p)(p);
    case Product::kAffine:
      return Choose<Product::kAffine>(index, p)(p);
    case Product::kSymmetric:
      return Choose<Product::kSymmetric>(index, p)(p);
  }
}

int CodeBias(int code_bits) { return code_bits == kWideBits ? 128 : 0; }

}  // namespace

const Kernels kNeonKernels = {
    .coded_rows = kRows,
    .float_rows = kNeonFloatRows,
    .code_bias = &CodeBias,
    .quantize = &NeonQuantize,
    .expand_scales = &NeonExpandScales,
    .expand_codes = &NeonExpandCodes,
    .multiply = &Multiply,
    .multiply_float = &NeonMultiplyFloat,
};

}  // namespace ops::linear
