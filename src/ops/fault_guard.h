#pragma once

#include <signal.h>

#include <array>

namespace ops {

inline constexpr std::array kFaultSignals = {SIGILL, SIGSEGV, SIGBUS, SIGTRAP, SIGFPE};

// Takes over the fault signals for its lifetime, so that instructions can be tried.
class FaultGuard {
 public:
  FaultGuard();
  ~FaultGuard();
  FaultGuard(const FaultGuard&) = delete;
  FaultGuard& operator=(const FaultGuard&) = delete;

  // Runs `probe`; false when it faults.
  [[nodiscard]] bool Survives(void (*probe)()) const;

 private:
  std::array<struct sigaction, kFaultSignals.size()> saved_ = {};
};

}  // namespace ops
