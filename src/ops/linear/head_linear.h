#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <memory>
#include <span>

#include "base/result.h"
#include "ops/context.h"
#include "ops/linear/weight_source.h"

namespace ops {

// A matrix for each head: y[t, h] = x[t, h] * W_h^T, x and y float32. As Linear in everything else.
class HeadLinear {
 public:
  virtual ~HeadLinear() = default;
  HeadLinear(const HeadLinear&) = delete;
  HeadLinear& operator=(const HeadLinear&) = delete;

  [[nodiscard]] virtual std::uint64_t bytes() const = 0;  // memory held

  // x: [T, n_heads, n_in] float32. Returns [T, n_heads, n_out] float32.
  [[nodiscard]] virtual mlx::core::array operator()(const mlx::core::array& x) const = 0;

 protected:
  HeadLinear() = default;
};

// `heads`: one matrix [n_out, n_in] each, all of one shape. Errors (kBadModel) as MakeLinear's.
// REQUIRES: at least one head.
[[nodiscard]] Result<std::unique_ptr<HeadLinear>> MakeHeadLinear(
    const Context& context, std::span<const WeightSource> heads);

// The same with each matrix turned round, y[t, h] = x[t, h] * W_h, and the stored values as
// float32: inputs are not rounded.
[[nodiscard]] Result<std::unique_ptr<HeadLinear>> MakeTurnedHeadLinear(
    const Context& context, std::span<const WeightSource> heads);

}  // namespace ops
