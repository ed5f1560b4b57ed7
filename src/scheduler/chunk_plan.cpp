#include "scheduler/chunk_plan.h"

#include <algorithm>
#include <cstddef>

#include "cache/prefix_cache.h"

namespace scheduler {
namespace {

constexpr std::size_t kFairShares = 4;

// Up to `n` tokens after `position`, fewer so that they end at a block's end if that leaves any.
std::int64_t EndAtBlock(std::int64_t position, std::int64_t n) {
  const std::int64_t end = (position + n) / ops::kBlockTokens * ops::kBlockTokens;
  return end > position ? end - position : n;
}

std::vector<std::size_t> Sharers(std::span<const PrefillDemand> demands) {
  std::vector<std::size_t> sharers;
  for (std::size_t i = 0; i < std::min(kFairShares, demands.size()); ++i) {
    sharers.push_back(i);
  }
  if (demands.size() > kFairShares) {
    const auto rest = demands.subspan(kFairShares);
    const auto shortest = std::min_element(
        rest.begin(), rest.end(),
        [](const PrefillDemand& a, const PrefillDemand& b) { return a.remaining < b.remaining; });
    sharers.push_back(kFairShares + static_cast<std::size_t>(shortest - rest.begin()));
  }
  // Shortest first: what it leaves of its part is shared by the longer ones.
  std::stable_sort(sharers.begin(), sharers.end(), [&](std::size_t a, std::size_t b) {
    return demands[a].remaining < demands[b].remaining;
  });
  return sharers;
}

// In turns of one block, so that alignment does not favour the first by more than that.
void DealLeftovers(std::span<const PrefillDemand> demands, std::int64_t left,
                   std::vector<std::int64_t>& chunks) {
  for (bool dealt = true; dealt;) {
    dealt = false;
    for (std::size_t i = 0; i < demands.size(); ++i) {
      const std::int64_t position = demands[i].computed + chunks[i];
      const std::int64_t to_block_end = ops::kBlockTokens - position % ops::kBlockTokens;
      const std::int64_t n = std::min(demands[i].remaining - chunks[i], to_block_end);
      if (n > 0 && n <= left) {
        chunks[i] += n;
        left -= n;
        dealt = true;
      }
    }
  }
  // What cannot finish a block is better left to the next step, unless nothing would be done in
  // this one.
  if (!chunks.empty() && std::all_of(chunks.begin(), chunks.end(), [](auto n) { return n == 0; })) {
    chunks[0] = std::min(demands[0].remaining, left);
  }
}

}  // namespace

std::vector<std::int64_t> ShareBudget(std::span<const PrefillDemand> demands, std::int64_t budget) {
  std::vector<std::int64_t> chunks(demands.size(), 0);
  const std::vector<std::size_t> sharers = Sharers(demands);
  std::int64_t left = std::max<std::int64_t>(0, budget);
  for (std::size_t k = 0; k < sharers.size(); ++k) {
    const PrefillDemand& demand = demands[sharers[k]];
    const std::int64_t part = left / static_cast<std::int64_t>(sharers.size() - k);
    std::int64_t n = std::min(demand.remaining, part);
    if (n < demand.remaining) {
      n = EndAtBlock(demand.computed, n);
    }
    chunks[sharers[k]] = n;
    left -= n;
  }
  DealLeftovers(demands, left, chunks);
  return chunks;
}

}  // namespace scheduler
