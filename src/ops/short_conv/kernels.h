#pragma once

#include <cstddef>

#include "ops/cpu_features.h"

namespace ops {

// Most taps that a convolution may have.
inline constexpr int kMaxConvKernel = 8;

// Some channels of one sequence on their way through a short convolution.
struct ConvRun {
  const float* x = nullptr;         // [n_rows] rows, x_stride floats apart
  const float* in_gate = nullptr;   // gated only: rows as x
  const float* out_gate = nullptr;  // gated only: rows as x
  std::ptrdiff_t x_stride = 0;
  float* y = nullptr;  // [n_rows] rows, y_stride floats apart
  std::ptrdiff_t y_stride = 0;
  const float* weight = nullptr;  // [kernel] rows, channel_stride floats apart
  const float* bias = nullptr;    // or null
  float* past = nullptr;          // [kernel - 1] rows, past_stride floats apart; moved on by n_rows
  std::ptrdiff_t past_stride = 0;
  std::ptrdiff_t channel_stride = 0;
  int n_rows = 0;
  int n_channels = 0;
  int kernel = 0;
};

// Bit-equal in all sets.
struct ConvKernels {
  void (*plain)(const ConvRun& run);
  void (*silu)(const ConvRun& run);
  void (*gated)(const ConvRun& run);
};

extern const ConvKernels kPlainConvKernels;
extern const ConvKernels kAvx2ConvKernels;    // x86-64 only
extern const ConvKernels kAvx512ConvKernels;  // x86-64 only
extern const ConvKernels kNeonConvKernels;    // 64-bit ARM only

// Those of `set`, or the plain ones where it has none of its own.
[[nodiscard]] const ConvKernels& ConvKernelsFor(InstructionSet set);

}  // namespace ops
