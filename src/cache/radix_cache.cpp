#include "cache/radix_cache.h"

#include <algorithm>
#include <cassert>
#include <utility>

#include "cache/window.h"

namespace cache {
namespace {

constexpr auto kBlock = static_cast<std::size_t>(ops::kBlockTokens);

}  // namespace

RadixCache::RadixCache(ops::BlockStore& blocks) : blocks_(blocks) {
  for (std::size_t g = 0; g < blocks.groups().size(); ++g) {
    windows_.push_back(blocks.groups()[g].window);
    is_recurrent_.push_back(blocks.groups()[g].is_recurrent());
    full_groups_ |= windows_.back() == 0 ? 1U << g : 0U;
    block_bytes_.push_back(blocks.BlockBytes(static_cast<int>(g)));
  }
}

RadixCache::RadixCache(ops::BlockStore& blocks, std::unique_ptr<SsdStore> disk, const Clock& clock,
                       std::unique_ptr<RemoteStore> remote)
    : RadixCache(blocks) {
  disk_ = std::move(disk);
  remote_ = std::move(remote);
  clock_ = &clock;
  if (disk_ != nullptr) {
    writers_.push_back(std::make_unique<WriteBehind>(blocks, Tier::kDisk, *disk_, clock));
  }
  if (remote_ != nullptr) {
    writers_.push_back(std::make_unique<WriteBehind>(blocks, Tier::kRemote, *remote_, clock));
  }
}

RadixCache::~RadixCache() {
  for (auto& [id, restore] : restores_) {
    Stop(restore);
  }
  assert(live_leases_ == 0 && "leases must be released before their cache goes");
  Clear();
}

RadixCache::Match RadixCache::FindLongest(std::span<const TokenId> tokens, const std::string& salt,
                                          PrefixKeys& keys) const {
  if (!keys.root_) {
    keys.root_ = hasher_.Root(salt);
  }
  Match match{.root_key = *keys.root_, .nodes = {}};
  std::size_t usable = 0;
  // Per group: the index after the last block that is missing, so blocks [first_there, i] are all
  // there.
  std::vector<std::int64_t> first_there(windows_.size(), 0);
  // At most tokens.size() - 1: one token is left to compute, for its logits.
  for (std::size_t i = 0; (i + 1) * kBlock < tokens.size(); ++i) {
    if (i == keys.blocks_.size()) {
      const BlockKey& before = i == 0 ? *keys.root_ : keys.blocks_.back();
      keys.blocks_.push_back(hasher_.Next(before, tokens.subspan(i * kBlock, kBlock)));
    }
    const auto found = index_.find(keys.blocks_[i]);
    if (found == index_.end()) {
      break;
    }
    match.nodes.push_back(found->second.get());
    const auto end = static_cast<std::int64_t>((i + 1) * kBlock);
    bool restorable = true;
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      if (found->second->slots[g].block == ops::kNoBlock) {
        first_there[g] = static_cast<std::int64_t>(i) + 1;
      }
      restorable = restorable && first_there[g] <= FirstBlockSeen(end, windows_[g]);
    }
    usable = restorable ? i + 1 : usable;
  }
  match.known = match.nodes.size();
  match.nodes.resize(usable);
  return match;
}

Lease RadixCache::Begin(std::span<const TokenId> tokens, const std::string& salt,
                        std::span<const std::int64_t> boundaries) {
  ++now_;
  ++live_leases_;
  PrefixKeys keys;
  Match match = FindLongest(tokens, salt, keys);
  Lease lease;
  lease.live_ = true;
  lease.root_key_ = match.root_key;
  lease.nodes_ = std::move(match.nodes);
  lease.cached_len_ = static_cast<std::int64_t>(lease.nodes_.size() * kBlock);
  lease.prompt_len_ = static_cast<std::int64_t>(tokens.size());
  ChooseSnapshots(lease, match.known, boundaries);
  TakeSlots(lease);
  NotePromptEnd(lease);
  return lease;
}

void RadixCache::CountLookup(Lease& lease) {
  if (std::exchange(lease.counted_, true)) {
    return;
  }
  ++(lease.cached_len_ > 0 ? stats_.hits : stats_.misses);
  stats_.hit_tokens += static_cast<std::uint64_t>(lease.cached_len_);
  stats_.lookup_tokens += static_cast<std::uint64_t>(lease.prompt_len_);
}

