// Float weights with AVX-512.
#include <immintrin.h>

#include <array>
#include <utility>

#include "ops/linear/avx512_parts.h"

namespace ops::linear {
namespace {

template <WeightFormat kFormat>
[[gnu::always_inline]] inline __m512 LoadWeights(const std::byte* weights, std::ptrdiff_t input) {
  if constexpr (kFormat == WeightFormat::kF32) {
    return _mm512_loadu_ps(reinterpret_cast<const float*>(weights) + input * kTile);
  } else if constexpr (kFormat == WeightFormat::kF8E4M3) {
    // As in avx2_float.cpp.
    const __m256i words = _mm256_slli_epi16(
        _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(weights) + input)),
        8);
    return _mm512_cvtph_ps(
        _mm256_and_si256(_mm256_srai_epi16(words, 1), _mm256_set1_epi16(~0x4000)));
  } else {
    const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(weights) + input);
    if constexpr (kFormat == WeightFormat::kF16) {
      return _mm512_cvtph_ps(bits);
    } else {
      return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
    }
  }
}

template <int R, WeightFormat kFormat>
void Run(const FloatProduct& p) {
  __m512 acc[R];
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    acc[r] = p.fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(p.acc + r * p.acc_stride);
  }
  const float* x = p.x;
  for (int i = 0; i < p.n_in; ++i, x += R) {
    const __m512 weights = LoadWeights<kFormat>(p.weights, i);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      acc[r] = _mm512_fmadd_ps(_mm512_set1_ps(x[r]), weights, acc[r]);
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < R; ++r) {
    _mm512_storeu_ps(p.acc + r * p.acc_stride, acc[r]);
  }
}

using RunFunction = void (*)(const FloatProduct&);

template <WeightFormat kFormat, int... kIndex>
constexpr std::array<RunFunction, sizeof...(kIndex)> MakeTable(
    std::integer_sequence<int, kIndex...>) {
  return {&Run<kIndex + 1, kFormat>...};
}

template <WeightFormat kFormat>
constexpr auto kTable = MakeTable<kFormat>(std::make_integer_sequence<int, kAvx512FloatRows>());

}  // namespace

void Avx512MultiplyFloat(int rows, const FloatProduct& product) {
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
