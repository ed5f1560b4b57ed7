#pragma once

#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "cache/prefix_cache.h"
#include "cache/merged_read.h"
#include "cache/radix_node.h"
#include "cache/remote_store.h"
#include "cache/ssd_store.h"
#include "cache/write_behind.h"

namespace cache {

// The radix index: a trie of 64-token nodes, found by chained key without walking, with one block a
// layer group.
//
// Invariants (CheckIntegrity holds them against a count from scratch):
//   1 a node's parent is in the index, one block index lower, and counts its children rightly
//   2 pins = leases that have the node; a lease has all ancestors of its nodes, so pins never grow
//   downwards 3 locks of a slot = leases whose table holds its block, <= pins; in full groups locks
//   = pins 4 a block of a full group is there in every node (so from the root to any node there is
//   no gap) 5 a node without a block has children or pins 6 a block belongs to one slot or to one
//   lease's tail (the blocks after its nodes), never to two 7 unlocked_bytes = bytes of the blocks
//   with locks 0 8 marked = leaf, branching point or prompt end; needs of a slot = marks at its
//   node or less than
//     Reach(group) + 1 nodes below it
//   9 the queue holds just what may go now: leaves without pins as a whole; in nodes with pins or
//   children the
//     unlocked blocks of window groups, one by one
//
// A recurrent group is a window group of kStateWindow whose blocks are snapshots, and sparse
// (radix_snapshots.cpp): a lease's table has one only at the block it is in, the block that it
// filled last, and where a snapshot is to be kept. They lie at multiples of kBlockTokens, since a
// prefix ends there in the other groups too: what lies between costs at most 63 tokens of
// computing. A snapshot is dropped as soon as its sequence has gone on, unless it is kept.
//
// Eviction takes the least of (valued, score, -index):
//   - not valued: window blocks that no mark needs (restores happen at marks: where branches part,
//   end, or a
//     prompt ended), and leaves from whose end nothing can be restored because window blocks behind
//     them are gone
//   - score: when it was last used, in units of Begin and Release, plus 8 for each reuse up to 8.
//   So a block that
//     was reused stays for up to 64 more requests than one that never was
//   - leaf first: a shared head outlives its tails, and of equals the deepest goes first
class RadixCache final : public PrefixCache {
 public:
  explicit RadixCache(ops::BlockStore& blocks);
  // With lower tiers; either may be null.
  RadixCache(ops::BlockStore& blocks, std::unique_ptr<SsdStore> disk, const Clock& clock,
             std::unique_ptr<RemoteStore> remote = nullptr);
  ~RadixCache() override;

  Lease Begin(std::span<const TokenId> tokens, const std::string& salt,
              std::span<const std::int64_t> boundaries) override;
  using PrefixCache::Begin;
  void AddBoundary(Lease& lease, std::int64_t position) override;
  using PrefixCache::MatchLength;
  std::int64_t MatchLength(std::span<const TokenId> tokens, const std::string& salt,
                           PrefixKeys& keys) const override;
  bool Reserve(Lease& lease, std::int64_t len) override;
  void Commit(Lease& lease, std::span<const TokenId> tokens) override;
  void Release(Lease lease) override;
  std::uint64_t AvailableBytes() const override;
  bool SharesPrefixes() const override { return true; }
  std::optional<RestoreId> StartRestore(std::span<const TokenId> tokens,
                                        const std::string& salt) override;
  RestoreState StateOf(RestoreId id) const override;
  RestoredTokens EndRestore(RestoreId id) override;
  void NoteComputed(std::int64_t tokens, double ms) override;
  void AbandonRestores() override;
  void Poll() override;
  void Clear() override;
  void ClearDisk() override;
  void FlushToDisk() override;
  CacheStats stats() const override;
  void CheckIntegrity() const override;

 private:
  struct Match {
    BlockKey root_key{};
    std::vector<RadixNode*> nodes;  // usable ones, from the root
    std::size_t known = 0;          // nodes that are there, usable or not
  };
  [[nodiscard]] Match FindLongest(std::span<const TokenId> tokens, const std::string& salt,
                                  PrefixKeys& keys) const;
  void CountLookup(Lease& lease);
  // The node with this key, made where it is not there. `parent_key`: of the parent, or the root's.
  [[nodiscard]] RadixNode* FindOrAdd(RadixNode* parent, const BlockKey& parent_key,
                                     const BlockKey& key, std::span<const TokenId> tokens);
  void EnterBlock(Lease& lease, std::span<const TokenId> tokens);
  void PassWindows(Lease& lease, std::int64_t next_position);
  void NotePromptEnd(const Lease& lease);
  void TakeSlots(Lease& lease);
  // For recurrent groups (radix_snapshots.cpp).
  void ChooseSnapshots(Lease& lease, std::size_t known_blocks,
                       std::span<const std::int64_t> boundaries) const;
  [[nodiscard]] static bool IsSnapshot(const Lease& lease, std::size_t block);
  [[nodiscard]] bool NeedsBlock(const Lease& lease, std::size_t group, std::size_t block,
                                std::size_t end) const;
  void Keep(RadixNode& node, std::size_t group);
  void DropPassed(RadixNode& node, std::size_t group);
  void KeepLast(Lease& lease);

