#pragma once

#include "ops/attention/attention.h"

namespace ops {

// Attention of attention.h with the CPU kernels. head_dim must be a multiple of 16.
[[nodiscard]] mlx::core::array NativeAttention(const Context& context, const AttentionSpec& spec,
                                               const mlx::core::array& qkv,
                                               const mlx::core::array& angles,
                                               const std::optional<mlx::core::array>& q_norm,
                                               const std::optional<mlx::core::array>& k_norm,
                                               const StepBatch& batch, KvStore& store,
                                               const std::optional<mlx::core::array>& sinks);

}  // namespace ops
