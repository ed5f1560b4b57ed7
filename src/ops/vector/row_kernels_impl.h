#pragma once

// Bodies of the row-wise kernels, over one of the Vec16 classes. Included by the *_rows.cpp files
// only.

#include <cmath>

#include "ops/vector/row_kernels.h"
#include "ops/vector/vector_math.h"

namespace ops {

// y = x * scale * weight over n floats; y may be x.
template <class V>
inline void ScaleByWeight(const float* x, const float* weight, float scale, int n, float* y) {
  const V s = V::Set(scale);
  for (int i = 0; i < n; i += V::kLanes) {
    V::Mul(V::Mul(V::LoadN(x + i, n - i), s), V::LoadN(weight + i, n - i)).StoreN(y + i, n - i);
  }
}

template <class V>
inline float InverseRms(const float* x, int n, float eps) {
  return 1.0F / std::sqrt(SumOfSquares<V>(x, n) / static_cast<float>(n) + eps);
}

// Turns the pairs (i, i + rotary_dim / 2) of one head by angles = cos | sin; y may be x.
template <class V>
inline void RotateHead(const float* x, const float* angles, int rotary_dim, float* y) {
  const int half = rotary_dim / 2;
  for (int i = 0; i < half; i += V::kLanes) {
    const int n = half - i;
    const V a = V::LoadN(x + i, n);
    const V b = V::LoadN(x + half + i, n);
    const V cos = V::LoadN(angles + i, n);
    const V sin = V::LoadN(angles + half + i, n);
    V::Sub(V::Mul(a, cos), V::Mul(b, sin)).StoreN(y + i, n);
    V::Add(V::Mul(b, cos), V::Mul(a, sin)).StoreN(y + half + i, n);
  }
}

template <class V>
inline void RmsNormRows(const NormRows& rows) {
  for (long r = 0; r < rows.n_rows; ++r) {
    const float* x = rows.x + r * rows.d;
    ScaleByWeight<V>(x, rows.weight, InverseRms<V>(x, rows.d, rows.eps), rows.d,
                     rows.y + r * rows.d);
  }
}

template <class V>
inline void AddRmsNormRows(const NormRows& rows) {
  for (long r = 0; r < rows.n_rows; ++r) {
    const float* x = rows.x + r * rows.d;
    const float* residual = rows.residual + r * rows.d;
    float* sum = rows.sum + r * rows.d;
    for (int i = 0; i < rows.d; i += V::kLanes) {
      const V scaled = V::Mul(V::LoadN(x + i, rows.d - i), V::Set(rows.x_scale));
      V::Add(V::LoadN(residual + i, rows.d - i), scaled).StoreN(sum + i, rows.d - i);
    }
    ScaleByWeight<V>(sum, rows.weight, InverseRms<V>(sum, rows.d, rows.eps), rows.d,
                     rows.y + r * rows.d);
  }
}

template <class V, V (*kActivation)(V)>
inline void ActivateRows(const GluRows& rows) {
  for (long r = 0; r < rows.n_rows; ++r) {
    const float* gate = rows.gate_up + r * 2 * rows.d;
    const float* up = gate + rows.d;
    float* y = rows.y + r * rows.d;
    for (int i = 0; i < rows.d; i += V::kLanes) {
      const int n = rows.d - i;
      V::Mul(kActivation(V::LoadN(gate + i, n)), V::LoadN(up + i, n)).StoreN(y + i, n);
    }
  }
}

// min(gate, limit) * sigmoid(alpha * min(gate, limit)) * (clamp(up, limit) + 1), gpt-oss.
template <class V>
inline void ClampedSwigluRows(const GluRows& rows) {
  const V limit = V::Set(kClampedSwigluLimit);
  const V lowest = V::Set(-kClampedSwigluLimit);
  for (long r = 0; r < rows.n_rows; ++r) {
    const float* gate = rows.gate_up + r * 2 * rows.d;
    const float* up = gate + rows.d;
    float* y = rows.y + r * rows.d;
    for (int i = 0; i < rows.d; i += V::kLanes) {
      const int n = rows.d - i;
      const V g = V::Min(limit, V::LoadN(gate + i, n));
      const V u = V::Max(lowest, V::Min(limit, V::LoadN(up + i, n)));
      V::Mul(TimesSigmoid(g, V::Mul(V::Set(kClampedSwigluAlpha), g)), V::Add(u, V::Set(1.0F)))
          .StoreN(y + i, n);
    }
  }
}

template <class V>
inline void GateBySigmoid(const GateRows& rows) {
  for (int i = 0; i < rows.n; i += V::kLanes) {
    const int n = rows.n - i;
    TimesSigmoid(V::LoadN(rows.x + i, n), V::LoadN(rows.gate + i, n)).StoreN(rows.y + i, n);
  }
}

template <class V>
inline void RotateRows(const RopeRows& rows) {
  for (long r = 0; r < rows.n_rows; ++r) {
    const float* angles = rows.angles + r * rows.rotary_dim;
    for (long h = 0; h < rows.n_heads; ++h) {
      const long at = (r * rows.n_heads + h) * rows.head_dim;
      RotateHead<V>(rows.x + at, angles, rows.rotary_dim, rows.y + at);
      for (long i = rows.rotary_dim; i < rows.head_dim; ++i) {
        rows.y[at + i] = rows.x[at + i];
      }
    }
  }
}

template <class V>
inline constexpr RowKernels kRowKernels{.rms_norm = &RmsNormRows<V>,
                                        .add_rms_norm = &AddRmsNormRows<V>,
                                        .silu_glu = &ActivateRows<V, &Silu<V>>,
                                        .gelu_tanh_glu = &ActivateRows<V, &GeluTanh<V>>,
                                        .clamped_swiglu = &ClampedSwigluRows<V>,
                                        .sigmoid_gate = &GateBySigmoid<V>,
                                        .rope = &RotateRows<V>};

}  // namespace ops
