#pragma once

#include <mlx/array.h>

#include "ops/context.h"
#include "ops/kv_store/kv_store.h"
#include "ops/step_batch.h"

namespace ops {

inline constexpr int kMaxKeyDim = 256;  // of a native state's column tile

struct GatedDeltaSpec {
  int layer = 0;  // model layer number: finds its place in the KvStore
  int n_k_heads = 0;
  int n_v_heads = 0;       // a multiple of n_k_heads; v head h goes with k head h / (n_v / n_k)
  int k_dim = 0;           // native: at most kMaxKeyDim
  int v_dim = 0;           // native: a multiple of 16
  float norm_eps = 1e-6F;  // of the gated norm

  [[nodiscard]] int key_size() const { return n_k_heads * k_dim; }
  [[nodiscard]] int value_size() const { return n_v_heads * v_dim; }
  // What a layer keeps: [n_v_heads][k_dim][v_dim].
  [[nodiscard]] int state_floats() const { return n_v_heads * k_dim * v_dim; }
  // Columns of the layer's projections: q | k | v | z | b | a.
  [[nodiscard]] int projected_size() const {
    return 2 * key_size() + 2 * value_size() + 2 * n_v_heads;
  }
};

// Vectors of one layer, float32.
struct GatedDeltaWeights {
  mlx::core::array decay_rate;  // [n_v_heads], exp(A_log)
  mlx::core::array dt_bias;     // [n_v_heads]
  mlx::core::array norm;        // [v_dim]
};

// The gated delta rule (Yang et al. 2024, "Gated Delta Networks"), as Qwen3-Next uses it. Per head,
// with q and k normalised to length 1 (eps 1e-6) and q divided by sqrt(k_dim):
//   g = exp(-exp(A_log) softplus(a + dt_bias)),  beta = sigmoid(b)
//   S = g S;  S = S + k (beta (v - k^T S))^T;  o = q^T S
//   y = rms_norm(o) * norm * silu(z)
// qkv: [T, 2 key_size + value_size], the convolved q | k | v; projected: [T, projected_size], of
// which z, b and a are read. Returns [T, value_size].
//
// The state before the step comes from the sequences' blocks, and the states at the end of each run
// of rows are written there, as a side effect of evaluation (see Attention). Tokens are taken one
// by one, each sum over k_dim in one order: nothing depends on how a prompt is cut into steps.
[[nodiscard]] mlx::core::array GatedDelta(const Context& context, const GatedDeltaSpec& spec,
                                          const mlx::core::array& qkv,
                                          const mlx::core::array& projected,
                                          const GatedDeltaWeights& weights, const StepBatch& batch,
                                          KvStore& store);

}  // namespace ops
