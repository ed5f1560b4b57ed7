#include <arm_neon.h>

#include "ops/machine_speed/kernels.h"

namespace ops {
namespace {

constexpr int kStreams = 16;  // independent sums: an addition waits for the one before it

std::uint64_t Read(const std::byte* data, std::size_t n) {
  uint64x2_t sums[kStreams];
  for (uint64x2_t& sum : sums) {
    sum = vdupq_n_u64(0);
  }
  for (std::size_t at = 0; at < n; at += kStreams * sizeof(uint64x2_t)) {
    const auto* from = reinterpret_cast<const std::uint64_t*>(data + at);
    for (int i = 0; i < kStreams; ++i) {
      sums[i] = vaddq_u64(sums[i], vld1q_u64(from + 2 * i));
    }
  }
  for (int i = 1; i < kStreams; ++i) {
    sums[0] = vaddq_u64(sums[0], sums[i]);
  }
  return vaddvq_u64(sums[0]);
}

std::int32_t Multiply(std::int64_t n) {
  int8x16_t a = vdupq_n_s8(3);
  const int8x16_t b = vdupq_n_s8(5);
  int32x4_t sums[kStreams];
  for (int32x4_t& sum : sums) {
    sum = vdupq_n_s32(0);
  }
  for (std::int64_t round = 0; round < n; ++round) {
    asm volatile("" : "+w"(a));  // as if it were new: the products are not taken out of the loop
    for (int32x4_t& sum : sums) {
      sum = vdotq_s32(sum, a, b);
    }
  }
  for (int i = 1; i < kStreams; ++i) {
    sums[0] = vaddq_s32(sums[0], sums[i]);
  }
  return vgetq_lane_s32(sums[0], 0);
}

}  // namespace

const SpeedKernels kNeonSpeedKernels = {
    .read = &Read, .multiply = &Multiply, .products_a_round = kStreams * 16};

}  // namespace ops
