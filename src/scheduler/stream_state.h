#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <vector>

#include "scheduler/token_stream.h"

namespace scheduler {

// What the two ends of a TokenStream share. Events are not bounded here: max_tokens bounds them.
struct TokenStream::Shared {
  explicit Shared(std::size_t n_sequences)
      : cancelled(n_sequences), stats(n_sequences), open(n_sequences) {}

  // Written by the reader, read by the engine thread at every step.
  std::vector<std::atomic<bool>> cancelled;

  std::mutex mutex;
  std::condition_variable changed;
  std::deque<TokenEvent> events;    // guarded by mutex
  std::vector<RequestStats> stats;  // guarded by mutex
  std::size_t open;                 // sequences without their last event; guarded by mutex

  void Push(TokenEvent event, const RequestStats& sequence_stats) {
    {
      const std::lock_guard lock(mutex);
      stats[static_cast<std::size_t>(event.sequence)] = sequence_stats;
      open -= event.finish || event.error ? 1 : 0;
      events.push_back(std::move(event));
    }
    changed.notify_all();
  }
};

}  // namespace scheduler
