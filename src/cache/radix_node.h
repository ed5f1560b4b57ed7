#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "cache/block_key.h"
#include "cache/lower_tier.h"
#include "ops/kv_store/block_store.h"

namespace cache {

// A place in the eviction queue. Compares by what goes first: see RadixCache, "Eviction".
struct EvictionRank {
  bool valued = false;       // a prefix that can be restored would be lost
  std::uint64_t score = 0;   // of last use and reuse
  std::int64_t height = 0;   // minus the block index: of equals the deepest goes first
  std::uint64_t serial = 0;  // of the node, unique
  int group = 0;             // kWholeNode or the window group whose block would go

  static constexpr int kWholeNode = -1;
  auto operator<=>(const EvictionRank&) const = default;
};

// One group's block at a node.
struct BlockSlot {
  ops::BlockId block = ops::kNoBlock;
  int locks = 0;               // leases whose table holds the block
  int needs = 0;               // marks (RadixCache) within whose window the block lies
  std::uint64_t last_use = 0;  // when the last lock went
  // Recurrent groups: a snapshot that stays when the sequence that computed it has gone on.
  bool kept = false;
  std::optional<EvictionRank> queued;
};

struct RadixNode;

// How far a node's blocks are on their way to a lower tier.
struct WriteState {
  GroupMask written = 0;  // groups that were handed to the tier or are known to be there
  bool due = false;       // to be written without waiting for more
  Clock::TimePoint noted{};
  std::optional<std::list<RadixNode*>::iterator> unwritten = {};  // its place in WriteBehind's list
};

// 64 tokens that follow the parent's.
struct RadixNode {
  BlockKey key{};
  RadixNode* parent = nullptr;
  std::int64_t index = 0;  // of the block in its sequence
  std::uint64_t serial = 0;
  int children = 0;
  int pins = 0;  // leases that passed through
  bool prompt_end = false;
  bool marked = false;  // counted in the needs of the slots before it
  std::uint64_t uses = 0;
  std::uint64_t last_use = 0;
  std::vector<BlockSlot> slots;  // [group]
  std::optional<EvictionRank> queued;

  // For WriteBehind.
  BlockKey parent_key{};  // of the salt for block 0
  BlockTokens tokens{};
  std::array<WriteState, kLowerTiers> writes;  // [Tier]

  [[nodiscard]] WriteState& writes_to(Tier tier) { return writes[static_cast<std::size_t>(tier)]; }
  [[nodiscard]] const WriteState& writes_to(Tier tier) const {
    return writes[static_cast<std::size_t>(tier)];
  }
};

}  // namespace cache
