#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace scheduler {

// A sequence whose prompt is not yet computed.
struct PrefillDemand {
  std::int64_t computed = 0;   // positions done
  std::int64_t remaining = 0;  // positions to do, >= 1
};

// Shares `budget` tokens among prefilling sequences, most important first; returns tokens for each.
//
// The first four and, beyond them, the shortest get equal parts, and what a short one does not need
// goes to the others: two long prompts take about twice the time of one, and a short one is not
// stuck behind long ones. Four, since parts of fewer than 128 tokens of a 512-token step make
// chunks inefficient. Chunks end at multiples of 64 where they can (blocks fill up and can be
// shared), and leftovers are dealt out block by block. When budget > 0 and there is demand,
// somebody gets something.
[[nodiscard]] std::vector<std::int64_t> ShareBudget(std::span<const PrefillDemand> demands,
                                                    std::int64_t budget);

}  // namespace scheduler
