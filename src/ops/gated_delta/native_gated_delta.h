#pragma once

#include "ops/gated_delta/gated_delta.h"

namespace ops {

// GatedDelta by our own kernels.
[[nodiscard]] mlx::core::array NativeGatedDelta(const Context& context, const GatedDeltaSpec& spec,
                                                const mlx::core::array& qkv,
                                                const mlx::core::array& projected,
                                                const GatedDeltaWeights& weights,
                                                const StepBatch& batch, KvStore& store);

}  // namespace ops
