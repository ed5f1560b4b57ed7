#pragma once

#include <mlx/array.h>

#include <limits>

#include "ops/context.h"
#include "ops/kv_store/kv_store.h"
#include "ops/step_batch.h"

namespace ops {

struct Mamba2Spec {
  int layer = 0;  // model layer number: finds its place in the KvStore
  int n_heads = 0;
  int n_groups = 0;  // divides n_heads; head h takes B and C of group h / (n_heads / n_groups)
  int head_dim = 0;  // native: a multiple of 16
  int d_state = 0;   // native: at most kMaxKeyDim (gated_delta.h)
  int n_norms = 1;   // the gated norm is over each of so many equal parts of a row
  float norm_eps = 1e-5F;
  float min_step = 0.0F;  // bounds of dt
  float max_step = std::numeric_limits<float>::infinity();

  [[nodiscard]] int inner_size() const { return n_heads * head_dim; }
  [[nodiscard]] int group_size() const { return n_groups * d_state; }  // of B, and of C
  // What a layer keeps: [n_heads][d_state][head_dim].
  [[nodiscard]] int state_floats() const { return n_heads * d_state * head_dim; }
  // Columns that go through the convolution: x | B | C.
  [[nodiscard]] int conv_channels() const { return inner_size() + 2 * group_size(); }
  // Columns of the layer's projections: z | x | B | C | dt.
  [[nodiscard]] int projected_size() const { return inner_size() + conv_channels() + n_heads; }
};

// Vectors of one layer, float32.
struct Mamba2Weights {
  mlx::core::array decay_rate;  // [n_heads], exp(A_log)
  mlx::core::array dt_bias;     // [n_heads]
  mlx::core::array skip;        // [n_heads], D
  mlx::core::array norm;        // [inner_size]
};

// The state space layer of Mamba-2 (Dao & Gu 2024). Per head, with B and C of its group:
//   dt = clip(softplus(dt + dt_bias), min_step, max_step)
//   S = exp(-exp(A_log) dt) S + B (dt x)^T;  o = C^T S + D x
//   y = rms_norm(o * silu(z)) * norm, over each of n_norms parts of the row
// xbc: [T, conv_channels], the convolved x | B | C; projected: [T, projected_size], of which z and
// dt are read. Returns [T, inner_size].
//
// The state before the step comes from the sequences' blocks, and the states at the end of each run
// of rows are written there, as a side effect of evaluation (see Attention). Tokens are taken one
// by one, each sum over d_state in one order: nothing depends on how a prompt is cut into steps.
[[nodiscard]] mlx::core::array Mamba2(const Context& context, const Mamba2Spec& spec,
                                      const mlx::core::array& xbc,
                                      const mlx::core::array& projected,
                                      const Mamba2Weights& weights, const StepBatch& batch,
                                      KvStore& store);

}  // namespace ops
