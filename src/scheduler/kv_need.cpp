#include "scheduler/kv_need.h"

#include <algorithm>

namespace scheduler {

KvNeed::KvNeed(const ops::BlockStore& blocks) {
  for (std::size_t g = 0; g < blocks.groups().size(); ++g) {
    const std::uint64_t bytes = blocks.BlockBytes(static_cast<int>(g));
    groups_.push_back({.window = blocks.groups()[g].window, .bytes = bytes});
    block_bytes_ += bytes;
  }
}

std::int64_t KvNeed::PeakBlocks(const Group& group, std::int64_t tokens) {
  const std::int64_t all = (tokens + ops::kBlockTokens - 1) / ops::kBlockTokens;
  if (group.window == 0) {
    return all;
  }
  // window - 1 positions before a block's first, and that block.
  const std::int64_t before = (group.window - 1 + ops::kBlockTokens - 1) / ops::kBlockTokens;
  return std::min(all, before + 1);
}

std::uint64_t KvNeed::PeakBytes(std::int64_t tokens) const {
  std::uint64_t bytes = 0;
  for (const Group& group : groups_) {
    bytes += group.bytes * static_cast<std::uint64_t>(PeakBlocks(group, tokens));
  }
  return bytes;
}

std::uint64_t KvNeed::MissingBytes(const cache::Lease& lease, std::int64_t tokens) const {
  std::uint64_t bytes = 0;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto& table = lease.block_tables()[g];
    const std::int64_t held = std::count_if(
        table.begin(), table.end(), [](ops::BlockId block) { return block != ops::kNoBlock; });
    const std::int64_t missing = PeakBlocks(groups_[g], tokens) - held;
    bytes += groups_[g].bytes * static_cast<std::uint64_t>(std::max<std::int64_t>(0, missing));
  }
  return bytes;
}

std::int64_t KvNeed::MaxTokens(std::uint64_t budget_bytes, std::int64_t limit) const {
  std::int64_t fits = 0;
  std::int64_t too_long = limit + 1;
  while (too_long - fits > 1) {
    const std::int64_t middle = fits + (too_long - fits) / 2;
    (PeakBytes(middle) <= budget_bytes ? fits : too_long) = middle;
  }
  return fits;
}

}  // namespace scheduler
