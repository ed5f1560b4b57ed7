// The way back from the lower tiers into RadixCache; what of them is planned in
// radix_restore_plan.cpp.
#include <algorithm>
#include <cassert>
#include <chrono>

#include "cache/radix_cache.h"
#include "cache/window.h"

namespace cache {
namespace {

constexpr auto kBlock = static_cast<std::size_t>(ops::kBlockTokens);
// A tier that brings nothing for so long is slower than computing.
constexpr double kPatienceMs = 5000;
// So long, or so much, is not yet a measure of its speed.
constexpr double kMeasureMs = 1000;
constexpr std::chrono::seconds kFlushPatience{10};

}  // namespace

std::optional<PrefixCache::RestoreId> RadixCache::StartRestore(std::span<const TokenId> tokens,
                                                               const std::string& salt) {
  if (writers_.empty() || tokens.empty()) {
    return std::nullopt;
  }
  Restore restore{.tokens = {tokens.begin(), tokens.end()},
                  .salt = salt,
                  .lease = {},
                  .keys = {},
                  .wanted = {}};
  restore.last_progress = clock_->Now();
  if (disk_ == nullptr || disk_->ready()) {
    Ask(restore);
  }
  if (restore.asked && !restore.lookup) {
    Plan(restore);
    if (restore.wanted.empty()) {
      return std::nullopt;
    }
    if (const auto other = FindRestoreOf(restore.keys[restore.wanted.front()]);
        other && restore.read == nullptr) {
      ++restores_.at(*other).users;
      return other;
    }
    PinBranch(restore);
  }
  const RestoreId id = next_restore_++;
  restores_.emplace(id, std::move(restore));
  return id;
}

std::optional<PrefixCache::RestoreId> RadixCache::FindRestoreOf(const BlockKey& key) const {
  for (const auto& [id, restore] : restores_) {
    if (restore.ended || !restore.read) {
      continue;
    }
    for (const std::size_t i : restore.wanted) {
      if (restore.keys[i] == key) {
        return id;
      }
    }
  }
  return std::nullopt;
}

// Takes a lease on the part of the branch that is in memory.
void RadixCache::PinBranch(Restore& restore) {
  ++now_;
  ++live_leases_;
  Lease& lease = restore.lease;
  lease.live_ = true;
  lease.root_key_ = hasher_.Root(restore.salt);
  lease.block_tables_.resize(windows_.size());
  lease.first_kept_.assign(windows_.size(), 0);
  for (const BlockKey& key : restore.keys) {
    const auto found = index_.find(key);
    if (found == index_.end()) {
      break;
    }
    lease.nodes_.push_back(found->second.get());
  }
  for (RadixNode* node : lease.nodes_) {
    ++node->pins;
    node->last_use = now_;
    Requeue(*node);
  }
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    for (RadixNode* node : lease.nodes_) {
      const bool is_full = windows_[g] == 0;
      lease.block_tables_[g].push_back(is_full ? node->slots[g].block : ops::kNoBlock);
      if (is_full) {
        Lock(*node, g);
      }
    }
    if (windows_[g] != 0) {
      lease.first_kept_[g] = static_cast<std::int64_t>(restore.keys.size());
    }
  }
}

PrefixCache::RestoreState RadixCache::StateOf(RestoreId id) const {
  const Restore& restore = restores_.at(id);
  if (!restore.ended) {
    return RestoreState::kRunning;
  }
  return restore.failed ? RestoreState::kOver : RestoreState::kAskAgain;
}

RestoredTokens RadixCache::EndRestore(RestoreId id) {
  const auto found = restores_.find(id);
  Restore& restore = found->second;
  const RestoredTokens read_tokens = restore.read_tokens;
  if (--restore.users == 0) {
    Stop(restore);
    restores_.erase(found);
  }
  return read_tokens;
}

void RadixCache::AbandonRestores() {
  for (auto& [id, restore] : restores_) {
    Stop(restore);
  }
}

