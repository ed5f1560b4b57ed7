#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "models/weight_loader.h"

namespace models {

// The weight of a depthwise convolution, [channels, 1, kernel] as published or [channels, kernel,
// 1] as mlx-lm turns it, as [kernel, channels] for ops::ShortConv.
[[nodiscard]] Result<mlx::core::array> LoadConvWeight(WeightLoader& weights,
                                                      const std::string& name, int channels,
                                                      int kernel);

// mlx-lm's shape of it.
[[nodiscard]] std::vector<std::int64_t> MlxConvShape(int channels, int kernel);

}  // namespace models
