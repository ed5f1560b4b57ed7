#include "ops/gated_delta/native_gated_delta.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>
#include <vector>

#include "ops/gated_delta/kernels.h"
#include "ops/gated_delta/state_head.h"
#include "ops/native_op.h"
#include "ops/recurrent/state_runs.h"
#include "ops/vector/aligned_floats.h"
#include "ops/vector/row_split.h"

namespace ops {
namespace {

namespace mx = mlx::core;

// Working memory of the engine thread, kept between calls: page faults would cost more than the
// work on few rows.
struct Workspace {
  AlignedFloats qk;     // [T, 2 key_size], normalised
  AlignedFloats gates;  // [T, 2 n_v_heads], decay | beta
};

class LayerDelta {
 public:
  struct Inputs {
    const float* qkv = nullptr;
    const float* projected = nullptr;
    const float* decay_rate = nullptr;
    const float* dt_bias = nullptr;
    const float* norm = nullptr;
    float* out = nullptr;
    int n_rows = 0;
  };

  LayerDelta(const Context& context, const GatedDeltaSpec& spec, const Inputs& inputs,
             Workspace& workspace)
      : pool_(*context.pool),
        kernels_(DeltaKernelsFor(context.instruction_set)),
        spec_(spec),
        in_(inputs),
        key_(spec.key_size()),
        value_(spec.value_size()) {
    workspace.qk.Resize(static_cast<std::size_t>(in_.n_rows * 2 * key_));
    workspace.gates.Resize(static_cast<std::size_t>(in_.n_rows) * 2U *
                           static_cast<std::size_t>(spec.n_v_heads));
    qk_ = workspace.qk.data();
    gates_ = workspace.gates.data();
  }

  void Run(const std::vector<NativeStateRuns>& sequences) {
    SplitRows(pool_, in_.n_rows, static_cast<int>(2 * key_), [&](RowRange rows) {
      for (std::ptrdiff_t row = rows.begin; row < rows.end; ++row) {
        Prepare(row);
      }
    });
    pool_.ParallelFor(static_cast<int>(sequences.size()) * spec_.n_v_heads, [&](int task) {
      RunHead(sequences[static_cast<std::size_t>(task / spec_.n_v_heads)], task % spec_.n_v_heads);
    });
    SplitRows(pool_, in_.n_rows, static_cast<int>(2 * value_), [&](RowRange rows) {
      for (std::ptrdiff_t row = rows.begin; row < rows.end; ++row) {
        Finish(row);
      }
    });
  }

 private:
  // Unit vectors and gates of one row.
  void Prepare(std::ptrdiff_t row) const {
    const float* const qk = in_.qkv + row * (2 * key_ + value_);
    const float q_scale = 1.0F / std::sqrt(static_cast<float>(spec_.k_dim));
    for (std::ptrdiff_t at = 0; at < 2 * key_; at += spec_.k_dim) {
      kernels_.normalise({.x = qk + at,
                          .y = qk_ + row * 2 * key_ + at,
                          .dim = spec_.k_dim,
                          .scale = at < key_ ? q_scale : 1.0F});
    }
    const float* const b = in_.projected + row * spec_.projected_size() + 2 * key_ + 2 * value_;
    const float* const a = b + spec_.n_v_heads;
    float* const decay = gates_ + row * 2 * spec_.n_v_heads;
    float* const beta = decay + spec_.n_v_heads;
    for (int h = 0; h < spec_.n_v_heads; ++h) {
      const double step = Softplus(static_cast<double>(a[h] + in_.dt_bias[h]));
      decay[h] = static_cast<float>(std::exp(-static_cast<double>(in_.decay_rate[h]) * step));
      beta[h] = static_cast<float>(1.0 / (1.0 + std::exp(-static_cast<double>(b[h]))));
    }
  }

  void RunHead(const NativeStateRuns& sequence, int head) const {
    const std::ptrdiff_t k_head = head / (spec_.n_v_heads / spec_.n_k_heads);
    const float* const q = qk_ + k_head * spec_.k_dim;
    const std::ptrdiff_t at_value = static_cast<std::ptrdiff_t>(head) * spec_.v_dim;
    RunStateHead(kernels_, sequence, at_value * spec_.k_dim,
                 {.n_columns = spec_.v_dim,
                  .q = q,
                  .k = q + key_,
                  .qk_stride = 2 * key_,
                  .v = in_.qkv + 2 * key_ + at_value,
                  .v_stride = 2 * key_ + value_,
                  .decay = gates_ + head,
                  .beta = gates_ + spec_.n_v_heads + head,
                  .gate_stride = 2 * spec_.n_v_heads,
                  .out = in_.out + at_value,
                  .out_stride = value_,
                  .k_dim = spec_.k_dim});
  }

  void Finish(std::ptrdiff_t row) const {
    const float* const z = in_.projected + row * spec_.projected_size() + 2 * key_ + value_;
    for (std::ptrdiff_t at = 0; at < value_; at += spec_.v_dim) {
      kernels_.gated_norm({.y = in_.out + row * value_ + at,
                           .z = z + at,
                           .weight = in_.norm,
                           .dim = spec_.v_dim,
                           .eps = spec_.norm_eps});
    }
  }

  ThreadPool& pool_;
  const DeltaKernels& kernels_;
  const GatedDeltaSpec& spec_;
  const Inputs& in_;
  std::ptrdiff_t key_;
  std::ptrdiff_t value_;
  float* qk_ = nullptr;
  float* gates_ = nullptr;
};

}  // namespace

mx::array NativeGatedDelta(const Context& context, const GatedDeltaSpec& spec, const mx::array& qkv,
                           const mx::array& projected, const GatedDeltaWeights& weights,
                           const StepBatch& batch, KvStore& store) {
  assert(spec.v_dim % kDeltaLanes == 0 && spec.k_dim <= kMaxKeyDim);
  assert(spec.n_v_heads % spec.n_k_heads == 0);
  const std::vector<NativeStateRuns> sequences = NativeRunsOf(batch, store, spec.layer, 0);
  return NativeOp({qkv, projected, weights.decay_rate, weights.dt_bias, weights.norm},
                  {qkv.shape(0), spec.value_size()}, mx::float32,
                  [&](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                    thread_local Workspace workspace;
                    const LayerDelta::Inputs memory{.qkv = in[0].data<float>(),
                                                    .projected = in[1].data<float>(),
                                                    .decay_rate = in[2].data<float>(),
                                                    .dt_bias = in[3].data<float>(),
                                                    .norm = in[4].data<float>(),
                                                    .out = out[0].data<float>(),
                                                    .n_rows = in[0].shape(0)};
                    LayerDelta(context, spec, memory, workspace).Run(sequences);
                  });
}

}  // namespace ops
