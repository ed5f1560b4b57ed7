#pragma once

#include "app/options.h"

namespace app {

// `emberbank selftest`: runs a model through random talks, with evictions, cancellations and
// restarts, and compares each answer to the bit with the same prompt computed alone
// (app/selftest.h). Returns the exit status: 1 when an answer differs or the model cannot be run.
[[nodiscard]] int RunSelftestCommand(const SelftestOptions& options);

}  // namespace app
