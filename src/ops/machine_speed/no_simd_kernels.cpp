#include "ops/machine_speed/kernels.h"

namespace ops {

const SpeedKernels& SpeedKernelsFor(InstructionSet /*set*/) { return kPlainSpeedKernels; }

}  // namespace ops
