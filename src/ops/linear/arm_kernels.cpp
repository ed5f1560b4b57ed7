#include "ops/linear/kernels.h"

namespace ops::linear {

const Kernels& KernelsFor(InstructionSet set) {
  return set == InstructionSet::kNeon ? kNeonKernels : kPlainKernels;
}

}  // namespace ops::linear
