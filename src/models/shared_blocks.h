#pragma once

#include <mlx/array.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/weight_loader.h"
#include "ops/attention/attention.h"
#include "ops/context.h"
#include "ops/glu/glu.h"
#include "ops/kv_store/kv_store.h"
#include "ops/linear/linear.h"
#include "ops/step_batch.h"

namespace models {

// Self-attention up to and without its output projection: y = attend(qkv(x)), times
// sigmoid(gate(x)) where there is a gate; one matrix for q, k and v.
struct AttentionBlock {
  ops::AttentionSpec spec;
  std::unique_ptr<ops::Linear> qkv;        // [(n_heads + 2 n_kv_heads) head_dim, hidden]
  std::unique_ptr<ops::Linear> output;     // [hidden, n_heads head_dim]
  std::optional<mlx::core::array> q_norm;  // [head_dim], or [n_heads head_dim] over all heads
  std::optional<mlx::core::array> k_norm;  // [head_dim], or [n_kv_heads head_dim]
  std::unique_ptr<ops::Linear> gate;       // [n_heads head_dim, hidden], or nothing
  std::optional<mlx::core::array> sinks;   // [n_heads]

  // x: [T, hidden], angles: [T, rotary_dim]. Returns [T, n_heads head_dim]. `q_factors` [T, 1]
  // multiplies the q of each row.
  [[nodiscard]] mlx::core::array Attend(
      const ops::Context& context, const mlx::core::array& x, const mlx::core::array& angles,
      const ops::StepBatch& batch, ops::KvStore& store,
      const std::optional<mlx::core::array>& q_factors = std::nullopt) const;
};

// What q_norm and k_norm normalise.
enum class QkNorms { kNone, kPerHead, kAllHeads };

struct AttentionOptions {
  ops::AttentionSpec spec = {};
  int hidden_size = 0;
  QkNorms norms = QkNorms::kNone;
  bool zero_centred_norms = false;  // of these
  // Biases of q, k and v must be there. (Biases that are there are always added.)
  bool qkv_biases = false;
  // What some families call the other matrices.
  std::string output_name = "o_proj";
  std::string q_norm_name = "q_norm";
  std::string k_norm_name = "k_norm";
  std::string fused_qkv_name = "";  // one tensor with the rows of q, k and v
  bool output_gate = false;         // q_proj holds for each head its q, then the gate of its output
  // So many dimensions of each head of q and k are stored as the pairs (2 i, 2 i + 1) that RoPE
  // turns together; they are put apart at load.
  int interleaved_dim = 0;
};

// Reads <prefix>q_proj, k_proj, v_proj and the others by their names.
[[nodiscard]] Result<AttentionBlock> LoadAttention(WeightLoader& weights, const std::string& prefix,
                                                   const AttentionOptions& options);

// Gated feed-forward: down(act(gate(x)) * up(x)), one matrix for gate and up.
struct GatedMlp {
  std::unique_ptr<ops::Linear> gate_up;  // [2 intermediate, hidden]
  std::unique_ptr<ops::Linear> down;     // [hidden, intermediate]
  ops::Activation activation = ops::Activation::kSilu;

  // x: [T, hidden]. Returns [T, hidden].
  [[nodiscard]] mlx::core::array Apply(const ops::Context& context,
                                       const mlx::core::array& x) const;
};

struct GatedMlpOptions {
  int hidden_size = 0;
  int intermediate_size = 0;
  ops::Activation activation = ops::Activation::kSilu;
  std::string gate_name = "gate_proj";
  std::string up_name = "up_proj";
  std::string down_name = "down_proj";
  std::string fused_name = "";  // one tensor with the rows of gate and up
};

// Reads <prefix>gate_proj, up_proj, down_proj, or what the options call them.
[[nodiscard]] Result<GatedMlp> LoadGatedMlp(WeightLoader& weights, const std::string& prefix,
                                            const GatedMlpOptions& options);

// Token embedding and output matrix, one and the same where tied.
struct Embedding {
  std::unique_ptr<ops::Linear> tokens;  // [vocab, hidden]
  std::unique_ptr<ops::Linear> head;    // [vocab, hidden], or nothing when tied

  // Embedded tokens of the step, [T, hidden].
  [[nodiscard]] mlx::core::array Embed(const ops::StepBatch& batch) const;
  // x: [N, hidden]. Returns [N, vocab].
  [[nodiscard]] mlx::core::array Logits(const mlx::core::array& x) const;
};

struct EmbeddingOptions {
  int vocab_size = 0;
  int hidden_size = 0;
  bool tied = false;
};

// Reads <prefix>embed_tokens, and <head_name> unless tied.
[[nodiscard]] Result<Embedding> LoadEmbedding(WeightLoader& weights, const std::string& prefix,
                                              const std::string& head_name,
                                              const EmbeddingOptions& options);

// The rows of x [T, d] whose logits are wanted, [N, d]; x itself when these are all.
[[nodiscard]] mlx::core::array SelectLogitRows(const mlx::core::array& x,
                                               const ops::StepBatch& batch);

}  // namespace models
