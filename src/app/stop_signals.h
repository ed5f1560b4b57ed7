#pragma once

namespace app {

// SIGINT and SIGTERM of a server. There may be one at a time.
//
//   before Arm          a signal ends the process at once, with status 128 + its number
//   Arm .. first one    Wait returns
//   after that          a second one ends the process at once
class StopSignals {
 public:
  // Takes the signals over; SIGPIPE is ignored from now on.
  StopSignals();
  // Gives them back.
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  void Arm();
  // Blocks until the first signal.
  void Wait();
};

}  // namespace app
