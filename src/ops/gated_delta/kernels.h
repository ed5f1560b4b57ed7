#pragma once

#include <cstddef>

#include "ops/cpu_features.h"

namespace ops {

// One head of one row on its way into the recurrence: y = x / sqrt(sum x^2 + eps) * scale.
struct UnitVector {
  const float* x = nullptr;
  float* y = nullptr;
  int dim = 0;
  float scale = 1.0F;
};

inline constexpr int kDeltaLanes = 16;
// Columns of a state that go through the rows together: with a k_dim of 128 they fill half of a
// first-level cache.
inline constexpr int kDeltaColumns = 32;

// Some columns of the state of one head, and the rows that they go through.
struct DeltaRun {
  float* state = nullptr;    // [k_dim][kDeltaColumns]
  int n_columns = 0;         // kDeltaLanes or kDeltaColumns
  const float* q = nullptr;  // [n_rows] rows of k_dim, qk_stride floats apart; k as well
  const float* k = nullptr;
  std::ptrdiff_t qk_stride = 0;
  const float* v = nullptr;  // [n_rows] rows of n_columns, v_stride floats apart
  std::ptrdiff_t v_stride = 0;
  const float* decay = nullptr;  // [n_rows] numbers, gate_stride floats apart; beta as well
  const float* beta = nullptr;
  std::ptrdiff_t gate_stride = 0;
  float* out = nullptr;  // [n_rows] rows of n_columns, out_stride floats apart
  std::ptrdiff_t out_stride = 0;
  int n_rows = 0;
  int k_dim = 0;
  // False: v goes in as it is, without what the state already gives for k, and `skip` v is added to
  // what comes out (Mamba-2).
  bool corrects = true;
  float skip = 0.0F;
};

// A part of one row on its way out, normalised and gated by silu(z).
struct GatedNorm {
  float* y = nullptr;
  const float* z = nullptr;
  const float* weight = nullptr;
  int dim = 0;
  float eps = 0.0F;
};

// Bit-equal in all sets.
struct DeltaKernels {
  void (*normalise)(const UnitVector& vector);
  void (*run)(const DeltaRun& run);
  void (*gated_norm)(const GatedNorm& norm);  // y = rms_norm(y) * weight * silu(z)
  void (*norm_gated)(const GatedNorm& norm);  // y = rms_norm(y * silu(z)) * weight
};

extern const DeltaKernels kPlainDeltaKernels;
extern const DeltaKernels kAvx2DeltaKernels;    // x86-64 only
extern const DeltaKernels kAvx512DeltaKernels;  // x86-64 only
extern const DeltaKernels kNeonDeltaKernels;    // 64-bit ARM only

// Those of `set`, or the plain ones where it has none of its own.
[[nodiscard]] const DeltaKernels& DeltaKernelsFor(InstructionSet set);

}  // namespace ops
