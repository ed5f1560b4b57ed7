#pragma once

#include <chrono>

// The time, behind an interface so that tests can set it.
class Clock {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  Clock() = default;
  Clock(const Clock&) = delete;
  Clock& operator=(const Clock&) = delete;
  virtual ~Clock() = default;

  // Monotonic time, for durations and deadlines.
  [[nodiscard]] virtual TimePoint Now() const = 0;
};

// The machine's own clock.
class SystemClock final : public Clock {
 public:
  [[nodiscard]] TimePoint Now() const override { return std::chrono::steady_clock::now(); }
};

// Milliseconds from `start` to `end`, with fraction.
[[nodiscard]] inline double MillisecondsBetween(Clock::TimePoint start, Clock::TimePoint end) {
  return std::chrono::duration<double, std::milli>(end - start).count();
}
