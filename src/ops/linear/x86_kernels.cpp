#include "ops/linear/kernels.h"

namespace ops::linear {

const Kernels& KernelsFor(InstructionSet set) {
  switch (set) {
    case InstructionSet::kAvx512Vnni:
      return kAvx512Kernels;
    case InstructionSet::kAvx2:
      return kAvx2Kernels;
    default:
      return kPlainKernels;
  }
}

}  // namespace ops::linear
