#pragma once

#include <mlx/array.h>

#include <cstdint>
#include <optional>

#include "ops/context.h"

namespace ops {

enum class RouterScore : std::uint8_t {
  kSoftmax,  // over all experts (Shazeer et al. 2017)
  kSigmoid,  // each expert by itself (DeepSeek-V3)
};

// How a router's logits choose experts for a row.
struct RoutingSpec {
  int n_experts = 0;
  int n_chosen = 0;  // at most n_experts
  RouterScore score = RouterScore::kSoftmax;
  bool normalised = true;    // the chosen weights are divided by their sum
  float sum_epsilon = 0.0F;  // added to that sum
  float scale = 1.0F;        // of the weights, last
  // Group-limited routing (DeepSeek-V3, 2.1.2): the experts lie in n_groups groups of equal size,
  // and only those of the n_chosen_groups whose two best scores have the largest sum are chosen
  // from.
  int n_groups = 1;
  int n_chosen_groups = 1;
};

struct Routing {
  mlx::core::array experts;  // [T, n_chosen] int32, the best first; of equal ones the lower number
  mlx::core::array weights;  // [T, n_chosen] float32
};

// logits: [T, n_experts] float32. correction: [n_experts] float32, added to the scores for the
// choice and not for the weights (auxiliary-loss-free balancing, DeepSeek-V3), or nothing. A row's
// result depends on that row only; native: sums run over the experts in ascending order.
// REQUIRES: n_experts is a multiple of n_groups; with groups, n_chosen_groups of them hold at least
// n_chosen experts and each at least two.
[[nodiscard]] Routing Route(const Context& context, const RoutingSpec& spec,
                            const mlx::core::array& logits,
                            const std::optional<mlx::core::array>& correction = std::nullopt);

}  // namespace ops
