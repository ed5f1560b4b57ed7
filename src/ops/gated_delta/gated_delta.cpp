#include "ops/gated_delta/gated_delta.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <cmath>
#include <utility>
#include <vector>

#include "ops/gated_delta/native_gated_delta.h"
#include "ops/recurrent/state_runs.h"

namespace ops {
namespace {

namespace mx = mlx::core;

constexpr float kUnitEps = 1e-6F;

mx::array Columns(const mx::array& x, int begin, int n_heads, int dim) {
  const int n_rows = x.shape(0);
  return mx::reshape(mx::slice(x, {0, begin}, {n_rows, begin + n_heads * dim}),
                     {n_rows, n_heads, dim});
}

mx::array Unit(const mx::array& x) {
  const mx::array squares = mx::sum(mx::multiply(x, x), -1, /*keepdims=*/true);
  return mx::multiply(x, mx::rsqrt(mx::add(squares, mx::array(kUnitEps))));
}

mx::array Silu(const mx::array& x) { return mx::multiply(x, mx::sigmoid(x)); }

// What the recurrence needs of the step's rows.
struct Rows {
  mx::array q;      // [T, n_v_heads, k_dim]
  mx::array k;      // as q
  mx::array v;      // [T, n_v_heads, v_dim]
  mx::array decay;  // [T, n_v_heads, 1]
  mx::array beta;   // as decay
};

Rows Prepare(const GatedDeltaSpec& spec, const mx::array& qkv, const mx::array& projected,
             const GatedDeltaWeights& weights) {
  const int group = spec.n_v_heads / spec.n_k_heads;
  const mx::array q = Unit(Columns(qkv, 0, spec.n_k_heads, spec.k_dim));
  const mx::array k = Unit(Columns(qkv, spec.key_size(), spec.n_k_heads, spec.k_dim));
  const int at_b = 2 * spec.key_size() + 2 * spec.value_size();
  const mx::array b = Columns(projected, at_b, spec.n_v_heads, 1);
  const mx::array a = Columns(projected, at_b + spec.n_v_heads, spec.n_v_heads, 1);
  const mx::array step =
      mx::logaddexp(mx::add(a, mx::expand_dims(weights.dt_bias, 1)), mx::array(0.0F));
  const mx::array rate = mx::negative(mx::expand_dims(weights.decay_rate, 1));
  return {
      .q = mx::repeat(mx::multiply(q, mx::array(1.0F / std::sqrt(static_cast<float>(spec.k_dim)))),
                      group, 1),
      .k = mx::repeat(k, group, 1),
      .v = Columns(qkv, 2 * spec.key_size(), spec.n_v_heads, spec.v_dim),
      .decay = mx::exp(mx::multiply(rate, step)),
      .beta = mx::sigmoid(b)};
}

mx::array RowOf(const mx::array& x, int row) {
  return mx::squeeze(mx::slice(x, {row, 0, 0}, {row + 1, x.shape(1), x.shape(2)}), 0);
}

// Moves `state` [n_v_heads, k_dim, v_dim] on by one token; returns q^T S, [n_v_heads, 1, v_dim].
mx::array Advance(const Rows& rows, int row, mx::array& state) {
  const mx::array k = mx::expand_dims(RowOf(rows.k, row), 2);  // [heads, k_dim, 1]
  state = mx::multiply(state, mx::expand_dims(RowOf(rows.decay, row), 2));
  const mx::array known = mx::sum(mx::multiply(k, state), 1);  // [heads, v_dim]
  const mx::array change =
      mx::multiply(mx::subtract(RowOf(rows.v, row), known), RowOf(rows.beta, row));
  state = mx::add(state, mx::multiply(k, mx::expand_dims(change, 1)));
  return mx::sum(mx::multiply(mx::expand_dims(RowOf(rows.q, row), 2), state), 1,
                 /*keepdims=*/true);
}

mx::array ReferenceGatedDelta(const GatedDeltaSpec& spec, const mx::array& qkv,
                              const mx::array& projected, const GatedDeltaWeights& weights,
                              const StepBatch& batch, KvStore& store) {
  const KvStore::LayerPlace place = store.PlaceOf(spec.layer);
  const Rows rows = Prepare(spec, qkv, projected, weights);
  const mx::Shape shape{spec.n_v_heads, spec.k_dim, spec.v_dim};
  std::vector<mx::array> outputs;  // of each row, [n_v_heads, 1, v_dim]
  std::vector<mx::array> kept;
  for (const StateRuns& sequence : RunsOf(batch, place.group)) {
    mx::array state =
        sequence.from == kNoBlock
            ? mx::zeros(shape, mx::float32)
            : mx::reshape(store.Arrays(place.group, sequence.from, place.index).k, shape);
    for (const StateRun& run : sequence.runs) {
      for (int row = run.first_row; row < run.first_row + run.n_rows; ++row) {
        outputs.push_back(Advance(rows, row, state));
      }
      if (run.to != kNoBlock) {
        mx::array& to = store.Arrays(place.group, run.to, place.index).k;
        to = mx::reshape(state, {-1});
        kept.push_back(to);
      }
    }
  }
  const mx::array o = mx::concatenate(std::move(outputs), 1);  // [n_v_heads, T, v_dim]
  const mx::array mean = mx::mean(mx::multiply(o, o), -1, /*keepdims=*/true);
  const mx::array normed = mx::multiply(
      mx::multiply(o, mx::rsqrt(mx::add(mean, mx::array(spec.norm_eps)))), weights.norm);
  const mx::array z =
      Columns(projected, 2 * spec.key_size() + spec.value_size(), spec.n_v_heads, spec.v_dim);
  const mx::array y = mx::multiply(mx::transpose(normed, {1, 0, 2}), Silu(z));
  // Evaluating the result evaluates what the blocks keep.
  return mx::depends({mx::reshape(y, {qkv.shape(0), spec.value_size()})}, kept).front();
}

}  // namespace

mx::array GatedDelta(const Context& context, const GatedDeltaSpec& spec, const mx::array& qkv,
                     const mx::array& projected, const GatedDeltaWeights& weights,
                     const StepBatch& batch, KvStore& store) {
  if (context.path == KernelPath::kReference) {
    return ReferenceGatedDelta(spec, qkv, projected, weights, batch, store);
  }
  return NativeGatedDelta(context, spec, qkv, projected, weights, batch, store);
}

}  // namespace ops
