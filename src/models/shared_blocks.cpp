#include "models/shared_blocks.h"

#include <mlx/ops.h>

#include <utility>

#include "ops/rms_norm/rms_norm.h"

namespace models {

namespace mx = mlx::core;

namespace {

// q | k | v with norms over the whole q and the whole k. qkv: [T, (n_heads + 2 n_kv_heads)
// head_dim].
mx::array NormalisedWhole(const ops::Context& context, const AttentionBlock& block,
                          const mx::array& qkv) {
  const int n_rows = qkv.shape(0);
  const int n_q = block.q_norm->shape(0);
  const int n_k = block.k_norm->shape(0);
  const mx::array q = mx::slice(qkv, {0, 0}, {n_rows, n_q});
  const mx::array k = mx::slice(qkv, {0, n_q}, {n_rows, n_q + n_k});
  const mx::array v = mx::slice(qkv, {0, n_q + n_k}, {n_rows, qkv.shape(1)});
  const float eps = block.spec.norm_eps;
  return mx::concatenate({ops::RmsNorm(context, q, *block.q_norm, eps),
                          ops::RmsNorm(context, k, *block.k_norm, eps), v},
                         1);
}

}  // namespace

mx::array AttentionBlock::Attend(const ops::Context& context, const mx::array& x,
                                 const mx::array& angles, const ops::StepBatch& batch,
                                 ops::KvStore& store) const {
  const bool whole = q_norm && q_norm->shape(0) != spec.head_dim;
  const std::optional<mx::array> none;
  const mx::array attended =
      ops::Attention(context, spec, whole ? NormalisedWhole(context, *this, (*qkv)(x)) : (*qkv)(x),
                     angles, whole ? none : q_norm, whole ? none : k_norm, batch, store, sinks);
  return gate ? ops::SigmoidGate(context, attended, (*gate)(x)) : attended;
}

Result<AttentionBlock> LoadAttention(WeightLoader& weights, const std::string& prefix,
                                     const AttentionOptions& options) {
  const ops::AttentionSpec& spec = options.spec;
  const int n_q = spec.n_heads * spec.head_dim;
  const int n_kv = spec.n_kv_heads * spec.head_dim;
  AttentionBlock block;
  block.spec = spec;
  WeightLoader::Part q{.name = prefix + "q_proj", .n_out = n_q};
  if (options.output_gate) {
    WeightLoader::Part gate = q;
    gate.n_stored = q.n_stored = 2 * n_q;
    const int d = spec.head_dim;
    q.source_row = [d](int row) { return row / d * 2 * d + row % d; };
    gate.source_row = [d](int row) { return row / d * 2 * d + d + row % d; };
    Result<std::unique_ptr<ops::Linear>> gates = weights.Linear({gate}, options.hidden_size);
    if (!gates) {
      return Fail(gates.error());
    }
    block.gate = std::move(*gates);
  }
  Result<std::unique_ptr<ops::Linear>> qkv = weights.Linear(
      {q, {.name = prefix + "k_proj", .n_out = n_kv}, {.name = prefix + "v_proj", .n_out = n_kv}},
      options.hidden_size);
  if (!qkv) {
    return Fail(qkv.error());
  }
  block.qkv = std::move(*qkv);
  Result<std::unique_ptr<ops::Linear>> output =
      weights.Linear({{.name = prefix + options.output_name, .n_out = options.hidden_size}}, n_q);
  if (!output) {
    return Fail(output.error());
  }
  block.output = std::move(*output);
  if (!options.head_norms && !options.whole_norms) {
    return block;
  }
  const int q_heads = options.whole_norms ? spec.n_heads : 1;
  const int k_heads = options.whole_norms ? spec.n_kv_heads : 1;
  const WeightLoader::NormOptions norm_options{.zero_centred = options.zero_centred_norms};
  const Result<mx::array> q_norm =
      weights.Norm(prefix + options.q_norm_name, q_heads * spec.head_dim, norm_options);
  if (!q_norm) {
    return Fail(q_norm.error());
  }
  const Result<mx::array> k_norm =
      weights.Norm(prefix + options.k_norm_name, k_heads * spec.head_dim, norm_options);
  if (!k_norm) {
    return Fail(k_norm.error());
  }
  block.q_norm = *q_norm;
  block.k_norm = *k_norm;
  return block;
}

mx::array GatedMlp::Apply(const ops::Context& context, const mx::array& x) const {
  return (*down)(ops::GatedLinearUnit(context, (*gate_up)(x), activation));
}

Result<GatedMlp> LoadGatedMlp(WeightLoader& weights, const std::string& prefix,
                              const GatedMlpOptions& options) {
  Result<std::unique_ptr<ops::Linear>> gate_up =
      weights.Linear({{.name = prefix + options.gate_name, .n_out = options.intermediate_size},
                      {.name = prefix + options.up_name, .n_out = options.intermediate_size}},
                     options.hidden_size);
  if (!gate_up) {
    return Fail(gate_up.error());
  }
  Result<std::unique_ptr<ops::Linear>> down =
      weights.Linear({{.name = prefix + options.down_name, .n_out = options.hidden_size}},
                     options.intermediate_size);
  if (!down) {
    return Fail(down.error());
  }
  return GatedMlp{
      .gate_up = std::move(*gate_up), .down = std::move(*down), .activation = options.activation};
}

mx::array Embedding::Embed(const ops::StepBatch& batch) const {
  const mx::array ids(batch.tokens.begin(), {static_cast<int>(batch.tokens.size())}, mx::int32);
  return tokens->Rows(ids);
}

mx::array Embedding::Logits(const mx::array& x) const { return head ? (*head)(x) : (*tokens)(x); }

Result<Embedding> LoadEmbedding(WeightLoader& weights, const std::string& prefix,
                                const std::string& head_name, const EmbeddingOptions& options) {
  Result<std::unique_ptr<ops::Linear>> tokens = weights.Linear(
      {{.name = prefix + "embed_tokens", .n_out = options.vocab_size}}, options.hidden_size);
  if (!tokens) {
    return Fail(tokens.error());
  }
  Embedding embedding{.tokens = std::move(*tokens), .head = nullptr};
  if (options.tied) {
    return embedding;
  }
  Result<std::unique_ptr<ops::Linear>> head =
      weights.Linear({{.name = head_name, .n_out = options.vocab_size}}, options.hidden_size);
  if (!head) {
    return Fail(head.error());
  }
  embedding.head = std::move(*head);
  return embedding;
}

mx::array SelectLogitRows(const mx::array& x, const ops::StepBatch& batch) {
  const auto n_rows = static_cast<int>(batch.logit_rows.size());
  if (n_rows == x.shape(0)) {
    return x;
  }
  return mx::take(x, mx::array(batch.logit_rows.begin(), {n_rows}, mx::int32), 0);
}

}  // namespace models
