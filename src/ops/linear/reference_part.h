#pragma once

#include <mlx/array.h>

#include <optional>

#include "ops/linear/weight_source.h"

namespace ops::linear {

// A stored matrix as MLX computes with it: dense float32, or MLX affine codes with float32 scales
// and biases.
struct ReferencePart {
  int n_out = 0;
  mlx::core::array weights;  // [n_out, n_in] float32, or [n_out, n_in * bits / 32] uint32
  std::optional<mlx::core::array> scales = std::nullopt;  // [n_out, n_in / group_size]
  std::optional<mlx::core::array> biases = std::nullopt;
  int bits = 0;
  int group_size = 0;
};

// REQUIRES: CheckSource accepted it.
[[nodiscard]] ReferencePart MakeReferencePart(const WeightSource& source);

}  // namespace ops::linear
