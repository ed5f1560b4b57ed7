#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "models/weight_loader.h"
#include "ops/attention/attention.h"
#include "ops/context.h"
#include "ops/kv_store/kv_store.h"
#include "ops/linear/head_linear.h"
#include "ops/linear/linear.h"
#include "ops/step_batch.h"

namespace models {

// Sizes of multi-head latent attention.
struct MlaSizes {
  int n_heads = 0;
  int q_rank = 0;    // 0: q is not compressed
  int kv_rank = 0;   // of the latent that stands for all heads' k and v
  int nope_dim = 0;  // of q and k without RoPE
  int rope_dim = 0;  // with it
  int v_dim = 0;
  float scale = 1.0F;  // of the scores
  float norm_eps = 1e-6F;

  // Of the one head that is stored: the turned part, then the latent.
  [[nodiscard]] int head_dim() const { return rope_dim + kv_rank; }
};

// Multi-head latent attention (DeepSeek-V2, 2.1) up to and without its output projection, in its
// absorbed form: k of head h is W_uk[h] latent and v is W_uv[h] latent, so that q W_uk[h] attends
// over the stored latents themselves, as if they were one head's k and v. The bank holds the latent
// and the part of k that RoPE turns, once for all heads.
struct MlaBlock {
  MlaSizes sizes;
  ops::AttentionSpec spec;
  std::unique_ptr<ops::Linear> q_down;      // [q_rank, hidden], or nothing
  std::optional<mlx::core::array> q_norm;   // [q_rank], with q_down
  std::unique_ptr<ops::Linear> q_nope;      // [n_heads nope_dim, q_rank or hidden]
  std::unique_ptr<ops::Linear> q_rope;      // [n_heads rope_dim, q_rank or hidden]
  std::unique_ptr<ops::Linear> kv_down;     // [kv_rank + rope_dim, hidden]
  std::optional<mlx::core::array> kv_norm;  // [kv_rank]
  std::unique_ptr<ops::HeadLinear> k_up;    // nope_dim -> kv_rank
  std::unique_ptr<ops::HeadLinear> v_up;    // kv_rank -> v_dim
  std::unique_ptr<ops::Linear> output;      // [hidden, n_heads v_dim]

  // x: [T, hidden], angles: [T, rope_dim]. Returns [T, n_heads v_dim].
  [[nodiscard]] mlx::core::array Attend(const ops::Context& context, const mlx::core::array& x,
                                        const mlx::core::array& angles, const ops::StepBatch& batch,
                                        ops::KvStore& store) const;
};

// Reads the tensors of <prefix> ("...self_attn."), whose rows for RoPE lie as pairs (2 i, 2 i + 1).
[[nodiscard]] Result<MlaBlock> LoadMla(WeightLoader& weights, const std::string& prefix,
                                       const MlaSizes& sizes, int layer, int hidden_size);

}  // namespace models
