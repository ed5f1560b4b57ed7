#pragma once

#include <bit>
#include <cstdint>

namespace ops {

// IEEE binary16 and bfloat16 bits to and from float32, without the help of the processor: for
// loading and for the plain kernels. NaN stays NaN (its payload may change).

[[nodiscard]] inline float HalfToFloat(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
  const std::uint32_t rest = half & 0x7FFFU;
  if (rest >= 0x7C00U) {  // infinity, NaN
    return std::bit_cast<float>(sign | 0x7F800000U | ((rest & 0x3FFU) << 13));
  }
  // The exponent bias moves from 15 to 127 by a multiplication, which also makes subnormals right.
  const float magnitude =
      std::bit_cast<float>(rest << 13) * std::bit_cast<float>(0x77800000U);  // 2^112
  return std::bit_cast<float>(sign | std::bit_cast<std::uint32_t>(magnitude));
}

// Rounds to nearest even; overflow gives infinity.
[[nodiscard]] inline std::uint16_t FloatToHalf(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (bits >> 16) & 0x8000U;
  const std::uint32_t rest = bits & 0x7FFFFFFFU;
  if (rest > 0x7F800000U) {
    return static_cast<std::uint16_t>(sign | 0x7E00U);
  }
  if (rest >= 0x477FF000U) {  // 65520: rounds to infinity
    return static_cast<std::uint16_t>(sign | 0x7C00U);
  }
  if (rest <
      0x38800000U) {  // below 2^-14: subnormal, in steps of 2^-24; adding 0.5 aligns and rounds
    const float aligned = std::bit_cast<float>(rest) + 0.5F;
    return static_cast<std::uint16_t>(sign | (std::bit_cast<std::uint32_t>(aligned) - 0x3F000000U));
  }
  const std::uint32_t rounded = rest + 0xFFFU + ((rest >> 13) & 1U);
  return static_cast<std::uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

[[nodiscard]] inline float BFloatToFloat(std::uint16_t value) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(value) << 16);
}

// Drops the low bits: exact for what came from BFloatToFloat.
[[nodiscard]] inline std::uint16_t FloatToBFloatExact(float value) {
  return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(value) >> 16);
}

}  // namespace ops
