// EngineLoop and the lower tiers: waiting sequences whose prefixes are being read.
#include <algorithm>

#include "scheduler/engine_loop.h"

namespace scheduler {
namespace {

// Reads of several prompts side by side slow each other down; two keep the disk busy while one's
// last blocks are checked.
constexpr int kRestoresAtOnce = 2;

using RestoreState = cache::PrefixCache::RestoreState;

}  // namespace

bool EngineLoop::IsRestoring(const Sequence& sequence) const {
  return sequence.restore && cache_.StateOf(*sequence.restore) == RestoreState::kRunning;
}

bool EngineLoop::CanStep() const {
  return !running_.empty() || std::any_of(waiting_.begin(), waiting_.end(),
                                          [this](const auto& s) { return !IsRestoring(*s); });
}

// Reads ahead for those that wait, whether there is a slot for them or not.
void EngineLoop::StartRestores() {
  for (const std::unique_ptr<Sequence>& sequence : waiting_) {
    if (sequence->restore && sequence->is_restoring) {
      sequence->is_restoring = IsRestoring(*sequence);
      sequence->stats.restore_ms = MillisecondsBetween(sequence->restore_began, clock_.Now());
    }
  }
  auto restoring = std::count_if(waiting_.begin(), waiting_.end(),
                                 [this](const auto& s) { return IsRestoring(*s); });
  for (const std::unique_ptr<Sequence>& sequence : waiting_) {
    const bool asks =
        !sequence->restore || cache_.StateOf(*sequence->restore) == RestoreState::kAskAgain;
    if (restoring >= kRestoresAtOnce || !asks || sequence->restores_left == 0) {
      continue;
    }
    // The new one first, so that what the old one keeps from eviction is kept on.
    const auto next = cache_.StartRestore(sequence->tokens, sequence->request.cache_salt);
    sequence->restores_left = next ? sequence->restores_left - 1 : 0;
    if (next) {
      if (sequence->restore) {
        AddRestored(*sequence, cache_.EndRestore(*sequence->restore));
      }
      if (sequence->stats.disk_tokens + sequence->stats.remote_tokens == 0) {
        sequence->restore_began = clock_.Now();
      }
      sequence->restore = next;
      sequence->is_restoring = true;
      ++restoring;
    }
  }
}

void EngineLoop::AddRestored(Sequence& sequence, const cache::RestoredTokens& tokens) {
  if (!sequence.was_admitted) {  // what brings a pre-empted one back was counted then
    sequence.stats.disk_tokens += tokens.disk;
    sequence.stats.remote_tokens += tokens.remote;
  }
}

// Lets go of all that waiting sequences keep; false when there was nothing.
bool EngineLoop::AbandonRestores() {
  bool had = false;
  for (const std::unique_ptr<Sequence>& sequence : waiting_) {
    if (sequence->restore) {
      cache_.EndRestore(*sequence->restore);
      sequence->restore.reset();
      sequence->restores_left = 0;
      had = true;
    }
  }
  return had;
}

void EngineLoop::ClearCache(Scheduler::Tiers tiers) {
  if (tiers.memory) {
    cache_.Clear();
  }
  if (tiers.disk) {
    cache_.ClearDisk();
  }
}

}  // namespace scheduler
