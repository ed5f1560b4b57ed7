#pragma once

#include "ops/cpu_features.h"

namespace ops {

// Inputs of the norm kernels, rows of `d` floats one after the other.
struct NormRows {
  const float* x = nullptr;
  const float* residual = nullptr;  // AddRmsNorm only, as sum and x_scale
  const float* weight = nullptr;    // [d]
  float* sum = nullptr;             // residual + x_scale * x
  float* y = nullptr;
  int n_rows = 0;
  int d = 0;
  float eps = 0.0F;
  float x_scale = 1.0F;
};

// gpt-oss's constants (transformers, models/gpt_oss: alpha, and swiglu_limit of every config).
inline constexpr float kClampedSwigluAlpha = 1.702F;
inline constexpr float kClampedSwigluLimit = 7.0F;

struct GluRows {
  const float* gate_up = nullptr;  // [n_rows, 2 d]
  float* y = nullptr;              // [n_rows, d]
  int n_rows = 0;
  int d = 0;
};

struct GateRows {
  const float* x = nullptr;  // [n], as the others
  const float* gate = nullptr;
  float* y = nullptr;
  int n = 0;
};

struct RopeRows {
  const float* x = nullptr;       // [n_rows, n_heads, head_dim]
  const float* angles = nullptr;  // [n_rows, rotary_dim]
  float* y = nullptr;             // as x
  int n_rows = 0;
  int n_heads = 0;
  int head_dim = 0;
  int rotary_dim = 0;
};

// The row-wise kernels of one instruction set. A row's result depends on that row only, and is
// bit-equal in all sets.
struct RowKernels {
  void (*rms_norm)(const NormRows& rows);
  void (*add_rms_norm)(const NormRows& rows);
  void (*silu_glu)(const GluRows& rows);
  void (*gelu_tanh_glu)(const GluRows& rows);
  void (*clamped_swiglu)(const GluRows& rows);
  void (*sigmoid_gate)(const GateRows& rows);
  void (*rope)(const RopeRows& rows);
};

extern const RowKernels kPlainRowKernels;
extern const RowKernels kAvx2RowKernels;    // x86-64 only
extern const RowKernels kAvx512RowKernels;  // x86-64 only
extern const RowKernels kNeonRowKernels;    // 64-bit ARM only

// Those of `set`, or the plain ones where it has none of its own.
[[nodiscard]] const RowKernels& RowKernelsFor(InstructionSet set);

}  // namespace ops
