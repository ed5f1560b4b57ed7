#include "cache/remote_health.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.h"

namespace cache {
namespace {

constexpr std::chrono::milliseconds kFirstPause{1000};
constexpr std::chrono::milliseconds kLongestPause{30'000};
constexpr std::chrono::seconds kPauseWrites{10};
constexpr std::chrono::minutes kWarnAgain{1};

}  // namespace

bool RemoteHealth::IsDown() const {
  const std::lock_guard lock(mutex_);
  return SteadyClock::now() < down_until_;
}

bool RemoteHealth::WritesArePaused() const {
  const std::lock_guard lock(mutex_);
  return SteadyClock::now() < std::max(writes_paused_until_, down_until_);
}

bool RemoteHealth::has_answered() const {
  const std::lock_guard lock(mutex_);
  return has_answered_;
}

void RemoteHealth::NoteAnswer() {
  const std::lock_guard lock(mutex_);
  has_answered_ = true;
  pause_ = {};
}

void RemoteHealth::NoteFailure(const RedisError& error) {
  if (error.kind == RedisError::Kind::kStopping) {
    return;
  }
  ++(error.kind == RedisError::Kind::kTimeout ? timeouts_ : errors_);
  {
    const std::lock_guard lock(mutex_);
    has_answered_ = false;
    const SteadyClock::time_point now = SteadyClock::now();
    if (now >= down_until_) {  // several threads see one failure
      pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
      down_until_ = now + pause_;
    }
  }
  Complain(error.message);
}

void RemoteHealth::NoteRefusedWrite(const std::string& message) {
  ++errors_;
  {
    const std::lock_guard lock(mutex_);
    writes_paused_until_ = SteadyClock::now() + kPauseWrites;
  }
  Complain(message);
}

void RemoteHealth::Complain(const std::string& message) {
  {
    const std::lock_guard lock(mutex_);
    const SteadyClock::time_point now = SteadyClock::now();
    if (now < next_complaint_) {
      return;
    }
    next_complaint_ = now + kWarnAgain;
  }
  spdlog::warn("[shared cache] {}: {}", label_, message);
}

}  // namespace cache
