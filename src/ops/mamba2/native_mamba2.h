#pragma once

#include "ops/mamba2/mamba2.h"

namespace ops {

// Mamba2 by our own kernels.
[[nodiscard]] mlx::core::array NativeMamba2(const Context& context, const Mamba2Spec& spec,
                                            const mlx::core::array& xbc,
                                            const mlx::core::array& projected,
                                            const Mamba2Weights& weights, const StepBatch& batch,
                                            KvStore& store);

}  // namespace ops
