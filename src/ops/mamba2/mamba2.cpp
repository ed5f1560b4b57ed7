#include "ops/mamba2/mamba2.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <utility>
#include <vector>

#include "ops/mamba2/native_mamba2.h"
#include "ops/recurrent/state_runs.h"

namespace ops {
namespace {

namespace mx = mlx::core;

mx::array Columns(const mx::array& x, int begin, int n_heads, int dim) {
  const int n_rows = x.shape(0);
  return mx::reshape(mx::slice(x, {0, begin}, {n_rows, begin + n_heads * dim}),
                     {n_rows, n_heads, dim});
}

// What the recurrence needs of the step's rows.
struct Rows {
  mx::array x;      // [T, n_heads, head_dim]
  mx::array b;      // [T, n_heads, d_state]
  mx::array c;      // as b
  mx::array step;   // [T, n_heads, 1], dt
  mx::array decay;  // as step
};

Rows Prepare(const Mamba2Spec& spec, const mx::array& xbc, const mx::array& projected,
             const Mamba2Weights& weights) {
  const int group = spec.n_heads / spec.n_groups;
  const auto of_groups = [&](int begin) {
    return mx::repeat(Columns(xbc, begin, spec.n_groups, spec.d_state), group, 1);
  };
  const mx::array stored =
      Columns(projected, spec.inner_size() + spec.conv_channels(), spec.n_heads, 1);
  const mx::array step =
      mx::clip(mx::logaddexp(mx::add(stored, mx::expand_dims(weights.dt_bias, 1)), mx::array(0.0F)),
               mx::array(spec.min_step), mx::array(spec.max_step));
  const mx::array rate = mx::negative(mx::expand_dims(weights.decay_rate, 1));
  return {.x = Columns(xbc, 0, spec.n_heads, spec.head_dim),
          .b = of_groups(spec.inner_size()),
          .c = of_groups(spec.inner_size() + spec.group_size()),
          .step = step,
          .decay = mx::exp(mx::multiply(rate, step))};
}

mx::array RowOf(const mx::array& x, int row) {
  return mx::squeeze(mx::slice(x, {row, 0, 0}, {row + 1, x.shape(1), x.shape(2)}), 0);
}

// Moves `state` [n_heads, d_state, head_dim] on by one token; returns C^T S, [n_heads, 1,
// head_dim].
mx::array Advance(const Rows& rows, int row, mx::array& state) {
  const mx::array change = mx::multiply(RowOf(rows.x, row), RowOf(rows.step, row));
  state = mx::add(mx::multiply(state, mx::expand_dims(RowOf(rows.decay, row), 2)),
                  mx::multiply(mx::expand_dims(RowOf(rows.b, row), 2), mx::expand_dims(change, 1)));
  return mx::sum(mx::multiply(mx::expand_dims(RowOf(rows.c, row), 2), state), 1,
                 /*keepdims=*/true);
}

mx::array ReferenceMamba2(const Mamba2Spec& spec, const mx::array& xbc, const mx::array& projected,
                          const Mamba2Weights& weights, const StepBatch& batch, KvStore& store) {
  const KvStore::LayerPlace place = store.PlaceOf(spec.layer);
  const Rows rows = Prepare(spec, xbc, projected, weights);
  const mx::Shape shape{spec.n_heads, spec.d_state, spec.head_dim};
  std::vector<mx::array> outputs;  // of each row, [n_heads, 1, head_dim]
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
  const int n_rows = xbc.shape(0);
  const mx::array o =
      mx::add(mx::transpose(mx::concatenate(std::move(outputs), 1), {1, 0, 2}),
              mx::multiply(rows.x, mx::expand_dims(weights.skip, 1)));  // [T, n_heads, head_dim]
  const mx::array z = mx::slice(projected, {0, 0}, {n_rows, spec.inner_size()});
  const mx::array gated =
      mx::multiply(mx::reshape(o, {n_rows, spec.inner_size()}), mx::multiply(z, mx::sigmoid(z)));
  const mx::array parts =
      mx::reshape(gated, {n_rows, spec.n_norms, spec.inner_size() / spec.n_norms});
  const mx::array mean = mx::mean(mx::multiply(parts, parts), -1, /*keepdims=*/true);
  const mx::array normed = mx::multiply(parts, mx::rsqrt(mx::add(mean, mx::array(spec.norm_eps))));
  const mx::array y = mx::multiply(mx::reshape(normed, {n_rows, spec.inner_size()}), weights.norm);
  // Evaluating the result evaluates what the blocks keep.
  return mx::depends({y}, kept).front();
}

}  // namespace

mx::array Mamba2(const Context& context, const Mamba2Spec& spec, const mx::array& xbc,
                 const mx::array& projected, const Mamba2Weights& weights, const StepBatch& batch,
                 KvStore& store) {
  if (context.path == KernelPath::kReference) {
    return ReferenceMamba2(spec, xbc, projected, weights, batch, store);
  }
  return NativeMamba2(context, spec, xbc, projected, weights, batch, store);
}

}  // namespace ops
