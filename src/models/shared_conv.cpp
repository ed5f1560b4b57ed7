#include "models/shared_conv.h"

#include <cstddef>

namespace models {

std::vector<std::int64_t> MlxConvShape(int channels, int kernel) { return {channels, kernel, 1}; }

Result<mlx::core::array> LoadConvWeight(WeightLoader& weights, const std::string& name,
                                        int channels, int kernel) {
  const Result<std::vector<float>> stored =
      weights.Values(name, {{channels, 1, kernel}, MlxConvShape(channels, kernel)});
  if (!stored) {
    return Fail(stored.error());
  }
  std::vector<float> turned(stored->size());
  for (int c = 0; c < channels; ++c) {
    for (int j = 0; j < kernel; ++j) {
      turned[static_cast<std::size_t>(j * channels + c)] =
          (*stored)[static_cast<std::size_t>(c * kernel + j)];
    }
  }
  return mlx::core::array(turned.begin(), {kernel, channels}, mlx::core::float32);
}

}  // namespace models
