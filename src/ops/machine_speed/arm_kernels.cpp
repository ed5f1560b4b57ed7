#include "ops/machine_speed/kernels.h"

namespace ops {

const SpeedKernels& SpeedKernelsFor(InstructionSet set) {
  return set == InstructionSet::kNeon ? kNeonSpeedKernels : kPlainSpeedKernels;
}

}  // namespace ops
