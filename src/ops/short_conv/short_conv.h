#pragma once

#include <mlx/array.h>

#include <optional>

#include "ops/context.h"
#include "ops/kv_store/kv_store.h"
#include "ops/short_conv/kernels.h"
#include "ops/step_batch.h"

namespace ops {

enum class ConvActivation {
  kNone,
  kSilu,
  kGates,  // none; inputs and outputs are multiplied by columns of x
};

struct ShortConvSpec {
  int layer = 0;  // model layer number: finds its place in the KvStore
  int first_column =
      0;  // of x: the channels are its columns [first_column, first_column + channels)
  int channels = 0;
  int kernel = 0;  // taps, 2 to kMaxConvKernel
  ConvActivation activation = ConvActivation::kSilu;
  // kGates: first columns of what multiplies the inputs and the outputs, channel by channel (LFM2).
  int in_gate_column = 0;
  int out_gate_column = 0;

  // What a layer keeps: the last kernel - 1 inputs of each channel, oldest first.
  [[nodiscard]] int state_floats() const { return (kernel - 1) * channels; }
};

// Causal convolution of each channel with its own taps over the tokens of its own sequence, zeros
// before the first: y[t] = act(bias + sum_j weight[j] x[t - kernel + 1 + j]), j ascending.
//
// With gates: y[t] = out_gate[t] (bias + sum_j weight[j] (in_gate x)[t - kernel + 1 + j]).
//
// x: [T, >= first_column + channels] float32. weight: [kernel, channels], bias: [channels] or
// nothing, float32. Returns [T, channels] float32. The inputs before the step come from the
// sequences' blocks and those at the end of each run of rows are written there, as a side effect of
// evaluation (see Attention). A row's result depends on its own and the kernel - 1 tokens before.
[[nodiscard]] mlx::core::array ShortConv(const Context& context, const ShortConvSpec& spec,
                                         const mlx::core::array& x, const mlx::core::array& weight,
                                         const std::optional<mlx::core::array>& bias,
                                         const StepBatch& batch, KvStore& store);

}  // namespace ops
