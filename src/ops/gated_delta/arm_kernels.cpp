#include "ops/gated_delta/kernels.h"

namespace ops {

const DeltaKernels& DeltaKernelsFor(InstructionSet set) {
  return set == InstructionSet::kNeon ? kNeonDeltaKernels : kPlainDeltaKernels;
}

}  // namespace ops
