#pragma once

#include <bit>
#include <cstdint>
#include <limits>

namespace ops::linear {

// Scale of a group of 32 activations and what they are multiplied with before they are rounded.
struct GroupRounding {
  float scale;
  float inverse;
};

// From the largest |x| of the group, given as its bits: as integers NaN > infinity > all numbers. A
// group that is not finite gets the scale NaN, so that its row's results show it. Static, not
// inline: each instruction set's file must keep a copy of its own, compiled with its own flags.
[[maybe_unused]] static GroupRounding RoundingOf(std::int32_t max_bits) {
  constexpr std::int32_t kInfinityBits = 0x7F800000;
  constexpr float kSmallestMax =
      1e-30F;  // 127 / max must not overflow; smaller groups count as zero
  if (max_bits >= kInfinityBits) {
    return {.scale = std::numeric_limits<float>::quiet_NaN(), .inverse = 0.0F};
  }
  const float max = std::bit_cast<float>(max_bits);
  if (max < kSmallestMax) {
    return {.scale = 0.0F, .inverse = 0.0F};
  }
  return {.scale = max / 127.0F, .inverse = 127.0F / max};
}

}  // namespace ops::linear
