#include "scheduler/token_stream.h"

#include <utility>

#include "scheduler/stream_state.h"

namespace scheduler {

TokenStream::TokenStream(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

TokenStream::TokenStream(TokenStream&&) noexcept = default;

TokenStream::~TokenStream() {
  if (shared_ != nullptr) {
    Cancel();
  }
}

std::optional<TokenEvent> TokenStream::Next(std::chrono::milliseconds timeout) {
  std::unique_lock lock(shared_->mutex);
  shared_->changed.wait_for(lock, timeout,
                            [this] { return !shared_->events.empty() || shared_->open == 0; });
  if (shared_->events.empty()) {
    return std::nullopt;
  }
  TokenEvent event = std::move(shared_->events.front());
  shared_->events.pop_front();
  return event;
}

bool TokenStream::finished() const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->events.empty() && shared_->open == 0;
}

void TokenStream::Cancel(int sequence) {
  for (std::size_t i = 0; i < shared_->cancelled.size(); ++i) {
    if (sequence < 0 || i == static_cast<std::size_t>(sequence)) {
      shared_->cancelled[i] = true;
    }
  }
}

RequestStats TokenStream::stats(int sequence) const {
  const std::lock_guard lock(shared_->mutex);
  return shared_->stats.at(static_cast<std::size_t>(sequence));
}

}  // namespace scheduler
