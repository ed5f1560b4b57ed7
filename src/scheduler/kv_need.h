#pragma once

#include <cstdint>
#include <vector>

#include "cache/prefix_cache.h"

namespace scheduler {

// How much KV memory sequences take. Immutable.
class KvNeed {
 public:
  explicit KvNeed(const ops::BlockStore& blocks);

  // Bytes that a sequence of `tokens` tokens holds at most at any time, alone and in chunks of one
  // block: all its blocks in full-attention groups, the last window and the block being filled in
  // the others.
  [[nodiscard]] std::uint64_t PeakBytes(std::int64_t tokens) const;

  // Of these, what a sequence with the blocks of `lease` must still get.
  [[nodiscard]] std::uint64_t MissingBytes(const cache::Lease& lease, std::int64_t tokens) const;

  // The longest sequence that fits in `budget_bytes`; `limit` when there is no bound below that.
  [[nodiscard]] std::int64_t MaxTokens(std::uint64_t budget_bytes, std::int64_t limit) const;

  // One block of every group.
  [[nodiscard]] std::uint64_t block_bytes() const { return block_bytes_; }

 private:
  struct Group {
    int window = 0;
    std::uint64_t bytes = 0;  // of a block
  };
  [[nodiscard]] static std::int64_t PeakBlocks(const Group& group, std::int64_t tokens);

  std::vector<Group> groups_;
  std::uint64_t block_bytes_ = 0;
};

}  // namespace scheduler
