#include "ops/gated_delta/kernels.h"

namespace ops {

const DeltaKernels& DeltaKernelsFor(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Vnni:
      return kAvx512DeltaKernels;
    case InstructionSet::kAvx2:
      return kAvx2DeltaKernels;
    default:
      return kPlainDeltaKernels;
  }
}

}  // namespace ops
