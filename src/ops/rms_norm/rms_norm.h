#pragma once

#include <mlx/array.h>

#include <utility>
#include <vector>

#include "ops/context.h"

namespace ops {

// y = x / sqrt(mean(x^2) + eps) * weight over the last axis (Zhang & Sennrich 2019).
// x: [T, d] float32; weight: [d] float32 (a zero-centred weight has its 1 added at load). Sum of
// squares in a fixed order that depends on d only.
[[nodiscard]] mlx::core::array RmsNorm(const Context& context, const mlx::core::array& x,
                                       const mlx::core::array& weight, float eps);

// {RmsNorm(sum), sum} of sum = residual + x_scale * x, in one pass.
[[nodiscard]] std::pair<mlx::core::array, mlx::core::array> AddRmsNorm(
    const Context& context, const mlx::core::array& x, const mlx::core::array& residual,
    const mlx::core::array& weight, float eps, float x_scale = 1.0F);

// x: [T, d] float32, of which the first columns are parts of d_i = weights[i].size() that are
// normalised each by itself; the columns after them are copied. REQUIRES: the sum of d_i <= d.
[[nodiscard]] mlx::core::array RmsNormColumns(const Context& context, const mlx::core::array& x,
                                              const std::vector<mlx::core::array>& weights,
                                              float eps);

}  // namespace ops
