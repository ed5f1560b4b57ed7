#include "ops/cpu_probe.h"

namespace ops {

// No kernels of their own: the plain ones serve.
CpuFeatures ProbeInstructionSets() { return {}; }

}  // namespace ops
