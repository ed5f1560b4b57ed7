#include "models/shared_mla.h"

#include <mlx/ops.h>

#include <utility>
#include <vector>

#include "ops/rms_norm/rms_norm.h"

namespace models {
namespace {

namespace mx = mlx::core;

using Part = WeightLoader::Part;

// Dimension i of `rope_dim` in the order (i, i + rope_dim / 2) of ops::Rope, out of the pairs (2 i,
// 2 i + 1).
int OfPairs(int i, int rope_dim) {
  const int half = rope_dim / 2;
  return i < half ? 2 * i : 2 * (i - half) + 1;
}

Result<void> LoadQ(WeightLoader& weights, const std::string& prefix, int hidden_size,
                   MlaBlock& block) {
  const MlaSizes& s = block.sizes;
  const bool compressed = s.q_rank > 0;
  const int n_in = compressed ? s.q_rank : hidden_size;
  if (compressed) {
    Result<std::unique_ptr<ops::Linear>> down =
        weights.Linear({{.name = prefix + "q_a_proj", .n_out = s.q_rank}}, hidden_size);
    if (!down) {
      return Fail(down.error());
    }
    const Result<mx::array> norm = weights.Norm(prefix + "q_a_layernorm", s.q_rank);
    if (!norm) {
      return Fail(norm.error());
    }
    block.q_down = std::move(*down);
    block.q_norm = *norm;
  }
  // Each head has its rows without RoPE, then those with it.
  const int d = s.nope_dim + s.rope_dim;
  Part nope{.name = prefix + (compressed ? "q_b_proj" : "q_proj"),
            .n_out = s.n_heads * s.nope_dim,
            .n_stored = s.n_heads * d};
  Part rope = nope;
  rope.n_out = s.n_heads * s.rope_dim;
  nope.source_row = [d, n = s.nope_dim](int row) { return row / n * d + row % n; };
  rope.source_row = [d, first = s.nope_dim, n = s.rope_dim](int row) {
    return row / n * d + first + OfPairs(row % n, n);
  };
  Result<std::unique_ptr<ops::Linear>> q_nope = weights.Linear({nope}, n_in);
  if (!q_nope) {
    return Fail(q_nope.error());
  }
  Result<std::unique_ptr<ops::Linear>> q_rope = weights.Linear({rope}, n_in);
  if (!q_rope) {
    return Fail(q_rope.error());
  }
  block.q_nope = std::move(*q_nope);
  block.q_rope = std::move(*q_rope);
  return {};
}

// The matrices between the latent and the heads: as published in one, or as mlx-lm takes it apart.
Result<void> LoadUps(WeightLoader& weights, const std::string& prefix, MlaBlock& block) {
  const MlaSizes& s = block.sizes;
  const bool apart = weights.Has(prefix + "embed_q");
  std::vector<Part> k_parts;
  std::vector<Part> v_parts;
  for (int h = 0; h < s.n_heads; ++h) {
    if (apart) {
      k_parts.push_back(
          {.name = prefix + "embed_q", .n_out = s.kv_rank, .expert = h, .n_experts = s.n_heads});
      v_parts.push_back(
          {.name = prefix + "unembed_out", .n_out = s.v_dim, .expert = h, .n_experts = s.n_heads});
      continue;
    }
    const int d = s.nope_dim + s.v_dim;
    Part k{.name = prefix + "kv_b_proj", .n_out = s.nope_dim, .n_stored = s.n_heads * d};
    Part v = k;
    v.n_out = s.v_dim;
    k.source_row = [first = h * d](int row) { return first + row; };
    v.source_row = [first = h * d + s.nope_dim](int row) { return first + row; };
    k_parts.push_back(std::move(k));
    v_parts.push_back(std::move(v));
  }
  Result<std::unique_ptr<ops::HeadLinear>> k_up =
      weights.Heads(k_parts, apart ? s.nope_dim : s.kv_rank, /*turned=*/!apart);
  if (!k_up) {
    return Fail(k_up.error());
  }
  Result<std::unique_ptr<ops::HeadLinear>> v_up =
      weights.Heads(v_parts, s.kv_rank, /*turned=*/false);
  if (!v_up) {
    return Fail(v_up.error());
  }
  block.k_up = std::move(*k_up);
  block.v_up = std::move(*v_up);
  return {};
}

}  // namespace

mx::array MlaBlock::Attend(const ops::Context& context, const mx::array& x, const mx::array& angles,
                           const ops::StepBatch& batch, ops::KvStore& store) const {
  const int n_rows = x.shape(0);
  const int heads = sizes.n_heads;
  const mx::array q_in = q_down ? ops::RmsNorm(context, (*q_down)(x), *q_norm, sizes.norm_eps) : x;
  const mx::array nope =
      (*k_up)(mx::reshape((*q_nope)(q_in), {n_rows, heads, sizes.nope_dim}));  // [T, heads, rank]
  const mx::array turned = mx::reshape((*q_rope)(q_in), {n_rows, heads, sizes.rope_dim});
  const mx::array q =
      mx::reshape(mx::concatenate({turned, nope}, -1), {n_rows, heads * sizes.head_dim()});
  const mx::array down = (*kv_down)(x);
  const mx::array latent = ops::RmsNorm(context, mx::slice(down, {0, 0}, {n_rows, sizes.kv_rank}),
                                        *kv_norm, sizes.norm_eps);
  const mx::array k_rope =
      mx::slice(down, {0, sizes.kv_rank}, {n_rows, sizes.kv_rank + sizes.rope_dim});
  const mx::array nothing = mx::zeros({n_rows, sizes.rope_dim});
  const mx::array qkv = mx::concatenate({q, k_rope, latent, nothing, latent}, 1);
  const mx::array attended = mx::reshape(
      ops::Attention(context, spec, qkv, angles, std::nullopt, std::nullopt, batch, store),
      {n_rows, heads, sizes.head_dim()});
  const mx::array values =
      (*v_up)(mx::slice(attended, {0, 0, sizes.rope_dim}, {n_rows, heads, sizes.head_dim()}));
  return mx::reshape(values, {n_rows, heads * sizes.v_dim});
}

Result<MlaBlock> LoadMla(WeightLoader& weights, const std::string& prefix, const MlaSizes& sizes,
                         int layer, int hidden_size) {
  MlaBlock block;
  block.sizes = sizes;
  block.spec = {.layer = layer,
                .n_heads = sizes.n_heads,
                .n_kv_heads = 1,
                .head_dim = sizes.head_dim(),
                .scale = sizes.scale};
  if (Result<void> q = LoadQ(weights, prefix, hidden_size, block); !q) {
    return Fail(q.error());
  }
  const int rank = sizes.kv_rank;
  const int n_down = rank + sizes.rope_dim;
  Result<std::unique_ptr<ops::Linear>> down = weights.Linear(
      {{.name = prefix + "kv_a_proj_with_mqa",
        .n_out = n_down,
        .n_stored = n_down,
        .source_row = [rank, n = sizes.rope_dim](
                          int row) { return row < rank ? row : rank + OfPairs(row - rank, n); }}},
      hidden_size);
  if (!down) {
    return Fail(down.error());
  }
  const Result<mx::array> norm = weights.Norm(prefix + "kv_a_layernorm", rank);
  if (!norm) {
    return Fail(norm.error());
  }
  if (Result<void> ups = LoadUps(weights, prefix, block); !ups) {
    return Fail(ups.error());
  }
  Result<std::unique_ptr<ops::Linear>> output = weights.Linear(
      {{.name = prefix + "o_proj", .n_out = hidden_size}}, sizes.n_heads * sizes.v_dim);
  if (!output) {
    return Fail(output.error());
  }
  block.kv_down = std::move(*down);
  block.kv_norm = *norm;
  block.output = std::move(*output);
  return block;
}

}  // namespace models
