#pragma once

#include <cstdint>
#include <list>
#include <vector>

#include "base/clock.h"
#include "cache/radix_node.h"
#include "ops/kv_store/block_store.h"

namespace cache {

// Which blocks a lower tier is still to get, and their way there: gathered into segments, copied
// and queued. Used by the engine thread only; waits for nothing but in FlushAll.
//
// A block is wanted there in full-attention groups always, in a window group when a mark needs it
// (RadixCache): a restore can use it nowhere else. Of recurrent groups the kept snapshots are.
class WriteBehind {
 public:
  WriteBehind(ops::BlockStore& blocks, Tier tier, LowerTier& store, const Clock& clock);

  // The node is new, or a block or a need was added to it.
  void Note(RadixNode& node);
  // The node's branch will not grow soon: it need not wait for a full segment.
  void SetDue(RadixNode& node) const;
  // The node is about to lose a block from memory: the last moment to write it. Counted as dropped
  // when there is no room.
  void BeforeLoss(RadixNode& node);

  // Queues what makes a full segment, is due or has waited for a second, as room allows.
  void Flush();
  // Queues everything, waiting for room up to `patience`.
  void FlushAll(std::chrono::milliseconds patience);

  // Forgets what was written: the tier has been cleared.
  void ForgetWritten(RadixNode& node) const;
  // The groups are there: they came from the tier, or it is known to have them.
  void NoteWritten(RadixNode& node, GroupMask groups) const;

  [[nodiscard]] Tier tier() const { return tier_; }

 private:
  [[nodiscard]] GroupMask Missing(const RadixNode& node) const;
  [[nodiscard]] std::vector<RadixNode*> RunFrom(std::list<RadixNode*>::iterator first) const;
  [[nodiscard]] bool IsFull(const std::vector<RadixNode*>& run) const;
  [[nodiscard]] bool IsRipe(const std::vector<RadixNode*>& run, bool all) const;
  // Queues what is ripe (or all); false when room was short.
  bool QueueRuns(bool all);
  [[nodiscard]] std::uint64_t BytesOf(const std::vector<RadixNode*>& run) const;
  void Queue(const std::vector<RadixNode*>& run);
  void Unlist(RadixNode& node);

  ops::BlockStore& blocks_;
  const Tier tier_;
  LowerTier& store_;
  const Clock& clock_;
  std::size_t max_blocks_ = 1;       // of a segment
  std::list<RadixNode*> unwritten_;  // in the order in which they were noted
};

}  // namespace cache
