#include "app/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "app/print.h"

namespace app {

Progress::Progress(std::string what, bool quiet)
    : what_(std::move(what)), quiet_(quiet), is_terminal_(isatty(STDERR_FILENO) == 1) {
  Report(0);
}

Progress::~Progress() {
  if (!quiet_ && is_terminal_) {
    PrintTo(stderr, "\n");
  }
}

void Progress::Report(double share) {
  constexpr int kQuarter = 25;
  const int percent = static_cast<int>(std::clamp(share, 0.0, 1.0) * 100);
  const int step = is_terminal_ ? 1 : kQuarter;
  if (quiet_ || (shown_percent_ >= 0 && percent / step <= shown_percent_ / step)) {
    return;
  }
  shown_percent_ = percent;
  if (is_terminal_) {
    PrintTo(stderr, "\r{}: {:3} %", what_, percent);
  } else {
    PrintTo(stderr, "{}: {} %\n", what_, percent);
  }
  std::fflush(stderr);
}

}  // namespace app
