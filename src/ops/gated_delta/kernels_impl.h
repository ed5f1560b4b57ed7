#pragma once

// Bodies of the gated delta kernels, over one of the Vec16 classes. Included by plain.cpp, avx2.cpp
// and avx512.cpp only.

#include <cmath>

#include "ops/gated_delta/kernels.h"
#include "ops/vector/vector_math.h"

namespace ops {

inline constexpr float kUnitEps = 1e-6F;

template <class V>
inline void NormaliseVector(const UnitVector& vector) {
  const V factor =
      V::Set(1.0F / std::sqrt(SumOfSquares<V>(vector.x, vector.dim) + kUnitEps) * vector.scale);
  for (int i = 0; i < vector.dim; i += V::kLanes) {
    const int n = vector.dim - i;
    V::Mul(V::LoadN(vector.x + i, n), factor).StoreN(vector.y + i, n);
  }
}

// Sums over k_dim go into this many partial sums, by the index modulo it: a fused multiply-add
// takes four cycles.
inline constexpr int kPartialSums = 4;

template <class V>
inline V AddUp(const V (&sums)[kPartialSums]) {
  return V::Add(V::Add(sums[0], sums[1]), V::Add(sums[2], sums[3]));
}

// k^T S over the columns of the tile.
template <class V>
inline V Recall(const float* state, const float* k, int k_dim) {
  V sums[kPartialSums] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
  int i = 0;
  for (; i + kPartialSums <= k_dim; i += kPartialSums) {
    for (int j = 0; j < kPartialSums; ++j) {
      sums[j] = V::Fma(V::Set(k[i + j]), V::Load(state + (i + j) * V::kLanes), sums[j]);
    }
  }
  for (int j = 0; i < k_dim; ++i, ++j) {
    sums[j] = V::Fma(V::Set(k[i]), V::Load(state + i * V::kLanes), sums[j]);
  }
  return AddUp(sums);
}

// S = decay S + k change^T. Returns q^T S.
template <class V>
inline V Update(float* state, const float* q, const float* k, V decay, V change, int k_dim) {
  V sums[kPartialSums] = {V::Zero(), V::Zero(), V::Zero(), V::Zero()};
  const auto row = [&](int i, V sum) {
    const V s = V::Fma(V::Set(k[i]), change, V::Mul(decay, V::Load(state + i * V::kLanes)));
    s.Store(state + i * V::kLanes);
    return V::Fma(V::Set(q[i]), s, sum);
  };
  int i = 0;
  for (; i + kPartialSums <= k_dim; i += kPartialSums) {
    for (int j = 0; j < kPartialSums; ++j) {
      sums[j] = row(i + j, sums[j]);
    }
  }
  for (int j = 0; i < k_dim; ++i, ++j) {
    sums[j] = row(i, sums[j]);
  }
  return AddUp(sums);
}

template <class V>
inline void RunDelta(const DeltaRun& run) {
  static_assert(V::kLanes == kDeltaLanes);
  for (int r = 0; r < run.n_rows; ++r) {
    const float* const q = run.q + r * run.qk_stride;
    const float* const k = run.k + r * run.qk_stride;
    const V decay = V::Set(run.decay[r * run.gate_stride]);
    const V beta = V::Set(run.beta[r * run.gate_stride]);
    const V known = V::Mul(decay, Recall<V>(run.state, k, run.k_dim));
    const V change = V::Mul(beta, V::Sub(V::Load(run.v + r * run.v_stride), known));
    Update<V>(run.state, q, k, decay, change, run.k_dim).Store(run.out + r * run.out_stride);
  }
}

template <class V>
inline void NormAndGate(const GatedNorm& norm) {
  const float mean = SumOfSquares<V>(norm.y, norm.dim) / static_cast<float>(norm.dim);
  const V factor = V::Set(1.0F / std::sqrt(mean + norm.eps));
  for (int i = 0; i < norm.dim; i += V::kLanes) {
    const int n = norm.dim - i;
    const V y = V::Mul(V::Mul(V::LoadN(norm.y + i, n), factor), V::LoadN(norm.weight + i, n));
    V::Mul(y, Silu(V::LoadN(norm.z + i, n))).StoreN(norm.y + i, n);
  }
}

template <class V>
inline constexpr DeltaKernels kDeltaKernels{
    .normalise = &NormaliseVector<V>, .run = &RunDelta<V>, .gated_norm = &NormAndGate<V>};

}  // namespace ops
