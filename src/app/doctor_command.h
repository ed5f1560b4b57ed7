#pragma once

#include "app/options.h"

namespace app {

// `emberbank doctor`: the kernels chosen, what the probe of the processor found, the machine's
// bandwidth, int8 peak, memory and disk speed, and what slows it. Returns the exit code.
[[nodiscard]] int RunDoctorCommand(const DoctorOptions& options);

}  // namespace app
