// RadixCache's invariants, counted from scratch.
#include <spdlog/spdlog.h>

#include <cstdlib>

#include "cache/radix_cache.h"

namespace cache {

void RadixCache::Broken(const char* what) {
  spdlog::critical("[cache] broken invariant: {}", what);
  std::abort();
}

void RadixCache::CheckNode(const RadixNode& node) const {
  if (node.parent != nullptr) {
    const auto parent = index_.find(node.parent->key);
    if (parent == index_.end() || parent->second.get() != node.parent) {
      Broken("1: a node's parent is not in the index");
    }
    if (node.parent->pins < node.pins) {
      Broken("2: a node has more pins than its parent");
    }
  }
  if (node.index != (node.parent == nullptr ? 0 : node.parent->index + 1)) {
    Broken("1: a node's index does not follow its parent's");
  }
  const bool whole = node.children == 0 && node.pins == 0;
  if (whole != node.queued.has_value()) {
    Broken("9: a node's place in the queue does not fit its state");
  }
  if (node.marked != IsMark(node)) {
    Broken("8: a mark is not up to date");
  }
  if (!HasBlocks(node) && whole) {
    Broken("5: a leaf without a block");
  }
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    const BlockSlot& slot = node.slots[g];
    const bool there = slot.block != ops::kNoBlock;
    if (slot.locks < 0 || slot.locks > node.pins || (windows_[g] == 0 && slot.locks != node.pins)) {
      Broken("3: locks do not fit pins");
    }
    if (windows_[g] == 0 && !there) {
      Broken("4: a block of a full group is missing");
    }
    if (!there && slot.locks > 0) {
      Broken("3: a block that is not there is locked");
    }
    if (slot.queued.has_value() != (windows_[g] != 0 && !whole && there && slot.locks == 0)) {
      Broken("9: a slot's place in the queue does not fit its state");
    }
  }
}

void RadixCache::CheckIntegrity() const {
  std::unordered_map<const RadixNode*, int> children;
  std::unordered_map<const RadixNode*, std::vector<int>> needs;
  std::uint64_t unlocked_bytes = 0;
  std::uint64_t cached_blocks = 0;
  std::size_t queued = 0;
  for (const auto& [key, node] : index_) {
    CheckNode(*node);
    ++children[node->parent];
    queued += node->queued.has_value() ? 1 : 0;
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      const BlockSlot& slot = node->slots[g];
      queued += slot.queued.has_value() ? 1 : 0;
      cached_blocks += slot.block != ops::kNoBlock ? 1 : 0;
      unlocked_bytes += slot.block != ops::kNoBlock && slot.locks == 0 ? block_bytes_[g] : 0;
      if (!IsMark(*node) || windows_[g] == 0) {
        continue;
      }
      const RadixNode* above = node.get();
      for (int step = 0; step < Reach(g) && above != nullptr; ++step, above = above->parent) {
        needs[above].resize(windows_.size());
        ++needs[above][g];
      }
    }
  }
  for (const auto& [key, node] : index_) {
    if (node->children != children[node.get()]) {
      Broken("1: children are counted wrongly");
    }
    needs[node.get()].resize(windows_.size());
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      if (node->slots[g].needs != needs[node.get()][g]) {
        Broken("8: needs are counted wrongly");
      }
    }
  }
  if (queued != queue_.size()) {
    Broken("9: the queue holds what no node knows of");
  }
  if (unlocked_bytes != unlocked_bytes_ || cached_blocks != stats_.cached_blocks) {
    Broken("7: blocks or bytes are counted wrongly");
  }
  if (blocks_.used_bytes() > blocks_.budget_bytes()) {
    Broken("the block store is over its budget");
  }
}

}  // namespace cache
