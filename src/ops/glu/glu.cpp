#include "ops/glu/glu.h"

#include <mlx/ops.h>

#include <cmath>
#include <cstddef>
#include <numbers>

#include "ops/native_op.h"
#include "ops/vector/row_kernels.h"
#include "ops/vector/row_split.h"

namespace ops {
namespace {

namespace mx = mlx::core;

mx::array Activate(const mx::array& x, Activation activation) {
  if (activation == Activation::kSilu) {
    return mx::multiply(x, mx::sigmoid(x));
  }
  const auto factor = static_cast<float>(std::sqrt(2.0 / std::numbers::pi));
  const mx::array cubic =
      mx::add(x, mx::multiply(mx::array(0.044715F), mx::power(x, mx::array(3.0F))));
  const mx::array tanh = mx::tanh(mx::multiply(mx::array(factor), cubic));
  return mx::multiply(mx::multiply(mx::array(0.5F), x), mx::add(mx::array(1.0F), tanh));
}

mx::array ClampedSwiglu(const mx::array& gate, const mx::array& up) {
  const mx::array limit(kClampedSwigluLimit);
  const mx::array g = mx::minimum(gate, limit);
  const mx::array u = mx::maximum(mx::minimum(up, limit), mx::negative(limit));
  const mx::array sigmoid = mx::sigmoid(mx::multiply(mx::array(kClampedSwigluAlpha), g));
  return mx::multiply(mx::multiply(g, sigmoid), mx::add(u, mx::array(1.0F)));
}

}  // namespace

auto GluKernelFor(InstructionSet set, Activation activation) -> void (*)(const GluRows& rows) {
  const RowKernels& kernels = RowKernelsFor(set);
  switch (activation) {
    case Activation::kSilu:
      return kernels.silu_glu;
    case Activation::kGeluTanh:
      return kernels.gelu_tanh_glu;
    case Activation::kClampedSwiglu:
      return kernels.clamped_swiglu;
  }
  return kernels.silu_glu;
}

mx::array GatedLinearUnit(const Context& context, const mx::array& gate_up, Activation activation) {
  const int d = gate_up.shape(-1) / 2;
  if (context.path == KernelPath::kReference) {
    const std::vector<mx::array> halves = mx::split(gate_up, 2, -1);
    if (activation == Activation::kClampedSwiglu) {
      return ClampedSwiglu(halves[0], halves[1]);
    }
    return mx::multiply(Activate(halves[0], activation), halves[1]);
  }
  mx::Shape shape = gate_up.shape();
  shape.back() = d;
  return NativeOp(
      {gate_up}, shape, mx::float32,
      [context, d, activation](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
        const auto kernel = GluKernelFor(context.instruction_set, activation);
        SplitRows(*context.pool, static_cast<int>(out[0].size()) / d, 3 * d, [&](RowRange range) {
          kernel({.gate_up = in[0].data<float>() + static_cast<std::ptrdiff_t>(range.begin) * 2 * d,
                  .y = out[0].data<float>() + static_cast<std::ptrdiff_t>(range.begin) * d,
                  .n_rows = range.end - range.begin,
                  .d = d});
        });
      });
}

mx::array SigmoidGate(const Context& context, const mx::array& x, const mx::array& gate) {
  if (context.path == KernelPath::kReference) {
    return mx::multiply(x, mx::sigmoid(gate));
  }
  const int d = x.shape(-1);
  return NativeOp({x, gate}, x.shape(), mx::float32,
                  [&](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                    const int n_rows = static_cast<int>(in[0].size()) / d;
                    SplitRows(*context.pool, n_rows, 3 * d, [&](RowRange range) {
                      const std::ptrdiff_t at = static_cast<std::ptrdiff_t>(range.begin) * d;
                      RowKernelsFor(context.instruction_set)
                          .sigmoid_gate({.x = in[0].data<float>() + at,
                                         .gate = in[1].data<float>() + at,
                                         .y = out[0].data<float>() + at,
                                         .n = (range.end - range.begin) * d});
                    });
                  });
}

mx::array AddGated(const Context& context, const mx::array& x, const mx::array& y,
                   const std::optional<mx::array>& gate) {
  if (context.path == KernelPath::kReference) {
    return mx::add(x, gate ? mx::multiply(y, mx::sigmoid(*gate)) : y);
  }
  const int d = x.shape(-1);
  std::vector<mx::array> inputs = {x, y};
  if (gate) {
    inputs.push_back(*gate);
  }
  return NativeOp(inputs, x.shape(), mx::float32,
                  [&](const std::vector<mx::array>& in, std::vector<mx::array>& out) {
                    const float* const a = in[0].data<float>();
                    const float* const b = in[1].data<float>();
                    const float* const gates = in.size() > 2 ? in[2].data<float>() : nullptr;
                    float* const sum = out[0].data<float>();
                    SplitRows(*context.pool, x.shape(0), 3 * d, [&](RowRange range) {
                      for (std::ptrdiff_t row = range.begin; row < range.end; ++row) {
                        const float factor =
                            gates != nullptr ? 1.0F / (1.0F + std::exp(-gates[row])) : 1.0F;
                        for (std::ptrdiff_t i = row * d; i < (row + 1) * d; ++i) {
                          sum[i] = a[i] + factor * b[i];
                        }
                      }
                    });
                  });
}

}  // namespace ops
