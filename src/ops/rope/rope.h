#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <span>
#include <vector>

#include "ops/context.h"

namespace ops {

// Rotary position embedding (Su et al. 2021), half-split pairing as in transformers: dimension i
// turns with i + rotary_dim / 2. Models that store q and k for interleaved pairs are un-permuted at
// load.
struct RopeSpec {
  std::vector<float> inv_freq;  // [rotary_dim / 2], scaling (linear, llama3, yarn) already applied
  float attention_factor = 1.0F;  // yarn: multiplies cos and sin
};

// Angles of a step, shared by all layers with the same spec: cos | sin, [T, rotary_dim] float32
// with cos in the first half. The angle is the float32 product position * inv_freq[i], as
// transformers computes it.
[[nodiscard]] mlx::core::array RopeAngles(const RopeSpec& spec,
                                          std::span<const std::int32_t> positions);

// x: [T, n_heads, head_dim] float32, the first rotary_dim of each head are turned; the rest is
// copied.
[[nodiscard]] mlx::core::array Rope(const Context& context, const mlx::core::array& x,
                                    const mlx::core::array& angles);

}  // namespace ops
