#pragma once

#include <mlx/array.h>

#include "ops/context.h"

namespace ops {

enum class Activation { kSilu, kGeluTanh };

// gate_up: [T, 2 * d] float32, gate in the first half of each row. Returns act(gate) * up, [T, d]
// (Shazeer 2020, GLU variants).
[[nodiscard]] mlx::core::array GatedLinearUnit(const Context& context,
                                               const mlx::core::array& gate_up,
                                               Activation activation);

// x * sigmoid(gate), element by element; both [T, d] float32.
[[nodiscard]] mlx::core::array SigmoidGate(const Context& context, const mlx::core::array& x,
                                           const mlx::core::array& gate);

}  // namespace ops
