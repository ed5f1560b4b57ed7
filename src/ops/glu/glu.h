#pragma once

#include <mlx/array.h>

#include <optional>

#include "ops/context.h"
#include "ops/vector/row_kernels.h"

namespace ops {

enum class Activation {
  kSilu,
  kGeluTanh,
  kClampedSwiglu,  // gpt-oss: act(g) * (u + 1), act(g) = g sigmoid(1.702 g), g and u clamped at 7
};

// gate_up: [..., 2 * d] float32, gate in the first half of each row. Returns act(gate) * up,
// [..., d] (Shazeer 2020, GLU variants).
[[nodiscard]] mlx::core::array GatedLinearUnit(const Context& context,
                                               const mlx::core::array& gate_up,
                                               Activation activation);

// The native kernel behind it.
[[nodiscard]] auto GluKernelFor(InstructionSet set, Activation activation)
    -> void (*)(const GluRows& rows);

// x * sigmoid(gate), element by element; both [T, d] float32.
[[nodiscard]] mlx::core::array SigmoidGate(const Context& context, const mlx::core::array& x,
                                           const mlx::core::array& gate);

// x + y * sigmoid(gate) with one gate a row, or x + y where there is none: a mixture's routed and
// shared experts. x, y: [T, d] float32; gate: [T, 1] float32.
[[nodiscard]] mlx::core::array AddGated(const Context& context, const mlx::core::array& x,
                                        const mlx::core::array& y,
                                        const std::optional<mlx::core::array>& gate);

}  // namespace ops
