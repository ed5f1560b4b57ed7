// What comes before the products: rounding activations, expanding scales and codes.
#include <immintrin.h>

#include "ops/linear/avx512_parts.h"
#include "ops/linear/rounding.h"

namespace ops::linear {
namespace {

std::int32_t MaxBits(__m512 a, __m512 b) {
  const __m512i magnitude = _mm512_set1_epi32(0x7FFFFFFF);
  return _mm512_reduce_max_epi32(
      _mm512_max_epi32(_mm512_and_si512(_mm512_castps_si512(a), magnitude),
                       _mm512_and_si512(_mm512_castps_si512(b), magnitude)));
}

__m128i RoundToCodes(__m512 x, __m512 inverse) {
  __m512 scaled = _mm512_mul_ps(x, inverse);
  scaled = _mm512_min_ps(scaled, _mm512_set1_ps(127.0F));  // NaN becomes 127
  scaled = _mm512_max_ps(scaled, _mm512_set1_ps(-127.0F));
  return _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(scaled));
}

std::int32_t Sum16(__m128i codes) {
  __m128i four = _mm_dpbusd_epi32(_mm_setzero_si128(), _mm_set1_epi8(1), codes);
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtsi128_si32(four);
}

// 16 stored scales, index `row` of a section.
__m512 LoadScales(const std::byte* values, ScaleKind kind, int row) {
  if (kind == ScaleKind::kF32) {
    return _mm512_loadu_ps(reinterpret_cast<const float*>(values) + row * kTile);
  }
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(values) + row);
  return kind == ScaleKind::kBF16
             ? _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16))
             : _mm512_cvtph_ps(bits);
}

// One section to [.][16] float32.
void ExpandSection(const std::byte* values, const std::int8_t* subs, const ScaleRange& range,
                   float* out) {
  const int step = range.scale_group < kGroup ? range.scale_group : kGroup;
  for (int input = range.first_input; input < range.first_input + range.n_inputs; input += step) {
    __m512 value =
        LoadScales(values, range.kind, input / (subs != nullptr ? kSuperGroup : range.scale_group));
    if (subs != nullptr) {
      const __m128i sub =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(subs) + input / range.scale_group);
      value = _mm512_mul_ps(value, _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(sub)));
    }
    _mm512_storeu_ps(out, value);
    out += kTile;
  }
}

}  // namespace

void Avx512Quantize(const float* x, std::ptrdiff_t stride, int rows, int n_in,
                    const QuantizedBlock& out) {
  for (int g = 0; g < n_in / kGroup; ++g) {
    for (int r = 0; r < rows; ++r) {
      const float* group = x + r * stride + g * kGroup;
      const __m512 a = _mm512_loadu_ps(group);
      const __m512 b = _mm512_loadu_ps(group + 16);
      const GroupRounding rounding = RoundingOf(MaxBits(a, b));
      const __m512 inverse = _mm512_set1_ps(rounding.inverse);
      const __m128i low = RoundToCodes(a, inverse);
      const __m128i high = RoundToCodes(b, inverse);
      const int at = g * rows + r;
      auto* codes = reinterpret_cast<__m128i*>(out.codes + at * kGroup);
      _mm_storeu_si128(codes, low);
      _mm_storeu_si128(codes + 1, high);
      const std::int32_t low_sum = Sum16(low);
      const std::int32_t high_sum = Sum16(high);
      out.scales[at] = rounding.scale;
      out.scaled_sums[at] = rounding.scale * static_cast<float>(low_sum + high_sum);
      out.sums[2 * g * rows + r] = low_sum;
      out.sums[(2 * g + 1) * rows + r] = high_sum;
    }
  }
}

void Avx512ExpandScales(const PackedScales& packed, const ScaleRange& range, float* scales,
                        float* biases) {
  ExpandSection(packed.scales, packed.sub_scales, range, scales);
  if (packed.biases != nullptr) {
    ExpandSection(packed.biases, packed.sub_biases, range, biases);
  }
}

void Avx512ExpandCodes(const std::uint8_t* packed, int n_groups, bool fp4, std::uint8_t* codes) {
  const __m512i nibble = _mm512_set1_epi8(0xF);
  const __m512i same =
      _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const __m512i table = fp4 ? Fp4Table() : same;
  for (int g = 0; g < n_groups; ++g, packed += 256, codes += 512) {
    for (int v = 0; v < 4; ++v) {
      const __m512i both = _mm512_loadu_si512(packed + 64 * v);
      const __m512i low = _mm512_and_si512(both, nibble);
      const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), nibble);
      _mm512_storeu_si512(codes + 64 * v, _mm512_shuffle_epi8(table, low));
      _mm512_storeu_si512(codes + 256 + 64 * v, _mm512_shuffle_epi8(table, high));
    }
  }
}

}  // namespace ops::linear
