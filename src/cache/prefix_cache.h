#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/file_system.h"
#include "base/token_constraint.h"
#include "cache/block_key.h"
#include "cache/remote_options.h"
#include "cache/remote_stats.h"
#include "cache/ssd_options.h"
#include "cache/ssd_stats.h"
#include "ops/kv_store/block_store.h"

namespace cache {

struct RadixNode;

// What a sequence holds in the bank: its blocks, by layer group and block index. Blocks [0, shared)
// belong to the cache and are locked by this lease; the rest are the sequence's own. Move-only;
// must be given back to the cache that made it (Release), which the destructor asserts.
class Lease;

struct CacheStats {
  std::uint64_t used_bytes = 0;  // blocks held by cache and sequences
  std::uint64_t budget_bytes = 0;
  std::uint64_t cached_blocks = 0;
  // Lookups of sequences that went on to Reserve: a start that was put off is no lookup yet.
  std::uint64_t hits = 0;  // with at least one block
  std::uint64_t misses = 0;
  std::uint64_t hit_tokens = 0;
  std::uint64_t lookup_tokens = 0;
  std::uint64_t evicted_blocks = 0;
  std::optional<SsdStats> disk = {};       // nothing without a disk tier
  std::optional<RemoteStats> remote = {};  // nothing without a shared tier
};

// What a restore brought, by where it came from.
struct RestoredTokens {
  std::int64_t disk = 0;
  std::int64_t remote = 0;
};

// The block keys of one sequence under one salt, as far as lookups needed them. Kept with a
// sequence that waits, which is looked up at every step: a key is made once, and tokens that are
// added at the end leave those before them valid.
class PrefixKeys {
 private:
  friend class RadixCache;
  std::optional<BlockKey> root_;
  std::vector<BlockKey> blocks_;
};

// Prefixes of token ids -> KV blocks. Used by the engine thread only.
//
// A sequence lives so: Begin (longest usable prefix is locked), Reserve before each step (blocks
// for the tokens to come), Commit after it (full blocks enter the bank and are shared from then on;
// blocks that a sliding window has passed are let go), Release at its end. Blocks are immutable
// once full. A block of a branch is never evicted while a lease locks it.
//
// With lower tiers (disk, shared), full blocks are also written behind, and what these have beyond
// memory is brought by a restore: StartRestore while the sequence waits, Poll before each step, and when the
// restore runs no longer, Begin (which finds the blocks in memory), then EndRestore.
class PrefixCache {
 public:
  PrefixCache() = default;
  PrefixCache(const PrefixCache&) = delete;
  PrefixCache& operator=(const PrefixCache&) = delete;
  virtual ~PrefixCache() = default;

  // Longest position, a multiple of kBlockTokens and at most tokens.size() - 1, from which the
  // sequence can go on: every full-attention block before it and, of each window group, the blocks
  // of the last window before it. `salt` separates tenants: different salts never share. Returns a
  // lease with cached_len set.
  //
  // Of a recurrent group one snapshot is needed, at that position. Snapshots are large, so they are
  // sparse: the lease keeps those at the ends of the blocks before each of `boundaries` (positions
  // where other prompts are likely to part from this one: before the last user message), before the
  // prompt's end, where this prompt parted from one that is banked, every kSnapshotTokens, and the
  // last block's end of the whole sequence.
  [[nodiscard]] virtual Lease Begin(std::span<const TokenId> tokens, const std::string& salt,
                                    std::span<const std::int64_t> boundaries) = 0;
  [[nodiscard]] Lease Begin(std::span<const TokenId> tokens, const std::string& salt);

  // One more boundary for a lease that has not come to it: another prompt waits for what it
  // computes and will part from it there. Without effect where it is too late.
  virtual void AddBoundary(Lease& /*lease*/, std::int64_t /*position*/) {}

  // As Begin would find, without locking or counting: for ordering the queue. REQUIRES: `keys` were
  // used with this salt and with tokens that these begin with, or not at all.
  [[nodiscard]] virtual std::int64_t MatchLength(std::span<const TokenId> tokens,
                                                 const std::string& salt,
                                                 PrefixKeys& keys) const = 0;
  [[nodiscard]] std::int64_t MatchLength(std::span<const TokenId> tokens,
                                         const std::string& salt) const {
    PrefixKeys keys;
    return MatchLength(tokens, salt, keys);
  }

  // Makes sure that blocks for positions [0, len) exist (in recurrent groups: the last one and
  // those whose end is to be a snapshot), evicting unlocked ones as needed. False: the budget
  // cannot hold them now (nothing changed).
  [[nodiscard]] virtual bool Reserve(Lease& lease, std::int64_t len) = 0;

