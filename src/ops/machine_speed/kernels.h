#pragma once

#include <cstddef>
#include <cstdint>

#include "ops/cpu_features.h"

namespace ops {

// Of one instruction set, on one thread.
struct SpeedKernels {
  // Reads n bytes (a multiple of 512, aligned to 64). What it returns depends on all of them.
  std::uint64_t (*read)(const std::byte* data, std::size_t n);
  // The instructions of this set's int8 products, n rounds of `products_a_round` int8
  // multiplications and additions. What it returns depends on all of them.
  std::int32_t (*multiply)(std::int64_t n);
  int products_a_round;
};

extern const SpeedKernels kPlainSpeedKernels;
extern const SpeedKernels kAvx2SpeedKernels;    // x86-64 only
extern const SpeedKernels kAvx512SpeedKernels;  // x86-64 only
extern const SpeedKernels kNeonSpeedKernels;    // 64-bit ARM only

// Those of `set`, or the plain ones where it has none of its own.
[[nodiscard]] const SpeedKernels& SpeedKernelsFor(InstructionSet set);

}  // namespace ops
