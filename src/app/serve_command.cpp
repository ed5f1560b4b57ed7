#include "app/serve_command.h"

#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>

#include "app/kernel_choice.h"
#include "app/print.h"
#include "app/server_app.h"
#include "app/stop_signals.h"
#include "base/log.h"

namespace app {
namespace {

constexpr std::chrono::seconds kDrainPatience{30};

int Complain(const Error& error) {
  PrintTo(stderr, "emberbank: {}\n", error.message);
  return 1;
}

// A connection takes a file descriptor, and the usual 256 or 1024 are fewer than the server's limit
// of connections, at which clients are told so. The hard limit may be "infinite": ask for enough.
void RaiseFileLimit() {
  constexpr rlim_t kEnough = 8192;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < kEnough) {
    limit.rlim_cur = std::min(limit.rlim_max, kEnough);
    (void)setrlimit(RLIMIT_NOFILE, &limit);  // at worst the old limit stays
  }
}

}  // namespace

int RunServeCommand(const ServeOptions& options) {
  [[maybe_unused]] const bool known = SetUpLogging(options.log_level);  // checked with the options
  StopSignals signals;
  RaiseFileLimit();
  const Result<KernelChoice> kernels = ChooseKernels(ProcessEnvironment(), options.threads);
  if (!kernels) {
    return Complain(kernels.error());
  }
  const Result<std::unique_ptr<ServerApp>> app =
      ServerApp::Start(options, *kernels, /*quiet=*/false);
  if (!app) {
    return Complain(app.error());
  }
  signals.Arm();
  std::fputs((*app)->Banner().c_str(), stdout);
  std::fflush(stdout);
  signals.Wait();
  spdlog::info("stopping: running requests may finish within {} s; once more to stop at once",
               kDrainPatience.count());
  (*app)->Drain(kDrainPatience);
  return 0;
}

}  // namespace app
