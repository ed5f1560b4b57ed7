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

// Sums over k_dim go into this many partial sums, by the index modulo it: a row of the state takes
// longer than half of a fused multiply-add.
inline constexpr int kPartialSums = 2;

// k^T S and q^T S over kWidth vectors of columns, being summed.
template <class V, int kWidth>
struct DeltaSums {
  V part[kPartialSums][kWidth];

  DeltaSums() {
    for (auto& sums : part) {
      for (V& sum : sums) {
        sum = V::Zero();
      }
    }
  }
  [[nodiscard]] V Total(int column) const { return V::Add(part[0][column], part[1][column]); }
};

// k^T S of the state before the first row.
template <class V, int kWidth>
inline void Recall(const DeltaRun& run, int first_column, DeltaSums<V, kWidth>& known) {
  for (int i = 0; i < run.k_dim; ++i) {
    const V k = V::Set(run.k[i]);
    for (int w = 0; w < kWidth; ++w) {
      V& sum = known.part[i % kPartialSums][w];
      sum = V::Fma(k, V::Load(run.state + i * kDeltaColumns + first_column + w * V::kLanes), sum);
    }
  }
}

// One row of the state moved on: S = decay S + k change. Adds to q^T S and, where the next change
// needs it, to the next token's k^T S, so that the state is read once a token.
template <class V, int kWidth, bool kCorrects>
struct DeltaStep {
  V decay;
  V change[kWidth];
  const float* k = nullptr;
  const float* q = nullptr;
  const float* next_k = nullptr;

  void Row(int i, float* state, V (&out)[kWidth], V (&known)[kWidth]) const {
    const V k_i = V::Set(k[i]);
    const V q_i = V::Set(q[i]);
    const V next_i = V::Set(next_k[i]);
    for (int w = 0; w < kWidth; ++w) {
      const V s = V::Fma(k_i, change[w], V::Mul(decay, V::Load(state + w * V::kLanes)));
      s.Store(state + w * V::kLanes);
      out[w] = V::Fma(q_i, s, out[w]);
      if constexpr (kCorrects) {
        known[w] = V::Fma(next_i, s, known[w]);
      }
    }
  }
};

template <class V, int kWidth, bool kCorrects>
inline void RunColumns(const DeltaRun& run, int first_column) {
  DeltaSums<V, kWidth> known;
  if constexpr (kCorrects) {
    Recall<V, kWidth>(run, first_column, known);
  }
  for (int r = 0; r < run.n_rows; ++r) {
    DeltaStep<V, kWidth, kCorrects> step;
    step.decay = V::Set(run.decay[r * run.gate_stride]);
    step.k = run.k + r * run.qk_stride;
    step.q = run.q + r * run.qk_stride;
    step.next_k = r + 1 < run.n_rows ? step.k + run.qk_stride : step.k;  // the last is not used
    const V beta = V::Set(run.beta[r * run.gate_stride]);
    for (int w = 0; w < kWidth; ++w) {
      const V v = V::Load(run.v + r * run.v_stride + first_column + w * V::kLanes);
      step.change[w] = V::Mul(beta, kCorrects ? V::Sub(v, V::Mul(step.decay, known.Total(w))) : v);
    }
    known = DeltaSums<V, kWidth>();
    DeltaSums<V, kWidth> out;
    float* const state = run.state + first_column;
    int i = 0;
    for (; i + kPartialSums <= run.k_dim; i += kPartialSums) {
      for (int j = 0; j < kPartialSums; ++j) {
        step.Row(i + j, state + (i + j) * kDeltaColumns, out.part[j], known.part[j]);
      }
    }
    for (int j = 0; i < run.k_dim; ++i, ++j) {
      step.Row(i, state + i * kDeltaColumns, out.part[j], known.part[j]);
    }
    for (int w = 0; w < kWidth; ++w) {
      const std::ptrdiff_t column = first_column + w * V::kLanes;
      V sum = out.Total(w);
      if constexpr (!kCorrects) {
        sum = V::Fma(V::Set(run.skip), V::Load(run.v + r * run.v_stride + column), sum);
      }
      sum.Store(run.out + r * run.out_stride + column);
    }
  }
}

template <class V, bool kCorrects>
inline void RunAllColumns(const DeltaRun& run) {
  static_assert(V::kLanes == kDeltaLanes && kDeltaColumns == 2 * kDeltaLanes);
  // Two vectors share the numbers of q and k where the registers hold their sums.
  constexpr int kSumsOfTwo = 2 * 2 * kPartialSums;
  if constexpr (V::kAccumulators > kSumsOfTwo) {
    if (run.n_columns == kDeltaColumns) {
      RunColumns<V, 2, kCorrects>(run, 0);
      return;
    }
  }
  for (int column = 0; column < run.n_columns; column += V::kLanes) {
    RunColumns<V, 1, kCorrects>(run, column);
  }
}

template <class V>
inline void RunDelta(const DeltaRun& run) {
  if (run.corrects) {
    RunAllColumns<V, true>(run);
  } else {
    RunAllColumns<V, false>(run);
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
inline void GateAndNorm(const GatedNorm& norm) {
  for (int i = 0; i < norm.dim; i += V::kLanes) {
    const int n = norm.dim - i;
    V::Mul(V::LoadN(norm.y + i, n), Silu(V::LoadN(norm.z + i, n))).StoreN(norm.y + i, n);
  }
  const float mean = SumOfSquares<V>(norm.y, norm.dim) / static_cast<float>(norm.dim);
  const V factor = V::Set(1.0F / std::sqrt(mean + norm.eps));
  for (int i = 0; i < norm.dim; i += V::kLanes) {
    const int n = norm.dim - i;
    V::Mul(V::Mul(V::LoadN(norm.y + i, n), factor), V::LoadN(norm.weight + i, n))
        .StoreN(norm.y + i, n);
  }
}

template <class V>
inline constexpr DeltaKernels kDeltaKernels{.normalise = &NormaliseVector<V>,
                                            .run = &RunDelta<V>,
                                            .gated_norm = &NormAndGate<V>,
                                            .norm_gated = &GateAndNorm<V>};

}  // namespace ops
