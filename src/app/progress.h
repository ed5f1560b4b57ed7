#pragma once

#include <string>

namespace app {

// Loading, as people see it on stderr: one line that is rewritten on a terminal, a line each
// quarter elsewhere. Used by one thread at a time.
class Progress {
 public:
  // Says nothing when `quiet`.
  Progress(std::string what, bool quiet);
  // Ends the line.
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // `share` 0 .. 1, growing.
  void Report(double share);

 private:
  std::string what_;
  bool quiet_;
  bool is_terminal_;
  int shown_percent_ = -1;
};

}  // namespace app
