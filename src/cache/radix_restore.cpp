// The way back from the disk tier into RadixCache.
#include <algorithm>
#include <cassert>
#include <chrono>

#include "cache/radix_cache.h"
#include "cache/window.h"

namespace cache {
namespace {

constexpr auto kBlock = static_cast<std::size_t>(ops::kBlockTokens);
// A disk that brings nothing for so long is slower than computing.
constexpr double kPatienceMs = 5000;
constexpr std::chrono::seconds kFlushPatience{10};

}  // namespace

std::optional<PrefixCache::RestoreId> RadixCache::StartRestore(std::span<const TokenId> tokens,
                                                               const std::string& salt) {
  if (disk_ == nullptr) {
    return std::nullopt;
  }
  Restore restore{.tokens = {tokens.begin(), tokens.end()},
                  .salt = salt,
                  .lease = {},
                  .keys = {},
                  .wanted = {}};
  restore.last_progress = clock_->Now();
  if (disk_->ready()) {
    Plan(restore);
    if (restore.wanted.empty()) {
      return std::nullopt;
    }
    if (const auto other = FindRestoreOf(restore.keys[restore.wanted.front()])) {
      ++restores_.at(*other).users;
      return other;
    }
    PinBranch(restore);
  }
  const RestoreId id = next_restore_++;
  restores_.emplace(id, std::move(restore));
  return id;
}

// Finds the longest prefix that disk and memory together can restore, and what of it must be read.
void RadixCache::Plan(Restore& restore) {
  restore.planned = true;
  const std::span<const TokenId> tokens = restore.tokens;
  std::vector<GroupMask> in_memory;
  std::size_t usable = 0;
  std::size_t usable_in_memory = 0;
  // As in FindLongest: per group, the index after the last block that is missing.
  std::vector<std::int64_t> first_there(windows_.size(), 0);
  std::vector<std::int64_t> first_in_memory(windows_.size(), 0);
  BlockKey key = hasher_.Root(restore.salt);
  for (std::size_t i = 0; (i + 1) * kBlock < tokens.size(); ++i) {
    key = hasher_.Next(key, tokens.subspan(i * kBlock, kBlock));
    const auto found = index_.find(key);
    GroupMask memory = 0;
    for (std::size_t g = 0; found != index_.end() && g < windows_.size(); ++g) {
      memory |= found->second->slots[g].block == ops::kNoBlock ? 0U : 1U << g;
    }
    const GroupMask both = memory | disk_->GroupsOf(key);
    if ((both & full_groups_) != full_groups_) {
      break;
    }
    restore.keys.push_back(key);
    in_memory.push_back(memory);
    const auto end = static_cast<std::int64_t>((i + 1) * kBlock);
    bool restorable = true;
    bool in_memory_too = true;
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      const std::int64_t next = static_cast<std::int64_t>(i) + 1;
      first_there[g] = (both >> g & 1U) == 0 ? next : first_there[g];
      first_in_memory[g] = (memory >> g & 1U) == 0 ? next : first_in_memory[g];
      const std::int64_t first_seen = FirstBlockSeen(end, windows_[g]);
      restorable = restorable && first_there[g] <= first_seen;
      in_memory_too = in_memory_too && first_in_memory[g] <= first_seen;
    }
    usable = restorable ? i + 1 : usable;
    usable_in_memory = in_memory_too ? i + 1 : usable_in_memory;
  }
  disk_->NoteUse(restore.keys);
  restore.keys.resize(usable);
  if (usable <= usable_in_memory) {
    return;
  }
  std::vector<WantedBlock> wanted;
  for (std::size_t i = 0; i < usable; ++i) {
    GroupMask groups = 0;
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      const auto first = FirstBlockSeen(static_cast<std::int64_t>(usable * kBlock), windows_[g]);
      const bool is_seen = static_cast<std::int64_t>(i) >= first;
      groups |= is_seen && (in_memory[i] >> g & 1U) == 0 ? 1U << g : 0U;
    }
    if (groups != 0) {
      restore.wanted.push_back(i);
      WantedBlock& block = wanted.emplace_back();
      block.key = restore.keys[i];
      block.groups = groups;
      std::ranges::copy(tokens.subspan(i * kBlock, kBlock), block.tokens.begin());
    }
  }
  if (!FindRestoreOf(wanted.front().key)) {
    restore.read = disk_->StartRead(std::move(wanted));
  }
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

std::int64_t RadixCache::EndRestore(RestoreId id) {
  const auto found = restores_.find(id);
  Restore& restore = found->second;
  const std::int64_t read_tokens = restore.read_tokens;
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
  if (restore.read) {
    disk_->EndRead(*restore.read);
    restore.read.reset();
  }
  if (restore.lease.live_) {
    Release(std::move(restore.lease));
  }
}

void RadixCache::Poll() {
  if (disk_ == nullptr) {
    return;
  }
  for (auto& [id, restore] : restores_) {
    if (!restore.ended) {
      Advance(restore);
    }
  }
  write_behind_->Flush();
}

void RadixCache::Advance(Restore& restore) {
  const Clock::TimePoint now = clock_->Now();
  if (!restore.planned && disk_->ready()) {
    Plan(restore);
    if (!restore.read) {  // nothing to bring, or another restore brings it
      restore.wanted.clear();
      restore.ended = true;
      return;
    }
    PinBranch(restore);
  }
  bool is_over = MillisecondsBetween(restore.last_progress, now) > kPatienceMs;
  restore.failed = is_over;
  if (restore.read) {
    SsdStore::ReadProgress progress = disk_->TakeRead(*restore.read);
    for (BlockRead& block : progress.blocks) {
      restore.last_progress = now;
      restore.failed = is_over = !TakeIn(restore, block);
      if (is_over) {
        break;
      }
      disk_->Recycle(std::move(block));
    }
    if (progress.ended && !is_over) {
      is_over = true;
      restore.failed = progress.failed;
    }
  }
  if (is_over) {
    restore.ended = true;
    if (restore.read) {
      disk_->EndRead(*restore.read);
      restore.read.reset();
    }
  }
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
  restore.read_tokens += ops::kBlockTokens;
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
  node.on_disk |= 1U << group;
  Requeue(node);
  return true;
}

void RadixCache::ClearDisk() {
  if (disk_ == nullptr) {
    return;
  }
  AbandonRestores();
  disk_->Clear();
  for (auto& [key, node] : index_) {
    write_behind_->ForgetWritten(*node);
  }
}

void RadixCache::FlushToDisk() {
  if (write_behind_ != nullptr) {
    write_behind_->FlushAll(kFlushPatience);
  }
}

std::unique_ptr<PrefixCache> MakeRadixCache(ops::BlockStore& blocks, SsdOptions options,
                                            FileSystem& files, const Clock& clock,
                                            std::function<void()> wake) {
  options.group_bytes.clear();
  for (std::size_t g = 0; g < blocks.groups().size(); ++g) {
    options.group_bytes.push_back(blocks.BlockBytes(static_cast<int>(g)));
  }
  auto disk = std::make_unique<SsdStore>(std::move(options), files, std::move(wake));
  return std::make_unique<RadixCache>(blocks, std::move(disk), clock);
}

}  // namespace cache