void RadixCache::Stop(Restore& restore) {
  restore.failed = restore.failed || !restore.ended;
  restore.ended = true;
  restore.read.reset();
  if (restore.lookup) {
    remote_->EndLookup(*restore.lookup);
    restore.lookup.reset();
  }
  if (restore.lease.live_) {
    Release(std::move(restore.lease));
  }
}

void RadixCache::Poll() {
  for (auto& [id, restore] : restores_) {
    if (!restore.ended) {
      Advance(restore);
    }
  }
  for (const std::unique_ptr<WriteBehind>& writer : writers_) {
    writer->Flush();
  }
}

void RadixCache::Advance(Restore& restore) {
  const Clock::TimePoint now = clock_->Now();
  if (!restore.asked && disk_->ready()) {
    Ask(restore);
  }
  if (!restore.planned && restore.asked && TakeAnswer(restore)) {
    Plan(restore);
    if (restore.read == nullptr) {
      // There is nothing to bring, or another restore brings it, after which one may ask again.
      restore.failed = restore.wanted.empty();
      restore.wanted.clear();
      restore.ended = true;
      return;
    }
    PinBranch(restore);
  }
  bool is_over = MillisecondsBetween(restore.last_progress, now) > kPatienceMs;
  if (restore.read != nullptr) {
    ReadProgress progress = restore.read->Take();
    for (BlockRead& block : progress.blocks) {
      if (restore.read_tokens.disk + restore.read_tokens.remote == 0) {
        restore.reading_since = now;  // until then it may have waited for others' reads
      }
      restore.last_progress = now;
      is_over = !TakeIn(restore, block);
      if (is_over) {
        break;
      }
      restore.read->Recycle(std::move(block));
    }
    if (progress.ended && !is_over) {
      is_over = true;
      restore.failed = progress.failed;
    } else {
      is_over = is_over || IsTooSlow(restore, now);
      restore.failed = is_over;
    }
  }
  if (is_over) {
    restore.failed = restore.failed || !restore.planned;
    restore.ended = true;
    restore.read.reset();
    if (restore.lookup) {
      remote_->EndLookup(*restore.lookup);
      restore.lookup.reset();
    }
  }
}

// Whether it has been slower than computing for long enough to tell, since its first block came.
bool RadixCache::IsTooSlow(const Restore& restore, Clock::TimePoint now) const {
  const double elapsed = MillisecondsBetween(restore.reading_since, now);
  const auto tokens = static_cast<double>(restore.read_tokens.disk + restore.read_tokens.remote);
  return tokens > 0 && computing_ms_per_token_ > 0 && elapsed > kMeasureMs &&
         elapsed > tokens * computing_ms_per_token_;
}

void RadixCache::NoteComputed(std::int64_t tokens, double ms) {
  constexpr double kWeightOfLast = 0.25;
  const double last = ms / static_cast<double>(tokens);
  computing_ms_per_token_ += computing_ms_per_token_ > 0
                                 ? kWeightOfLast * (last - computing_ms_per_token_)
                                 : last;
}

// Appends the branch's next node to the lease, as yet without blocks.
void RadixCache::AddNode(Restore& restore) {
  Lease& lease = restore.lease;
  const std::size_t i = lease.nodes_.size();
  RadixNode* parent = i == 0 ? nullptr : lease.nodes_.back();
  const BlockKey& parent_key = parent == nullptr ? lease.root_key_ : parent->key;
  RadixNode* node = FindOrAdd(parent, parent_key, restore.keys[i],
                              std::span(restore.tokens).subspan(i * kBlock, kBlock));
  ++node->pins;
  node->last_use = now_;
  Requeue(*node);
  lease.nodes_.push_back(node);
  for (std::vector<ops::BlockId>& table : lease.block_tables_) {
    table.push_back(ops::kNoBlock);
  }
}

