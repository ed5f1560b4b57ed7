// The kernels in plain C++: fallback of every machine, and the judge of the fast ones.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "ops/half.h"
#include "ops/linear/kernels.h"
#include "ops/linear/rounding.h"

namespace ops::linear {
namespace {

std::int8_t RoundToCode(float x, float inverse) {
  float scaled = x * inverse;
  scaled = scaled < 127.0F ? scaled : 127.0F;  // NaN too
  scaled = scaled > -127.0F ? scaled : -127.0F;
  constexpr float kMagic =
      12582912.0F;  // 1.5 * 2^23: the sum's low bits are the value, rounded to nearest even
  return static_cast<std::int8_t>(std::bit_cast<std::int32_t>(scaled + kMagic) -
                                  std::bit_cast<std::int32_t>(kMagic));
}

void QuantizeGroup(const float* x, std::int8_t* codes, GroupRounding& rounding,
                   std::int32_t* sums) {
  std::int32_t max_bits = 0;
  for (int i = 0; i < kGroup; ++i) {
    max_bits = std::max(max_bits, std::bit_cast<std::int32_t>(x[i]) & 0x7FFFFFFF);
  }
  rounding = RoundingOf(max_bits);
  sums[0] = 0;
  sums[1] = 0;
  for (int i = 0; i < kGroup; ++i) {
    codes[i] = RoundToCode(x[i], rounding.inverse);
    sums[i / 16] += codes[i];
  }
}

void Quantize(const float* x, std::ptrdiff_t stride, int rows, int n_in,
              const QuantizedBlock& out) {
  for (int g = 0; g < n_in / kGroup; ++g) {
    for (int r = 0; r < rows; ++r) {
      GroupRounding rounding = {};
      std::int32_t sums[2];
      QuantizeGroup(x + r * stride + g * kGroup, out.codes + (g * rows + r) * kGroup, rounding,
                    sums);
      out.scales[g * rows + r] = rounding.scale;
      out.scaled_sums[g * rows + r] = rounding.scale * static_cast<float>(sums[0] + sums[1]);
      out.sums[(2 * g) * rows + r] = sums[0];
      out.sums[(2 * g + 1) * rows + r] = sums[1];
    }
  }
}

float ReadScale(const std::byte* values, ScaleKind kind, int index) {
  if (kind == ScaleKind::kF32) {
    float value = 0;
    std::memcpy(&value, values + 4 * index, sizeof(value));
    return value;
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, values + 2 * index, sizeof(bits));
  return kind == ScaleKind::kBF16 ? BFloatToFloat(bits) : HalfToFloat(bits);
}

void ExpandRow(const std::byte* values, const std::int8_t* subs, const ScaleRange& range, int input,
               float* out) {
  const int group = input / range.scale_group;
  const int row = subs != nullptr ? input / kSuperGroup : group;
  for (int c = 0; c < kTile; ++c) {
    out[c] = ReadScale(values, range.kind, row * kTile + c);
    if (subs != nullptr) {
      out[c] *= static_cast<float>(subs[group * kTile + c]);
    }
  }
}

void ExpandScales(const PackedScales& packed, const ScaleRange& range, float* scales,
                  float* biases) {
  const int step = std::min(range.scale_group, kGroup);
  for (int input = range.first_input; input < range.first_input + range.n_inputs; input += step) {
    ExpandRow(packed.scales, packed.sub_scales, range, input, scales);
    scales += kTile;
    if (packed.biases != nullptr) {
      ExpandRow(packed.biases, packed.sub_biases, range, input, biases);
      biases += kTile;
    }
  }
}

void ExpandCodes(const std::uint8_t* packed, int n_groups, bool fp4, std::uint8_t* codes) {
  for (int g = 0; g < n_groups; ++g, packed += 256, codes += 512) {
    for (int i = 0; i < 256; ++i) {
      const std::uint8_t low = packed[i] & 0xF;
      const std::uint8_t high = packed[i] >> 4;
      codes[i] = fp4 ? kFp4Codes[low] : low;
      codes[i + 256] = fp4 ? kFp4Codes[high] : high;
    }
  }
}

// dot[c] += codes of four vectors (16 inputs of 16 channels) times x[0..16).
void AddDots(const std::uint8_t* codes, const std::int8_t* x, std::int32_t* dot) {
  for (int v = 0; v < 4; ++v, codes += 64, x += 4) {
    for (int c = 0; c < kTile; ++c) {
      const std::uint8_t* four = codes + 4 * c;
      dot[c] += four[0] * x[0] + four[1] * x[1] + four[2] * x[2] + four[3] * x[3];
    }
  }
}

void AddScaled(const std::int32_t* dot, const float* scales, float x_scale, float* acc) {
  for (int c = 0; c < kTile; ++c) {
    acc[c] = std::fma(static_cast<float>(dot[c]), scales[c] * x_scale, acc[c]);
  }
}

// The scales of group `g`, or its biases when given those pointers (see TileProduct).
void LoadGroupScales(const float* values, const std::uint16_t* halves, const std::int8_t* subs,
                     int g, float* out) {
  for (int c = 0; c < kTile; ++c) {
    if (halves == nullptr) {
      out[c] = values[g * kTile + c];
    } else if (subs == nullptr) {
      out[c] = HalfToFloat(halves[g * kTile + c]);
    } else {
      out[c] = HalfToFloat(halves[g / kSuperGroups * kTile + c]) *
               static_cast<float>(subs[g * kTile + c]);
    }
  }
}

// One group of one row. `scales`: of this group; `offset`, `second_offset`: of its halves, or of
// all and 0.
void MultiplyGroup(const TileProduct& p, const std::uint8_t* codes, int g, int r, int rows,
                   float* acc) {
  const std::int8_t* x = p.x + (g * rows + r) * kGroup;
  const float x_scale = p.x_scales[g * rows + r];
  std::int32_t dot[kTile];
  if (p.product == Product::kSymmetric16) {
    for (int half = 0; half < 2; ++half) {
      std::fill_n(dot, kTile, p.offsets[(2 * g + half) * rows + r]);
      AddDots(codes + 256 * half, x + 16 * half, dot);
      AddScaled(dot, p.scales + (2 * g + half) * kTile, x_scale, acc);
    }
    return;
  }
  std::fill_n(dot, kTile, p.offsets[g * rows + r]);
  AddDots(codes, x, dot);
  AddDots(codes + 256, x + 16, dot);
  float values[kTile];
  LoadGroupScales(p.scales, p.half_scales, p.sub_scales, g, values);
  AddScaled(dot, values, x_scale, acc);
  if (p.product == Product::kAffine) {
    LoadGroupScales(p.biases, p.half_biases, p.sub_biases, g, values);
    for (int c = 0; c < kTile; ++c) {
      acc[c] = std::fma(values[c], p.x_sums[g * rows + r], acc[c]);
    }
  }
}

template <class AnyProduct>
void StartFresh(int rows, const AnyProduct& p) {
  for (int r = 0; p.fresh && r < rows; ++r) {
    std::fill_n(p.acc + r * p.acc_stride, kTile, 0.0F);
  }
}

void Multiply(int rows, const TileProduct& p) {
  StartFresh(rows, p);
  std::uint8_t unpacked[512];
  for (int g = 0; g < p.n_groups; ++g) {
    const std::uint8_t* codes = p.codes + g * 64 * p.stored_bits;
    if (p.stored_bits == 4) {
      ExpandCodes(codes, 1, p.fp4, unpacked);
      codes = unpacked;
    }
    for (int r = 0; r < rows; ++r) {
      MultiplyGroup(p, codes, g, r, rows, p.acc + r * p.acc_stride);
    }
  }
}

// Sign, exponent and mantissa of an E4M3 byte in a half's places.
std::uint16_t HalfOfF8(std::uint8_t bits) {
  return static_cast<std::uint16_t>((bits & 0x80U) << 8 | (bits & 0x7FU) << 7);
}

void MultiplyFloat(int rows, const FloatProduct& p) {
  StartFresh(rows, p);
  float weights[kTile];
  for (int i = 0; i < p.n_in; ++i) {
    for (int c = 0; c < kTile; ++c) {
      switch (p.format) {
        case WeightFormat::kF16:
          weights[c] = ReadScale(p.weights, ScaleKind::kF16, i * kTile + c);
          break;
        case WeightFormat::kF8E4M3:
          weights[c] =
              HalfToFloat(HalfOfF8(std::to_integer<std::uint8_t>(p.weights[i * kTile + c])));
          break;
        case WeightFormat::kBF16:
          weights[c] = ReadScale(p.weights, ScaleKind::kBF16, i * kTile + c);
          break;
        default:
          weights[c] = ReadScale(p.weights, ScaleKind::kF32, i * kTile + c);
          break;
      }
    }
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < kTile; ++c) {
        float& acc = p.acc[r * p.acc_stride + c];
        acc = std::fma(p.x[i * rows + r], weights[c], acc);
      }
    }
  }
}

int CodeBias(int /*code_bits*/) { return 0; }

}  // namespace

const Kernels kPlainKernels = {
    .coded_rows = 4,
    .float_rows = 4,
    .code_bias = &CodeBias,
    .quantize = &Quantize,
    .expand_scales = &ExpandScales,
    .expand_codes = &ExpandCodes,
    .multiply = &Multiply,
    .multiply_float = &MultiplyFloat,
};

}  // namespace ops::linear
