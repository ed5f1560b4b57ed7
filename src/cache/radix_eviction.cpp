// What may go, in which order: the bookkeeping behind radix_cache.cpp.
#include <algorithm>

#include "cache/radix_cache.h"
#include "cache/window.h"

namespace cache {
namespace {

// A reuse is worth as much as eight requests of recency, eight times at most: enough that a system
// prompt used by many survives a burst of one-off prompts, little enough that an old favourite goes
// in the end.
constexpr std::uint64_t kReuseWorth = 8;
constexpr std::uint64_t kMaxReuses = 8;

std::uint64_t Score(std::uint64_t last_use, std::uint64_t uses) {
  return last_use + kReuseWorth * std::min(uses, kMaxReuses);
}

}  // namespace

int RadixCache::Reach(std::size_t group) const {
  return 1 + (windows_[group] - 1 + ops::kBlockTokens - 1) / ops::kBlockTokens;
}

bool RadixCache::IsMark(const RadixNode& node) const {
  return node.children != 1 || node.prompt_end;
}

void RadixCache::PutBlock(RadixNode& node, std::size_t group, ops::BlockId block) {
  node.slots[group].block = block;
  ++stats_.cached_blocks;
  unlocked_bytes_ += block_bytes_[group];
}

void RadixCache::DropBlock(RadixNode& node, std::size_t group) {
  FreeBlock(node, group);
  ++stats_.evicted_blocks;
}

void RadixCache::FreeBlock(RadixNode& node, std::size_t group) {
  BlockSlot& slot = node.slots[group];
  blocks_.Free(static_cast<int>(group), slot.block);
  slot.block = ops::kNoBlock;
  slot.kept = false;
  --stats_.cached_blocks;
  unlocked_bytes_ -= block_bytes_[group];
}

void RadixCache::Lock(RadixNode& node, std::size_t group) {
  if (node.slots[group].locks++ == 0) {
    unlocked_bytes_ -= block_bytes_[group];
    Requeue(node);
  }
}

void RadixCache::Unlock(RadixNode& node, std::size_t group) {
  BlockSlot& slot = node.slots[group];
  if (--slot.locks == 0) {
    unlocked_bytes_ += block_bytes_[group];
    slot.last_use = now_;
    Requeue(node);
  }
}

void RadixCache::Unpin(RadixNode& node) {
  --node.pins;
  if (node.pins == 0 && node.children == 0 && !HasBlocks(node)) {
    Remove(&node);
    return;
  }
  Requeue(node);
}

void RadixCache::UpdateMark(RadixNode& node) {
  const bool mark = IsMark(node);
  if (mark != node.marked) {
    node.marked = mark;
    AddNeeds(node, mark ? 1 : -1);
  }
}

void RadixCache::AddNeeds(RadixNode& node, int delta) {
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    if (windows_[g] == 0) {
      continue;
    }
    RadixNode* above = &node;
    for (int step = 0; step < Reach(g) && above != nullptr; ++step, above = above->parent) {
      const bool was_needed = above->slots[g].needs > 0;
      above->slots[g].needs += delta;
      if (was_needed != (above->slots[g].needs > 0)) {
        Requeue(*above);
        if (!was_needed) {
          NoteForWriting(*above);
        }
      }
    }
  }
}

// Whether a sequence could go on after this node.
bool RadixCache::RestorableAt(const RadixNode& node) const {
  const std::int64_t end = (node.index + 1) * ops::kBlockTokens;
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    const RadixNode* above = &node;
    const std::int64_t first = windows_[g] == 0 ? node.index : FirstBlockSeen(end, windows_[g]);
    for (std::int64_t i = node.index; i >= first; --i, above = above->parent) {
      if (above->slots[g].block == ops::kNoBlock) {
        return false;
      }
    }
  }
  return true;
}

// Brings the node's places in the queue up to date with its state.
void RadixCache::Requeue(RadixNode& node) {
  const bool whole = node.children == 0 && node.pins == 0;
  std::optional<EvictionRank> rank;
  if (whole) {
    rank = EvictionRank{.valued = RestorableAt(node),
                        .score = Score(node.last_use, node.uses),
                        .height = -node.index,
                        .serial = node.serial,
                        .group = EvictionRank::kWholeNode};
  }
  SetQueued(node.queued, rank, node);
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    if (windows_[g] == 0) {
      continue;
    }
    BlockSlot& slot = node.slots[g];
    rank.reset();
    if (!whole && slot.block != ops::kNoBlock && slot.locks == 0) {
      // A snapshot by itself makes its position one where a sequence can go on.
      rank = EvictionRank{.valued = slot.needs > 0 || is_recurrent_[g],
                          .score = Score(slot.last_use, node.uses),
                          .height = -node.index,
                          .serial = node.serial,
                          .group = static_cast<int>(g)};
    }
    SetQueued(slot.queued, rank, node);
  }
}

void RadixCache::SetQueued(std::optional<EvictionRank>& place, std::optional<EvictionRank> rank,
                           RadixNode& node) {
  if (place == rank) {
    return;
  }
  if (place) {
    queue_.erase(*place);
  }
  if (rank) {
    queue_.emplace(*rank, &node);
  }
  place = rank;
}

bool RadixCache::EvictOne() {
  if (queue_.empty()) {
    return false;
  }
  // Whether a leaf can be restored hangs on window blocks above it too, which another sequence may
  // have put back since the leaf took its place.
  while (queue_.begin()->first.group == EvictionRank::kWholeNode && !queue_.begin()->first.valued &&
         RestorableAt(*queue_.begin()->second)) {
    Requeue(*queue_.begin()->second);
  }
  const auto [rank, node] = *queue_.begin();
  BeforeLoss(*node);
  if (rank.group == EvictionRank::kWholeNode) {
    Remove(node);
  } else {
    DropBlock(*node, static_cast<std::size_t>(rank.group));
    Requeue(*node);
  }
  return true;
}

bool RadixCache::HasBlocks(const RadixNode& node) const {
  return std::any_of(node.slots.begin(), node.slots.end(),
                     [](const BlockSlot& slot) { return slot.block != ops::kNoBlock; });
}

// Removes a leaf without pins, and then those above it that only led to it.
void RadixCache::Remove(RadixNode* node) {
  while (node != nullptr) {
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      if (node->slots[g].block != ops::kNoBlock) {
        DropBlock(*node, g);
      }
      SetQueued(node->slots[g].queued, std::nullopt, *node);
    }
    SetQueued(node->queued, std::nullopt, *node);
    if (node->marked) {
      AddNeeds(*node, -1);
      SetQueued(node->queued, std::nullopt, *node);  // AddNeeds may have put it back
    }
    BeforeLoss(*node);  // it has no block left: only takes it off the lists
    RadixNode* parent = node->parent;
    index_.erase(index_.find(node->key));
    if (parent == nullptr) {
      return;
    }
    --parent->children;
    UpdateMark(*parent);
    if (parent->children > 0 || parent->pins > 0 || HasBlocks(*parent)) {
      Requeue(*parent);
      return;
    }
    node = parent;
  }
}

}  // namespace cache
