#pragma once

#include <algorithm>
#include <cstdint>

#include "ops/kv_store/block_store.h"

namespace cache {

// First block that a token at `position` may read in a group with `window` (0 = full): it sees
// itself and the window - 1 positions before it.
[[nodiscard]] inline std::int64_t FirstBlockSeen(std::int64_t position, int window) {
  return window == 0 ? 0 : std::max<std::int64_t>(0, position - (window - 1)) / ops::kBlockTokens;
}

// Blocks that the positions [0, len) take.
[[nodiscard]] inline std::int64_t BlocksFor(std::int64_t len) {
  return (len + ops::kBlockTokens - 1) / ops::kBlockTokens;
}

}  // namespace cache
