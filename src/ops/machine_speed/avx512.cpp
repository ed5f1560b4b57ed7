#include <immintrin.h>

#include "ops/machine_speed/kernels.h"

namespace ops {
namespace {

constexpr int kReadStreams = 8;
constexpr int kProductStreams = 16;  // a product takes five cycles, two begin in each

std::uint64_t Read(const std::byte* data, std::size_t n) {
  __m512i sums[kReadStreams];
  for (__m512i& sum : sums) {
    sum = _mm512_setzero_si512();
  }
  for (std::size_t at = 0; at < n; at += kReadStreams * sizeof(__m512i)) {
    for (int i = 0; i < kReadStreams; ++i) {
      sums[i] = _mm512_add_epi64(sums[i], _mm512_load_si512(data + at + 64 * i));
    }
  }
  for (int i = 1; i < kReadStreams; ++i) {
    sums[0] = _mm512_add_epi64(sums[0], sums[i]);
  }
  alignas(64) std::uint64_t parts[8];
  _mm512_store_si512(parts, sums[0]);
  return parts[0] + parts[1] + parts[2] + parts[3] + parts[4] + parts[5] + parts[6] + parts[7];
}

std::int32_t Multiply(std::int64_t n) {
  __m512i a = _mm512_set1_epi8(3);
  const __m512i b = _mm512_set1_epi8(5);
  __m512i sums[kProductStreams];
  for (__m512i& sum : sums) {
    sum = _mm512_setzero_si512();
  }
  for (std::int64_t round = 0; round < n; ++round) {
    asm volatile("" : "+v"(a));  // as if it were new: the products are not taken out of the loop
    for (__m512i& sum : sums) {
      sum = _mm512_dpbusd_epi32(sum, a, b);
    }
  }
  for (int i = 1; i < kProductStreams; ++i) {
    sums[0] = _mm512_add_epi32(sums[0], sums[i]);
  }
  alignas(64) std::int32_t lanes[16];
  _mm512_store_si512(lanes, sums[0]);
  return lanes[0];
}

}  // namespace

const SpeedKernels kAvx512SpeedKernels = {
    .read = &Read, .multiply = &Multiply, .products_a_round = kProductStreams * 64};

}  // namespace ops
