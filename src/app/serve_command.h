#pragma once

#include "app/options.h"

namespace app {

// `emberbank serve`: serves until SIGINT or SIGTERM, then drains. Returns the exit status; errors
// are one sentence on stderr and status 1.
[[nodiscard]] int RunServeCommand(const ServeOptions& options);

}  // namespace app