  // Tells that K and V of positions [0, tokens.size()) are computed; `tokens` are the sequence's
  // tokens so far.
  virtual void Commit(Lease& lease, std::span<const TokenId> tokens) = 0;

  // Gives everything back; full blocks stay cached.
  virtual void Release(Lease lease) = 0;

  // Blocks (all groups, in bytes) that Reserve could get at most, evicting all that is not locked.
  [[nodiscard]] virtual std::uint64_t AvailableBytes() const = 0;

  // Whether sequences find each other's blocks: whether it pays to wait for one that computes the
  // same prefix.
  [[nodiscard]] virtual bool SharesPrefixes() const = 0;

  using RestoreId = std::uint64_t;
  // Begins to bring the blocks of the prompt that all tiers together have beyond what memory has
  // alone, or joins the restore that brings the first of them. Nothing: the lower tiers can add
  // nothing. They are kept from eviction until EndRestore.
  [[nodiscard]] virtual std::optional<RestoreId> StartRestore(std::span<const TokenId> /*tokens*/,
                                                              const std::string& /*salt*/) {
    return std::nullopt;
  }
  enum class RestoreState {
    kRunning,
    kAskAgain,  // ended; StartRestore may find more (it was another's, or came before the index)
    kOver,
  };
  [[nodiscard]] virtual RestoreState StateOf(RestoreId /*id*/) const { return RestoreState::kOver; }
  // Once for each StartRestore, at any time. Returns the tokens that came from below memory.
  virtual RestoredTokens EndRestore(RestoreId /*id*/) { return {}; }
  // Ends all restores and unlocks their blocks: the memory is needed.
  virtual void AbandonRestores() {}
  // Takes in what was read, and hands blocks that are to be written over to the lower tiers.
  virtual void Poll() {}
  // Tells how long computing a prompt's tokens took: a restore that is slower is given up.
  virtual void NoteComputed(std::int64_t /*tokens*/, double /*ms*/) {}

  // Drops all that is not locked from memory. Blocks that the lower tiers were still to get are
  // written first, which may wait for the disk.
  virtual void Clear() = 0;
  // Drops all that the disk tier has of this model. Waits for the disk.
  virtual void ClearDisk() {}
  // Waits until all full blocks are written.
  virtual void FlushToDisk() {}

  [[nodiscard]] virtual CacheStats stats() const = 0;

  // Aborts with a message when an invariant is broken; cheap enough for tests after every step.
  virtual void CheckIntegrity() const = 0;
};

// A long prompt loses at most the computing of so many tokens when it is changed anywhere.
inline constexpr std::int64_t kSnapshotTokens = 8192;

class Lease {
 public:
  Lease() = default;
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  [[nodiscard]] std::int64_t cached_len() const { return cached_len_; }  // tokens found by Begin
  // For engine::StepSequence.
  [[nodiscard]] const std::vector<std::vector<ops::BlockId>>& block_tables() const {
    return block_tables_;
  }

 private:
  friend class RadixCache;
  friend class NaiveCache;
  std::int64_t cached_len_ = 0;
  std::int64_t prompt_len_ = 0;                          // tokens given to Begin
  std::vector<std::vector<ops::BlockId>> block_tables_;  // [group][block index]
  std::vector<std::int64_t>
      first_kept_;  // [group] blocks before this index have been passed by the window
  std::vector<std::int64_t> snapshots_;  // RadixCache: blocks whose ends are to be kept, ascending
  std::vector<RadixNode*> nodes_;        // RadixCache: pinned nodes, by block index
  BlockKey root_key_{};                  // RadixCache: parent key of block 0, made of the salt
  bool live_ = false;
  bool counted_ = false;  // in hits or misses
};

inline Lease PrefixCache::Begin(std::span<const TokenId> tokens, const std::string& salt) {
  return Begin(tokens, salt, {});
}

// The real one: radix index over hashes of (parent, tokens, salt). `blocks` must outlive it.
[[nodiscard]] std::unique_ptr<PrefixCache> MakeRadixCache(ops::BlockStore& blocks);

// The tiers below memory; nothing where one is not wanted. Their group_bytes are set by
// MakeRadixCache.
struct LowerTierOptions {
  std::optional<SsdOptions> disk = {};
  std::optional<RemoteOptions> remote = {};
};
// With lower tiers of threads of their own, which call `wake` when Poll has something to do.
// `files` and `clock` must outlive it.
[[nodiscard]] std::unique_ptr<PrefixCache> MakeRadixCache(ops::BlockStore& blocks,
                                                          LowerTierOptions options,
                                                          FileSystem& files, const Clock& clock,
                                                          std::function<void()> wake);

// No sharing: judge of the tests and --disable-prefix-cache.
[[nodiscard]] std::unique_ptr<PrefixCache> MakeNaiveCache(ops::BlockStore& blocks);

}  // namespace cache
