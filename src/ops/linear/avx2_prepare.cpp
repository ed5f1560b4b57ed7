// What comes before the products: rounding activations, expanding scales and codes.
#include <immintrin.h>

#include "ops/linear/avx2_parts.h"
#include "ops/linear/rounding.h"

namespace ops::linear {
namespace {

std::int32_t MaxBits(const float* group) {
  const __m256i magnitude = _mm256_set1_epi32(0x7FFFFFFF);
  __m256i max = _mm256_setzero_si256();
  for (int i = 0; i < kGroup; i += 8) {
    max = _mm256_max_epi32(
        max, _mm256_and_si256(_mm256_castps_si256(_mm256_loadu_ps(group + i)), magnitude));
  }
  __m128i four = _mm_max_epi32(_mm256_castsi256_si128(max), _mm256_extracti128_si256(max, 1));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_max_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtsi128_si32(four);
}

__m256i Round8(const float* x, __m256 inverse) {
  __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x), inverse);
  scaled = _mm256_min_ps(scaled, _mm256_set1_ps(127.0F));  // NaN becomes 127
  scaled = _mm256_max_ps(scaled, _mm256_set1_ps(-127.0F));
  return _mm256_cvtps_epi32(scaled);
}

__m128i RoundToCodes(const float* x, __m256 inverse) {
  const __m256i words = _mm256_packs_epi32(Round8(x, inverse), Round8(x + 8, inverse));
  const __m256i in_order =
      _mm256_permute4x64_epi64(words, 0xD8);  // packing works in 128-bit halves
  return _mm_packs_epi16(_mm256_castsi256_si128(in_order), _mm256_extracti128_si256(in_order, 1));
}

std::int32_t Sum16(__m128i codes) {
  const __m128i pairs = _mm_maddubs_epi16(_mm_set1_epi8(1), codes);
  __m128i four = _mm_madd_epi16(pairs, _mm_set1_epi16(1));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0x4E));
  four = _mm_add_epi32(four, _mm_shuffle_epi32(four, 0xB1));
  return _mm_cvtsi128_si32(four);
}

// Eight stored scales, index `eight` of a section.
__m256 LoadScales(const std::byte* values, ScaleKind kind, int eight) {
  if (kind == ScaleKind::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(values) + eight * 8);
  }
  const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(values) + eight);
  return kind == ScaleKind::kBF16
             ? _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16))
             : _mm256_cvtph_ps(bits);
}

// One section to [.][16] float32.
void ExpandSection(const std::byte* values, const std::int8_t* subs, const ScaleRange& range,
                   float* out) {
  const int step = range.scale_group < kGroup ? range.scale_group : kGroup;
  for (int input = range.first_input; input < range.first_input + range.n_inputs; input += step) {
    const int row = input / (subs != nullptr ? kSuperGroup : range.scale_group);
    for (int half = 0; half < 2; ++half, out += 8) {
      __m256 value = LoadScales(values, range.kind, 2 * row + half);
      if (subs != nullptr) {
        const std::int8_t* eight = subs + input / range.scale_group * kTile + 8 * half;
        const __m128i sub = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(eight));
        value = _mm256_mul_ps(value, _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(sub)));
      }
      _mm256_storeu_ps(out, value);
    }
  }
}

}  // namespace

void Avx2Quantize(const float* x, std::ptrdiff_t stride, int rows, int n_in,
                  const QuantizedBlock& out) {
  for (int g = 0; g < n_in / kGroup; ++g) {
    for (int r = 0; r < rows; ++r) {
      const float* group = x + r * stride + g * kGroup;
      const GroupRounding rounding = RoundingOf(MaxBits(group));
      const __m256 inverse = _mm256_set1_ps(rounding.inverse);
      const __m128i low = RoundToCodes(group, inverse);
      const __m128i high = RoundToCodes(group + 16, inverse);
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

void Avx2ExpandScales(const PackedScales& packed, const ScaleRange& range, float* scales,
                      float* biases) {
  ExpandSection(packed.scales, packed.sub_scales, range, scales);
  if (packed.biases != nullptr) {
    ExpandSection(packed.biases, packed.sub_biases, range, biases);
  }
}

void Avx2ExpandCodes(const std::uint8_t* packed, int n_groups, bool fp4, std::uint8_t* codes) {
  const __m256i nibble = _mm256_set1_epi8(0xF);
  const __m256i same = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  const __m256i table = fp4 ? Fp4Table() : same;
  for (int g = 0; g < n_groups; ++g, packed += 256, codes += 512) {
    for (int i = 0; i < 256; i += 32) {
      const __m256i both = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(packed + i));
      const __m256i low = _mm256_and_si256(both, nibble);
      const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), nibble);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + i), _mm256_shuffle_epi8(table, low));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + 256 + i),
                          _mm256_shuffle_epi8(table, high));
    }
  }
}

}  // namespace ops::linear
