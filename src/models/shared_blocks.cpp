#include "models/shared_blocks.h"

#include <mlx/ops.h>

#include <functional>
#include <utility>

#include "ops/rms_norm/rms_norm.h"

namespace models {

namespace mx = mlx::core;

namespace {

using Part = WeightLoader::Part;

// Rows of q (or k) whose first `rotary_dim` dimensions of each head lie as pairs (2 i, 2 i + 1), in
// the order (i, i + rotary_dim / 2) of ops::Rope.
std::function<int(int)> ApartRows(int head_dim, int rotary_dim) {
  return [head_dim, rotary_dim](int row) {
    const int in_head = row % head_dim;
    const int half = rotary_dim / 2;
    const int stored = in_head >= rotary_dim ? in_head
                       : in_head < half      ? 2 * in_head
                                             : 2 * (in_head - half) + 1;
    return row - in_head + stored;
  };
}

// The parts of the matrix for q, k and v; that of the gate, where there is one, apart.
std::vector<Part> QkvParts(const std::string& prefix, const AttentionOptions& options) {
  const ops::AttentionSpec& spec = options.spec;
  const int n_q = spec.n_heads * spec.head_dim;
  const int n_kv = spec.n_kv_heads * spec.head_dim;
  if (!options.fused_qkv_name.empty()) {
    return {{.name = prefix + options.fused_qkv_name,
             .n_out = n_q + 2 * n_kv,
             .biased = options.qkv_biases}};
  }
  Part q{.name = prefix + "q_proj", .n_out = n_q, .biased = options.qkv_biases};
  Part k{.name = prefix + "k_proj", .n_out = n_kv, .biased = options.qkv_biases};
  Part v{.name = prefix + "v_proj", .n_out = n_kv, .biased = options.qkv_biases};
  if (options.output_gate) {
    q.n_stored = 2 * n_q;
    q.source_row = [d = spec.head_dim](int row) { return row / d * 2 * d + row % d; };
  }
  if (options.interleaved_dim > 0) {
    q.source_row = k.source_row = ApartRows(spec.head_dim, options.interleaved_dim);
  }
  return {q, k, v};
}

Result<std::unique_ptr<ops::Linear>> LoadGate(WeightLoader& weights, const std::string& prefix,
                                              const AttentionOptions& options) {
  const int d = options.spec.head_dim;
  const int n_q = options.spec.n_heads * d;
  return weights.Linear({{.name = prefix + "q_proj",
                          .n_out = n_q,
                          .n_stored = 2 * n_q,
                          .source_row = [d](int row) { return row / d * 2 * d + d + row % d; }}},
                        options.hidden_size);
}

Result<void> LoadQkNorms(WeightLoader& weights, const std::string& prefix,
                         const AttentionOptions& options, AttentionBlock& block) {
  if (options.norms == QkNorms::kNone) {
    return {};
  }
  const bool per_head = options.norms == QkNorms::kPerHead;
  const auto load = [&](const std::string& name, int n_heads) {
    return weights.Norm(prefix + name, (per_head ? 1 : n_heads) * options.spec.head_dim,
                        {.zero_centred = options.zero_centred_norms});
  };
  const Result<mx::array> q_norm = load(options.q_norm_name, options.spec.n_heads);
  if (!q_norm) {
    return Fail(q_norm.error());
  }
  const Result<mx::array> k_norm = load(options.k_norm_name, options.spec.n_kv_heads);
  if (!k_norm) {
    return Fail(k_norm.error());
  }
  block.q_norm = *q_norm;
  block.k_norm = *k_norm;
  return {};
}

// qkv with its first n_q columns, [T, n_q], times factors [T, 1].
mx::array ScaleQ(const mx::array& qkv, const mx::array& factors, int n_q) {
  const int n_rows = qkv.shape(0);
  return mx::concatenate({mx::multiply(mx::slice(qkv, {0, 0}, {n_rows, n_q}), factors),
                          mx::slice(qkv, {0, n_q}, {n_rows, qkv.shape(1)})},
                         1);
}

}  // namespace

mx::array AttentionBlock::Attend(const ops::Context& context, const mx::array& x,
                                 const mx::array& angles, const ops::StepBatch& batch,
                                 ops::KvStore& store,
                                 const std::optional<mx::array>& q_factors) const {
  const auto attend = [&](const mx::array& projected) {
    const bool per_head = q_norm && q_norm->shape(0) == spec.head_dim;
    if (!q_norm || per_head) {
      return ops::Attention(context, spec, projected, angles, q_norm, k_norm, batch, store, sinks);
    }
    return ops::Attention(
        context, spec, ops::RmsNormColumns(context, projected, {*q_norm, *k_norm}, spec.norm_eps),
        angles, std::nullopt, std::nullopt, batch, store, sinks);
  };
  const mx::array projected = (*qkv)(x);
  const mx::array attended =
      attend(q_factors ? ScaleQ(projected, *q_factors, spec.n_heads * spec.head_dim) : projected);
  return gate ? ops::SigmoidGate(context, attended, (*gate)(x)) : attended;
}

Result<AttentionBlock> LoadAttention(WeightLoader& weights, const std::string& prefix,
                                     const AttentionOptions& options) {
  const ops::AttentionSpec& spec = options.spec;
  AttentionBlock block;
  block.spec = spec;
  if (options.output_gate) {
    Result<std::unique_ptr<ops::Linear>> gate = LoadGate(weights, prefix, options);
    if (!gate) {
      return Fail(gate.error());
    }
    block.gate = std::move(*gate);
  }
  Result<std::unique_ptr<ops::Linear>> qkv =
      weights.Linear(QkvParts(prefix, options), options.hidden_size);
  if (!qkv) {
    return Fail(qkv.error());
  }
  block.qkv = std::move(*qkv);
  Result<std::unique_ptr<ops::Linear>> output =
      weights.Linear({{.name = prefix + options.output_name, .n_out = options.hidden_size}},
                     spec.n_heads * spec.head_dim);
  if (!output) {
    return Fail(output.error());
  }
  block.output = std::move(*output);
  if (Result<void> norms = LoadQkNorms(weights, prefix, options, block); !norms) {
    return Fail(norms.error());
  }
  return block;
}

mx::array GatedMlp::Apply(const ops::Context& context, const mx::array& x) const {
  return (*down)(ops::GatedLinearUnit(context, (*gate_up)(x), activation));
}

Result<GatedMlp> LoadGatedMlp(WeightLoader& weights, const std::string& prefix,
                              const GatedMlpOptions& options) {
  const int n = options.intermediate_size;
  const std::vector<Part> parts =
      options.fused_name.empty()
          ? std::vector<Part>{{.name = prefix + options.gate_name, .n_out = n},
                              {.name = prefix + options.up_name, .n_out = n}}
          : std::vector<Part>{{.name = prefix + options.fused_name, .n_out = 2 * n}};
  Result<std::unique_ptr<ops::Linear>> gate_up = weights.Linear(parts, options.hidden_size);
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
