#pragma once

// Bodies of the short convolution's kernels, over one of the Vec16 classes. Included by plain.cpp,
// avx2.cpp and avx512.cpp only.

#include "ops/short_conv/kernels.h"
#include "ops/vector/vector_math.h"

namespace ops {

template <class V>
inline V Same(V x) {
  return x;
}

template <class V, V (*kActivation)(V), bool kGated>
inline void ConvolveChannels(const ConvRun& run) {
  const int n_past = run.kernel - 1;
  for (int c = 0; c < run.n_channels; c += V::kLanes) {
    const int n = run.n_channels - c;
    V taps[kMaxConvKernel];
    V past[kMaxConvKernel];
    for (int j = 0; j < run.kernel; ++j) {
      taps[j] = V::LoadN(run.weight + j * run.channel_stride + c, n);
    }
    for (int j = 0; j < n_past; ++j) {
      past[j] = V::LoadN(run.past + j * run.past_stride + c, n);
    }
    const V bias = run.bias == nullptr ? V::Zero() : V::LoadN(run.bias + c, n);
    for (int r = 0; r < run.n_rows; ++r) {
      past[n_past] = V::LoadN(run.x + r * run.x_stride + c, n);
      if constexpr (kGated) {
        past[n_past] = V::Mul(V::LoadN(run.in_gate + r * run.x_stride + c, n), past[n_past]);
      }
      V sum = bias;
      for (int j = 0; j < run.kernel; ++j) {
        sum = V::Fma(taps[j], past[j], sum);
      }
      for (int j = 0; j < n_past; ++j) {
        past[j] = past[j + 1];
      }
      if constexpr (kGated) {
        sum = V::Mul(V::LoadN(run.out_gate + r * run.x_stride + c, n), sum);
      }
      kActivation(sum).StoreN(run.y + r * run.y_stride + c, n);
    }
    for (int j = 0; j < n_past; ++j) {
      past[j].StoreN(run.past + j * run.past_stride + c, n);
    }
  }
}

template <class V>
inline constexpr ConvKernels kConvKernels{.plain = &ConvolveChannels<V, Same<V>, false>,
                                          .silu = &ConvolveChannels<V, Silu<V>, false>,
                                          .gated = &ConvolveChannels<V, Same<V>, true>};

}  // namespace ops