// Puts a block that was read into the index, as if it had been computed. False: there is no memory.
bool RadixCache::TakeIn(Restore& restore, const BlockRead& read) {
  const std::size_t i = restore.wanted[read.wanted];
  Lease& lease = restore.lease;
  const std::size_t had = lease.nodes_.size();
  while (lease.nodes_.size() <= i) {  // more than one only where no group is full
    AddNode(restore);
  }
  RadixNode& node = *lease.nodes_[i];
  GroupMask there = 0;
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    if (!read.groups[g].empty() && TakeGroup(node, g, read.groups[g])) {
      there |= 1U << g;
    }
  }
  for (const Tier tier : {Tier::kDisk, Tier::kRemote}) {
    NoteWritten(node, tier, there & restore.read->GroupsFrom(tier, read.wanted));
  }
  NoteForWriting(node);  // for the tier that it did not come from
  if (i < had) {
    return true;  // a window block more or less: Begin looks what there is
  }
  if ((there & full_groups_) != full_groups_) {
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      if (node.slots[g].block != ops::kNoBlock) {
        DropBlock(node, g);
      }
      lease.block_tables_[g].pop_back();
    }
    lease.nodes_.pop_back();
    Unpin(node);
    return false;
  }
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    if (windows_[g] == 0) {
      lease.block_tables_[g][i] = node.slots[g].block;
      Lock(node, g);
    }
  }
  Requeue(node);
  const bool was_remote = restore.read->GroupsFrom(Tier::kRemote, read.wanted) != 0;
  (was_remote ? restore.read_tokens.remote : restore.read_tokens.disk) += ops::kBlockTokens;
  return true;
}

// Gives the node the group's block unless it has one. False: there is no memory.
bool RadixCache::TakeGroup(RadixNode& node, std::size_t group, std::span<const std::byte> bytes) {
  if (node.slots[group].block != ops::kNoBlock) {
    return true;
  }
  std::vector<ops::BlockId> block;
  if (!AllocateInto(block, group)) {
    return false;
  }
  blocks_.CopyIn(static_cast<int>(group), block.front(), bytes);
  PutBlock(node, group, block.front());
  node.slots[group].last_use = now_;
  node.slots[group].kept = is_recurrent_[group];
  Requeue(node);
  return true;
}

void RadixCache::NoteWritten(RadixNode& node, Tier tier, GroupMask groups) {
  for (const std::unique_ptr<WriteBehind>& writer : writers_) {
    if (writer->tier() == tier) {
      writer->NoteWritten(node, groups);
    }
  }
}

void RadixCache::NoteForWriting(RadixNode& node) {
  for (const std::unique_ptr<WriteBehind>& writer : writers_) {
    writer->Note(node);
  }
}

void RadixCache::BeforeLoss(RadixNode& node) {
  for (const std::unique_ptr<WriteBehind>& writer : writers_) {
    writer->BeforeLoss(node);
  }
}

void RadixCache::ClearDisk() {
  if (disk_ == nullptr) {
    return;
  }
  AbandonRestores();
  disk_->Clear();
  for (auto& [key, node] : index_) {
    writers_.front()->ForgetWritten(*node);
  }
}

// The shared tier gets what it has room for and is not waited for.
void RadixCache::FlushToDisk() {
  for (const std::unique_ptr<WriteBehind>& writer : writers_) {
    writer->FlushAll(writer->tier() == Tier::kDisk ? kFlushPatience : std::chrono::seconds(0));
  }
}

std::unique_ptr<PrefixCache> MakeRadixCache(ops::BlockStore& blocks, LowerTierOptions options,
                                            FileSystem& files, const Clock& clock,
                                            std::function<void()> wake) {
  std::vector<std::uint64_t> group_bytes;
  for (std::size_t g = 0; g < blocks.groups().size(); ++g) {
    group_bytes.push_back(blocks.BlockBytes(static_cast<int>(g)));
  }
  std::unique_ptr<SsdStore> disk;
  if (options.disk) {
    options.disk->group_bytes = group_bytes;
    disk = std::make_unique<SsdStore>(std::move(*options.disk), files, wake);
  }
  std::unique_ptr<RemoteStore> remote;
  if (options.remote) {
    options.remote->group_bytes = group_bytes;
    remote = std::make_unique<RemoteStore>(std::move(*options.remote), wake);
  }
  return std::make_unique<RadixCache>(blocks, std::move(disk), clock, std::move(remote));
}

}  // namespace cache
