#pragma once

#include <immintrin.h>

#include <cstdint>

namespace ops {

// See Vec16Plain. Only for files compiled for AVX-512 F, DQ and VL.
struct Vec16Avx512 {
  static constexpr int kLanes = 16;
  static constexpr int kAccumulators = 24;

  __m512 v;

  static Vec16Avx512 Set(float x) { return {_mm512_set1_ps(x)}; }
  static Vec16Avx512 Zero() { return {_mm512_setzero_ps()}; }
  static Vec16Avx512 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
  static Vec16Avx512 Load(const std::uint16_t* p) {
    return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))};
  }
  static Vec16Avx512 FromBytes(__m128i bytes) {
    return {_mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes))};
  }
  static Vec16Avx512 Load(const std::int8_t* p) {
    return FromBytes(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Vec16Avx512 LowNibbles(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return FromBytes(_mm_and_si128(bytes, _mm_set1_epi8(15)));
  }
  static Vec16Avx512 HighNibbles(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return FromBytes(_mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15)));
  }
  // Bits [0, n), n clamped to [0, 16].
  static __mmask16 Below(int n) {
    const unsigned count = n < 0 ? 0U : (n > kLanes ? 16U : static_cast<unsigned>(n));
    return static_cast<__mmask16>((1U << count) - 1U);
  }
  static Vec16Avx512 LoadN(const float* p, int n) { return {_mm512_maskz_loadu_ps(Below(n), p)}; }
  void Store(float* p) const { _mm512_storeu_ps(p, v); }
  void StoreN(float* p, int n) const { _mm512_mask_storeu_ps(p, Below(n), v); }
  void StoreHalf(std::uint16_t* p) const {
    const __m512 limit = _mm512_set1_ps(65504.0F);
    const __m512 clamped =
        _mm512_max_ps(_mm512_sub_ps(_mm512_setzero_ps(), limit), _mm512_min_ps(limit, v));
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(p),
                        _mm512_cvtps_ph(clamped, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  void StoreInt8(std::int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(v)));
  }

  static Vec16Avx512 Add(Vec16Avx512 a, Vec16Avx512 b) { return {_mm512_add_ps(a.v, b.v)}; }
  static Vec16Avx512 Sub(Vec16Avx512 a, Vec16Avx512 b) { return {_mm512_sub_ps(a.v, b.v)}; }
  static Vec16Avx512 Mul(Vec16Avx512 a, Vec16Avx512 b) { return {_mm512_mul_ps(a.v, b.v)}; }
  static Vec16Avx512 Div(Vec16Avx512 a, Vec16Avx512 b) { return {_mm512_div_ps(a.v, b.v)}; }
  static Vec16Avx512 Max(Vec16Avx512 a, Vec16Avx512 b) { return {_mm512_max_ps(a.v, b.v)}; }
  static Vec16Avx512 Min(Vec16Avx512 a, Vec16Avx512 b) { return {_mm512_min_ps(a.v, b.v)}; }
  static Vec16Avx512 Fma(Vec16Avx512 a, Vec16Avx512 b, Vec16Avx512 c) {
    return {_mm512_fmadd_ps(a.v, b.v, c.v)};
  }
  static Vec16Avx512 ZeroWhereLess(Vec16Avx512 x, Vec16Avx512 limit, Vec16Avx512 value) {
    const __mmask16 less = _mm512_cmp_ps_mask(x.v, limit.v, _CMP_LT_OQ);
    return {_mm512_maskz_mov_ps(static_cast<__mmask16>(~less), value.v)};
  }
  static Vec16Avx512 KeepLanes(Vec16Avx512 v, int lo, int hi, float fill) {
    const auto inside = static_cast<__mmask16>(Below(hi) & ~Below(lo));
    return {_mm512_mask_mov_ps(_mm512_set1_ps(fill), inside, v.v)};
  }
  static Vec16Avx512 ScaleByPowerOf2(Vec16Avx512 p, Vec16Avx512 shifted) {
    return {_mm512_castsi512_ps(_mm512_add_epi32(
        _mm512_castps_si512(p.v), _mm512_slli_epi32(_mm512_castps_si512(shifted.v), 23)))};
  }

  [[nodiscard]] float Sum() const {
    const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  [[nodiscard]] float Maximum() const {
    const __m256 eight = _mm256_max_ps(_mm512_castps512_ps256(v), _mm512_extractf32x8_ps(v, 1));
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace ops
