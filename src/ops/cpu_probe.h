#pragma once

#include "ops/cpu_features.h"

namespace ops {

// One file a platform each (x86_cpu_probe.cpp, no_x86_cpu_probe.cpp; linux_cores.cpp,
// darwin_cores.cpp): kernels.cmake.

// Executes one instruction of each part of each set under a signal guard. physical_cores is left
// alone.
[[nodiscard]] CpuFeatures ProbeInstructionSets();

// Physical cores that the affinity mask and the container's processor quota leave to this process;
// at least 1.
[[nodiscard]] int CountUsableCores();

}  // namespace ops