// Pins the nodes of a new lease and locks the blocks it will read.
void RadixCache::TakeSlots(Lease& lease) {
  lease.block_tables_.assign(windows_.size(),
                             std::vector<ops::BlockId>(lease.nodes_.size(), ops::kNoBlock));
  lease.first_kept_.assign(windows_.size(), 0);
  for (RadixNode* node : lease.nodes_) {
    ++node->pins;
    ++node->uses;
    node->last_use = now_;
    Requeue(*node);
  }
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    const std::int64_t first = FirstBlockSeen(lease.cached_len_, windows_[g]);
    lease.first_kept_[g] = first;
    for (std::size_t i = static_cast<std::size_t>(first); i < lease.nodes_.size(); ++i) {
      lease.block_tables_[g][i] = lease.nodes_[i]->slots[g].block;
      Lock(*lease.nodes_[i], g);
    }
  }
}

std::int64_t RadixCache::MatchLength(std::span<const TokenId> tokens, const std::string& salt,
                                     PrefixKeys& keys) const {
  return static_cast<std::int64_t>(FindLongest(tokens, salt, keys).nodes.size() * kBlock);
}

bool RadixCache::Reserve(Lease& lease, std::int64_t len) {
  CountLookup(lease);
  const auto wanted = static_cast<std::size_t>(BlocksFor(len));
  const std::size_t had = lease.block_tables_.empty() ? 0 : lease.block_tables_[0].size();
  if (wanted <= had) {
    return true;
  }
  std::uint64_t needed_bytes = 0;
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    for (std::size_t i = had; i < wanted; ++i) {
      needed_bytes += NeedsBlock(lease, g, i, wanted) ? block_bytes_[g] : 0;
    }
  }
  if (needed_bytes > AvailableBytes()) {
    return false;
  }
  for (std::size_t i = had; i < wanted; ++i) {
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      if (!NeedsBlock(lease, g, i, wanted)) {
        lease.block_tables_[g].push_back(ops::kNoBlock);
        continue;
      }
      if (AllocateInto(lease.block_tables_[g], g)) {
        continue;
      }
      // The store refuses though the bytes are there (its own limits): as if nothing had been
      // asked.
      for (std::size_t h = 0; h < windows_.size(); ++h) {
        for (auto& table = lease.block_tables_[h]; table.size() > had; table.pop_back()) {
          if (table.back() != ops::kNoBlock) {
            blocks_.Free(static_cast<int>(h), table.back());
          }
        }
      }
      return false;
    }
  }
  return true;
}

bool RadixCache::AllocateInto(std::vector<ops::BlockId>& table, std::size_t group) {
  std::optional<ops::BlockId> block = blocks_.Allocate(static_cast<int>(group));
  while (!block && EvictOne()) {
    block = blocks_.Allocate(static_cast<int>(group));
  }
  if (block) {
    table.push_back(*block);
  }
  return block.has_value();
}

void RadixCache::Commit(Lease& lease, std::span<const TokenId> tokens) {
  while ((lease.nodes_.size() + 1) * kBlock <= tokens.size()) {
    EnterBlock(lease, tokens);
  }
  PassWindows(lease, static_cast<std::int64_t>(tokens.size()));
}

// Puts the lease's first block that is not in the index there, or takes the equal one that is.
void RadixCache::EnterBlock(Lease& lease, std::span<const TokenId> tokens) {
  const std::size_t i = lease.nodes_.size();
  RadixNode* parent = i == 0 ? nullptr : lease.nodes_.back();
  const BlockKey key = hasher_.Next(parent == nullptr ? lease.root_key_ : parent->key,
                                    tokens.subspan(i * kBlock, kBlock));
  const BlockKey& parent_key = parent == nullptr ? lease.root_key_ : parent->key;
  RadixNode* node = FindOrAdd(parent, parent_key, key, tokens.subspan(i * kBlock, kBlock));
  ++node->pins;
  node->last_use = now_;
  lease.nodes_.push_back(node);
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    ops::BlockId& own = lease.block_tables_[g][i];
    if (own == ops::kNoBlock) {
      continue;  // no snapshot here
    }
    if (node->slots[g].block == ops::kNoBlock) {
      PutBlock(*node, g, own);
    } else {
      // Another sequence computed the same tokens meanwhile; the contents are equal to the bit.
      blocks_.Free(static_cast<int>(g), own);
      own = node->slots[g].block;
    }
    Lock(*node, g);
    if (is_recurrent_[g] && IsSnapshot(lease, i)) {
      Keep(*node, g);
    }
  }
  Requeue(*node);
  NotePromptEnd(lease);
  NoteForWriting(*node);
}

