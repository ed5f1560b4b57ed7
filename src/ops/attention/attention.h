#pragma once

#include <mlx/array.h>

#include <optional>

#include "ops/context.h"
#include "ops/kv_store/kv_store.h"
#include "ops/step_batch.h"

namespace ops {

// What one attention layer does to its projections before and while attending.
struct AttentionSpec {
  int layer = 0;  // model layer number: finds its place in the KvStore
  int n_heads = 0;
  int n_kv_heads = 0;
  int head_dim = 0;        // native: a multiple of 16
  float scale = 1.0F;      // of q.k, usually 1 / sqrt(head_dim)
  int window = 0;          // 0 = full; else a token sees itself and window - 1 before it
  float norm_eps = 1e-6F;  // of q_norm and k_norm
};

// q and k are normalised per head (where weights are given), turned by RoPE, k and v are stored (in
// the store's dtype) in the sequences' blocks, and each row attends over the stored values of its
// own sequence, its own position included.
//
// qkv: [T, (n_heads + 2 n_kv_heads) * head_dim] float32, q then k then v.
// angles: [T, rotary_dim] of RopeAngles. q_norm, k_norm: [head_dim] float32 or nothing. sinks:
// [n_heads] float32 or nothing: a score that each row of the head sees beside its positions and
// that has no value, so that its weights may sum to less than 1 (gpt-oss).
// Returns [T, n_heads * head_dim] float32.
//
// Writing K and V is a side effect of evaluation: evaluate each step's result before the next step
// is built. Exactness: a row's result is a function of its position and of the stored values alone.
// Scores are summed over head_dim in order; softmax runs online over the 64-token blocks in
// ascending order inside chunks of kChunkTokens positions (multiples of it), and the chunks are
// combined in ascending order, a sink last; masked positions are skipped by block and masked inside
// one. Neither T, nor the chunking of prefill, nor the thread count changes that order.
[[nodiscard]] mlx::core::array Attention(const Context& context, const AttentionSpec& spec,
                                         const mlx::core::array& qkv,
                                         const mlx::core::array& angles,
                                         const std::optional<mlx::core::array>& q_norm,
                                         const std::optional<mlx::core::array>& k_norm,
                                         const StepBatch& batch, KvStore& store,
                                         const std::optional<mlx::core::array>& sinks = {});

// Positions that one partial softmax covers; a long context is split at its multiples among
// threads.
inline constexpr int kChunkTokens = 512;

}  // namespace ops
