#include "ops/machine_speed/kernels.h"

namespace ops {

const SpeedKernels& SpeedKernelsFor(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Vnni:
      return kAvx512SpeedKernels;
    case InstructionSet::kAvx2:
      return kAvx2SpeedKernels;
    default:
      return kPlainSpeedKernels;
  }
}

}  // namespace ops
