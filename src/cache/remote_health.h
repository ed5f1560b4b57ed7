#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <utility>

#include "cache/redis_connection.h"

namespace cache {

// Whether the shared tier's server is worth asking: after a failure it is left alone for a while,
// longer each time, so that a dead one costs a request at most one time-out now and then.
// Thread-safe.
class RemoteHealth {
 public:
  explicit RemoteHealth(std::string label) : label_(std::move(label)) {}

  [[nodiscard]] bool IsDown() const;
  // It has answered: everything may be asked again.
  void NoteAnswer();
  // Counts the error, logs it (once a minute at most) and leaves the server alone.
  void NoteFailure(const RedisError& error);
  // The same for an answer that is an error (full, read-only): only writes are left off for a while.
  void NoteRefusedWrite(const std::string& message);
  [[nodiscard]] bool WritesArePaused() const;
  // Logs, once a minute at most.
  void Complain(const std::string& message);

  [[nodiscard]] bool has_answered() const;
  [[nodiscard]] std::uint64_t timeouts() const { return timeouts_; }
  [[nodiscard]] std::uint64_t errors() const { return errors_; }

 private:
  using SteadyClock = std::chrono::steady_clock;

  const std::string label_;
  std::atomic<std::uint64_t> timeouts_ = 0;
  std::atomic<std::uint64_t> errors_ = 0;
  mutable std::mutex mutex_;
  // Guarded by mutex_:
  bool has_answered_ = false;
  SteadyClock::time_point down_until_{};
  SteadyClock::time_point writes_paused_until_{};
  SteadyClock::time_point next_complaint_{};
  std::chrono::milliseconds pause_{0};  // the last one
};

}  // namespace cache
