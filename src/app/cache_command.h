#pragma once

#include "app/options.h"

namespace app {

// `emberbank cache ACTION`: looks after the directory of the disk tier, whether a server runs or
// not. Returns the exit status: 1 when the action could not be done, or when verify found damage.
[[nodiscard]] int RunCacheCommand(const CacheOptions& options);

}  // namespace app