  // Blocks on their way from the lower tiers (radix_restore.cpp). Its lease pins the nodes that are there
  // and locks their blocks of full groups; blocks of window groups are needed by the mark at the
  // last node.
  struct Restore {
    std::vector<TokenId> tokens;
    std::string salt;
    bool asked = false;    // false: the disk's index is not there yet
    bool planned = false;  // false: the shared tier has not answered yet
    bool ended = false;
    bool failed = false;  // ended, and asking again would bring no more
    int users = 1;
    Lease lease;
    std::vector<BlockKey> keys;       // of the branch, up to where the restore leads
    std::vector<std::size_t> wanted;  // block indices, in the order in which they come
    std::optional<RemoteStore::LookupId> lookup = {};
    std::vector<std::size_t> asked_blocks = {};  // block indices, as in the lookup
    std::vector<GroupMask> remote = {};          // [block] what the shared tier has
    std::unique_ptr<MergedRead> read = {};
    RestoredTokens read_tokens = {};
    Clock::TimePoint last_progress{};
    Clock::TimePoint reading_since{};  // the first block
  };
  // Of a prompt's blocks, by index.
  struct Survey {
    std::vector<BlockKey> keys;
    std::vector<GroupMask> memory;
    std::vector<GroupMask> disk;
    std::size_t usable = 0;  // blocks of the longest prefix that can be restored
    std::size_t usable_in_memory = 0;
  };
  [[nodiscard]] GroupMask GroupsInMemory(const BlockKey& key) const;
  [[nodiscard]] GroupMask GroupsOnDisk(const BlockKey& key) const;
  [[nodiscard]] Survey SurveyOf(const Restore& restore) const;
  void Ask(Restore& restore);
  [[nodiscard]] bool TakeAnswer(Restore& restore);
  void Plan(Restore& restore);
  [[nodiscard]] double LongestWaitMs(double tokens) const;
  [[nodiscard]] bool IsTooSlow(const Restore& restore, Clock::TimePoint now) const;
  [[nodiscard]] std::optional<RestoreId> FindRestoreOf(const BlockKey& key) const;
  void PinBranch(Restore& restore);
  void Advance(Restore& restore);
  [[nodiscard]] bool TakeIn(Restore& restore, const BlockRead& read);
  [[nodiscard]] bool TakeGroup(RadixNode& node, std::size_t group,
                               std::span<const std::byte> bytes);
  void NoteWritten(RadixNode& node, Tier tier, GroupMask groups);
  void NoteForWriting(RadixNode& node);
  void BeforeLoss(RadixNode& node);
  void Stop(Restore& restore);
  void AddNode(Restore& restore);

  // Every change of a slot or node goes through these, which keep counts and queue right.
  void PutBlock(RadixNode& node, std::size_t group, ops::BlockId block);
  void DropBlock(RadixNode& node, std::size_t group);  // counted as evicted
  void FreeBlock(RadixNode& node, std::size_t group);
  void Lock(RadixNode& node, std::size_t group);
  void Unlock(RadixNode& node, std::size_t group);
  void Unpin(RadixNode& node);
  void UpdateMark(RadixNode& node);
  void AddNeeds(RadixNode& node, int delta);
  void Requeue(RadixNode& node);
  void SetQueued(std::optional<EvictionRank>& place, std::optional<EvictionRank> rank,
                 RadixNode& node);

  [[nodiscard]] bool EvictOne();
  void Remove(RadixNode* node);
  [[nodiscard]] bool HasBlocks(const RadixNode& node) const;
  [[nodiscard]] bool RestorableAt(const RadixNode& node) const;
  [[nodiscard]] bool AllocateInto(std::vector<ops::BlockId>& table, std::size_t group);

  // Nodes above a mark whose blocks of this group it needs, itself included, one more than the
  // window takes: the text after a prompt's end may part from it a few tokens early.
  [[nodiscard]] int Reach(std::size_t group) const;
  [[nodiscard]] bool IsMark(const RadixNode& node) const;
  [[noreturn]] static void Broken(const char* what);
  void CheckNode(const RadixNode& node) const;

  ops::BlockStore& blocks_;
  std::vector<int> windows_;        // [group], 0 = full
  std::vector<bool> is_recurrent_;  // [group]
  GroupMask full_groups_ = 0;
  std::vector<std::uint64_t> block_bytes_;
  mutable BlockHasher hasher_;  // scratch state of the digest, no meaning between calls
  std::unordered_map<BlockKey, std::unique_ptr<RadixNode>, BlockKeyHash> index_;
  std::map<EvictionRank, RadixNode*> queue_;
  std::unique_ptr<SsdStore> disk_;       // may be null
  std::unique_ptr<RemoteStore> remote_;  // may be null
  const Clock* clock_ = nullptr;         // null without lower tiers
  std::vector<std::unique_ptr<WriteBehind>> writers_;  // one a lower tier
  double computing_ms_per_token_ = 0;                  // of late; 0: nothing was computed yet
  std::map<RestoreId, Restore> restores_;
  RestoreId next_restore_ = 1;
  std::uint64_t now_ = 0;  // Begins and Releases so far
  std::uint64_t next_serial_ = 0;
  std::uint64_t unlocked_bytes_ = 0;
  int live_leases_ = 0;
  CacheStats stats_;
};

}  // namespace cache
