#include <immintrin.h>

#include "ops/machine_speed/kernels.h"

namespace ops {
namespace {

constexpr int kStreams = 8;  // independent sums: an addition waits for the one before it

std::uint64_t Read(const std::byte* data, std::size_t n) {
  __m256i sums[kStreams];
  for (__m256i& sum : sums) {
    sum = _mm256_setzero_si256();
  }
  for (std::size_t at = 0; at < n; at += kStreams * sizeof(__m256i)) {
    for (int i = 0; i < kStreams; ++i) {
      const auto* from = reinterpret_cast<const __m256i*>(data + at) + i;
      sums[i] = _mm256_add_epi64(sums[i], _mm256_load_si256(from));
    }
  }
  for (int i = 1; i < kStreams; ++i) {
    sums[0] = _mm256_add_epi64(sums[0], sums[i]);
  }
  alignas(32) std::uint64_t parts[4];
  _mm256_store_si256(reinterpret_cast<__m256i*>(parts), sums[0]);
  return parts[0] + parts[1] + parts[2] + parts[3];
}

std::int32_t Multiply(std::int64_t n) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i a = _mm256_set1_epi8(3);
  const __m256i b = _mm256_set1_epi8(5);
  __m256i sums[kStreams];
  for (__m256i& sum : sums) {
    sum = _mm256_setzero_si256();
  }
  for (std::int64_t round = 0; round < n; ++round) {
    asm volatile("" : "+x"(a));  // as if it were new: the products are not taken out of the loop
    for (__m256i& sum : sums) {
      __m256i pairs = _mm256_maddubs_epi16(a, b);
      asm volatile("" : "+x"(pairs));  // nor shared between the sums
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, ones));
    }
  }
  for (int i = 1; i < kStreams; ++i) {
    sums[0] = _mm256_add_epi32(sums[0], sums[i]);
  }
  return _mm256_extract_epi32(sums[0], 0);
}

}  // namespace

const SpeedKernels kAvx2SpeedKernels = {
    .read = &Read, .multiply = &Multiply, .products_a_round = kStreams * 32};

}  // namespace ops