RadixNode* RadixCache::FindOrAdd(RadixNode* parent, const BlockKey& parent_key, const BlockKey& key,
                                 std::span<const TokenId> tokens) {
  std::unique_ptr<RadixNode>& entry = index_[key];
  if (entry != nullptr) {
    return entry.get();
  }
  entry = std::make_unique<RadixNode>();
  entry->key = key;
  entry->parent = parent;
  entry->index = parent == nullptr ? 0 : parent->index + 1;
  entry->serial = next_serial_++;
  entry->slots.resize(windows_.size());
  entry->parent_key = parent_key;
  std::ranges::copy(tokens, entry->tokens.begin());
  NoteWritten(*entry, Tier::kDisk, GroupsOnDisk(key));
  // The new leaf's mark first, so that blocks which both leaves need are not requeued twice.
  UpdateMark(*entry);
  if (parent != nullptr) {
    ++parent->children;
    UpdateMark(*parent);
    Requeue(*parent);
  }
  return entry.get();
}

// Marks the node up to which a repetition of the lease's prompt would be restored.
void RadixCache::NotePromptEnd(const Lease& lease) {
  const auto blocks =
      static_cast<std::size_t>(std::max<std::int64_t>(0, lease.prompt_len_ - 1)) / kBlock;
  if (blocks > 0 && lease.nodes_.size() == blocks) {
    lease.nodes_.back()->prompt_end = true;
    UpdateMark(*lease.nodes_.back());
  }
}

void RadixCache::PassWindows(Lease& lease, std::int64_t next_position) {
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    const std::int64_t first = FirstBlockSeen(next_position, windows_[g]);
    for (std::int64_t& kept = lease.first_kept_[g]; kept < first; ++kept) {
      const auto i = static_cast<std::size_t>(kept);
      if (std::exchange(lease.block_tables_[g][i], ops::kNoBlock) != ops::kNoBlock) {
        Unlock(*lease.nodes_[i], g);
        DropPassed(*lease.nodes_[i], g);
      }
    }
  }
}

void RadixCache::Release(Lease lease) {
  assert(lease.live_);
  ++now_;
  --live_leases_;
  KeepLast(lease);
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    auto& table = lease.block_tables_[g];
    for (; table.size() > lease.nodes_.size(); table.pop_back()) {
      if (table.back() != ops::kNoBlock) {
        blocks_.Free(static_cast<int>(g), table.back());
      }
    }
    for (std::size_t i = static_cast<std::size_t>(lease.first_kept_[g]); i < table.size(); ++i) {
      if (table[i] != ops::kNoBlock) {
        Unlock(*lease.nodes_[i], g);
      }
    }
  }
  for (auto node = lease.nodes_.rbegin(); node != lease.nodes_.rend(); ++node) {
    (*node)->last_use = now_;
    for (const std::unique_ptr<WriteBehind>& writer : writers_) {
      writer->SetDue(**node);
    }
    Unpin(**node);
  }
  lease.live_ = false;
}

std::uint64_t RadixCache::AvailableBytes() const {
  return blocks_.budget_bytes() - blocks_.used_bytes() + unlocked_bytes_;
}

void RadixCache::Clear() {
  FlushToDisk();
  while (EvictOne()) {
  }
}

CacheStats RadixCache::stats() const {
  CacheStats stats = stats_;
  stats.used_bytes = blocks_.used_bytes();
  stats.budget_bytes = blocks_.budget_bytes();
  if (disk_ != nullptr) {
    stats.disk = disk_->stats();
  }
  if (remote_ != nullptr) {
    stats.remote = remote_->stats();
  }
  return stats;
}

std::unique_ptr<PrefixCache> MakeRadixCache(ops::BlockStore& blocks) {
  return std::make_unique<RadixCache>(blocks);
}

}  // namespace cache
