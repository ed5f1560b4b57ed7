// Recurrent groups: which states stay as snapshots.
#include <algorithm>

#include "cache/radix_cache.h"

namespace cache {
namespace {

constexpr auto kBlock = static_cast<std::int64_t>(ops::kBlockTokens);

}  // namespace

// `known_blocks`: of the prompt, in the index.
void RadixCache::ChooseSnapshots(Lease& lease, std::size_t known_blocks,
                                 std::span<const std::int64_t> boundaries) const {
  if (std::ranges::find(is_recurrent_, true) == is_recurrent_.end()) {
    return;
  }
  std::vector<std::int64_t> ends(boundaries.begin(), boundaries.end());
  ends.push_back(lease.prompt_len_ - 1);  // a repetition has one token left to compute
  // Where this prompt parts from another whose state there has not been kept.
  if (known_blocks > lease.nodes_.size()) {
    ends.push_back(static_cast<std::int64_t>(known_blocks) * kBlock);
  }
  for (const std::int64_t end : ends) {
    if (end >= kBlock && end <= lease.prompt_len_) {
      lease.snapshots_.push_back(end / kBlock - 1);
    }
  }
  std::ranges::sort(lease.snapshots_);
}

void RadixCache::AddBoundary(Lease& lease, std::int64_t position) {
  const std::int64_t block = position / kBlock - 1;
  const auto place = std::ranges::lower_bound(lease.snapshots_, block);
  if (block >= 0 && (place == lease.snapshots_.end() || *place != block)) {
    lease.snapshots_.insert(place, block);
  }
}

bool RadixCache::IsSnapshot(const Lease& lease, std::size_t block) {
  const auto index = static_cast<std::int64_t>(block);
  return (index + 1) * kBlock % kSnapshotTokens == 0 ||
         std::ranges::binary_search(lease.snapshots_, index);
}

// Whether a lease whose table is to have `end` blocks needs this one.
bool RadixCache::NeedsBlock(const Lease& lease, std::size_t group, std::size_t block,
                            std::size_t end) const {
  return !is_recurrent_[group] || block + 1 == end || IsSnapshot(lease, block);
}

void RadixCache::Keep(RadixNode& node, std::size_t group) {
  if (!node.slots[group].kept) {
    node.slots[group].kept = true;
    Requeue(node);
    NoteForWriting(node);
  }
}

// A sequence has gone on beyond the node and has unlocked its block of the group.
void RadixCache::DropPassed(RadixNode& node, std::size_t group) {
  const BlockSlot& slot = node.slots[group];
  if (is_recurrent_[group] && !slot.kept && slot.locks == 0) {
    FreeBlock(node, group);
    Requeue(node);
  }
}

// The last state that a sequence leaves behind is where its continuation begins.
void RadixCache::KeepLast(Lease& lease) {
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    for (auto i = static_cast<std::size_t>(lease.first_kept_[g]);
         is_recurrent_[g] && i < lease.nodes_.size(); ++i) {
      if (lease.block_tables_[g][i] != ops::kNoBlock) {
        Keep(*lease.nodes_[i], g);
      }
    }
  }
}

}  // namespace cache
