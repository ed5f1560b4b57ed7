#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/result.h"
#include "ops/context.h"
#include "ops/glu/glu.h"
#include "ops/linear/weight_source.h"
#include "ops/moe/routing.h"

namespace ops {

// One expert: down(act(gate(x)) * up(x)).
struct ExpertSource {
  WeightSource gate;                  // [intermediate, hidden]
  WeightSource up;                    // [intermediate, hidden]
  WeightSource down;                  // [hidden, intermediate]
  std::vector<float> gate_bias = {};  // [intermediate], or empty; the same for all experts
  std::vector<float> up_bias = {};    // with gate_bias
  std::vector<float> down_bias = {};  // [hidden], or empty
};

// The routed experts of one layer. For each row
//   y = sum of weights[j] * expert[experts[j]](x), in ascending order of the expert's number.
//
// Native: a step's rows are grouped by expert, and each expert's matrices are those of ops::Linear:
// a row's result has the bits that this expert gives the row alone, whatever else is in the step
// and however many threads there are. Reference: MLX's gather_mm and gather_qmm.
class Experts {
 public:
  virtual ~Experts() = default;
  Experts(const Experts&) = delete;
  Experts& operator=(const Experts&) = delete;

  [[nodiscard]] virtual int n_experts() const = 0;
  [[nodiscard]] virtual std::uint64_t bytes() const = 0;  // memory held

  // x: [T, hidden] float32. routing: of the same rows, experts in [0, n_experts), no two the same
  // in a row. Returns [T, hidden] float32.
  [[nodiscard]] virtual mlx::core::array operator()(const mlx::core::array& x,
                                                    const Routing& routing) const = 0;

 protected:
  Experts() = default;
};

// The spans of `sources` must stay valid during the call, no longer. Errors (kBadModel) name the
// tensor: see MakeLinear. REQUIRES: at least one expert.
[[nodiscard]] Result<std::unique_ptr<Experts>> MakeExperts(const Context& context,
                                                           std::span<const ExpertSource> sources,
                                                           Activation activation);

}  // namespace ops
