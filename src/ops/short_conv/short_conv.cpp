#include "ops/short_conv/short_conv.h"

#include <mlx/ops.h>
#include <mlx/transforms.h>

#include <algorithm>
#include <cassert>
#include <cstring>
#include <utility>
#include <vector>

#include "ops/native_op.h"
#include "ops/recurrent/state_runs.h"
#include "ops/short_conv/kernels.h"

namespace ops {
namespace {

namespace mx = mlx::core;

// Channels of one task: its rows of x are whole cache lines, and a few hundred rows are enough
// work.
constexpr int kTaskChannels = 128;

mx::array ReferenceShortConv(const ShortConvSpec& spec, const mx::array& x, const mx::array& weight,
                             const std::optional<mx::array>& bias, const StepBatch& batch,
                             KvStore& store) {
  const KvStore::LayerPlace place = store.PlaceOf(spec.layer);
  const int n_past = spec.kernel - 1;
  std::vector<mx::array> outputs;
  std::vector<mx::array> kept;
  for (const StateRuns& sequence : RunsOf(batch, place.group)) {
    const int first_row = sequence.runs.front().first_row;
    const int end_row = sequence.runs.back().first_row + sequence.runs.back().n_rows;
    const mx::array past =
        sequence.from == kNoBlock
            ? mx::zeros({n_past, spec.channels}, mx::float32)
            : mx::reshape(store.Arrays(place.group, sequence.from, place.index).v,
                          {n_past, spec.channels});
    const auto columns = [&](int first) {
      return mx::slice(x, {first_row, first}, {end_row, first + spec.channels});
    };
    const bool is_gated = spec.activation == ConvActivation::kGates;
    const mx::array own =
        is_gated ? mx::multiply(columns(spec.in_gate_column), columns(spec.first_column))
                 : columns(spec.first_column);
    const mx::array seen = mx::concatenate({past, own}, 0);  // [n_past + n_rows, channels]
    const int n_rows = end_row - first_row;
    mx::array sum = bias ? mx::broadcast_to(*bias, {n_rows, spec.channels})
                         : mx::zeros({n_rows, spec.channels}, mx::float32);
    for (int j = 0; j < spec.kernel; ++j) {
      const mx::array tap = mx::slice(weight, {j, 0}, {j + 1, spec.channels});
      sum = mx::add(sum, mx::multiply(tap, mx::slice(seen, {j, 0}, {j + n_rows, spec.channels})));
    }
    if (is_gated) {
      sum = mx::multiply(columns(spec.out_gate_column), sum);
    }
    outputs.push_back(spec.activation == ConvActivation::kSilu ? mx::multiply(sum, mx::sigmoid(sum))
                                                               : sum);
    for (const StateRun& run : sequence.runs) {
      if (run.to == kNoBlock) {
        continue;
      }
      const int end = run.first_row + run.n_rows - first_row;
      mx::array& to = store.Arrays(place.group, run.to, place.index).v;
      to = mx::reshape(mx::contiguous(mx::slice(seen, {end, 0}, {end + n_past, spec.channels})),
                       {-1});
      kept.push_back(to);
    }
  }
  // Evaluating the result evaluates what the blocks keep.
  return mx::depends({mx::concatenate(std::move(outputs), 0)}, kept).front();
}

// The plain memory that a native convolution works on.
struct Memory {
  const float* x = nullptr;
  std::ptrdiff_t x_stride = 0;
  const float* weight = nullptr;
  const float* bias = nullptr;
  float* y = nullptr;
};

// Channels [begin, begin + n) of one sequence.
void ConvolveTask(const ShortConvSpec& spec, void (*kernel)(const ConvRun&), const Memory& memory,
                  const NativeStateRuns& sequence, int begin, int n) {
  float past[(kMaxConvKernel - 1) * kTaskChannels];
  const int n_past = spec.kernel - 1;
  for (int j = 0; j < n_past; ++j) {
    float* const row = past + j * kTaskChannels;
    if (sequence.from == nullptr) {
      std::fill_n(row, n, 0.0F);
    } else {
      std::copy_n(sequence.from + static_cast<std::ptrdiff_t>(j) * spec.channels + begin, n, row);
    }
  }
  for (std::size_t i = 0; i < sequence.runs.size(); ++i) {
    const StateRun& run = sequence.runs[i];
    const std::ptrdiff_t first_row = run.first_row;
    const float* const row = memory.x + first_row * memory.x_stride + begin;
    kernel({.x = row + spec.first_column,
            .in_gate = row + spec.in_gate_column,
            .out_gate = row + spec.out_gate_column,
            .x_stride = memory.x_stride,
            .y = memory.y + first_row * spec.channels + begin,
            .y_stride = spec.channels,
            .weight = memory.weight + begin,
            .bias = memory.bias == nullptr ? nullptr : memory.bias + begin,
            .past = past,
            .past_stride = kTaskChannels,
            .channel_stride = spec.channels,
            .n_rows = run.n_rows,
            .n_channels = n,
            .kernel = spec.kernel});
    for (int j = 0; sequence.to[i] != nullptr && j < n_past; ++j) {
      std::copy_n(past + j * kTaskChannels, n,
                  sequence.to[i] + static_cast<std::ptrdiff_t>(j) * spec.channels + begin);
    }
  }
}

}  // namespace

mx::array ShortConv(const Context& context, const ShortConvSpec& spec, const mx::array& x,
                    const mx::array& weight, const std::optional<mx::array>& bias,
                    const StepBatch& batch, KvStore& store) {
  assert(spec.kernel >= 2 && spec.kernel <= kMaxConvKernel);
  if (context.path == KernelPath::kReference) {
    return ReferenceShortConv(spec, x, weight, bias, batch, store);
  }
  const int offset =
      store.spec().groups[static_cast<std::size_t>(store.PlaceOf(spec.layer).group)].state_floats;
  const std::vector<NativeStateRuns> sequences = NativeRunsOf(batch, store, spec.layer, offset);
  std::vector<mx::array> inputs{x, weight};
  if (bias) {
    inputs.push_back(*bias);
  }
  return NativeOp(
      inputs, {x.shape(0), spec.channels}, mx::float32,
      [&](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
        const ConvKernels& kernels = ConvKernelsFor(context.instruction_set);
        const auto kernel = spec.activation == ConvActivation::kSilu    ? kernels.silu
                            : spec.activation == ConvActivation::kGates ? kernels.gated
                                                                        : kernels.plain;
        const Memory memory{.x = in[0].data<float>(),
                            .x_stride = in[0].shape(1),
                            .weight = in[1].data<float>(),
                            .bias = in.size() > 2 ? in[2].data<float>() : nullptr,
                            .y = out[0].data<float>()};
        const int tasks_each = (spec.channels + kTaskChannels - 1) / kTaskChannels;
        context.pool->ParallelFor(static_cast<int>(sequences.size()) * tasks_each, [&](int task) {
          const int begin = task % tasks_each * kTaskChannels;
          ConvolveTask(spec, kernel, memory, sequences[static_cast<std::size_t>(task / tasks_each)],
                       begin, std::min(kTaskChannels, spec.channels - begin));
        });
      });
}

}  // namespace ops
