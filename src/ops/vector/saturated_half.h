#pragma once

#include <cstdint>

#include "ops/half.h"

namespace ops {

inline constexpr float kLargestHalf = 65504.0F;

// To nearest even; magnitudes above the largest half become the largest half, a NaN stays a NaN:
// one huge value must not turn every later score into a NaN.
inline std::uint16_t FloatToSaturatedHalf(float value) {
  const float above = kLargestHalf < value ? kLargestHalf : value;
  return FloatToHalf(-kLargestHalf > above ? -kLargestHalf : above);
}

}  // namespace ops
