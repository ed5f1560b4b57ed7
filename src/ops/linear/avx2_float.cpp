// Float weights with AVX2 and FMA.
#include <immintrin.h>

#include <array>
#include <utility>

#include "ops/linear/avx2_parts.h"

namespace ops::linear {
namespace {

// Weights of 8 channels; `eight` counts vectors of 8 from the tile's start.
template <WeightFormat kFormat>
[[gnu::always_inline]] inline __m256 LoadWeights(const std::byte* weights, std::ptrdiff_t eight) {
  if constexpr (kFormat == WeightFormat::kF32) {
    return _mm256_loadu_ps(reinterpret_cast<const float*>(weights) + eight * 8);
  } else if constexpr (kFormat == WeightFormat::kF8E4M3) {
    // The byte in the upper half of 16 bits, one to the right: all in a half's places but for the
    // copy of the sign in the exponent's highest bit.
    const __m128i words = _mm_slli_epi16(
        _mm_cvtepu8_epi16(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(weights + eight * 8))),
        8);
    return _mm256_cvtph_ps(_mm_and_si128(_mm_srai_epi16(words, 1), _mm_set1_epi16(~0x4000)));
  } else {
    const __m128i bits = _mm_loadu_si128(reinterpret_cast<const __m128i*>(weights) + eight);
    if constexpr (kFormat == WeightFormat::kF16) {
      return _mm256_cvtph_ps(bits);
    } else {
      return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
    }
  }
}

template <int R, WeightFormat kFormat>
void Run(const FloatProduct& p) {
  __m256 low[R];
  __m256 high[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    low[r] = p.fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(p.acc + r * p.acc_stride);
    high[r] = p.fresh ? _mm256_setzero_ps() : _mm256_loadu_ps(p.acc + r * p.acc_stride + 8);
  }
  const float* x = p.x;
  for (int i = 0; i < p.n_in; ++i, x += R) {
    const __m256 low_weights = LoadWeights<kFormat>(p.weights, 2 * i);
    const __m256 high_weights = LoadWeights<kFormat>(p.weights, 2 * i + 1);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const __m256 value = _mm256_set1_ps(x[r]);
      low[r] = _mm256_fmadd_ps(value, low_weights, low[r]);
      high[r] = _mm256_fmadd_ps(value, high_weights, high[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    _mm256_storeu_ps(p.acc + r * p.acc_stride, low[r]);
    _mm256_storeu_ps(p.acc + r * p.acc_stride + 8, high[r]);
  }
}

using RunFunction = void (*)(const FloatProduct&);

template <WeightFormat kFormat, int... kIndex>
constexpr std::array<RunFunction, sizeof...(kIndex)> MakeTable(
    std::integer_sequence<int, kIndex...>) {
  return {&Run<kIndex + 1, kFormat>...};
}

template <WeightFormat kFormat>
constexpr auto kTable = MakeTable<kFormat>(std::make_integer_sequence<int, kAvx2FloatRows>());

}  // namespace

void Avx2MultiplyFloat(int rows, const FloatProduct& product) {
  const std::size_t index = static_cast<std::size_t>(rows - 1);
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
