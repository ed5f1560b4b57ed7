#include "ops/cpu_probe.h"

namespace ops {

// There are no kernels for other processors yet: the plain ones serve.
CpuFeatures ProbeInstructionSets() { return {}; }

}  // namespace ops
