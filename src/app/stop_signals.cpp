#include "app/stop_signals.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>

namespace app {
namespace {

// A handler has nothing but globals.
// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
std::atomic<int> g_signals_left{0};  // until the process ends
std::array<int, 2> g_pipe = {-1, -1};
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

void Handle(int signal) {
  if (g_signals_left.fetch_sub(1) <= 0) {
    _exit(128 + signal);
  }
  const int saved = errno;
  const char byte = 0;
  [[maybe_unused]] const ssize_t written = write(g_pipe[1], &byte, 1);
  errno = saved;
}

void SetHandler(int signal, void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  g_signals_left = 0;
  if (pipe(g_pipe.data()) == 0) {
    fcntl(g_pipe[0], F_SETFD, FD_CLOEXEC);
    fcntl(g_pipe[1], F_SETFD, FD_CLOEXEC);
  }
  SetHandler(SIGINT, &Handle);
  SetHandler(SIGTERM, &Handle);
  SetHandler(SIGPIPE, SIG_IGN);
}

StopSignals::~StopSignals() {
  SetHandler(SIGINT, SIG_DFL);
  SetHandler(SIGTERM, SIG_DFL);
  close(g_pipe[0]);
  close(g_pipe[1]);
}

void StopSignals::Arm() { g_signals_left = 1; }

void StopSignals::Wait() {
  char byte = 0;
  while (read(g_pipe[0], &byte, 1) < 0 && errno == EINTR) {
  }
}

}  // namespace app
