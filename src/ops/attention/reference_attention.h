#pragma once

#include "ops/attention/attention.h"

namespace ops {

// Attention of attention.h as a plain MLX graph, in float32. The new block arrays in the store are
// inputs of the result: evaluating it evaluates them.
[[nodiscard]] mlx::core::array ReferenceAttention(
    const AttentionSpec& spec, const mlx::core::array& qkv, const mlx::core::array& angles,
    const std::optional<mlx::core::array>& q_norm, const std::optional<mlx::core::array>& k_norm,
    const StepBatch& batch, KvStore& store, const std::optional<mlx::core::array>& sinks);

}  // namespace ops
