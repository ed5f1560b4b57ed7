#pragma once

#include <memory>
#include <span>

#include "base/result.h"
#include "ops/linear/linear.h"

namespace ops::linear {

// The two kinds of Linear behind MakeLinear. REQUIRES: the parts are checked and agree in n_in.
[[nodiscard]] std::unique_ptr<Linear> MakeNativeLinear(const Context& context,
                                                       std::span<const WeightSource> parts,
                                                       std::span<const float> bias);
[[nodiscard]] std::unique_ptr<Linear> MakeReferenceLinear(std::span<const WeightSource> parts,
                                                          std::span<const float> bias);

}  // namespace ops::linear
