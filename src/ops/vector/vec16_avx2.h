#pragma once

#include <immintrin.h>

#include <cstdint>

namespace ops {

// See Vec16Plain. Two registers of eight lanes. Only for files compiled for AVX2, FMA and F16C.
struct Vec16Avx2 {
  static constexpr int kLanes = 16;
  static constexpr int kAccumulators = 6;

  __m256 low;
  __m256 high;

  static Vec16Avx2 Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
  static Vec16Avx2 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
  static Vec16Avx2 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
  static Vec16Avx2 Load(const std::uint16_t* p) {
    return {_mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))),
            _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 8)))};
  }
  static __m256 FromBytes(__m128i eight) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)); }
  static Vec16Avx2 FromBytes16(__m128i bytes) {
    return {FromBytes(bytes), FromBytes(_mm_srli_si128(bytes, 8))};
  }
  static Vec16Avx2 Load(const std::int8_t* p) {
    return FromBytes16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Vec16Avx2 LowNibbles(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return FromBytes16(_mm_and_si128(bytes, _mm_set1_epi8(15)));
  }
  static Vec16Avx2 HighNibbles(const std::uint8_t* p) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    return FromBytes16(_mm_and_si128(_mm_srli_epi16(bytes, 4), _mm_set1_epi8(15)));
  }
  // All bits set in the lanes below n, for lanes first, first + 1, ...
  static __m256i Below(int n, int first) {
    const __m256i index =
        _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(first));
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(n), index);
  }
  static Vec16Avx2 LoadN(const float* p, int n) {
    return {_mm256_maskload_ps(p, Below(n, 0)), _mm256_maskload_ps(p + 8, Below(n, 8))};
  }
  void Store(float* p) const {
    _mm256_storeu_ps(p, low);
    _mm256_storeu_ps(p + 8, high);
  }
  void StoreN(float* p, int n) const {
    _mm256_maskstore_ps(p, Below(n, 0), low);
    _mm256_maskstore_ps(p + 8, Below(n, 8), high);
  }
  static __m128i ToHalf(__m256 x) {
    const __m256 limit = _mm256_set1_ps(65504.0F);
    const __m256 clamped =
        _mm256_max_ps(_mm256_sub_ps(_mm256_setzero_ps(), limit), _mm256_min_ps(limit, x));
    return _mm256_cvtps_ph(clamped, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  void StoreHalf(std::uint16_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), ToHalf(low));
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p + 8), ToHalf(high));
  }

  static __m128i ToShorts(__m256 x) {
    const __m256i whole = _mm256_cvtps_epi32(x);
    return _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
  }
  void StoreInt8(std::int8_t* p) const {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(ToShorts(low), ToShorts(high)));
  }

  static Vec16Avx2 Add(Vec16Avx2 a, Vec16Avx2 b) {
    return {_mm256_add_ps(a.low, b.low), _mm256_add_ps(a.high, b.high)};
  }
  static Vec16Avx2 Sub(Vec16Avx2 a, Vec16Avx2 b) {
    return {_mm256_sub_ps(a.low, b.low), _mm256_sub_ps(a.high, b.high)};
  }
  static Vec16Avx2 Mul(Vec16Avx2 a, Vec16Avx2 b) {
    return {_mm256_mul_ps(a.low, b.low), _mm256_mul_ps(a.high, b.high)};
  }
  static Vec16Avx2 Div(Vec16Avx2 a, Vec16Avx2 b) {
    return {_mm256_div_ps(a.low, b.low), _mm256_div_ps(a.high, b.high)};
  }
  static Vec16Avx2 Max(Vec16Avx2 a, Vec16Avx2 b) {
    return {_mm256_max_ps(a.low, b.low), _mm256_max_ps(a.high, b.high)};
  }
  static Vec16Avx2 Min(Vec16Avx2 a, Vec16Avx2 b) {
    return {_mm256_min_ps(a.low, b.low), _mm256_min_ps(a.high, b.high)};
  }
  static Vec16Avx2 Fma(Vec16Avx2 a, Vec16Avx2 b, Vec16Avx2 c) {
    return {_mm256_fmadd_ps(a.low, b.low, c.low), _mm256_fmadd_ps(a.high, b.high, c.high)};
  }
  static Vec16Avx2 ZeroWhereLess(Vec16Avx2 x, Vec16Avx2 limit, Vec16Avx2 value) {
    return {_mm256_andnot_ps(_mm256_cmp_ps(x.low, limit.low, _CMP_LT_OQ), value.low),
            _mm256_andnot_ps(_mm256_cmp_ps(x.high, limit.high, _CMP_LT_OQ), value.high)};
  }
  static __m256 Keep(__m256 v, int lo, int hi, int first, __m256 fill) {
    const __m256i inside = _mm256_andnot_si256(Below(lo, first), Below(hi, first));
    return _mm256_blendv_ps(fill, v, _mm256_castsi256_ps(inside));
  }
  static Vec16Avx2 KeepLanes(Vec16Avx2 v, int lo, int hi, float fill) {
    const __m256 f = _mm256_set1_ps(fill);
    return {Keep(v.low, lo, hi, 0, f), Keep(v.high, lo, hi, 8, f)};
  }
  static __m256 Scale(__m256 p, __m256 shifted) {
    return _mm256_castsi256_ps(_mm256_add_epi32(
        _mm256_castps_si256(p), _mm256_slli_epi32(_mm256_castps_si256(shifted), 23)));
  }
  static Vec16Avx2 ScaleByPowerOf2(Vec16Avx2 p, Vec16Avx2 shifted) {
    return {Scale(p.low, shifted.low), Scale(p.high, shifted.high)};
  }

  [[nodiscard]] float Sum() const {
    const __m256 eight = _mm256_add_ps(low, high);
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  [[nodiscard]] float Maximum() const {
    const __m256 eight = _mm256_max_ps(low, high);
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }
};

}  // namespace ops
