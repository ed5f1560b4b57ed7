#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/context.h"
#include "ops/linear/weight_source.h"

namespace ops {

// A matrix ready to multiply with: y[T, n_out] = x[T, n_in] * W^T (+ bias), x and y float32.
//
// Native: W is repacked once into tiles for the instruction set. Quantised formats: x is rounded to
// int8 per row and group of 32 inputs (scale = max|x| / 127, round to nearest even), products are
// summed exactly in int32 inside a group, groups are added in float32 in ascending order. Float
// formats: float32 accumulation in ascending order of the input (8-bit floats: over the 128 inputs
// of one scale, then these sums times their scales in order). Either way a row's result depends
// on that row alone, not on T, nor on the thread count. Reference: MLX quantized_matmul or matmul
// on the same stored values, without rounding x.
//
// The same object serves as embedding table (Rows) where weights are tied.
class Linear {
 public:
  virtual ~Linear() = default;
  Linear(const Linear&) = delete;
  Linear& operator=(const Linear&) = delete;

  [[nodiscard]] virtual int n_in() const = 0;
  [[nodiscard]] virtual int n_out() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;  // memory held

  // x: [T, n_in] float32, row-contiguous or not. Returns [T, n_out] float32.
  [[nodiscard]] virtual mlx::core::array operator()(const mlx::core::array& x) const = 0;

  // Rows of W as float32, exactly as stored: tokens [T] int32, each in [0, n_out). Returns [T,
  // n_in] float32.
  [[nodiscard]] virtual mlx::core::array Rows(const mlx::core::array& tokens) const = 0;

 protected:
  Linear() = default;
};

// Makes one matrix out of `parts` stacked along the outputs (q, k, v; gate, up): all with the same
// n_in, formats may differ. `bias`: float32 [sum of n_out], or empty. Errors (kBadModel) name the
// part: spans of the wrong size, n_in not a multiple of the block size, bits or group size that MLX
// does not have.
[[nodiscard]] Result<std::unique_ptr<Linear>> MakeLinear(const Context& context,
                                                         std::span<const WeightSource> parts,
                                                         std::span<const float> bias = {});

// The same with the stored values as float32, whatever their format: inputs are not rounded. For
// small matrices whose result decides something.
[[nodiscard]] Result<std::unique_ptr<Linear>> MakeFloatLinear(const Context& context,
                                                              const WeightSource& source,
                                                              std::span<const float> bias = {});

}  // namespace ops
