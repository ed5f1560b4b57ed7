// What RadixCache brings back from the lower tiers for a prompt.
#include <algorithm>

#include "cache/radix_cache.h"
#include "cache/window.h"

namespace cache {
namespace {

constexpr auto kBlock = static_cast<std::size_t>(ops::kBlockTokens);

}  // namespace

GroupMask RadixCache::GroupsInMemory(const BlockKey& key) const {
  const auto found = index_.find(key);
  GroupMask groups = 0;
  for (std::size_t g = 0; found != index_.end() && g < windows_.size(); ++g) {
    groups |= found->second->slots[g].block == ops::kNoBlock ? 0U : 1U << g;
  }
  return groups;
}

GroupMask RadixCache::GroupsOnDisk(const BlockKey& key) const {
  return disk_ == nullptr ? 0 : disk_->GroupsOf(key);
}

// Where the prompt's blocks are, up to the first of which a full group is nowhere.
RadixCache::Survey RadixCache::SurveyOf(const Restore& restore) const {
  Survey survey;
  const std::span<const TokenId> tokens = restore.tokens;
  // As in FindLongest: per group, the index after the last block that is missing.
  std::vector<std::int64_t> first_there(windows_.size(), 0);
  std::vector<std::int64_t> first_in_memory(windows_.size(), 0);
  BlockKey key = hasher_.Root(restore.salt);
  for (std::size_t i = 0; (i + 1) * kBlock < tokens.size(); ++i) {
    key = hasher_.Next(key, tokens.subspan(i * kBlock, kBlock));
    const GroupMask memory = GroupsInMemory(key);
    const GroupMask disk = GroupsOnDisk(key);
    const GroupMask all = memory | disk | (i < restore.remote.size() ? restore.remote[i] : 0U);
    if ((all & full_groups_) != full_groups_) {
      break;
    }
    survey.keys.push_back(key);
    survey.memory.push_back(memory);
    survey.disk.push_back(disk);
    const auto end = static_cast<std::int64_t>((i + 1) * kBlock);
    bool restorable = true;
    bool in_memory_too = true;
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      const std::int64_t next = static_cast<std::int64_t>(i) + 1;
      first_there[g] = (all >> g & 1U) == 0 ? next : first_there[g];
      first_in_memory[g] = (memory >> g & 1U) == 0 ? next : first_in_memory[g];
      const std::int64_t first_seen = FirstBlockSeen(end, windows_[g]);
      restorable = restorable && first_there[g] <= first_seen;
      in_memory_too = in_memory_too && first_in_memory[g] <= first_seen;
    }
    survey.usable = restorable ? i + 1 : survey.usable;
    survey.usable_in_memory = in_memory_too ? i + 1 : survey.usable_in_memory;
  }
  return survey;
}

// Asks the shared tier for what memory and disk lack of the prompt, windows before that included.
void RadixCache::Ask(Restore& restore) {
  restore.asked = true;
  const std::size_t n = (restore.tokens.size() - 1) / kBlock;
  const Survey survey = remote_ == nullptr ? Survey{} : SurveyOf(restore);
  if (remote_ == nullptr || survey.usable == n) {
    return;
  }
  std::size_t reach = 0;
  for (std::size_t g = 0; g < windows_.size(); ++g) {
    reach = std::max(reach, windows_[g] == 0 ? 0 : static_cast<std::size_t>(Reach(g)));
  }
  std::vector<WantedBlock> blocks;
  const std::span<const TokenId> tokens = restore.tokens;
  BlockKey key = hasher_.Root(restore.salt);
  for (std::size_t i = 0; i < n; ++i) {
    const std::span<const TokenId> own = tokens.subspan(i * kBlock, kBlock);
    key = hasher_.Next(key, own);
    const auto all = static_cast<GroupMask>((1U << windows_.size()) - 1);
    const GroupMask missing = all & ~(GroupsInMemory(key) | GroupsOnDisk(key));
    if (i + reach >= survey.usable && missing != 0) {
      restore.asked_blocks.push_back(i);
      WantedBlock& block = blocks.emplace_back();
      block.key = key;
      block.groups = missing;
      std::ranges::copy(own, block.tokens.begin());
    }
  }
  restore.remote.assign(n, 0);
  if (!blocks.empty()) {
    restore.lookup = remote_->StartLookup(std::move(blocks), full_groups_);
  }
}

// Takes the shared tier's answer; false while it is still to come and worth waiting for.
bool RadixCache::TakeAnswer(Restore& restore) {
  if (!restore.lookup) {
    return true;
  }
  if (const auto found = remote_->TakeLookup(*restore.lookup)) {
    for (std::size_t k = 0; k < found->size(); ++k) {
      restore.remote[restore.asked_blocks[k]] = (*found)[k];
    }
  } else {
    const double waited = MillisecondsBetween(restore.last_progress, clock_->Now());
    const auto tokens = static_cast<double>(restore.asked_blocks.size() * kBlock);
    if (waited < LongestWaitMs(tokens)) {
      return false;
    }
  }
  remote_->EndLookup(*restore.lookup);
  restore.lookup.reset();
  return true;
}

// Finds the longest prefix that all tiers together can restore, and what of it must be read.
void RadixCache::Plan(Restore& restore) {
  restore.planned = true;
  restore.last_progress = clock_->Now();
  Survey survey = SurveyOf(restore);
  if (disk_ != nullptr) {
    disk_->NoteUse(survey.keys);
  }
  survey.keys.resize(survey.usable);
  restore.keys = std::move(survey.keys);
  if (survey.usable <= survey.usable_in_memory) {
    return;
  }
  std::vector<MergedRead::Wanted> wanted;
  for (std::size_t i = 0; i < survey.usable; ++i) {
    MergedRead::Wanted want;
    for (std::size_t g = 0; g < windows_.size(); ++g) {
      const auto first =
          FirstBlockSeen(static_cast<std::int64_t>(survey.usable * kBlock), windows_[g]);
      const bool is_seen = static_cast<std::int64_t>(i) >= first;
      if (is_seen && (survey.memory[i] >> g & 1U) == 0) {
        want.block.groups |= 1U << g;
      }
    }
    if (want.block.groups != 0) {
      want.groups = {want.block.groups & survey.disk[i], want.block.groups & ~survey.disk[i]};
      want.block.key = restore.keys[i];
      std::ranges::copy(std::span(restore.tokens).subspan(i * kBlock, kBlock),
                        want.block.tokens.begin());
      restore.wanted.push_back(i);
      wanted.push_back(want);
    }
  }
  if (!FindRestoreOf(wanted.front().block.key)) {
    restore.read = std::make_unique<MergedRead>(
        MergedRead::Stores{disk_.get(), remote_.get()}, std::move(wanted));
  }
}

// How long tokens may be waited for before computing them is faster.
double RadixCache::LongestWaitMs(double tokens) const {
  // Before anything was computed: slower than most machines.
  constexpr double kUnknownMsPerToken = 10;
  constexpr double kLeastMs = 100;
  constexpr double kMostMs = 5000;  // without any progress
  const double ms = tokens * (computing_ms_per_token_ > 0 ? computing_ms_per_token_
                                                          : kUnknownMsPerToken);
  return std::clamp(ms, kLeastMs, kMostMs);
}

}  // namespace cache
