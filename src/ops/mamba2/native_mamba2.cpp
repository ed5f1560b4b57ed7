#include "ops/mamba2/native_mamba2.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <vector>

#include "ops/gated_delta/gated_delta.h"
#include "ops/gated_delta/kernels.h"
#include "ops/gated_delta/state_head.h"
#include "ops/native_op.h"
#include "ops/recurrent/state_runs.h"
#include "ops/vector/aligned_floats.h"
#include "ops/vector/row_split.h"

namespace ops {
namespace {

namespace mx = mlx::core;

class LayerMamba2 {
 public:
  struct Inputs {
    const float* xbc = nullptr;
    const float* projected = nullptr;
    const float* decay_rate = nullptr;
    const float* dt_bias = nullptr;
    const float* skip = nullptr;
    const float* norm = nullptr;
    float* out = nullptr;
    int n_rows = 0;
  };

  // `gates`: working memory, [T, 2 n_heads], decay | dt.
  LayerMamba2(const Context& context, const Mamba2Spec& spec, const Inputs& inputs,
              AlignedFloats& gates)
      : pool_(*context.pool),
        kernels_(DeltaKernelsFor(context.instruction_set)),
        spec_(spec),
        in_(inputs) {
    gates.Resize(static_cast<std::size_t>(in_.n_rows) * 2U *
                 static_cast<std::size_t>(spec.n_heads));
    gates_ = gates.data();
  }

  void Run(const std::vector<NativeStateRuns>& sequences) {
    SplitRows(pool_, in_.n_rows, 2 * spec_.n_heads, [&](RowRange rows) {
      for (std::ptrdiff_t row = rows.begin; row < rows.end; ++row) {
        Prepare(row);
      }
    });
    pool_.ParallelFor(static_cast<int>(sequences.size()) * spec_.n_heads, [&](int task) {
      RunHead(sequences[static_cast<std::size_t>(task / spec_.n_heads)], task % spec_.n_heads);
    });
    SplitRows(pool_, in_.n_rows, 2 * spec_.inner_size(), [&](RowRange rows) {
      for (std::ptrdiff_t row = rows.begin; row < rows.end; ++row) {
        Finish(row);
      }
    });
  }

 private:
  // The gates of one row.
  void Prepare(std::ptrdiff_t row) const {
    const float* const stored =
        in_.projected + row * spec_.projected_size() + spec_.inner_size() + spec_.conv_channels();
    float* const decay = gates_ + row * 2 * spec_.n_heads;
    float* const steps = decay + spec_.n_heads;
    for (int h = 0; h < spec_.n_heads; ++h) {
      const double step =
          std::clamp(Softplus(static_cast<double>(stored[h] + in_.dt_bias[h])),
                     static_cast<double>(spec_.min_step), static_cast<double>(spec_.max_step));
      decay[h] = static_cast<float>(std::exp(-static_cast<double>(in_.decay_rate[h]) * step));
      steps[h] = static_cast<float>(step);
    }
  }

  void RunHead(const NativeStateRuns& sequence, int head) const {
    const std::ptrdiff_t group = head / (spec_.n_heads / spec_.n_groups);
    const float* const b = in_.xbc + spec_.inner_size() + group * spec_.d_state;
    const std::ptrdiff_t at_value = static_cast<std::ptrdiff_t>(head) * spec_.head_dim;
    RunStateHead(kernels_, sequence, at_value * spec_.d_state,
                 {.n_columns = spec_.head_dim,
                  .q = b + spec_.group_size(),
                  .k = b,
                  .qk_stride = spec_.conv_channels(),
                  .v = in_.xbc + at_value,
                  .v_stride = spec_.conv_channels(),
                  .decay = gates_ + head,
                  .beta = gates_ + spec_.n_heads + head,
                  .gate_stride = 2 * spec_.n_heads,
                  .out = in_.out + at_value,
                  .out_stride = spec_.inner_size(),
                  .k_dim = spec_.d_state,
                  .corrects = false,
                  .skip = in_.skip[head]});
  }

  void Finish(std::ptrdiff_t row) const {
    const int part = spec_.inner_size() / spec_.n_norms;
    for (int at = 0; at < spec_.inner_size(); at += part) {
      kernels_.norm_gated({.y = in_.out + row * spec_.inner_size() + at,
                           .z = in_.projected + row * spec_.projected_size() + at,
                           .weight = in_.norm + at,
                           .dim = part,
                           .eps = spec_.norm_eps});
    }
  }

  ThreadPool& pool_;
  const DeltaKernels& kernels_;
  const Mamba2Spec& spec_;
  const Inputs& in_;
  float* gates_ = nullptr;
};

}  // namespace

mx::array NativeMamba2(const Context& context, const Mamba2Spec& spec, const mx::array& xbc,
                       const mx::array& projected, const Mamba2Weights& weights,
                       const StepBatch& batch, KvStore& store) {
  assert(spec.head_dim % kDeltaLanes == 0 && spec.d_state <= kMaxKeyDim);
  assert(spec.n_heads % spec.n_groups == 0 && spec.inner_size() % spec.n_norms == 0);
  const std::vector<NativeStateRuns> sequences = NativeRunsOf(batch, store, spec.layer, 0);
  return NativeOp({xbc, projected, weights.decay_rate, weights.dt_bias, weights.skip, weights.norm},
                  {xbc.shape(0), spec.inner_size()}, mx::float32,
                  [&](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                    // Kept between calls: page faults would cost more than the work on few rows.
                    thread_local AlignedFloats gates;
                    const LayerMamba2::Inputs memory{.xbc = in[0].data<float>(),
                                                     .projected = in[1].data<float>(),
                                                     .decay_rate = in[2].data<float>(),
                                                     .dt_bias = in[3].data<float>(),
                                                     .skip = in[4].data<float>(),
                                                     .norm = in[5].data<float>(),
                                                     .out = out[0].data<float>(),
                                                     .n_rows = in[0].shape(0)};
                    LayerMamba2(context, spec, memory, gates).Run(sequences);
                  });
}

}  // namespace ops
